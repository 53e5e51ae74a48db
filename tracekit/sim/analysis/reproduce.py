"""Published tables, recomputed with their authors' own semantics; nothing here is tuned to match."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.catalog import cache_folder
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
    jobs: int
    without: tuple[tuple[float, float], ...]
    with_backfill: tuple[tuple[float, float], ...]
    sums: tuple[float, float] | None = None  # last submit, sum of run times
    epoch: float | None = None  # start of the log, Unix seconds

    def matches(self, trace: Trace) -> bool:
        """Return whether the trace is this one, by its content, or by its number of jobs and its start."""
        if len(trace) != self.jobs:
            return False
        if self.sums is None:
            return trace.machine.epoch == self.epoch
        submit, run = trace.column("submit_time"), trace.column("run_time")
        return (float(np.nanmax(submit)), float(np.nansum(run))) == self.sums


#: The Lublin traces are in the catalog by these names; SDSC-SP2 and HPC2N are logs of the archive.
PUBLISHED = (
    Published(
        "lublin_256.swf",
        "Lublin-1",
        10_000,
        ((7273.77, 0.657), (19753.53, 0.747), (22274.74, 0.691), (277.35, 0.762), (258.37, 0.816)),
        ((235.82, 0.868), (133.87, 0.864), (307.23, 0.883), (73.31, 0.778), (75.07, 0.840)),
        sums=(7711701.0, 48627667.0),
    ),
    Published(
        "lublin_256_new2.swf",
        "Lublin-2",
        10_000,
        ((7842.47, 0.404), (9523.18, 0.543), (11265.31, 0.510), (787.89, 0.562), (698.34, 0.478)),
        ((247.61, 0.587), (318.35, 0.583), (379.59, 0.587), (91.99, 0.593), (148.25, 0.552)),
        sums=(4602313.0, 16959554.0),
    ),
    Published(
        "SDSC-SP2-1998-4.2-cln.swf",
        "SDSC-SP2",
        59_715,
        ((1727.54, 0.670), (3000.88, 0.658), (1848.45, 0.688), (2680.55, 0.645), (1232.06, 0.674)),
        ((1595.12, 0.682), (1083.12, 0.681), (548.01, 0.706), (2167.84, 0.661), (1098.22, 0.677)),
        epoch=893466664.0,
    ),
    Published(
        "HPC2N-2002-2.2-cln.swf",
        "HPC2N",
        202_871,
        ((297.18, 0.638), (426.99, 0.636), (609.77, 0.636), (157.71, 0.640), (118.01, 0.637)),
        ((127.38, 0.639), (97.39, 0.637), (175.12, 0.638), (122.04, 0.641), (71.95, 0.638)),
        epoch=1027839845.0,
    ),
)
#: The traces that are recomputed where none is named.
DEFAULT = PUBLISHED[:2]


def published_for(trace: Trace, file: str | Path = "") -> Published | None:
    """Return the published rows of a trace, recognised by its content, or else by the archive's name of its file."""
    known = next((row for row in PUBLISHED if row.matches(trace)), None)
    name = Path(file).name.lower()
    named = (row for row in PUBLISHED if row.sums is None and name.startswith(row.file.removesuffix(".swf").lower()))
    return known or next(named, None)


def default_traces() -> list[Path]:
    """Return the two published traces from $TRACEKIT_DATA or from where ``tracekit fetch`` puts them."""
    given = os.environ.get("TRACEKIT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[4] / "shared" / "data"
    folders = (folder / "swf", folder, cache_folder())
    places = [[place / row.file for place in folders] for row in DEFAULT]
    found = [next((path for path in paths if path.is_file()), None) for paths in places]
    missing = [Path(row.file).stem for row, path in zip(DEFAULT, found, strict=True) if path is None]
    if missing:
        commands = " and ".join(f"'tracekit fetch {name}'" for name in missing)
        where = f"{given} (TRACEKIT_DATA) or " if given else ""
        raise TracekitError(
            f"not in {where}{cache_folder()}: {', '.join(missing)}; get them with {commands}, "
            "set TRACEKIT_DATA to their folder, or give --trace FILE"
        )
    return [path for path in found if path is not None]


def agrees(cell: dict[str, Any]) -> bool:
    """Return whether a cell shows the published numbers to the printed digit."""
    return bool(
        f"{cell['bsld']:.2f}" == f"{cell['published']:.2f}"
        and f"{cell['utilization']:.3f}" == f"{cell['published_utilization']:.3f}"
    )


def rlscheduler(
    trace: Trace,
    *,
    compat: bool = True,
    windows: Sequence[int] = WINDOWS,
    procs: int | None = None,
    file: str | Path = "",
) -> list[dict[str, Any]]:
    """Return the cells of RLScheduler's table for one trace: means over the windows, beside the published numbers.

    ``compat=False`` takes the same windows with our own definitions (re-planning, EASY, true waits) instead. ``file``
    is where the trace was read from: an archive log may be recognised by its name.
    """
    switches = Switches(compat="rlscheduler" if compat else None, procs=procs)
    jobs: Table = extract_jobs(trace, switches.resolved())
    last = max(windows) + WINDOW_JOBS
    if len(jobs) < last:
        raise TracekitError(f"the windows of this table reach to job {last:,}, but the trace has only {len(jobs):,}")
    published = published_for(trace, file)
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
