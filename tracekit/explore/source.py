"""What is explored: a trace as recorded, or a schedule of its jobs, as one kind of thing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import FormatError, TracekitError
from tracekit.machine import Machine
from tracekit.sim.analysis.explain import Recorded
from tracekit.stats import steps
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.analysis.resimulate import Provenance

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Source:
    """Jobs to explore, in submit order. A schedule is a trace whose waits and run times are those of the schedule."""

    name: str
    kind: str  # "trace" or "schedule"
    trace: Trace
    hosts: tuple[str, ...] | None = None  # (jobs,) where each ran, ``host:cores/gpus+…``
    made: Provenance | None = None  # how a schedule of ours was made
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of_trace(cls, name: str, trace: Trace) -> Source:
        """Take the jobs of a trace that have a submit time."""
        order = trace.order()
        order = order[np.isfinite(trace.column("submit_time")[order])]
        if not len(order):
            raise TracekitError(f"{name}: no job has a submit time, so there is nothing to explore")
        lost = len(trace) - len(order)
        notes = (f"{lost:,} jobs without a submit time are left out",) if lost else ()
        return cls(name, "trace", trace.take(order), notes=notes)

    @classmethod
    def of_schedule(
        cls, name: str, schedule: pd.DataFrame, trace: Trace | None = None, made: Provenance | None = None
    ) -> Source:
        """Take the jobs of a schedule; users, limits, status and calendar come from ``trace``, where it is known."""
        notes: tuple[str, ...] = ()
        columns = {
            "job_id": schedule["job_id"].to_numpy().astype(np.int64),
            "run_time": (schedule["end_time"] - schedule["start_time"]).to_numpy(np.float64),
        }
        unit = "procs" if made is None or made.switches.resource is None else made.switches.resource
        base = None
        if trace is not None:
            base = _rows_of(name, trace, columns["job_id"])
            machine, unit = trace.machine, trace.machine.unit
            jobs = trace.jobs.iloc[base].reset_index(drop=True)
        else:
            machine, jobs = Machine(unit=unit), pd.DataFrame(index=range(len(schedule)))
            notes = ("users, status, limits and dates are in the trace of this schedule: add --trace FILE",)
        if "submit_time" in schedule.columns:
            columns["submit_time"] = schedule["submit_time"].to_numpy(np.float64)
        elif trace is not None:
            columns["submit_time"] = jobs["submit_time"].to_numpy(np.float64)
        else:
            raise FormatError(name, "has no column submit_time", hint="add --trace FILE, the trace that was scheduled")
        columns["wait_time"] = schedule["start_time"].to_numpy(np.float64) - columns["submit_time"]
        sizes = {f"req_{unit}": schedule["procs"].to_numpy(np.float64)}
        jobs = jobs.assign(**columns, **sizes)
        if made is not None and made.switches.procs:
            machine = machine.replace(**{unit: int(made.switches.procs)})
        held = Trace(jobs, machine)
        order = held.order()
        order = order[np.isfinite(held.column("submit_time")[order])]
        if not len(order):
            raise TracekitError(f"{name}: no job has a submit time, so there is nothing to explore")
        hosts = None
        if "hosts" in schedule.columns:
            hosts = tuple(schedule["hosts"].fillna("").astype(str).to_numpy()[order].tolist())
        return cls(name, "schedule", held.take(order), hosts, made, notes)

    def __len__(self) -> int:
        return len(self.trace)

    @cached_property
    def submit(self) -> Floats:
        """Submit times in seconds, as in the trace, rising."""
        return self.trace.column("submit_time")

    @cached_property
    def wait(self) -> Floats:
        """Waits; NaN where unknown or negative."""
        wait = self.trace.column("wait_time")
        return np.where(np.isfinite(wait) & (wait >= 0), wait, np.nan)

    @cached_property
    def run(self) -> Floats:
        """Run times; NaN where unknown or negative."""
        run = self.trace.column("run_time")
        return np.where(np.isfinite(run) & (run >= 0), run, np.nan)

    @cached_property
    def size(self) -> Floats:
        """Units of the machine that each job holds; NaN where unknown or none."""
        size = self.trace.sizes()
        return np.where(np.isfinite(size) & (size > 0), size, np.nan)

    @cached_property
    def waits_known(self) -> bool:
        """Whether at least half of the jobs have a wait; without, jobs are drawn as if they had started at once."""
        return bool(np.isfinite(self.wait).mean() >= 0.5)

    @cached_property
    def start(self) -> Floats:
        """Starts; NaN for jobs without a run time or size, or without a wait where others have one."""
        begin = self.submit + (self.wait if self.waits_known else 0.0)
        return np.where(np.isfinite(self.run) & np.isfinite(self.size), begin, np.nan)

    @cached_property
    def end(self) -> Floats:
        """Ends; NaN as `start`."""
        return self.start + self.run

    @cached_property
    def total(self) -> float:
        """Size of the machine, or the largest use where it is unknown."""
        known = self.trace.machine.size()
        if known is not None:
            return float(known)
        ran = np.isfinite(self.start)
        if not ran.any():
            return 1.0
        return float(max(steps(self.start[ran], self.end[ran], self.size[ran])[1].max(), 1.0))

    @property
    def size_known(self) -> bool:
        """Whether the size of the machine is known."""
        return self.trace.machine.size() is not None

    @cached_property
    def cluster(self) -> Machine | None:
        """The hosts of a schedule of ours on a cluster."""
        cluster = None if self.made is None or self.hosts is None else self.made.switches.cluster
        return None if cluster is None else cluster_of(cluster)

    def recorded(self) -> tuple[Recorded, NDArray[np.intp]] | None:
        """Return the schedule as `explain` reads it, and the jobs of its rows; None where waits are unknown."""
        rows = np.flatnonzero(np.isfinite(self.start))
        if not self.waits_known or not len(rows):
            return None
        outages = self.made.switches.outages if self.made is not None else ()
        announced = self.made is not None and self.made.switches.outages_announced
        room = None
        if self.cluster is not None and self.hosts is not None and self.made is not None:
            from tracekit.sim.analysis.explain_hosts import room_of

            held = pd.DataFrame({"job_id": self.trace.column("job_id")[rows], "hosts": [self.hosts[i] for i in rows]})
            room = room_of(held, self.trace, self.cluster, self.made.switches.procs_from)
        found = Recorded(
            self.trace.column("job_id")[rows].astype(np.int64), self.submit[rows], self.start[rows], self.end[rows],
            self.size[rows], self.total, outages, announced, room,
        )  # fmt: skip
        return found, rows


def _rows_of(name: str, trace: Trace, job_id: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the row of the trace of each job of a schedule; of ids that occur twice, the first."""
    ids = trace.column("job_id")
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], job_id), max(len(ids) - 1, 0))
    rows = order[place] if len(ids) else np.zeros(0, np.intp)
    if not len(rows) or (ids[rows] != job_id).any():
        strange = job_id[ids[rows] != job_id][0] if len(rows) else job_id[0] if len(job_id) else "any"
        raise TracekitError(
            f"{name}: job {strange} of the schedule is not in the trace; is it the trace of this schedule?"
        )
    return rows
