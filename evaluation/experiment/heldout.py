"""The held-out real jobs that every agent and every heuristic schedules: the same windows, at the same loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.readings import read_load
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.jobs import Table
    from tracekit.sim.simulate import SimResult
    from tracekit.sim.switches import Switches

REAL_LOAD = "real"
#: What is recorded of every scheduled window.
MEASURED = ("mean_bsld", "mean_wait_s", "p95_bsld", "utilization")
#: What predictors of run times are judged by: how far predictions miss, as a factor; 1 = never.
ERROR = "error_factor"
#: What forecasts of waits are judged by: how far they miss, as a factor; 1 = never.
FORECAST = "forecast_factor"
#: What orders of a standing queue are judged by: mean seconds until its jobs start.
ORDER_WAIT = "order_wait_s"
Row = dict[str, Any]  # load, window, and the measured values


def starts(jobs: int, count: int, length: int, fewest: int = 3) -> list[int]:
    """Return first positions of windows that do not overlap, evenly spaced: ``count``, or as many as fit.

    >>> starts(1000, 3, 100), starts(250, 10, 100, fewest=2)
    ([0, 450, 900], [0, 150])
    """
    room = min(count, jobs // length)
    if room < fewest:
        raise TracekitError(
            f"the test part has {jobs:,} jobs that can be scheduled: too few for {fewest} windows of {length}; "
            "use shorter windows or a longer trace"
        )
    return [int(position) for position in np.linspace(0, jobs - length, room)]


def schedulable(trace: Trace, allocate: str | None = None) -> Trace:
    """Return the jobs that a scheduler can take, by submit time: those with a run time and a size that fits.

    With ``allocate`` (the name of an allocator) they must fit the hosts of the trace's machine.
    """
    size, run, submit = trace.sizes(), trace.column("run_time"), trace.column("submit_time")
    capacity = trace.machine.size() or np.inf
    with np.errstate(invalid="ignore"):
        good = np.isfinite(submit) & np.isfinite(run) & (run >= 0)
        good &= (size > 0) & (size <= capacity) if allocate is None else _fit_hosts(trace, allocate)
    order = trace.order()
    return trace.take(order[good[order]])


def _fit_hosts(trace: Trace, allocate: str) -> NDArray[np.bool_]:
    from tracekit.sim.jobs import extract_jobs

    jobs = extract_jobs(trace, switches_for(trace, allocate))
    assert jobs.demand is not None
    return np.asarray((jobs.demand.reason == 0) & (jobs.procs > 0))


def switches_for(trace: Trace, allocate: str | None) -> Switches:
    """Return the switches of a simulation: on a counter of processors, or on the hosts of the trace's machine."""
    from tracekit.sim.switches import Switches

    return Switches() if allocate is None else Switches(cluster=trace.machine, allocate=allocate)


def check_load(load: str) -> str:
    """Return ``real`` or a positive number as text."""
    if load == REAL_LOAD:
        return load
    return f"{read_load(load, 'windows, loads:'):g}"


@dataclass(frozen=True)
class Heldout:
    """Windows of a test part at several loads."""

    test: Trace  # schedulable jobs only
    starts: Sequence[int]
    jobs: int
    loads: Sequence[str]
    backfill: str
    allocate: str | None = None  # on the hosts of the trace's machine; None = on a counter of processors

    @classmethod
    def of(cls, test: Trace, params: Mapping[str, Any]) -> Heldout:
        """Read what a task says about windows."""
        allocate = params.get("allocate")
        jobs = schedulable(test, allocate)
        return cls(jobs, params["starts"], params["jobs"], params["loads"], params["backfill"], allocate)

    def at(self, load: str) -> Trace:
        """Return the test part with its gaps stretched to a load."""
        from tracekit.transform import scale_load

        return self.test if load == REAL_LOAD else scale_load(self.test, float(load))

    def tables(self) -> list[tuple[str, int, Table]]:
        """Return (load, number of the window, jobs) for every window at every load."""
        from tracekit.sim.jobs import extract_jobs

        found = []
        for load in self.loads:
            whole = extract_jobs(self.at(load), switches_for(self.test, self.allocate))
            found += [(load, k, whole.window(start, self.jobs)) for k, start in enumerate(self.starts)]
        return found

    def play(self, policy: Any, *, predict: str | None = None) -> list[Row]:
        """Schedule every window under one policy; one thread, since tasks themselves run side by side.

        ``predict`` names a predictor of run times that backfilling goes by.
        """
        from tracekit.sim.runs import Run, run_all

        tables, switches = self.tables(), replace(switches_for(self.test, self.allocate), predict=predict)
        results = run_all([Run(part, policy, self.backfill, switches) for _, _, part in tables], threads=1)
        return [row(load, k, result) for (load, k, _), result in zip(tables, results, strict=True)]

    def flow(self, policy: Any) -> list[Row]:
        """Schedule the whole part without a break under one policy, and measure the jobs of each window in it.

        Windows that begin on an empty machine hardly ever have a queue; in the flow jobs wait as on the machine.
        ``utilization`` is the busy share of the machine while the window's jobs arrive.
        """
        from tracekit.sim.jobs import extract_jobs
        from tracekit.sim.runs import Run, run_all

        switches = switches_for(self.test, self.allocate)
        runs = [Run(extract_jobs(self.at(load), switches), policy, self.backfill, switches) for load in self.loads]
        found = []
        for load, result in zip(self.loads, run_all(runs, threads=1), strict=True):
            found += [_in_flow(load, k, first, self.jobs, result) for k, first in enumerate(self.starts)]
        return found


def _in_flow(load: str, window: int, first: int, jobs: int, result: SimResult) -> Row:
    """Return what is recorded of the jobs of one window of a longer schedule."""
    own = slice(first, first + jobs)
    wait, run = result.start[own] - result.submit[own], result.run[own]
    slowdown = np.maximum((wait + run) / np.maximum(run, result.switches["bound"]), 1.0)
    begin, end = result.submit[first], result.submit[min(first + jobs, len(result)) - 1]
    busy = np.clip(np.minimum(result.end, end) - np.maximum(result.start, begin), 0, None) * result.procs
    return {
        "load": load,
        "window": window,
        "mean_bsld": float(slowdown.mean()),
        "mean_wait_s": float(wait.mean()),
        "utilization": float(busy.sum() / (max(end - begin, 1.0) * result.total)),
    }


def row(load: str, window: int, result: SimResult) -> Row:
    """Return what is recorded of one window."""
    return {"load": load, "window": window, **{name: float(result.metrics[name]) for name in MEASURED}}
