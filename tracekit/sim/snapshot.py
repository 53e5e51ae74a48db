"""A machine at one moment: the time, the running jobs and the waiting jobs.

It is the moment before the scheduling pass: a job that ends then has ended, one that starts then still waits
(`standing`, which warm starts and `tracekit explain` use too). A snapshot comes from a trace, a schedule, the
output of Slurm's squeue or JSON, and a simulation can continue from there (`Snapshot.setup`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import SchemaError, TracekitError, UnknownName, UsageError, reading
from tracekit.machine import Unit
from tracekit.registry import imported
from tracekit.sim.jobs import Prepared, Table, extract_jobs, prepare, whole_units, writable
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import SimResult
from tracekit.sim.switches import Switches, backfill_for, combined
from tracekit.trace import Trace, check_trace

if TYPE_CHECKING:
    from tracekit.sim.engine.machines import MachineModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ids = Sequence[str | int]
Labels = Sequence[str | int | None]
RunTimes = Literal["estimated", "actual"]

#: State of a job at one moment.
ENDED, RUNNING, WAITING, LATER = range(4)
#: Estimate of a job without one, in seconds.
UNKNOWN_ESTIMATE = 86400.0
#: A running job past its estimate is expected to end any moment; a simulation lets it end this many seconds from now.
ANY_MOMENT = 1.0


def standing(time: float, submit: Floats, start: Floats, end: Floats) -> Ints:
    """Return the state of each job at ``time``, (jobs,): ENDED, RUNNING, WAITING or LATER (not submitted yet).

    A job whose start is NaN has not started.

    >>> standing(5.0, np.array([0.0, 0, 0, 6]), np.array([0.0, 1, 5, 7]), np.array([5.0, 9, 9, 9])).tolist()
    [0, 1, 2, 3]
    """
    return np.where(start < time, np.where(end > time, RUNNING, ENDED), np.where(submit <= time, WAITING, LATER))


@dataclass(frozen=True, eq=False)
class RunningJobs:
    """The jobs that run, (running,) each; times in seconds on the snapshot's clock, NaN or None = unknown."""

    id: Ids
    start: Floats
    estimate: Floats  # how long they run by estimate: from the start, or from now where the start is unknown
    size: Floats
    where: Sequence[str | None] | None = None  # hosts, as the source writes them
    run: Floats | None = None  # actual run time, where the source has it
    submit: Floats | None = None
    user: Labels | None = None
    project: Labels | None = None

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False)
class WaitingJobs:
    """The jobs that wait, (waiting,) each, by submit time where the source is sorted; NaN or None = unknown."""

    id: Ids
    submit: Floats  # they have waited since then
    estimate: Floats  # seconds
    size: Floats
    req_mem: Floats | None = None  # KB per processor
    user: Labels | None = None
    group: Labels | None = None
    app: Labels | None = None
    run: Floats | None = None  # actual run time, where the source has it
    project: Labels | None = None

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A machine at one moment. ``notes`` counts, by reason, the jobs of the source that are not in it."""

    clock: float  # seconds, as in the source
    total: int  # the machine's size
    running: RunningJobs
    waiting: WaitingJobs
    unit: Unit = "procs"  # of total and sizes
    notes: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Snapshot at {self.clock:,.0f} s: {len(self.running):,} jobs run on {self.total - self.free:,g} of "
            f"{self.total:,} {self.unit}, {len(self.waiting):,} wait>"
        )

    @property
    def free(self) -> float:
        """What no job holds."""
        return self.total - float(self.running.size.sum())

    @property
    def expected_end(self) -> Floats:
        """When each running job ends by estimate, (running,); one that is overdue ends now."""
        return np.maximum(_begin(self) + _known(self.running.estimate), self.clock)

    # ---- sources -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_trace(cls, trace: Trace, time: float, **switches: Any) -> Snapshot:
        """Return the machine at ``time`` (seconds, as in the trace) by the starts that the trace recorded.

        Sizes and estimates are those that a simulation with the same ``switches`` would see. Jobs without a recorded
        wait, run time or size are left out and counted in ``notes``.

        >>> import tracekit
        >>> tracekit.Snapshot.from_trace(tracekit.sample(), 1_425_600)
        <Snapshot at 1,425,600 s: 18 jobs run on 255 of 256 procs, 32 wait>
        """
        check_trace(trace)
        chosen = Switches(**switches).resolved()
        table = extract_jobs(trace, chosen)
        return _at(time, table, table.submit + table.wait, chosen)

    @classmethod
    def from_schedule(
        cls, schedule: SimResult | pd.DataFrame | str | Path, trace: Trace, time: float, **switches: Any
    ) -> Snapshot:
        """Return the machine at ``time`` by a schedule: a result of `simulate`, a schedule file or its table.

        A table has job_id, start_time, end_time and procs, besides submit_time and hosts where known; all else, such
        as limits, comes from the trace. A result brings its own switches. Jobs of the schedule that are not in the
        trace, or not complete, are left out and counted in ``notes``; jobs of the trace alone do not count.
        """
        check_trace(trace)
        if isinstance(schedule, SimResult):
            chosen = Switches(**(schedule.switches | switches)).resolved()
            table, frame = extract_jobs(trace, chosen), schedule.schedule()
            rows, known = _places(schedule.position, table.position)
            if len(table):
                known &= table.job_id[rows] == schedule.job_id  # else it is a result of another trace
        else:
            read = imported("tracekit.sim.analysis.check:read_schedule")
            frame = schedule if isinstance(schedule, pd.DataFrame) else read(schedule)
            missing = {"job_id", "start_time", "end_time", "procs"} - set(frame.columns)
            if missing:
                raise SchemaError(f"the schedule lacks {', '.join(sorted(missing))}")
            chosen = Switches(**switches).resolved()
            table = extract_jobs(trace, chosen)
            rows, known = _places(frame["job_id"].to_numpy(dtype=np.int64), table.job_id)
        frame, table = frame[known], table.take(rows[known])
        start, end, size = (
            writable(frame[name].to_numpy(dtype=np.float64)) for name in ("start_time", "end_time", "procs")
        )
        submit = writable(frame["submit_time"].to_numpy(dtype=np.float64)) if "submit_time" in frame else table.submit
        made = dataclasses.replace(table, submit=submit, run=end - start, procs=size, wait=start - submit)
        where = frame["hosts"].to_list() if "hosts" in frame else None
        found = _at(time, made, start, chosen, where)
        strangers = {"not in the trace": int((~known).sum())} if not known.all() else {}
        return dataclasses.replace(found, notes=dict(found.notes) | strangers)

    @classmethod
    def from_squeue(cls, text: str, procs: int, now: float | None = None) -> Snapshot:
        """Read squeue's output for a machine with ``procs`` processors; see `tracekit.service.snapshots`."""
        with reading("squeue", "the output of squeue"):
            found: Snapshot = imported("tracekit.service.snapshots:read_squeue")(text, procs, now)
        return found

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read what `to_json` wrote; `FormatError` names the field that is missing or wrong."""
        with reading("snapshot", "a snapshot"):
            found: Snapshot = imported("tracekit.service.snapshots:read_json")(text)
        return found

    def to_json(self) -> str:
        """Return the snapshot as one JSON object, column by column; `from_json` gives back every bit of it."""
        text: str = imported("tracekit.service.snapshots:write_json")(self)
        return text

    # ---- simulation --------------------------------------------------------------------------------------------------

    def setup(
        self,
        backfill: str = "easy",
        switches: Switches | None = None,
        *,
        machine: MachineModel | None = None,
        jobs: Trace | None = None,
        run_times: RunTimes = "estimated",
    ) -> Setup:
        """Return the simulation that continues from here: ``outcome(setup, policy)`` schedules the waiting jobs.

        When jobs really end is unknown at the moment. With ``run_times="estimated"`` all end at their estimates, a job
        without one after a day, and running jobs that are past theirs a second from now. With ``"actual"`` they end
        when they did in the trace or schedule that the snapshot comes from.

        ``jobs`` are later arrivals: of this trace, what is submitted after the clock, with its true run times.
        Switches about reading a trace (estimates, kill_at_limit) apply to these only. The running
        jobs are placed on the machine in the order of their starts; ``where`` they run is not used.
        """
        chosen = Switches() if switches is None else switches
        rule, asked = combined(backfill_for(backfill, chosen), chosen)
        asked = asked.resolved()
        later = None
        if jobs is not None:
            table = extract_jobs(jobs, dataclasses.replace(asked, resource=self.unit, procs=self.total))
            later = prepare(table.take(np.flatnonzero(table.submit > self.clock)), asked)
        ready, begun = self.prepared(run_times, later)
        ids = [*self.waiting.id, *self.running.id, *(() if later is None else later.table.job_id.tolist())]
        if set(map(type, ids)) <= {int}:
            table = dataclasses.replace(ready.table, job_id=np.array(ids, np.int64)[ready.table.position])
            ready = dataclasses.replace(ready, table=table)
        return Setup(ready, rule, asked, machine, begun, self.clock)

    def prepared(self, run_times: RunTimes = "estimated", later: Prepared | None = None) -> tuple[Prepared, Floats]:
        """Return the jobs as the engine takes them, by submit time, and the starts of the running ones (else NaN).

        ``table.position`` (and job_id) numbers the waiting jobs first, then the running ones, then the ``later`` ones.
        A running job counts as submitted when it started.
        """
        waiting, running = self.waiting, self.running
        begin = _begin(self)
        estimates = [_known(waiting.estimate), _known(running.estimate)]
        none = np.full(len(waiting), np.nan)
        parts = [[waiting.submit, begin], self._run_times(run_times, begin, estimates), estimates]
        parts += [[waiting.size, running.size], [none, begin]]
        labels: list[str | int | None] = [*(waiting.user or ())]
        rejected: dict[str, int] = {}
        queue = np.zeros(len(waiting) + len(running))
        if later is not None:
            rows, rejected = later.table, dict(later.rejected)
            for part, values in zip(
                parts, (rows.submit, later.run, later.estimate, rows.procs, np.full(len(rows), np.nan)), strict=True
            ):
                part.append(values)
            labels += [None] * (len(queue) - len(labels)) + _labels(rows, "user", [None] * len(rows))
            queue = np.concatenate([queue, rows.queue])
        submit, run, estimate, size, begun = (np.concatenate(part) for part in parts)
        order = np.argsort(submit, kind="stable")
        if too_large := int((size > self.total).sum()):
            order = order[size[order] <= self.total]
            rejected["larger than the machine"] = too_large + rejected.get("larger than the machine", 0)
        user, users = _codes(labels, len(queue))
        table = Table(
            position=order,
            job_id=order,
            submit=submit[order],
            run=run[order],
            limit=estimate[order],
            procs=size[order],
            wait=np.full(len(order), np.nan),
            user=user[order],
            queue=queue[order],
            users=users,
            resource=self.unit,
            total=self.total,
        )
        units, scale = whole_units(table.procs)
        begun = begun[order]
        held = running.size.sum() if scale == 1 else units[~np.isnan(begun)].sum() / scale
        if held > self.total:
            raise TracekitError(
                f"at {self.clock:g} s running jobs use {held:g} of {self.total:,} {self.unit}, so no "
                "simulation can start from there: give the right size of the machine"
            )
        return Prepared(table, table.run, table.limit, units, scale, rejected), begun

    def waiting_starts(self, setup: Setup, start: Floats) -> Floats:
        """Return when each waiting job starts, (waiting,), of the starts of a `setup` made here; NaN = never can."""
        found = np.full(len(self.waiting), np.nan)
        position = setup.ready.table.position
        ours = position < len(found)
        found[position[ours]] = start[ours]
        return found

    def _run_times(self, run_times: RunTimes, begin: Floats, estimate: list[Floats]) -> list[Floats]:
        """Return how long waiting and running jobs run."""
        if run_times not in get_args(RunTimes):
            raise UnknownName("run times", run_times, get_args(RunTimes))
        if run_times == "estimated":
            overdue = begin + estimate[1] <= self.clock
            return [estimate[0], np.where(overdue, self.clock + ANY_MOMENT - begin, estimate[1])]
        waiting, running = self.waiting.run, self.running.run
        if waiting is None or running is None or np.isnan(waiting).any() or np.isnan(running).any():
            raise UsageError("the snapshot has no actual run times; use run_times='estimated'")
        return [waiting, running]


def _known(estimate: Floats) -> Floats:
    return np.where(np.isnan(estimate), UNKNOWN_ESTIMATE, estimate)


def _begin(snapshot: Snapshot) -> Floats:
    """Return the times that the estimates of running jobs count from."""
    start = snapshot.running.start
    return np.where(np.isnan(start), snapshot.clock, start)


def _codes(labels: Labels, count: int) -> tuple[Ints, int]:
    """Return labels as numbers from 0 (−1 = unknown, as are all after the last one), and how many there are."""
    number: dict[str | int, int] = {}
    codes = np.full(count, -1, np.int64)
    codes[: len(labels)] = [-1 if label is None else number.setdefault(label, len(number)) for label in labels]
    return codes, len(number)


def _places(keys: Ints, known: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the position of each key among the known ones, and whether it is there."""
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
    order = np.argsort(known, kind="stable")
    rows = order[np.minimum(np.searchsorted(known[order], keys), len(known) - 1)]
    return rows, known[rows] == keys


def _labels(rows: Table, name: str, nothing: Any = None) -> Any:
    """Return a label column of the trace that rows come from; ``nothing`` where it has none."""
    if rows.trace is None or not rows.trace.has(name):
        return nothing
    names = [*rows.trace.jobs[name].cat.categories, None]
    return [names[code] for code in rows.trace.column(name)[rows.position].tolist()]


def _at(
    time: float, table: Table, start: Floats, switches: Switches, where: Sequence[str | None] | None = None
) -> Snapshot:
    """Return the moment ``time`` of jobs with known starts, (jobs,)."""
    if not math.isfinite(time):
        raise UsageError(f"the time of a snapshot must be a number of seconds, not {time}")
    ready = prepare(dataclasses.replace(table, position=np.arange(len(table))), switches, replay=True)
    place = ready.table.position
    begin = start[place]
    stands = standing(time, ready.table.submit, begin, begin + ready.run)
    running, waiting = np.flatnonzero(stands == RUNNING), np.flatnonzero(stands == WAITING)
    rows, others = table.take(place[waiting]), table.take(place[running])
    return Snapshot(
        float(time),
        table.total,
        RunningJobs(
            ready.table.job_id[running].tolist(),
            begin[running],
            ready.estimate[running],
            ready.table.procs[running],
            None if where is None else [where[i] for i in place[running]],
            ready.run[running],
            ready.table.submit[running],
            _labels(others, "user"),
            _labels(others, "project"),
        ),
        WaitingJobs(
            ready.table.job_id[waiting].tolist(),
            ready.table.submit[waiting],
            ready.estimate[waiting],
            ready.table.procs[waiting],
            rows.trace.column("req_mem")[rows.position]
            if rows.trace is not None and rows.trace.has("req_mem")
            else None,
            _labels(rows, "user"),
            _labels(rows, "group"),
            _labels(rows, "app"),
            ready.run[waiting],
            _labels(rows, "project"),
        ),
        table.resource,
        ready.rejected,
    )
