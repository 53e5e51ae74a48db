"""How fast and how lean SWF becomes a Trace: against pandas' own parser on the same file, in the same run, on one core.

Run: python benchmarks/bench_parsing.py [--jobs 1000000]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OURS = "import tracekit; trace = tracekit.read({path!r}, 'swf')"
PANDAS = "import pandas as pd; frame = pd.read_csv({path!r}, sep=r'\\s+', comment=';', header=None)"
WARM = "import tracekit, pandas, io; tracekit.read({small!r}, 'swf'); pandas.read_csv(io.StringIO('1 2'), sep=r'\\s+')"
CHILD = """
import resource, time
{warm}
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
best = 1e9
for _ in range({repeats}):
    start = time.perf_counter()
    {task}
    best = min(best, time.perf_counter() - start)
print(best, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024)
"""


def write_trace(path: Path, jobs: int) -> None:
    """Write a made SWF file of ``jobs`` rows in the archive's own column layout."""
    rng = np.random.default_rng(1)
    submit = np.cumsum(rng.exponential(30, jobs)).astype(int)
    run, limit = rng.integers(1, 90_000, jobs), rng.integers(1, 90_000, jobs)
    procs, user = 2 ** rng.integers(0, 9, jobs), rng.integers(1, 400, jobs)
    with path.open("w") as out:
        out.write("; Version: 2.2\n; MaxProcs: 512\n; UnixStartTime: 1000000000\n")
        for i in range(jobs):
            asked = f"{run[i] * 0.9:>6.2f}    -1 {procs[i]:>4} {limit[i]:>6}    -1"
            who = f"{user[i]:>3} {user[i] % 50:>3}  -1  1 -1 -1 -1"
            out.write(f"{i + 1:>5} {submit[i]:>8} {run[i] % 977:>6} {run[i]:>6} {procs[i]:>4} {asked}  1 {who}\n")


def measure(task: str, path: Path, small: Path, repeats: int) -> tuple[float, float]:
    """Return seconds (best of ``repeats``) and megabytes of peak memory of a task in a process of its own."""
    values = {"path": str(path), "small": str(small)}
    code = CHILD.format(task=task.format(**values), warm=WARM.format(**values), repeats=repeats)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "big.swf", Path(folder) / "small.swf"
        write_trace(path, arguments.jobs)
        write_trace(small, 10)
        print(f"{arguments.jobs:,} jobs, {path.stat().st_size / 1e6:.0f} MB, one core, best of {arguments.repeats}")
        theirs, their_peak = measure(PANDAS, path, small, arguments.repeats)
        ours, our_peak = measure(OURS, path, small, arguments.repeats)
        print(f"pandas.read_csv alone   {theirs:6.2f} s   peak +{their_peak:,.0f} MB")
        print(f"tracekit file to Trace  {ours:6.2f} s   peak +{our_peak:,.0f} MB")
        print(f"ratio                   {ours / theirs:6.3f}     (goal: at most 0.25)")
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tracekit", "info", str(path), "--json"], stdout=subprocess.DEVNULL, check=True
        )
        print(f"tracekit info           {time.perf_counter() - start:6.2f} s   including start-up")
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tracekit", "convert", str(path), str(path) + ".parquet"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        subprocess.run(
            [sys.executable, "-m", "tracekit", "convert", str(path) + ".parquet", str(path) + ".again.swf"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        print(f"swf → parquet → swf     {time.perf_counter() - start:6.2f} s   including two start-ups")
        print(
            f"peak memory of the largest child {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:,.0f} MB"
        )


if __name__ == "__main__":
    main()
