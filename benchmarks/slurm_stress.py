"""Kill replays and drivers on a real Slurm at random moments, again and again, and look at what is left.

    python benchmarks/slurm_stress.py DIR [--rounds 10] [--seed 1]

Each round replays jobs under a driver and kills the replay (SIGKILL) at moments drawn from the seed, with or without
its guards, and lets the last call end; then it kills a driver beside a queue with a held job. (Tasks of experiments are
killed by `tests/slurm/test_experiments.py`.) After each round: every job ended once, no process of the round's Slurm is
left, no priority is changed, the held job is held, and a second Slurm beside it has the same processes and jobs. Ends
with exit code 1 at the first violation.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import tracekit
from tracekit import Machine, Trace
from tracekit.slurm import processes
from tracekit.slurm.guard import PID
from tracekit.slurm.own import Own
from tracekit.slurm.queue import priorities


def toy(n: int, seed: int) -> Trace:
    """Return ``n`` short jobs for four processors, two minutes of the trace apart at most."""
    rng = np.random.default_rng(seed)
    columns = {"job_id": np.arange(1, n + 1), "submit_time": np.cumsum(rng.integers(0, 60, n)).astype(float)}
    columns |= {"run_time": rng.integers(30, 150, n).astype(float), "req_time": [3600.0] * n}
    columns |= {"req_procs": rng.integers(1, 4, n), "user": ["ann"] * n}
    return Trace(pd.DataFrame(columns), Machine(procs=4))


def call(*words: object) -> subprocess.Popen[bytes]:
    """Start tracekit."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tracekit", "-q", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=paths)


def killed_replay(folder: Path, trace: Trace, moments: list[float], *, guards: bool) -> list[str]:
    """Replay a trace, kill it at the given moments (seconds after its start), and finish it; return what is wrong."""
    swf, lab = folder / "jobs.swf", folder / "lab"
    tracekit.write(trace, swf, force=True)
    words = ["slurm", "replay", swf, "-o", lab, "--speed", 60, "--cpus", 4, "--drive", "sjf", "--every", 0.3]
    for moment in moments:
        process = call(*words)
        processes.wait_until(lambda p=process: p.poll() is not None, moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        guard = processes.read_pid(lab / PID)
        if guards and guard is not None and "tracekit.slurm.guard" in processes.command_of(guard):
            os.kill(guard, signal.SIGKILL)
    last = call(*words)
    code = last.wait()
    log = (lab / "jobcomp.txt").read_text() if (lab / "jobcomp.txt").is_file() else ""
    names = Counter(line.partition(" Name=")[2].split()[0] for line in log.splitlines())
    wrong = [] if code == 0 else [f"the last call ended with {code}"]
    wrong += [f"{count} runs of {name}" for name, count in names.items() if count > 1]
    wrong += [f"{len(names)} of {len(trace)} jobs ended"] if len(names) != len(trace) else []
    states = {line.partition(" JobState=")[2].split()[0] for line in log.splitlines()}
    wrong += [f"jobs ended {states}"] if states - {"COMPLETED"} else []
    left = Own(lab)
    wrong += [f"left running: {left.pids()}, {left._steps()}"] if left.pids() or left._steps() else []
    return wrong


def killed_driver(own: Own, log: Path, moment: float) -> list[str]:
    """Kill a driver of a Slurm with a queue at a moment, wait for its guard, and return what is wrong."""
    before = priorities(own.slurm)
    driver = call("slurm", "drive", "--policy", "sjf", "--dir", own.folder, "--log", log, "--every", 0.1)
    processes.wait_until(lambda: driver.poll() is not None, moment)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    processes.wait_until(lambda: priorities(own.slurm) == before, 60)
    after = priorities(own.slurm)
    return [] if after == before else [f"priorities {before} became {after}"]


def fill(own: Own) -> list[str]:
    """Give a Slurm a job that runs and four that wait, with different limits, the last one held."""

    def submit(*words: str) -> str:
        script = "#!/bin/sh\nsleep 600\n"
        return own.slurm.call("sbatch", "--parsable", "--output=/dev/null", *words, stdin=script).strip()

    jobs = [submit("--ntasks=4", "--time=20")]
    processes.wait_until(lambda: "RUNNING" in own.slurm.call("squeue", "-h", "-o", "%T"), 30)
    jobs += [submit("--ntasks=1", f"--time={9 - k}") for k in range(3)]
    return [*jobs, submit("--ntasks=1", "--time=1", "--hold")]


def main() -> int:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(given.seed)
    beside = Own(given.folder / "beside")
    beside.start(4)
    try:
        fill(beside)
        for number in range(given.rounds):
            seen = (beside.pids(), beside.slurm.call("squeue", "-h", "-o", "%i %T %Q"))
            place = given.folder / f"round{number}"
            place.mkdir()
            moments = [round(draw.uniform(0.2, 14.0), 2) for _ in range(3)]
            began = time.monotonic()
            wrong = killed_replay(place, toy(16, number), moments, guards=number % 2 == 1)
            moment = round(draw.uniform(0.5, 6.0), 2)
            if seen != (beside.pids(), beside.slurm.call("squeue", "-h", "-o", "%i %T %Q")):
                wrong += ["the Slurm beside it was touched"]
            wrong += killed_driver(beside, place / "drive.jsonl", moment)
            how = f"replay killed after {moments} s, driver after {moment} s"
            print(f"round {number}: {how}: {wrong or 'fine'} ({time.monotonic() - began:.0f} s)", flush=True)
            if wrong:
                return 1
    finally:
        beside.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
