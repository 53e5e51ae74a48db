"""`simulate`: a trace, a policy and some switches in; a schedule and its metrics out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim import formulas, metrics
from tracekit.sim.jobs import Prepared, Table, prepare, table
from tracekit.sim.policies import BuiltIn, Policy, find
from tracekit.sim.switches import MULTIFACTOR_DEFAULTS, Switches, backfill_for, combined, estimate_of, parse_cut
from tracekit.trace import Trace, check_trace

Floats = NDArray[np.float64]
Hook = Callable[[float, float, float], None]


@dataclass(frozen=True, eq=False)
class SimResult:
    """A schedule by submit time, (jobs,) each, and what it is worth. Times in seconds, as in the trace."""

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
    rejected: Mapping[str, int] = field(default_factory=dict)  # why -> how many jobs could not be simulated
    notes: Mapping[str, Any] = field(default_factory=dict)  # counts that only the preparation knows
    hosts: list[str] | None = None  # where each job ran, when the capacity knows

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return (
            f"<SimResult: {len(self):,} jobs, {self.policy} + {self.backfill}: mean wait "
            f"{self.metrics['mean_wait_s']:,.0f} s, mean bounded slowdown {self.metrics['mean_bsld']:,.2f}>"
        )

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What the schedule is worth, by name (see `tracekit.sim.metrics`); worked out when first asked for.

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
        return pd.DataFrame(columns if self.hosts is None else columns | {"hosts": self.hosts})

    def made_by(self, window: tuple[int, int] | None = None) -> str:
        """Return, as JSON, how the schedule came about: what `tracekit explain` needs to make it again."""
        facts = {"policy": self.policy, "backfill": self.backfill, "window": window, "switches": self.switches}
        return json.dumps(facts, indent=2) + "\n"

    def summary(self) -> dict[str, Any]:
        """Return what the command line prints for one policy."""
        return {
            "policy": self.policy,
            "backfill": self.backfill,
            "jobs": len(self),
            "rejected": sum(self.rejected.values()),
            **self.metrics,
        }


def simulate(
    trace: Trace,
    policy: str | Policy = "fcfs",
    backfill: str = "easy",
    *,
    on_interval: Hook | None = None,
    **switches: Any,
) -> SimResult:
    """Schedule a trace's jobs on its machine.

    ``policy`` is a name of ``tracekit policies`` or an object of your own (`tracekit.sim.policies.Policy`);
    ``backfill`` is none, easy, easy-sjf, conservative or rlscheduler; ``switches`` are the fields of
    `tracekit.sim.switches.Switches`. ``on_interval(begin, end, used)`` is called, slowly, for every stretch between
    two events with the processors in use.

    >>> import tracekit
    >>> result = tracekit.simulate(tracekit.sample().head(500), "sjf", estimates="actual")
    >>> len(result), result.metrics["mean_bsld"] >= 1
    (500, True)
    """
    check_trace(trace)
    chosen = Switches(**switches)
    return run_table(table(trace, chosen.resolved()), policy, backfill, chosen, on_interval=on_interval)


def run_table(
    jobs: Table, policy: str | Policy, backfill: str, switches: Switches, *, on_interval: Hook | None = None
) -> SimResult:
    """Simulate jobs that have been read from their trace already: what windows and experiments repeat."""
    found = find(policy)
    backfill = backfill_for(backfill, switches)
    rule, asked = combined(backfill, switches)
    switches = asked.resolved()
    replay = isinstance(found, BuiltIn) and found.name == "replay"
    ready = prepare(jobs, switches, replay=replay)
    kept = ready.table
    if replay:
        backfill, made = "none", Outcome(kept.submit + kept.wait, kept.submit, ready.run)
    else:
        made = outcome(ready, found, rule, switches, on_interval=on_interval)
    notes = {"jobs_without_limit": ready.without_limit} | ({"dropped": kept.dropped} if switches.compat else {})
    shown = switches.to_dict() | {"resource": kept.resource, "procs": kept.total, "compat": asked.compat}
    return SimResult(
        found.name,
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
        notes | dict(made.notes),
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a simulation decided, (jobs,) each: all but the starts differ from the input only where things change."""

    start: Floats
    submit: Floats  # of followers: think_time after their predecessor ended
    run: Floats  # of jobs that an outage killed: until then
    notes: Mapping[str, Any] = field(default_factory=dict)


def starts(
    ready: Prepared,
    policy: BuiltIn | Policy,
    backfill: str,
    switches: Switches,
    *,
    on_interval: Hook | None = None,
    begun: Floats | None = None,
    clock: float = -np.inf,
) -> Floats:
    """Return the start time of every prepared job, (jobs,).

    ``begun`` (jobs,) holds the starts of jobs that have started before ``clock``, NaN for all others.
    """
    return outcome(ready, policy, backfill, switches, on_interval=on_interval, begun=begun, clock=clock).start


def outcome(
    ready: Prepared,
    policy: BuiltIn | Policy,
    backfill: str,
    switches: Switches,
    *,
    on_interval: Hook | None = None,
    begun: Floats | None = None,
    clock: float = -np.inf,
) -> Outcome:
    """Simulate the prepared jobs, from an empty machine or from where things stand at ``clock``."""
    from tracekit.sim import session  # numba is slow to import: only when something is really simulated

    submit = ready.table.submit
    if not len(ready.table):
        return Outcome(np.empty(0), submit, ready.run)
    if switches.changing:
        if begun is not None:
            raise TracekitError("with dependencies, outages or predictions a simulation begins on an empty machine")
        return _changing(ready, policy, backfill, switches, on_interval)
    if hasattr(policy, "schedule"):  # an agent: asked job by job, by the environment that it was trained in
        if on_interval is not None:
            raise UsageError(f"{policy.name} cannot be watched interval by interval; take its schedule")
        decided: Floats = policy.schedule(ready, backfill, switches, begun, clock)
        return Outcome(decided, submit, ready.run)
    run = session.Session(ready, backfill, switches, start=begun, clock=clock)
    if isinstance(policy, BuiltIn):
        code, given = values_for(policy.name, ready, switches)
        if on_interval is not None:
            run.step_through(session.formula_values(run, code, given), on_interval)
        elif code == formulas.GIVEN and backfill != "conservative" and not run.predicting:
            run.ranked(given)
        else:
            run.valued(code, given)
    else:
        run.step_through(session.policy_values(run, policy), on_interval)
    _complain_of_waiting(run.jobs.start)
    return Outcome(run.jobs.start, submit, ready.run)


def _changing(
    ready: Prepared, policy: BuiltIn | Policy, backfill: str, switches: Switches, on_interval: Hook | None
) -> Outcome:
    """Simulate with dependencies, outages or predictions: submit times are not known beforehand, so no order is."""
    from tracekit.sim import session
    from tracekit.sim.extras import ChangingSession

    if hasattr(policy, "schedule"):
        raise UsageError(f"{policy.name} was trained without dependencies, outages and predictions; leave these out")

    run = ChangingSession(ready, backfill, switches)
    if isinstance(policy, BuiltIn):
        code, given = values_for(policy.name, ready, switches)
        if policy.name != "random":  # all others can be worked out from what is known at a pass
            code, given = formulas.CODES[policy.name], None
        if on_interval is not None:
            run.step_through(session.formula_values(run, code, given), on_interval)
        else:
            run.run(code, given)
    else:
        run.step_through(session.policy_values(run, policy), on_interval)
    _complain_of_waiting(run.jobs.start)
    return Outcome(run.jobs.start, run.jobs.submit, run.jobs.run, run.notes)


def _complain_of_waiting(start: Floats) -> None:
    if np.isnan(start).any():
        raise TracekitError("the simulation ended with jobs still waiting; please report it with the trace")


def values_for(name: str, ready: Prepared, switches: Switches) -> tuple[int, Floats | None]:
    """Return a formula's number where values change, else `formulas.GIVEN` and one value per job (None: by submit)."""
    submit, jobs = ready.table.submit, len(ready.table)
    if name == "random":
        return formulas.GIVEN, np.random.default_rng(switches.seed).permutation(jobs).astype(np.float64)
    code = formulas.CODES[name]
    theirs = switches.compat == "rlscheduler" and name in ("wfp3", "unicep")
    predicting = estimate_of(switches.estimates)[0] == "last-two"
    if name == "fcfs":
        return formulas.GIVEN, None
    if (code >= formulas.FIRST_DYNAMIC and not theirs) or (predicting and name not in ("lcfs", "smallest", "largest")):
        return code, None
    wait = -1.0 - submit if theirs else np.zeros(jobs)  # theirs: start is −1 while a job waits
    values = np.empty(jobs)
    formulas.values_at_submit(code, submit, wait, ready.estimate, ready.table.procs, values)
    return formulas.GIVEN, values


def multifactor_options(switches: Switches) -> list[float]:
    """Return weights and times in the order of `books.OPTIONS`."""
    from tracekit.sim.books import OPTIONS

    chosen = MULTIFACTOR_DEFAULTS | dict(switches.options)
    return [float(chosen[name]) for name in OPTIONS]
