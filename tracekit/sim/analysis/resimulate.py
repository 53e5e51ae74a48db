"""Schedules read from files, and simulated again with one estimate changed where their switches are known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import FormatError, TracekitError, loads
from tracekit.machine import Machine
from tracekit.sim.analysis.explain import Explanation, Recorded, explain
from tracekit.sim.analysis.explain_hosts import room_of
from tracekit.sim.analysis.explain_levers import LeverFacts
from tracekit.sim.hosts.demand import unit_of
from tracekit.sim.switches import Switches
from tracekit.stats import has_calendar
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.simulate import Outcome

Floats = NDArray[np.float64]


def recorded_from(
    schedule: pd.DataFrame, trace: Trace, total: float | None, made: Provenance | None, cluster: Machine | None = None
) -> Recorded:
    """Return a schedule file's contents; submit times missing there come from the trace."""
    total = total or (None if cluster is None else cluster.size(unit_of(trace, cluster)))
    size = total or (made.switches.procs if made is not None else None) or trace.machine.size()
    if size is None:
        raise TracekitError("the trace does not state the size of its machine; give --procs N")
    job_id = schedule["job_id"].to_numpy().astype(np.int64)
    if "submit_time" in schedule.columns:
        submit = schedule["submit_time"].to_numpy(dtype=np.float64)
    else:
        known = pd.Series(trace.column("submit_time"), index=trace.column("job_id"))
        submit = known[~known.index.duplicated()].reindex(job_id).to_numpy(dtype=np.float64)
    start, end, procs = (schedule[name].to_numpy(dtype=np.float64) for name in ("start_time", "end_time", "procs"))
    whole = np.isfinite(submit) & np.isfinite(start) & np.isfinite(end) & np.isfinite(procs)
    outages = made.switches.outages if made is not None else ()
    announced = made is not None and made.switches.outages_announced
    room = None
    if cluster is not None:
        source = made.switches.procs_from if made is not None else "requested"
        room = room_of(schedule[whole].reset_index(drop=True), trace, cluster, source)
    return Recorded(
        job_id[whole], submit[whole], start[whole], end[whole], procs[whole], float(size), outages, announced, room
    )


@dataclass(frozen=True)
class Provenance:
    """The policy and switches that a schedule was made with."""

    policy: str
    backfill: str
    switches: Switches
    window: tuple[int, int] | None


@loads("a schedule")
def provenance_of(schedule: str | Path) -> Provenance | None:
    """Read ``switches.json`` beside a schedule; None when there is none."""
    path = Path(schedule).parent / "switches.json"
    if not path.is_file():
        return None
    try:
        return provenance_from(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(path, f"does not state the policy and switches of the schedule: {error}") from None


def provenance_from(facts: Mapping[str, Any]) -> Provenance:
    """Return what `SimResult.made_by` wrote."""
    window = facts["window"]
    switches = facts["switches"] | {"outages": tuple(tuple(outage) for outage in facts["switches"]["outages"])}
    return Provenance(
        facts["policy"], facts["backfill"], Switches.from_dict(switches), None if window is None else tuple(window)
    )


class Resimulation:
    """A schedule simulated again with one job's estimate changed: ``Resimulation(...)(estimate)`` is its start."""

    def __init__(self, made: Provenance, trace: Trace, job: int) -> None:
        from tracekit.sim.jobs import extract_jobs, prepare
        from tracekit.sim.policies.builtin import find
        from tracekit.sim.simulate import hosts_of, under_cap
        from tracekit.sim.switches import backfill_for, combined

        whole = extract_jobs(trace, made.switches.resolved())
        jobs = whole if made.window is None else whole.window(*made.window)
        self.rule, switches = combined(backfill_for(made.backfill, made.switches), made.switches)
        self.switches, self.policy = switches.resolved(), find(made.policy)
        self.ready, self.cap = under_cap(prepare(jobs, self.switches), self.switches)
        self.machine = None if jobs.demand is None else hosts_of(jobs, self.switches)
        rows = np.flatnonzero(self.ready.table.job_id == job)
        if len(rows) != 1:
            raise TracekitError(
                f"job {job} cannot be simulated again: it appears {len(rows)} times among the trace's jobs"
            )
        self.row = int(rows[0])

    def _made(self, estimate: float | None) -> Outcome:
        from tracekit.sim.setup import Setup
        from tracekit.sim.simulate import scheduled

        estimates = self.ready.estimate.copy()
        if estimate is not None:
            estimates[self.row] = estimate
        changed = dataclasses.replace(self.ready, estimate=estimates)
        return scheduled(Setup(changed, self.rule, self.switches, self.machine, cap=self.cap), self.policy)

    def __call__(self, estimate: float) -> float:
        """Return when the job starts with another estimate."""
        return float(self._made(estimate).start[self.row])

    @property
    def estimate(self) -> float:
        """The estimate that the scheduler used for the job."""
        return float(self.ready.estimate[self.row])

    def agrees(self, recorded: Recorded) -> bool:
        """Return whether simulating again gives the recorded starts."""
        ours = pd.Series(self.as_it_was.start, index=self.ready.table.job_id)
        if ours.index.duplicated().any() or len(ours) != len(recorded.job_id):
            return False
        return bool(np.array_equal(ours.reindex(recorded.job_id).to_numpy(), recorded.start))

    @cached_property
    def as_it_was(self) -> Outcome:
        """The simulation with no estimate changed."""
        return self._made(None)

    def levers(self, job_id: NDArray[np.int64]) -> LeverFacts | None:
        """Return what levers did to some jobs; None where none was used that makes jobs wait."""
        switches, made, table = self.switches, self.as_it_was, self.ready.table
        if not {"--sleep-after", "--power-cap", "--max-extra-wait"} & set(switches.levers):
            return None
        granted = getattr(made.hosts, "granted", None)
        facts = {
            "release": table.submit if made.release is None else made.release,
            "granted": made.start if granted is None else granted[: len(table)],
            "watts": np.zeros(len(table)) if self.cap is None else self.cap.need / 1000,
        }
        by_id = pd.DataFrame(facts, index=table.job_id).reindex(job_id)
        headroom = np.inf if self.cap is None else self.cap.headroom / 1000
        release, granted, watts = (by_id[name].to_numpy() for name in facts)
        return LeverFacts(release, granted, watts, headroom)


def _with_predecessor(found: Explanation, recorded: Recorded, trace: Trace, row: int) -> Explanation:
    """Return the job that a dependent job was submitted after, where its submit time came about that way."""
    before, think = trace.column("prev_job")[row], trace.column("think_time")[row]
    ended = recorded.end[recorded.job_id == before] if np.isfinite(before) else np.zeros(0)
    think = float(think) if think > 0 else 0.0
    if len(ended) != 1 or ended[0] + think != found.submit:
        return found
    return dataclasses.replace(found, after=int(before), think=think)


def explain_file(
    schedule: str | Path, trace: Trace, job: int, *, procs: int | None = None, cluster: str | Machine | None = None
) -> Explanation:
    """Explain one job of a schedule file, ours or any other tool's; on the hosts of a cluster where there is one."""
    from tracekit.sim.analysis.check import read_schedule

    made = provenance_of(schedule)
    if made is not None and cluster is not None:
        made = dataclasses.replace(made, switches=dataclasses.replace(made.switches, cluster=cluster))
    cluster = cluster if made is None else made.switches.cluster
    hosts = None if cluster is None else cluster_of(cluster)
    recorded = recorded_from(read_schedule(schedule), trace, procs, made, hosts)
    rows = np.flatnonzero(trace.column("job_id") == job)
    size = float(trace.sizes()[rows[0]]) if len(rows) else float("nan")
    if size > recorded.total and job not in recorded.job_id:
        raise TracekitError(
            f"job {job} requests {size:g} of {recorded.total:g} processors, so it can never start; it was rejected"
        )
    row = recorded.row(job)
    if not len(rows):
        raise TracekitError(f"job {job} is not in the trace")
    limit, run = float(trace.column("req_time")[rows[0]]), float(recorded.end[row] - recorded.start[row])
    again = None
    if made is not None and made.policy != "replay":
        remade = Resimulation(made, trace, job)
        if remade.agrees(recorded):
            again, limit = remade, remade.estimate
            recorded = dataclasses.replace(recorded, levers=remade.levers(recorded.job_id))
    found = explain(recorded, job, limit if limit > 0 else float("nan"), run, again=again)
    if made is not None and made.switches.dependencies:
        found = _with_predecessor(found, recorded, trace, int(rows[0]))
    if not has_calendar(trace):
        return found
    return dataclasses.replace(found, epoch=trace.machine.epoch, timezone=trace.machine.timezone)
