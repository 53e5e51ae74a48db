"""From a trace to the arrays of the engine: sizes, estimates, windows, and which jobs cannot be simulated and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import Unit
from tracekit.sim.hosts.demand import GPUS, PIECES, Demand, demand_of, unit_of
from tracekit.sim.hosts.rltune_demand import pools_by, rltune_demand
from tracekit.sim.switches import Switches, estimate_of
from tracekit.trace import Trace
from tracekit.units import WORDS

Floats = NDArray[np.float64]

#: Means no job where a job's number is expected.
NO_JOB = -1
#: A rejection of more than this share of the jobs, or of their work, is reported before any result.
MUCH = 0.5
#: Where the source counts in fractions (shared GPUs), the engine counts in thousandths, rounded up.
FRACTIONS = 1000


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that a simulation needs, in the file's order; shape (jobs,), times in seconds, NaN = unknown."""

    position: NDArray[np.int64]  # row in the trace
    job_id: NDArray[np.int64]
    submit: Floats
    run: Floats
    limit: Floats  # what the user asked for
    procs: Floats  # size, in units of `resource`
    wait: Floats  # as recorded, for replay
    user: NDArray[np.signedinteger[Any]]  # −1 = unknown
    queue: Floats  # queue factor of multifactor
    users: int
    resource: Unit
    total: int  # size of the machine
    dropped: int = 0  # left out by the compatibility mode before anything else
    trace: Trace | None = None  # the source, for agents that use more columns
    previous: NDArray[np.int64] | None = None  # id of the predecessor, −1 = none; None: dependencies do not count
    think: Floats | None = None  # seconds from its end to the submit
    demand: Demand | None = None  # what jobs ask of hosts, where the machine is made of hosts
    stretch: Floats | None = None  # run time at the chosen frequency / as recorded; None: the highest frequency

    def __len__(self) -> int:
        return len(self.submit)

    def take(self, rows: NDArray[np.intp] | slice) -> Table:
        """Return some rows."""
        columns: dict[str, Any] = {name: _some(getattr(self, name), rows) for name in _COLUMNS}
        if self.previous is not None and self.think is not None:
            columns |= {"previous": self.previous[rows], "think": self.think[rows]}
        if self.demand is not None:
            columns["demand"] = self.demand.take(rows)
        if self.stretch is not None:
            columns["stretch"] = self.stretch[rows]
        return Table(
            **columns,
            users=self.users,
            resource=self.resource,
            total=self.total,
            dropped=self.dropped,
            trace=self.trace,
        )

    def window(self, start: int, count: int) -> Table:
        """Return ``count`` consecutive jobs from position ``start``."""
        if start < 0 or count < 1 or start + count > len(self):
            raise UsageError(f"window {start}:{count} does not lie within the {len(self):,} jobs of the trace")
        return self.take(slice(start, start + count))


def _some(column: NDArray[Any], rows: NDArray[np.intp] | slice) -> NDArray[Any]:
    """Return some rows of a column; a column of one value, which takes no memory, stays one."""
    if column.strides == (0,) and not isinstance(rows, slice):
        return np.broadcast_to(column[:1], len(rows)) if len(column) else column
    return column[rows]


_COLUMNS = ("position", "job_id", "submit", "run", "limit", "procs", "wait", "user", "queue")


def extract_jobs(trace: Trace, switches: Switches, *, lean: bool = False) -> Table:
    """Read a trace's columns as the (resolved) switches want them, and what its jobs ask of a cluster's hosts.

    ``lean``, for simulations that `tracekit.sim.analysis.lean` calls so: the table has smaller integers, columns
    without information take no memory, and the trace is not kept.
    """
    cluster = None if switches.cluster is None else cluster_of(switches.cluster)
    resource = switches.resource or (trace.machine.unit if cluster is None else unit_of(trace, cluster))
    if switches.compat == "rltune" and cluster is not None:
        pools_by(cluster)  # refuses a cluster without GPUs
        resource = "gpus"
    total = switches.procs or (trace.machine if cluster is None else cluster).size(resource)
    if total is None:
        raise TracekitError(f"the trace does not state how many {resource} its machine has; give --procs N (procs=N)")
    procs = trace.sizes(resource, switches.procs_from)
    demand = None
    if cluster is not None:
        if switches.compat == "rltune":
            demand = rltune_demand(trace, cluster)
            procs = (demand.need[:, PIECES] * demand.need[:, GPUS]).astype(np.float64)
        else:
            demand = demand_of(trace, cluster, switches.procs_from)
            procs = np.where(np.isnan(procs) | (procs <= 0), demand.least_size, procs)
    if len(trace) and not (procs > 0).any():
        raise TracekitError(f"no job of the trace has {WORDS[resource]}; choose another unit with --resource")
    run, limit = writable(trace.column("run_time")), writable(trace.column("req_time"))
    keep: NDArray[np.intp] | slice = slice(None)
    dropped = 0
    if switches.compat == "rlscheduler":
        limit = np.where(np.isnan(limit) & ~(run >= 0), np.nan_to_num(run, nan=-1.0), limit)
        run = np.where(np.isnan(run) | (run < 0), 10.0, run)
        keep = np.flatnonzero(run != 0)
        dropped = len(run) - len(keep)
    if switches.compat == "slurm":
        limit = 60.0 * np.ceil(np.round(limit / 60.0, 6))  # whole minutes
    submit, wait = writable(trace.column("submit_time")), trace.column("wait_time")
    if switches.compat == "rltune":  # −1 is a number like any other, except for run times
        run, submit = np.where(np.isnan(run), 10.0, run), np.nan_to_num(submit, nan=-1.0)
    if lean:
        user = _codes(trace, "user")
        return Table(
            position=np.arange(len(trace), dtype=np.int32 if len(trace) < 2**31 else np.int64),
            job_id=writable(trace.column("job_id")),
            submit=submit,
            run=run,
            limit=limit,
            procs=procs,
            wait=writable(wait) if trace.has("wait_time") else np.broadcast_to(np.array([np.nan]), len(trace)),
            user=user,
            queue=np.broadcast_to(np.zeros(1), len(trace)),
            users=int(user.max(initial=-1)) + 1,
            resource=resource,
            total=total,
        )
    labels = list(trace.jobs["queue"].cat.categories) if "queue" in trace.jobs.columns else []
    factor_of = np.array([switches.queue_factors.get(label, 0.0) for label in labels] + [0.0])
    user = trace.column("user")
    made = Table(
        position=np.arange(len(trace)),
        job_id=writable(trace.column("job_id")),
        submit=submit,
        run=run,
        limit=limit,
        procs=procs,
        wait=writable(wait),
        user=user,
        queue=factor_of[trace.column("queue")] if labels else np.zeros(len(trace)),
        users=int(user.max(initial=-1)) + 1,
        resource=resource,
        total=total,
        dropped=dropped,
        trace=trace,
        previous=np.nan_to_num(trace.column("prev_job"), nan=-1.0).astype(np.int64) if switches.dependencies else None,
        think=writable(trace.column("think_time")) if switches.dependencies else None,
        demand=demand,
        stretch=_stretch(trace, switches.frequency),
    )
    return made.take(keep)


def _codes(trace: Trace, name: str) -> NDArray[np.signedinteger[Any]]:
    """Return the codes of a column of labels in the integers that it is stored in."""
    if name not in trace.jobs.columns:
        return np.broadcast_to(np.array([-1], np.int8), len(trace))
    return np.asarray(trace.jobs[name].cat.codes)


def _stretch(trace: Trace, frequency: float) -> Floats | None:
    """Return how much longer each job runs at a share of the highest frequency: b/x + 1 − b; None where it is 1.

    b is the share of its run time that scales with the frequency (``cpu_bound``); unknown counts as all of it.
    """
    if frequency == 1.0:
        return None
    bound = np.nan_to_num(trace.column("cpu_bound"), nan=1.0)
    return np.asarray(bound / frequency + 1.0 - bound)


def writable(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy if it is read-only, as pandas 3's are: numba compiles read-only arrays separately."""
    return np.require(values, requirements="W")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Jobs that can be simulated, by (submit time, file position), and how many could not."""

    table: Table
    run: Floats  # after --kill-at-limit, then --frequency
    estimate: Floats  # the scheduler's estimate (last-two: that of users without history)
    units: NDArray[np.int64]
    scale: int  # units in one processor
    rejected: dict[str, int] = field(default_factory=dict)  # reason -> jobs
    without_limit: int = 0

    @property
    def total(self) -> int:
        """The machine's size in units."""
        return self.table.total * self.scale

    def take(self, rows: NDArray[np.intp]) -> Prepared:
        """Return some jobs, in the order of ``rows``."""
        columns = {name: getattr(self, name)[rows] for name in ("run", "estimate", "units")}
        return replace(self, table=self.table.take(rows), **columns)


def prepare(jobs: Table, switches: Switches, *, replay: bool = False) -> Prepared:
    """Reject and count what cannot be simulated, sort the rest, and compute run times and estimates."""
    good, rejected = _accepted(jobs, replay=replay)
    kept = jobs
    if not good.all() or np.any(jobs.submit[1:] < jobs.submit[:-1]):
        rows = np.flatnonzero(good)
        submit = jobs.submit[rows]
        if np.any(submit[1:] < submit[:-1]):
            rows = rows[np.argsort(submit, kind="stable")]
        kept = jobs.take(rows)

    has_limit = kept.limit > 0
    run = np.where(has_limit, np.minimum(kept.run, kept.limit), kept.run) if switches.kill_at_limit else kept.run
    kind, number = estimate_of(switches.estimates)
    if kind in ("requested", "last-two"):
        # RLScheduler keeps every limit that is there, also one of 0 or the −1 of a job with neither limit nor run time
        as_given = ~np.isnan(kept.limit) if switches.compat == "rlscheduler" else has_limit
        estimate = writable(kept.limit) if as_given.all() else np.where(as_given, kept.limit, run)
    elif kind == "actual":
        estimate = run.copy()
    elif kind == "factor":
        estimate = run * number
    else:  # noisy: log-normal around the truth
        estimate = run * np.exp(number * np.random.default_rng(switches.seed).standard_normal(len(run)))

    if kept.stretch is not None:
        run, estimate = run * kept.stretch, estimate * kept.stretch
    units, scale = whole_units(kept.procs, 1 if kept.demand is None else kept.demand.scale)
    return Prepared(kept, run, estimate, units, scale, rejected, int((~has_limit).sum()))


def _accepted(jobs: Table, *, replay: bool = False) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which jobs can be simulated, (jobs,), and the number of the others by reason."""
    as_coded = jobs.demand is not None and jobs.demand.as_coded
    reasons: dict[str, NDArray[np.bool_]] = {
        "no submit time": ~np.isfinite(jobs.submit),
        "no run time": ~(np.isfinite(jobs.run) & (jobs.run >= 0)),
        "no size": ~(np.isfinite(jobs.procs) & ((jobs.procs > 0) | as_coded)),
    }
    reasons |= {"larger than the machine": jobs.procs > jobs.total} if jobs.demand is None else jobs.demand.reasons()
    if replay:
        reasons["no recorded wait"] = ~np.isfinite(jobs.wait)
    rejected: dict[str, int] = {}
    good = np.ones(len(jobs), dtype=bool)
    for reason, bad in reasons.items():  # a job counts under the first reason that holds
        count = int((bad & good).sum())
        if count:
            rejected[reason] = count
        good &= ~bad
    return good, rejected


def rejection_warning(jobs: Table) -> str | None:
    """Return a warning where more than half of the jobs, or of their processor-seconds, are rejected; else None.

    A simulation of the rest is a simulation of another workload, so this comes before any result. If every job is
    rejected, the simulation is an error, which gives the reasons itself.
    """
    good, rejected = _accepted(jobs)
    if good.all():
        return None
    work = np.where((jobs.procs > 0) & (jobs.run > 0), jobs.procs * jobs.run, 0.0)
    of_jobs = float(np.mean(~good)) if len(jobs) else 0.0
    of_work = float(work[~good].sum() / work.sum()) if work.sum() > 0 else 0.0
    if max(of_jobs, of_work) <= MUCH or not good.any():
        return None
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in rejected.items())
    advice = (
        f"the machine has {jobs.total:,} {jobs.resource}; set another size with --procs N, another unit with --resource"
    )
    return (
        f"WARNING: {int((~good).sum()):,} of {len(jobs):,} jobs ({of_jobs:.0%} of the jobs, {of_work:.0%} of the work) "
        f"are rejected ({reasons}), so the results are for the remaining jobs only; {advice}"
    )


def whole_units(procs: Floats, least: int = 1) -> tuple[NDArray[np.int64], int]:
    """Return sizes as the whole units that the engine counts in, and the number of units per processor."""
    if least == 1 and np.all(procs == np.floor(procs)):
        return procs.astype(np.int64), 1
    return np.ceil(np.round(procs * FRACTIONS, 6)).astype(np.int64), FRACTIONS
