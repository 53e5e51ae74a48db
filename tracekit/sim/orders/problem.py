"""A queue at one moment: jobs that all wait now, and the jobs that run. The task is to find the best order.

What a job really needs (``run``) and what a scheduler believes (``estimate``) are kept apart: a search sees one of
them, by name, and the value of an order is always worked out with the actual run times.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.jobs import Prepared, Table, extract_jobs, prepare
from tracekit.sim.orders.cases import Held, Waiting, case_of
from tracekit.sim.orders.evaluate import Case, begin, cost_of, room_for
from tracekit.sim.orders.on_hosts import HostCase, QueueHosts, hosts_now
from tracekit.sim.policies.formulas import CODES, formula
from tracekit.sim.snapshot import RUNNING, Snapshot, standing
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.objectives import Schedule, objective
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Estimates = Literal["actual", "requested"]
Ages = Literal["real", "ilos"]

#: ILOS draws the ages of the jobs from so many seconds, all different.
ILOS_AGES = 1000
#: Bound of the bounded slowdown in ILOS, in seconds.
ILOS_BOUND = 300.0
#: Policies that can order a queue: all formulas but the one that looks at users' shares.
HEURISTICS = tuple(name for name in CODES if name != "multifactor")
#: Those that the best first order is chosen from.
CANDIDATES = ("fcfs", "sjf", "smallest", "saf", "srf", "sexp", "wfp3", "unicep", "f1", "f2", "f3", "f4")
#: ILOS' own heuristics under our names.
ILOS_HEURISTICS = ("fcfs", "sjf", "saf", "f1", "wfp3", "unicep")


@dataclass(frozen=True, eq=False)
class QueueProblem:
    """Jobs that wait at one moment, (jobs,) each, in the order of the trace; times in seconds."""

    job_id: Ints
    age: Floats  # how long each job has waited by now
    run: Floats  # actual run time
    estimate: Floats  # what the scheduler believes
    size: Ints  # units
    submit: Floats  # as in the trace, for formulas that use it
    user: Ints  # from 0
    total: int  # units of the machine
    scale: int = 1  # units in one processor
    ends: Floats = field(default_factory=lambda: np.empty(0))  # (running,) when running jobs end, from now, ascending …
    expected_ends: Floats = field(default_factory=lambda: np.empty(0))  # … by estimates …
    held: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # … and the units they hold
    objective: str = "wait"
    bound: float = 10.0  # seconds, of the bounded slowdown
    backfill: Literal["none", "easy"] = "none"
    hosts: QueueHosts | None = None  # of a cluster, with the running jobs on them; None: processors are counted
    compat: str | None = None  # "ilos": its formulas and ties
    first_age: float = 0.0  # ILOS' formulas count ages from another origin: this is added
    rejected: Mapping[str, int] = field(default_factory=dict)  # jobs left out, by reason

    def __post_init__(self) -> None:
        objective(self.objective)
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise UsageError(f"the bound of the bounded slowdown must be above 0 seconds, not {self.bound:g}")
        if not len(self.size):
            raise TracekitError("the queue is empty: no job of the window can run on this machine")

    def __len__(self) -> int:
        return len(self.size)

    # ---- sources -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        start: int,
        count: int,
        *,
        ages: Ages = "real",
        busy: bool = False,
        switches: Switches | None = None,
        **settings: object,
    ) -> QueueProblem:
        """Return ``count`` consecutive jobs from position ``start`` as a queue.

        With real ages the moment is that of the last submit; ``busy`` adds the other jobs that ran then, by the waits
        that the trace recorded, else the machine is empty. ``ages="ilos"`` reads the jobs as ILOS does (processors =
        the larger of requested and allocated, run time below 0 → 10, jobs of 0 s dropped, by job id) before it cuts
        the window, and draws its ages: Python's ``random.sample(range(1000), count)``, sorted, seeded by ``start``;
        the first job of the window is the youngest.
        """
        table, asked = jobs_of(trace, ages, switches)
        return cls.from_table(table, start, count, asked, ages=ages, busy=busy, **settings)

    @classmethod
    def from_table(
        cls,
        table: Table,
        start: int,
        count: int,
        asked: Switches,
        *,
        ages: Ages = "real",
        busy: bool = False,
        **settings: object,
    ) -> QueueProblem:
        """Return ``count`` consecutive jobs of what `jobs_of` read; for many windows of one trace."""
        if ages == "ilos":
            if busy:
                raise UsageError("--busy needs --ages real: with the ages of ILOS no moment of the trace is meant")
            drawn = _ilos_ages(start, count)
            return cls._of(table.window(start, count), drawn - drawn[0], asked, first_age=float(drawn[0]), **settings)
        window = table.window(start, count)
        now = float(np.nanmax(window.submit)) if np.isfinite(window.submit).any() else np.nan
        queue = cls._of(window, now - window.submit, asked, **settings)
        if not busy:
            return queue
        others = table.take(np.r_[0:start, start + count : len(table)])
        return queue._beside(others, now)

    def _beside(self, others: Table, now: float) -> QueueProblem:
        """Return the same queue while those of the other jobs run that ran at ``now`` by the trace's record.

        A record of hosts is not used: the allocator places the running jobs in the order of their starts.
        """
        begun = others.submit + others.wait
        ran = (standing(now, others.submit, begun, begun + others.run) == RUNNING) & (others.procs > 0)
        rows = np.flatnonzero(ran & (others.demand is None or others.demand.reason == 0))
        order = rows[np.argsort((begun + others.run)[rows], kind="stable")]
        running, begun = others.take(order), begun[order]
        limit = np.where(running.limit > 0, running.limit, running.run)
        ends, expected = begun + running.run - now, np.maximum(begun + limit - now, 0.0)
        held = np.ceil(np.round(running.procs * self.scale, 6)).astype(np.int64)
        if held.sum() > self.total:
            raise TracekitError(
                f"at {now:,.0f} s running jobs hold {held.sum() / self.scale:,g} of {self.total // self.scale:,} "
                "processors by the record of the trace; give the machine's size with --procs, or leave out --busy"
            )
        hosts = None if self.hosts is None else self.hosts.beside(running, begun)
        never = {} if len(rows) == ran.sum() else {"runs, but can never fit the hosts": int(ran.sum()) - len(rows)}
        return dataclasses.replace(
            self, ends=ends, expected_ends=expected, held=held, hosts=hosts, rejected=dict(self.rejected) | never
        )

    @classmethod
    def _of(cls, table: Table, age: Floats, switches: Switches, **settings: object) -> QueueProblem:
        """Return the jobs of a table that can run on the machine, in their order."""
        ready = prepare(table, switches)
        if not len(ready.table):
            raise TracekitError(f"no job of the window can be scheduled: {dict(ready.rejected)}")
        rows = np.argsort(ready.table.position, kind="stable")
        if switches.compat == "rlscheduler":  # by job id, not by position
            rows = np.argsort(ready.table.job_id, kind="stable")
        ages = dict(zip(table.position.tolist(), age.tolist(), strict=True))
        kept = ready.table.take(rows)
        waiting = Prepared(kept, ready.run[rows], ready.estimate[rows], ready.units[rows], ready.scale)
        return cls(
            job_id=kept.job_id,
            age=np.array([ages[place] for place in kept.position.tolist()]),
            run=waiting.run,
            estimate=waiting.estimate,
            size=waiting.units,
            submit=kept.submit,
            user=kept.user - kept.user.min(initial=0),
            total=ready.total,
            scale=ready.scale,
            hosts=None if kept.demand is None else hosts_now(waiting, switches),
            rejected=ready.rejected,
            **settings,  # type: ignore[arg-type]
        )

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, **settings: object) -> QueueProblem:
        """Return the waiting jobs of a snapshot, with its running jobs on the machine.

        Actual run times are used where the snapshot has them; else jobs run as long as estimated.
        """
        ready, begun = snapshot.prepared()
        running = ~np.isnan(begun)
        waiting = np.flatnonzero(~running)
        waiting = waiting[np.argsort(ready.table.position[waiting])]
        numbers = ready.table.position[waiting]
        ids = np.array([snapshot.waiting.id[k] for k in numbers.tolist()])
        known = snapshot.waiting.run
        expected = np.maximum(begun[running] + ready.estimate[running] - snapshot.clock, 0.0)
        actual = expected
        if snapshot.running.run is not None:
            truth, _ = snapshot.prepared("actual")
            actual = np.maximum(begun[running] + truth.run[running] - snapshot.clock, 0.0)
        by_end = np.argsort(actual, kind="stable")
        return cls(
            job_id=ids if ids.dtype.kind == "i" else numbers,
            age=snapshot.clock - ready.table.submit[waiting],
            run=ready.estimate[waiting] if known is None else known[numbers],
            estimate=ready.estimate[waiting],
            size=ready.units[waiting],
            submit=ready.table.submit[waiting],
            user=ready.table.user[waiting] + 1,
            total=ready.total,
            scale=ready.scale,
            ends=actual[by_end],
            expected_ends=expected[by_end],
            held=ready.units[running][by_end],
            rejected=ready.rejected,
            **settings,  # type: ignore[arg-type]
        )

    def take(self, rows: Ints) -> QueueProblem:
        """Return some of the waiting jobs, in the given order of positions, beside the same running jobs."""
        per_job = ("job_id", "age", "run", "estimate", "size", "submit", "user")
        hosts = None if self.hosts is None else self.hosts.take(rows)
        return dataclasses.replace(self, hosts=hosts, **{name: getattr(self, name)[rows] for name in per_job})

    # ---- what a search sees ------------------------------------------------------------------------------------------

    def seen(self, estimates: Estimates) -> Floats:
        """Return the run times that a search or a heuristic sees."""
        if estimates not in get_args(Estimates):
            raise UnknownName("estimates", estimates, get_args(Estimates))
        return self.run if estimates == "actual" else self.estimate

    def case(self, estimates: Estimates) -> Case | HostCase:
        """Return the queue as a search sees it: all jobs run as long as ``estimates`` says."""
        seen = self.seen(estimates)
        ends = self.ends if estimates == "actual" else self.expected_ends
        return self._case(seen, seen, ends, ends)

    def counted(self, estimates: Estimates) -> Case:
        """Return the same by numbers of processors, whatever the hosts."""
        case = self.case(estimates)
        return case.counted if isinstance(case, HostCase) else case

    def _case(self, run: Floats, estimate: Floats, ends: Floats, expected: Floats) -> Case | HostCase:
        """Return the queue for compiled code."""
        order = self._running_order(ends, expected)
        counted = case_of(
            self.objective,
            self.bound,
            Waiting(self.age, np.maximum(run, 0.0), np.maximum(estimate, 0.0), self.size, self.user),
            Held(ends[order], expected[order], self.held[order]),
            self.total,
            backfill=self.backfill == "easy",
        )
        return counted if self.hosts is None else self.hosts.case(counted, order)

    def _running_order(self, ends: Floats, expected: Floats) -> Ints:
        """Return the running jobs in the order that `Case` wants."""
        return np.argsort(expected if self.backfill == "easy" else ends, kind="stable")

    def heuristic(self, name: str, estimates: Estimates) -> Ints:
        """Return the order of a policy, as positions."""
        if name not in HEURISTICS:
            raise UnknownName("heuristic", name, HEURISTICS)
        if self.compat == "ilos":
            return _ilos_order(name, self, self.seen(estimates))
        code, procs, seen = CODES[name], self.size / self.scale, self.seen(estimates)
        values = [formula(code, *job) for job in zip(self.submit, self.age, seen, procs, strict=True)]
        return np.lexsort((np.arange(len(self)), -self.age, np.array(values)))

    def best_heuristic(self, estimates: Estimates) -> tuple[str, Ints]:
        """Return the heuristic whose order costs least by what a search may see, and its order."""
        names = ILOS_HEURISTICS if self.compat == "ilos" else CANDIDATES
        case = self.case(estimates)
        orders = {name: self.heuristic(name, estimates) for name in names}
        best = min(names, key=lambda name: order_cost(case, orders[name]))
        return best, orders[best]

    # ---- what an order is worth --------------------------------------------------------------------------------------

    def starts(self, order: Ints) -> Floats:
        """Return when each job starts, in seconds from now, (jobs,): by actual run times, reservations by estimates."""
        found: Floats = self._played(order).start
        return found

    def places(self, order: Ints) -> Placements | None:
        """Return where each job runs, waiting ones first, then running ones; None where processors are counted."""
        if self.hosts is None:
            return None
        running = np.argsort(self._running_order(self.ends, self.expected_ends))
        found = self.hosts.placements(self._played(order).sim.capacity)
        return found.take(np.concatenate([np.arange(len(self)), len(self) + running]))

    def _played(self, order: Ints) -> Any:
        """Return the scratch space after an order was played."""
        case = self._case(self.run, self.estimate, self.ends, self.expected_ends)
        room = room_for(case)
        begin(case, room)
        cost_of(case, check_order(order, len(self)), room, 0, np.inf, False)
        return room

    def value(self, order: Ints) -> float:
        """Return the objective of an order with the actual run times; smaller is better."""
        start = self.starts(order)
        made = Schedule(
            -self.age, start, self.run, self.size / self.scale, self.user, self.total / self.scale, self.bound
        )
        return objective(self.objective).cost(made)


def jobs_of(trace: Trace, ages: Ages, switches: Switches | None = None) -> tuple[Table, Switches]:
    """Return the jobs of a trace in the order that windows are cut from, and the switches that they were read by."""
    if ages not in get_args(Ages):
        raise UnknownName("ages", ages, get_args(Ages))
    asked = Switches() if switches is None else switches
    asked = dataclasses.replace(asked, compat="rlscheduler" if ages == "ilos" else asked.compat).resolved()
    table = extract_jobs(trace, asked)
    if ages == "ilos":
        table = table.take(np.argsort(table.job_id, kind="stable"))
    return table, asked


def check_order(order: Ints | Sequence[int], jobs: int) -> Ints:
    """Return an order as an array; refuse what is not a permutation."""
    made = np.asarray(order, dtype=np.int64)
    if made.shape != (jobs,) or not np.array_equal(np.sort(made), np.arange(jobs)):
        raise UsageError(f"an order of {jobs} jobs must name each of the positions 0 … {jobs - 1} once")
    return made


def order_cost(case: Case | HostCase, order: Ints) -> float:
    """Return the cost of one order."""
    room = room_for(case)
    begin(case, room)
    return float(cost_of(case, order, room, 0, np.inf, False))


def _ilos_ages(start: int, count: int) -> Floats:
    """Return the ages that ILOS draws for a window."""
    if count > ILOS_AGES:
        raise UsageError(f"--ages ilos draws {ILOS_AGES:,} different ages at most; the window has {count:,} jobs")
    return np.array(sorted(random.Random(start).sample(range(ILOS_AGES), count)), np.float64)


def _ilos_order(name: str, queue: QueueProblem, seen: Floats) -> Ints:
    """Return the order of one of ILOS' heuristics: its formulas; ties of sjf and saf by submit."""
    if name not in ILOS_HEURISTICS:
        raise UnknownName("heuristic of ILOS", name, ILOS_HEURISTICS)
    procs = queue.size / queue.scale
    if name == "fcfs":
        return np.argsort(-queue.age, kind="stable")
    if name in ("sjf", "saf"):
        return np.lexsort((-queue.age, seen if name == "sjf" else seen * procs))
    drawn = queue.age + queue.first_age
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "f1": lambda: np.log10(seen) * procs,
            "wfp3": lambda: -(((drawn - 1) / seen) ** 3) * procs,
            "unicep": lambda: -(drawn - 1 + 1e-15) / (np.log2(procs + 1e-15) * seen),
        }[name]()
    return np.argsort(values, kind="stable")
