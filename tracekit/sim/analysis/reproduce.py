"""Published tables, recomputed with their authors' own semantics; nothing here is tuned to match."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.sim.jobs import Table, extract_jobs
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

#: Zhang, Dai, He, Bao & Xie, "RLScheduler: an automated HPC batch job scheduler using reinforcement learning", SC 2020:
#: first jobs of the ten windows, their length, and the table in the README of DIR-LAB/deep-batch-scheduler.
WINDOWS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
WINDOW_JOBS = 1024
POLICIES = ("fcfs", "wfp3", "unicep", "sjf", "f1")


@dataclass(frozen=True)
class Published:
    """One trace of the table: how to recognise it, and (bounded slowdown, utilisation) by policy."""

    file: str
    name: str
    fingerprint: tuple[int, float, float]  # jobs, last submit, sum of run times
    without: tuple[tuple[float, float], ...]
    with_backfill: tuple[tuple[float, float], ...]


PUBLISHED = (
    Published(
        "lublin_256.swf",
        "Lublin-1",
        (10000, 7711701.0, 48627667.0),
        ((7273.77, 0.657), (19753.53, 0.747), (22274.74, 0.691), (277.35, 0.762), (258.37, 0.816)),
        ((235.82, 0.868), (133.87, 0.864), (307.23, 0.883), (73.31, 0.778), (75.07, 0.840)),
    ),
    Published(
        "lublin_256_new2.swf",
        "Lublin-2",
        (10000, 4602313.0, 16959554.0),
        ((7842.47, 0.404), (9523.18, 0.543), (11265.31, 0.510), (787.89, 0.562), (698.34, 0.478)),
        ((247.61, 0.587), (318.35, 0.583), (379.59, 0.587), (91.99, 0.593), (148.25, 0.552)),
    ),
)


def published_for(trace: Trace) -> Published | None:
    """Return the published rows of a trace, recognised by its content whatever its file is called."""
    submit, run = trace.column("submit_time"), trace.column("run_time")
    if not len(trace):
        return None
    mark = (len(trace), float(np.nanmax(submit)), float(np.nansum(run)))
    return next((row for row in PUBLISHED if row.fingerprint == mark), None)


def default_traces() -> list[Path]:
    """Return the two published traces from the folder of test data; the error names the alternatives."""
    folder = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).resolve().parents[4] / "shared" / "data")
    found = [path for row in PUBLISHED for path in (folder / "swf" / row.file, folder / row.file) if path.is_file()]
    if not found:
        names = " and ".join(row.file for row in PUBLISHED)
        raise TracekitError(f"{names} are not in {folder}; set TRACEKIT_DATA to their folder, or give --trace FILE")
    return found


def agrees(cell: dict[str, Any]) -> bool:
    """Return whether a cell shows the published numbers to the printed digit."""
    return bool(
        f"{cell['bsld']:.2f}" == f"{cell['published']:.2f}"
        and f"{cell['utilization']:.3f}" == f"{cell['published_utilization']:.3f}"
    )


def rlscheduler(
    trace: Trace, *, compat: bool = True, windows: Sequence[int] = WINDOWS, procs: int | None = None
) -> list[dict[str, Any]]:
    """Return the cells of RLScheduler's table for one trace: means over the windows, beside the published numbers.

    ``compat=False`` takes the same windows with our own definitions (re-plan at every event, EASY, true waits) instead.
    """
    switches = Switches(compat="rlscheduler" if compat else None, procs=procs)
    jobs: Table = extract_jobs(trace, switches.resolved())
    last = max(windows) + WINDOW_JOBS
    if len(jobs) < last:
        raise TracekitError(f"the windows of this table reach to job {last:,}, but the trace has only {len(jobs):,}")
    published = published_for(trace)
    cells = []
    runs = [
        Run(jobs.window(start, WINDOW_JOBS), policy, backfill, switches)
        for backfill in ("none", "easy")
        for policy in POLICIES
        for start in windows
    ]
    results = run_all(runs)
    for number in range(0, len(runs), len(windows)):
        part = results[number : number + len(windows)]
        policy, backfilled = runs[number].policy, runs[number].backfill != "none"
        row = None if published is None else published.with_backfill if backfilled else published.without
        printed = None if row is None else row[POLICIES.index(str(policy))]
        cells.append(
            {
                "policy": policy,
                "backfill": backfilled,
                "bsld": float(np.mean([result.metrics["mean_bsld"] for result in part])),
                "utilization": float(np.mean([result.metrics["utilization"] for result in part])),
                "published": None if printed is None else printed[0],
                "published_utilization": None if printed is None else printed[1],
            }
        )
    return cells
