"""Reorder the pending jobs of a Slurm cluster as an agent would start them.

    squeue --all --noheader --format='%i|%t|%C|%V|%l|%u|%e' | python squeue_order.py --procs 1024

The columns are job, state, processors, submit time, limit, user and expected end. Prints the lines of the pending
jobs, best first; nothing is changed on the cluster. Needs a running service: `tracekit serve default`.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime

from ask_agent import decide

from tracekit import Snapshot


def state_of(machine: Snapshot) -> dict:
    """Return the request for the service."""
    jobs, running = machine.waiting, machine.running
    columns = zip(jobs.id, jobs.submit, jobs.size, jobs.estimate, jobs.user, strict=True)
    waiting = [
        {"id": str(job), "submit_time": submit, "procs": int(size), "req_time": None if limit != limit else limit}
        | {"user": user}
        for job, submit, size, limit, user in columns
    ]
    ends = zip(running.size, machine.expected_end, strict=True)
    cluster = {"procs": machine.total, "running": [{"procs": int(size), "ends": end} for size, end in ends]}
    return {"version": 1, "kind": "pick-job", "now": machine.clock, "cluster": cluster, "jobs": waiting}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--procs", type=int, required=True, help="processors of the cluster")
    parser.add_argument("--url", default="http://127.0.0.1:8765")
    parser.add_argument("--now", help="time of the listing, if it is not this moment: 2026-01-31T12:00:00")
    given = parser.parse_args()
    now = (datetime.fromisoformat(given.now) if given.now else datetime.now()).timestamp()
    listing = sys.stdin.read()
    line_of = {line.partition("|")[0].strip(): line for line in listing.splitlines()}
    state = state_of(Snapshot.from_squeue(listing, given.procs, now))
    for job in decide(given.url, state, os.environ.get("TRACEKIT_TOKEN")):
        print(line_of[job["id"]])
