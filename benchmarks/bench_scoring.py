"""Time and memory of `tracekit score`, each case in its own process: python benchmarks/bench_scoring.py [--large]."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tracekit
from tracekit.trace import Trace

CASES = {  # name: jobs, flags, seconds allowed, GB allowed
    "30,000 × 30,000, everything": (30_000, (), 180.0, 4.0),
    "30,000 × 30,000, --quick": (30_000, ("--quick",), 20.0, 4.0),
}
LARGE = {"1,000,000 × 1,000,000, --quick": (1_000_000, ("--quick",), np.inf, 4.0)}


def grown(jobs: int, seed: int) -> Trace:
    """Repeat the embedded sample week after week, with run times and submits shaken, to as many jobs as asked for."""
    base = tracekit.sample()
    rng = np.random.default_rng(seed)
    copies = -(-jobs // len(base))
    span = np.ceil(np.ptp(base.column("submit_time")) / 604_800) * 604_800
    rows = np.tile(np.arange(len(base)), copies)[:jobs]
    shift = np.repeat(np.arange(copies) * span, len(base))[:jobs]
    trace = base.take(rows)
    run = np.minimum(np.round(trace.column("run_time") * rng.lognormal(0, 0.2, jobs)), trace.column("req_time"))
    submit = np.round(trace.column("submit_time") + shift + rng.exponential(60, jobs))
    return trace.assign({"job_id": np.arange(1, jobs + 1), "run_time": np.maximum(run, 1), "submit_time": submit})


def measure(jobs: int, flags: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Return seconds and GB of one run, with a hold-out."""
    files = [folder / f"{name}-{jobs}.parquet" for name in ("real", "synth", "holdout")]
    for seed, path in enumerate(files):
        if not path.exists():
            grown(jobs, seed).save(path)
    command = [
        sys.executable,
        "-m",
        "tracekit",
        "score",
        str(files[0]),
        str(files[1]),
        "--holdout",
        str(files[2]),
        "--json",
        *flags,
    ]
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"    CPU {after.ru_utime - before.ru_utime:.0f} s, load of the machine {os.getloadavg()[0]:.1f}")
    return time.perf_counter() - start, after.ru_maxrss / 2**20


def main() -> None:
    cases = CASES | LARGE if "--large" in sys.argv else CASES
    with tempfile.TemporaryDirectory() as name:
        for title, (jobs, flags, seconds, gigabytes) in cases.items():
            took, used = measure(jobs, flags, Path(name))
            verdict = "ok" if took <= seconds and used <= gigabytes else "TOO SLOW OR LARGE"
            allowed = f"{seconds:.0f} s" if np.isfinite(seconds) else "any time"
            print(f"{title}: {took:.1f} s ({allowed}), peak {used:.2f} GB ({gigabytes:.0f} GB): {verdict}")


if __name__ == "__main__":
    main()
