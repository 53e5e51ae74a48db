"""`simulate`: a trace, a policy and some switches in; a schedule and its metrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook
from tracekit.errors import TracekitError, UsageError
from tracekit.sim import metrics
from tracekit.sim.energy.states import HostStates
from tracekit.sim.hosts.rltune_demand import RLTuneStops, refuse
from tracekit.sim.jobs import Prepared, Table, extract_jobs, prepare
from tracekit.sim.policies.builtin import find, name_of
from tracekit.sim.policies.protocol import BuiltIn, Policy
from tracekit.sim.setup import Cap, PerSimulation, Scheduler, Setup, TakesNotes
from tracekit.sim.switches import Switches, backfill_for, combined, parse_cut
from tracekit.trace import Trace, check_trace

if TYPE_CHECKING:
    from tracekit.sim.energy.integrate import Energy
    from tracekit.sim.engine.machines import MachineModel

Floats = NDArray[np.float64]
Hook = Callable[[float, float, float], None]


@dataclass(frozen=True, eq=False)
class SimResult:
    """A schedule by submit time, (jobs,) each, and its metrics. Times in seconds, as in the trace."""

    policy: str
    backfill: str
    switches: dict[str, Any]
    position: NDArray[np.int64]  # row in the trace
    job_id: NDArray[np.int64]
    submit: Floats
    start: Floats
    run: Floats
    procs: Floats
    user: NDArray[np.int64]
    total: int  # the machine's size
    rejected: Mapping[str, int] = field(default_factory=dict)  # reason -> how many jobs could not be simulated
    notes: Mapping[str, Any] = field(default_factory=dict)  # counts from the preparation of jobs
    hosts: Sequence[str] | None = None  # where each job ran, when the capacity knows
    energy: Energy | None = None  # where a power model was given

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return (
            f"<SimResult: {len(self):,} jobs, {self.policy} + {self.backfill}: mean wait "
            f"{self.metrics['mean_wait_s']:,.0f} s, mean bounded slowdown {self.metrics['mean_bsld']:,.2f}>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: jobs, rejected jobs, and the metrics that comparisons look at."""
        facts = {"jobs": len(self), "rejected": sum(self.rejected.values())}
        facts |= {name: self.metrics[name] for name in metrics.COMPARED}
        why = [f"rejected: {count:,} jobs, {reason}" for reason, count in self.rejected.items()]
        return notebook.table(f"{self.policy} + {self.backfill}", ["metric", "value"], facts.items(), why)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the schedule by name (see `tracekit.sim.metrics`), computed when first used.

        The dictionary is open: add what you measure.
        """
        measured = metrics.all_of(
            self.submit,
            self.start,
            self.run,
            self.procs,
            self.user,
            self.total,
            bound=self.switches["bound"],
            to_last_start=self.switches["utilization_to"] == "start",
            warmup=parse_cut(self.switches["warmup"]),
            cooldown=parse_cut(self.switches["cooldown"]),
        )
        return measured | {"rejected_by_reason": dict(self.rejected), **self.notes}

    @property
    def end(self) -> Floats:
        """When each job ended."""
        return self.start + self.run

    @property
    def wait(self) -> Floats:
        """How long each job waited."""
        return self.start - self.submit

    def schedule(self) -> pd.DataFrame:
        """Return the schedule as a table, one row per job by submit time."""
        columns: dict[str, Any] = {
            "job_id": self.job_id,
            "submit_time": self.submit,
            "start_time": self.start,
            "end_time": self.end,
            "procs": self.procs if np.any(self.procs % 1) else self.procs.astype(np.int64),
            "wait_time": self.wait,
        }
        if self.hosts is not None:
            columns["hosts"] = list(self.hosts)
        if self.energy is not None:
            columns["energy_kwh"] = self.energy.job_kwh
        return pd.DataFrame(columns)

    def made_by(self, window: tuple[int, int] | None = None) -> str:
        """Return policy and switches as JSON: what `tracekit explain` needs to simulate again."""
        facts = {"policy": self.policy, "backfill": self.backfill, "window": window, "switches": self.switches}
        return json.dumps(facts, indent=2) + "\n"

    def summary(self) -> dict[str, Any]:
        """Return what the command line prints for one policy."""
        return {
            "policy": self.policy,
            "backfill": self.backfill,
            **({"allocate": self.notes["allocate"]} if "allocate" in self.notes else {}),
            "jobs": len(self),
            "rejected": sum(self.rejected.values()),
            **self.metrics,
            **({} if self.energy is None else {"energy": self.energy.to_dict()}),
        }


def simulate(
    trace: Trace,
    policy: str | Policy = "fcfs",
    backfill: str = "easy",
    *,
    machine: MachineModel | None = None,
    on_interval: Hook | None = None,
    **switches: Any,
) -> SimResult:
    """Schedule a trace's jobs on its machine.

    ``policy`` is a name of ``tracekit policies``, ``agent:DIR``, or your own: an object
    (`tracekit.sim.policies.protocol.Policy`) or ``module:Class``;
    ``backfill`` is none, easy, easy-sjf, conservative or rlscheduler; ``switches`` are the fields of
    `tracekit.sim.switches.Switches`. ``machine`` replaces the pool of processors: any
    `tracekit.sim.engine.machines.MachineModel`. ``on_interval(begin, end, used)`` is called, slowly, for every stretch
    between two events with the processors in use.

    >>> import tracekit
    >>> result = tracekit.simulate(tracekit.sample().head(500), "sjf", estimates="actual")
    >>> len(result), result.metrics["mean_bsld"] >= 1
    (500, True)
    """
    check_trace(trace)
    chosen = Switches(**switches)
    jobs = extract_jobs(trace, chosen.resolved())
    return run_table(jobs, policy, backfill, chosen, machine=machine, on_interval=on_interval)


def run_table(
    jobs: Table,
    policy: str | Policy,
    backfill: str,
    switches: Switches,
    *,
    machine: MachineModel | None = None,
    on_interval: Hook | None = None,
) -> SimResult:
    """Simulate jobs that have been extracted from their trace: used by windows and experiments."""
    found = find(policy)
    backfill = backfill_for(backfill, switches)
    rule, asked = combined(backfill, switches)
    switches = asked.resolved()
    replay = isinstance(found, BuiltIn) and found.name == "replay"
    ready, cap = under_cap(prepare(jobs, switches, replay=replay), switches)
    kept = ready.table
    if replay and switches.levers:
        raise UsageError(f"replay repeats the recorded starts; leave out {', '.join(switches.levers)}")
    if kept.demand is not None and kept.demand.as_coded:
        refuse(kept.demand, kept.job_id)
    if jobs.demand is not None:
        if replay:
            raise UsageError("replay does not say on which hosts jobs ran; leave out --cluster")
        machine = machine or hosts_of(jobs, switches)
    if replay:
        backfill, made = "none", Outcome(kept.submit + kept.wait, kept.submit, ready.run)
    else:
        made = scheduled(Setup(ready, rule, switches, machine, cap=cap), found, on_interval)
    if switches.compat == "rltune":
        kept, made = _without_dropped(kept, made, backfill)
    measured = {} if jobs.demand is None or made.hosts is None else _host_metrics(made, switches, machine)
    notes = {"jobs_without_limit": ready.without_limit} | ({"dropped": kept.dropped} if switches.compat else {})
    shown = switches.to_dict() | {"resource": kept.resource, "procs": kept.total, "compat": asked.compat}
    return SimResult(
        name_of(policy),
        backfill,
        shown,
        kept.position,
        kept.job_id,
        made.submit,
        made.start,
        made.run,
        kept.procs,
        kept.user,
        kept.total,
        ready.rejected,
        measured | notes | dict(made.notes),
        made.hosts,
        _energy(kept, made, switches),
    )


def under_cap(ready: Prepared, switches: Switches) -> tuple[Prepared, Cap | None]:
    """Return the jobs that can run under the power cap, and what it leaves to them; None without a cap."""
    if switches.power_cap is None or not len(ready.table):
        return ready, None
    from tracekit.sim.energy.cap import capped_jobs

    return capped_jobs(ready, switches)


def scheduled(setup: Setup, policy: BuiltIn | Policy, on_interval: Hook | None = None) -> Outcome:
    """Simulate; jobs may be held back before they join the queue."""
    ready, switches = setup.ready, setup.switches
    if not switches.max_extra_wait or not len(ready.table):
        return outcome(setup, policy, on_interval=on_interval)
    from tracekit.sim.energy.shifting import release_times

    release = release_times(ready, switches)
    order = np.argsort(release, kind="stable")
    joined = ready.take(order)
    joined = replace(joined, table=replace(joined.table, submit=release[order]))
    cap = None if setup.cap is None else setup.cap._replace(need=setup.cap.need[order])
    made = outcome(replace(setup, ready=joined, cap=cap), policy, on_interval=on_interval)
    held, back = release - ready.table.submit, np.argsort(order)
    counted = {"jobs": int((held > 0).sum()), "mean_s": float(held.mean()), "max_s": float(held.max())}
    places = None if made.hosts is None else made.hosts.take(back)  # type: ignore[attr-defined]
    return replace(
        made,
        start=made.start[back],
        submit=ready.table.submit,
        run=made.run[back],
        notes={"held_back": counted, **made.notes},
        hosts=places,
        release=release,
    )


def _energy(kept: Table, made: Outcome, switches: Switches) -> Energy | None:
    """Return the energy of a schedule, where a power model is given or a lever needs one."""
    if not switches.needs_power or not len(made.start):
        return None
    from tracekit.sim.energy.account import energy_of

    table = replace(kept, submit=made.submit)
    end = made.start + made.run
    return energy_of(table, switches, made.start, end, made.hosts, made.states, switches.frequency)


def _without_dropped(kept: Table, made: Outcome, backfill: str) -> tuple[Table, Outcome]:
    """Return jobs and outcome without the jobs that RLTune drops because they never fit, and count these."""
    rows = np.flatnonzero(np.isfinite(made.start))
    if len(rows) == len(kept):
        return replace(kept, dropped=0), made
    if backfill != "none":
        job = kept.job_id[np.isinf(made.start)][0]
        raise RLTuneStops(
            f"job {job} never fits, and RLTune's backfilling stops with an AssertionError at such a job; "
            "use --backfill none"
        )
    if not len(rows):
        raise RLTuneStops("no job fits the cluster: all are dropped")
    places = made.hosts.take(rows) if made.hosts is not None else None  # type: ignore[attr-defined]
    outcome = replace(made, start=made.start[rows], submit=made.submit[rows], run=made.run[rows], hosts=places)
    return replace(kept.take(rows), dropped=len(kept) - len(rows)), outcome


def hosts_of(jobs: Table, switches: Switches) -> MachineModel:
    """Return the machine model of a cluster; numba is slow to import, so only where there is one."""
    from tracekit.sim.hosts.model import HostModel
    from tracekit.sim.hosts.sleep import sleep_times

    assert jobs.demand is not None
    sleep = sleep_times(jobs.demand.cluster, switches)
    return HostModel(jobs.demand, switches.allocate, seed=switches.seed, outages=switches.outages, sleep=sleep)


def _host_metrics(made: Outcome, switches: Switches, machine: MachineModel | None) -> dict[str, Any]:
    from tracekit.sim.hosts.metrics import measure
    from tracekit.sim.hosts.placements import Placements

    named: dict[str, Any] = {"allocate": getattr(switches.allocate, "name", switches.allocate)}
    if not isinstance(made.hosts, Placements):
        return named
    tally = getattr(getattr(machine, "allocator", None), "tally", None)
    if tally is not None:
        named["milp"] = dict(tally)
    return named | measure(made.hosts, made.submit, made.start, made.run)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a simulation decided, (jobs,) each: all but the starts differ from the input only where things change."""

    start: Floats
    submit: Floats  # of followers: think_time after their predecessor ended
    run: Floats  # of jobs that an outage killed: until then
    notes: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[str] | None = None  # where each job ran, when the machine model knows
    states: HostStates | None = None  # when hosts slept
    release: Floats | None = None  # when held-back jobs joined the queue; None: at their submit


def outcome(setup: Setup, policy: BuiltIn | Policy, *, on_interval: Hook | None = None) -> Outcome:
    """Simulate: choose the loop that a policy needs, and run it."""
    # numba is slow to import: only when something is really simulated
    from tracekit.sim.engine import session
    from tracekit.sim.policies import formulas

    ready, switches = setup.ready, setup.switches
    if not len(ready.table):
        return Outcome(np.empty(0), ready.table.submit, ready.run)
    if (switches.dynamic or switches.sleep_after is not None) and setup.begun is not None:
        raise TracekitError(
            "dependencies, outages, predictions and sleep need a simulation that starts on an empty machine"
        )
    if isinstance(policy, Scheduler):  # an agent: asked job by job, in the environment that it was trained in
        if switches.dynamic:
            raise UsageError(f"{policy.name} was trained without dependencies, outages and predictions; leave them out")
        if on_interval is not None:
            raise UsageError(f"on_interval is not supported for {policy.name}; use its schedule")
        placed = policy.schedule(setup)
        return Outcome(placed.start, ready.table.submit, ready.run, hosts=placed.hosts, states=placed.states)
    run = session.Session(setup)
    if isinstance(policy, PerSimulation):
        policy = policy.started(setup)
    if isinstance(policy, BuiltIn):
        code, given = formulas.values_for(policy.name, ready, switches)
        if on_interval is not None:
            run.step_through(session.formula_values(run, code, given), on_interval)
        elif code == formulas.GIVEN and run.can_rank(given):
            run.ranked(given)
        else:
            run.run(code, given)
    else:
        run.step_through(session.policy_values(run, policy), on_interval)
    jobs = run.jobs
    if np.isnan(jobs.start).any():
        raise TracekitError("the simulation ended with jobs still waiting; please report it with the trace")
    notes = run.notes | (dict(policy.notes(jobs.start - jobs.submit)) if isinstance(policy, TakesNotes) else {})
    hosts = run.machine.hosts(run.room)
    states = None
    if switches.sleep_after is not None:
        from tracekit.sim.energy.sleeping import states_of

        states = states_of(run, hosts)
    return Outcome(jobs.start, jobs.submit, jobs.run, notes, hosts, states)
