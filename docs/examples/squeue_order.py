"""Reorder the pending jobs of a Slurm cluster as an agent would start them.

    squeue --all --noheader --format='%i|%t|%C|%V|%l|%u|%e' | python squeue_order.py --procs 1024

The columns are job, state, processors, submit time, limit, user and expected end. Prints the lines of the pending
jobs, best first; nothing is changed on the cluster. Needs a running service: `tracekit serve default`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from datetime import datetime

from ask_agent import decide


def seconds(limit: str) -> float | None:
    """Read Slurm's [days-][[hours:]minutes:]seconds; UNLIMITED, INVALID and the like are unknown."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", limit)
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return 86400.0 * days + 3600 * hours + 60 * minutes + rest


def state_of(lines: list[str], procs: int, now: float) -> tuple[dict, dict[str, str]]:
    """Return the request for the service, and the line of each pending job."""
    running, waiting, line_of = [], [], {}
    for line in lines:
        job, state, cpus, submitted, limit, user, end = line.split("|")
        if state == "R":
            ends = now if end in ("N/A", "NONE", "") else datetime.fromisoformat(end).timestamp()
            running.append({"procs": int(cpus), "ends": ends})
        elif state == "PD":
            submit = min(datetime.fromisoformat(submitted).timestamp(), now)
            waiting.append(
                {"id": job, "submit_time": submit, "procs": int(cpus), "req_time": seconds(limit), "user": user}
            )
            line_of[job] = line
    cluster = {"procs": procs, "running": running}
    return {"version": 1, "kind": "pick-job", "now": now, "cluster": cluster, "jobs": waiting}, line_of


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--procs", type=int, required=True, help="processors of the cluster")
    parser.add_argument("--url", default="http://127.0.0.1:8765")
    parser.add_argument("--now", help="time of the listing, if it is not this moment: 2026-01-31T12:00:00")
    given = parser.parse_args()
    now = (datetime.fromisoformat(given.now) if given.now else datetime.now()).timestamp()
    state, line_of = state_of([line for line in sys.stdin.read().splitlines() if line.strip()], given.procs, now)
    for job in decide(given.url, state, os.environ.get("TRACEKIT_TOKEN")):
        print(line_of[job["id"]])
