"""What it costs to read a CSV format, against `pandas.read_csv` of the same file and columns, on one core.

Run: python benchmarks/bench_formats.py [--jobs 200000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tracekit


def columns(jobs: int) -> dict[str, Any]:
    """Return made columns that the files below share."""
    rng = np.random.default_rng(2)
    submit = pd.Timestamp("2023-01-01").value // 10**9 + np.cumsum(rng.integers(0, 60, jobs))
    wait, run = rng.integers(0, 5000, jobs), rng.integers(1, 90_000, jobs)
    stamps = {
        name: pd.Series(pd.to_datetime(values, unit="s")).dt.strftime("%Y-%m-%d %H:%M:%S")
        for name, values in (("submit", submit), ("start", submit + wait), ("end", submit + wait + run))
    }
    numbers = {"submit_s": submit, "wait": wait, "run": run, "size": 2 ** rng.integers(0, 7, jobs)}
    users = np.array([f"u{k:05x}" for k in range(500)])[rng.integers(0, 500, jobs)]
    return {**stamps, **numbers, "user": users, "id": np.arange(jobs), "rng": rng}


def alcf(c: dict[str, Any]) -> pd.DataFrame:
    jobs = len(c["id"])
    table = {
        "JOB_NAME": pd.Series(c["id"]).astype(str) + ".polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov",
        "COBALT_JOBID": c["id"],
        "MACHINE_NAME": "polaris",
        "QUEUED_TIMESTAMP": c["submit"],
        "START_TIMESTAMP": c["start"],
        "END_TIMESTAMP": c["end"],
        "START_DATE_ID": 20230101,
        "USERNAME_GENID": c["rng"].integers(10**13, 10**14, 500)[c["rng"].integers(0, 500, jobs)],
        "PROJECT_NAME_GENID": c["rng"].integers(10**13, 10**14, 90)[c["rng"].integers(0, 90, jobs)],
        "QUEUE_NAME": "prod",
        "WALLTIME_SECONDS": c["run"] * 2.0,
        "RUNTIME_SECONDS": c["run"] * 1.0,
        "QUEUED_WAIT_SECONDS": c["wait"],
        **{f"{what}_{how}": c["size"] * 1.0 for what in ("NODES", "CORES") for how in ("USED", "REQUESTED")},
        "LOCATION": "x3001c0s1b0n0,x3001c0s1b1n0",
        "EXIT_STATUS": c["rng"].choice([0, 0, 0, 1, 271], jobs),
        **{f"{name}_CORE_HOURS": c["run"] * c["size"] / 3600 for name in ("REQUESTED", "USED", "OVERBURN")},
        "CAPABILITY": "not-capable",
        **{f"IS_FLAG{k}": 0 for k in range(20)},
    }
    return pd.DataFrame(table)


def helios(c: dict[str, Any]) -> pd.DataFrame:
    table = {"job_id": c["id"], "user": c["user"], "vc": "vcA", "gpu_num": c["size"], "cpu_num": c["size"] * 8}
    table |= {"node_num": 1, "state": "COMPLETED", "submit_time": c["submit"], "start_time": c["start"]}
    return pd.DataFrame(table | {"end_time": c["end"], "duration": c["run"], "queue": c["wait"]})


def acme(c: dict[str, Any]) -> pd.DataFrame:
    table = {"job_id": c["id"], "user": c["user"], "node_num": 1, "gpu_num": c["size"], "cpu_num": c["size"] * 8}
    table |= {"type": "Other", "state": "COMPLETED"}
    table |= {f"{name}_time": c[name] + "+08:00" for name in ("submit", "start", "end")}
    return pd.DataFrame(table | {"duration": c["run"], "queue": c["wait"], "gpu_time": c["run"] * c["size"] * 1.0})


def openb(c: dict[str, Any]) -> pd.DataFrame:
    table = {"name": [f"openb-pod-{k:04}" for k in c["id"]], "cpu_milli": c["size"] * 1000, "memory_mib": 4096}
    table |= {"num_gpu": 1, "gpu_milli": 460, "gpu_spec": "", "qos": "LS", "pod_phase": "Running"}
    start = c["submit_s"] + c["wait"]
    times = {"creation_time": c["submit_s"], "deletion_time": start + c["run"], "scheduled_time": start}
    return pd.DataFrame(table | times)


def cswa(c: dict[str, Any]) -> pd.DataFrame:
    table = {"u_id": c["id"], "user": c["user"], "cpu_num": c["size"], "node_num": 1, "submit_time": c["submit"]}
    return pd.DataFrame(
        table | {"wait_time": c["wait"], "run_time": c["run"], "wall_time": c["run"] * 2, "job_status": "Pass"}
    )


def rltune(c: dict[str, Any]) -> pd.DataFrame:
    names = pd.Series(c["id"]).astype(str) + "_bert"
    fields = [names, c["submit_s"], c["wait"], c["run"], c["size"], *[-1] * 5, 1, c["id"] % 500, 1, *[-1] * 5, 0]
    return pd.DataFrame(dict(enumerate(fields)))


def pai(c: dict[str, Any]) -> pd.DataFrame:
    names = [f"{k:024x}" for k in c["id"]]
    fields = [names, "worker", 1.0, "Terminated", c["submit_s"] * 1.0, c["submit_s"] + c["run"] * 1.0]
    return pd.DataFrame(dict(enumerate([*fields, 600.0, 29.296875, 50.0, "MISC"])))


FILES: dict[str, tuple[Callable[[dict[str, Any]], pd.DataFrame], bool]] = {
    "alcf": (alcf, True),
    "helios": (helios, True),
    "acme": (acme, True),
    "alibaba-openb": (openb, True),
    "cswa": (cswa, True),
    "rltune": (rltune, False),
    "alibaba-pai": (pai, False),
}


def best(task: Callable[[], Any], repeats: int) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    made = columns(arguments.jobs)
    print(f"{arguments.jobs:,} jobs, one core, best of {arguments.repeats}; the goal is a ratio of at most 1.5")
    print(f"{'format':<14} {'MB':>6} {'pandas s':>9} {'tracekit s':>11} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, header) in FILES.items():
            path = Path(folder) / f"{name}.csv"
            make(made).to_csv(path, index=False, header=header)
            theirs = best(lambda p=path, h=header: pd.read_csv(p, header=0 if h else None), arguments.repeats)
            ours = best(lambda p=path, n=name: tracekit.read(p, n), arguments.repeats)
            size = path.stat().st_size / 1e6
            print(f"{name:<14} {size:>6.0f} {theirs:>9.2f} {ours:>11.2f} {ours / theirs:>6.2f}")


if __name__ == "__main__":
    main()
