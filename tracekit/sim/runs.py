"""Many simulations at once, on every core: the compiled engine runs without Python's lock, so threads suffice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.sim.jobs import Table
from tracekit.sim.policies.protocol import Policy
from tracekit.sim.simulate import SimResult, run_table
from tracekit.sim.switches import Switches

if TYPE_CHECKING:
    from tracekit.sim.engine.machines import MachineModel


@dataclass(frozen=True)
class Run:
    """One simulation to run."""

    jobs: Table
    policy: str | Policy
    backfill: str
    switches: Switches
    machine: MachineModel | None = None  # instead of the pool of processors


def run_all(runs: Iterable[Run], *, threads: int | None = None) -> list[SimResult]:
    """Make every run and return the results in their order, which does not depend on the number of threads."""
    runs = list(runs)
    threads = min(threads or os.cpu_count() or 1, len(runs))
    if threads <= 1:
        return [_made(run) for run in runs]
    first = _made(runs[0])  # alone: compiles, and reports a mistake before threads are started
    with ThreadPoolExecutor(threads) as pool:
        return [first, *pool.map(_made, runs[1:])]


def _made(run: Run) -> SimResult:
    return run_table(run.jobs, run.policy, run.backfill, run.switches, machine=run.machine)


def mean_summary(results: Sequence[SimResult]) -> dict[str, object]:
    """Return the mean of every number in the windows' summaries."""
    summaries = [result.summary() for result in results]
    found: dict[str, object] = {}
    for key, value in summaries[0].items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            mean = float(np.mean([summary[key] for summary in summaries]))
            found[key] = int(mean) if key in ("jobs", "rejected") and mean.is_integer() else mean
        elif isinstance(value, str):
            found[key] = value
        elif key == "energy":
            found[key] = _means([summary[key] for summary in summaries])
    return found


def _means(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of every number of some tables alike, also in tables inside; None where a number is missing."""
    found: dict[str, Any] = {}
    for key, value in tables[0].items():
        column = [table[key] for table in tables]
        if isinstance(value, dict):
            found[key] = _means(column)
        elif isinstance(value, (int, float)) or value is None:
            found[key] = None if None in column else float(np.mean(column))
        elif isinstance(value, str):
            found[key] = value
    return found
