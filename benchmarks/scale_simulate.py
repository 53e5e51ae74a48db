"""Simulation of traces of any size with FCFS + EASY: the part ``simulate`` of bench_scale.py.

The trace is written as one Parquet file, a million jobs at a time: sizes log-uniform, run times log-normal, limits of 1
to 10 times that, Poisson arrivals at load 0.9, 3,000 users. Files stay in --folder for the next run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_scale import measured, show, tracekit

PART_JOBS = 1_000_000
PROCS, LOAD, USERS = 256, 0.9, 3000
STATES, QUEUES = 4, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tracekit-scale"))
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--backfill", default="easy")
    parser.add_argument("--info", action="store_true", help="also info")


def run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    manner = ["--policy", arguments.policy, "--backfill", arguments.backfill]
    measured([*tracekit("-q", "simulate", _made(folder, 1000)), *manner])  # compiles
    for jobs in arguments.jobs:
        trace = _made(folder, jobs)
        for words in (["simulate", trace, *manner], *([["info", trace]] if arguments.info else [])):
            used = measured(tracekit("-q", *words))
            by_job = {"cpu_us_a_job": used["cpu_s"] / jobs * 1e6, "bytes_a_job": used["peak_mb"] * 2**20 / jobs}
            show({"jobs": jobs, "command": words[0], **used, **by_job})


def _made(folder: Path, jobs: int) -> Path:
    """Return the trace of so many jobs; made in a process of its own, so that this one stays small."""
    path = folder / f"simulate-{jobs}.parquet"
    if not path.exists():
        measured([sys.executable, __file__, str(path), str(jobs)])
    return path


def _columns(jobs: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the columns of the jobs, a million at a time."""
    import numpy as np

    rng, clock = np.random.default_rng(seed), 0.0
    for first in range(0, jobs, PART_JOBS):
        count = min(PART_JOBS, jobs - first)
        size = np.floor(2 ** rng.uniform(0, np.log2(PROCS) - 1, count)).astype(np.int64)
        size[rng.random(count) < 0.25] = 1
        run_time = np.ceil(np.exp(rng.normal(6.0, 1.8, count))).clip(1, 172_800)
        gap = rng.exponential(1.0, count)
        submit = np.floor(clock + np.cumsum(gap) * ((size * run_time).sum() / (LOAD * PROCS) / gap.sum()))
        clock = float(submit[-1])
        yield {
            "job_id": np.arange(first + 1, first + count + 1),
            "submit_time": submit,
            "wait_time": np.floor(rng.exponential(1000.0, count)),
            "run_time": run_time,
            "req_time": np.minimum(np.ceil(run_time * rng.uniform(1, 10, count) / 60) * 60, 259_200.0),
            "req_procs": size,
            "status": rng.integers(0, STATES, count),
            "user": rng.zipf(1.3, count) % USERS,
            "queue": rng.integers(0, QUEUES, count),
        }


def _write(path: Path, jobs: int) -> None:
    """Write a trace as one file of many row groups."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet

    import tracekit as tk
    from tracekit.schema import status_codes

    writer, unfinished = None, path.with_suffix(".part")
    labels = {"user": [f"u{number}" for number in range(USERS)], "queue": [f"q{number}" for number in range(QUEUES)]}
    for columns in _columns(jobs):
        columns["status"] = status_codes(columns["status"])
        for name, known in labels.items():
            codes = columns[name].astype(np.int16)
            columns[name] = pd.Categorical.from_codes(codes, pd.Index(known, dtype=object))
        trace = tk.Trace(pd.DataFrame(columns), tk.Machine(name="synthetic", procs=PROCS))
        if writer is None:
            first = path.with_suffix(".first.parquet")
            tk.write(tk.Trace(trace.jobs.head(1), trace.machine), first, force=True)  # for the facts in its schema
            schema = pa.parquet.read_schema(first)
            first.unlink()
            writer = pa.parquet.ParquetWriter(unfinished, schema, compression="zstd")
        writer.write_table(pa.Table.from_pandas(trace.jobs, preserve_index=False).cast(schema))
    writer.close()
    unfinished.rename(path)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]))
