"""Search in a running simulation: at every scheduling pass the queue is ordered by a forecast of the schedule.

The forecast knows what a scheduler knows: the waiting jobs, the running jobs, everybody's estimates, and what jobs that
have ended needed (`tracekit.sim.orders.expected`). It plays the queue to its end with the simulation's own backfilling
(without, or EASY), and search improves the order. `BestForecast` only chooses among the orders of the heuristics;
`SearchPolicy` goes on from there.

On a cluster the forecast begins from the hosts as they are and places jobs as the simulation's allocator does; where
that one is asked in Python (milp, agents), the forecast places them first-fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim.orders.bounds import SAME, least_cost
from tracekit.sim.orders.cases import Held, Waiting, case_of, some_jobs
from tracekit.sim.orders.evaluate import Case, Room, begin, cost_of, room_for
from tracekit.sim.orders.expected import History
from tracekit.sim.orders.guard import WaitGuard
from tracekit.sim.orders.on_hosts import HostCase, HostRoom, placed_case
from tracekit.sim.orders.problem import CANDIDATES
from tracekit.sim.orders.search import HILL_CLIMB, local_search
from tracekit.sim.policies.formulas import CODES, values_at_submit
from tracekit.sim.policies.protocol import State
from tracekit.sim.setup import Setup
from tracekit.sim.tasks.objectives import objective

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: So many jobs at the head of the queue are re-ordered; those behind keep the order of the best heuristic.
LONGEST_QUEUE = 128
#: Run times of 0 would make all orders equal.
SHORTEST = 1.0
#: Forecasts: jobs run as long as expected and others come later; or they run as long as estimated and nobody comes.
FORECASTS = ("learnt", "limits")
#: What lies further ahead than this many seconds counts little for slowdowns: short jobs, which decide them, are yet to
#: come. For waits all of the plan counts.
HORIZON = 4 * 3600.0
SLOWDOWNS = ("bsld", "slowdown", "fair-mean", "fair-max")
#: Later jobs count this much: not all of them would go before those that wait now.
LATER = 0.2
#: A job that is an hour late costs this many times as much as if the whole queue started a second later, each second.
LATE = 10.0


@dataclass(frozen=True)
class BestForecast:
    """At every pass the order of that heuristic whose forecast is best.

    ``max_wait_guard`` keeps the longest wait within this multiple of what FCFS with EASY would have; 0 = no guard.
    ``forecast`` is one of `FORECASTS`.
    """

    formula: ClassVar[str] = "the heuristic with the best forecast"

    objective: str = "bsld"
    max_wait_guard: float = 0.0
    name: str = "best-forecast"
    evaluations: int = 0
    forecast: str = "limits"

    def __post_init__(self) -> None:
        objective(self.objective)
        if self.forecast not in FORECASTS:
            raise UnknownName(f"forecast of policy {self.name}", self.forecast, FORECASTS)
        if self.evaluations < 0:
            raise UsageError(f"policy {self.name}: evaluations must be 0 or more, not {self.evaluations}")
        if not (math.isfinite(self.max_wait_guard) and (self.max_wait_guard == 0 or self.max_wait_guard >= 1)):
            raise UsageError(
                f"policy {self.name}: max_wait_guard must be 0 (none) or at least 1, not {self.max_wait_guard:g}"
            )

    def priority(self, queue: NDArray[np.intp], state: State, /) -> Floats:
        """Refuse: a forecast needs to know the simulation; see `started`."""
        raise UsageError(f"policy {self.name} is used through a simulation")

    def started(self, setup: Setup, /) -> Rolling:
        """Return the policy for one simulation."""
        return Rolling(self, setup)


@dataclass(frozen=True)
class SearchPolicy(BestForecast):
    """At every pass the best of the heuristics' orders by forecast, improved by search."""

    formula: ClassVar[str] = "an order found by search"

    max_wait_guard: float = 4.0
    name: str = "search"
    evaluations: int = 300
    forecast: str = "learnt"


#: What can be set in a policy's name: ``search:objective=wait+evaluations=1000``.
OPTIONS: dict[str, Any] = {"objective": str, "evaluations": int, "max_wait_guard": float, "forecast": str}


def from_text(kind: type[BestForecast], text: str) -> BestForecast:
    """Read options as ``name=value+name=value``."""
    given: dict[str, Any] = {}
    for part in filter(None, text.split("+")):
        name, _, value = part.partition("=")
        if name not in OPTIONS or (name == "evaluations" and kind is BestForecast):
            raise UnknownName(f"option of policy {kind.name}", name, OPTIONS)
        try:
            given[name] = OPTIONS[name](value)
        except ValueError:
            raise UsageError(f"policy {kind.name}: {name}={value} is not a valid number") from None
    return kind(**given, name=f"{kind.name}:{text}")


def search_from_text(text: str) -> BestForecast:
    """Return the policy ``search:OPTIONS``."""
    return from_text(SearchPolicy, text)


def forecast_from_text(text: str) -> BestForecast:
    """Return the policy ``best-forecast:OPTIONS``."""
    return from_text(BestForecast, text)


@dataclass(eq=False)
class Rolling:
    """One of the policies above in one simulation."""

    policy: BestForecast
    setup: Setup
    passes: int = 0
    previous: Floats = field(default_factory=lambda: np.empty(0))  # (jobs,) rank of each job in the last plan, or NaN

    def __post_init__(self) -> None:
        self.name = self.policy.name
        self.previous = np.full(len(self.setup.ready.table), np.nan)
        self.history = History(self.setup)
        multiple = self.policy.max_wait_guard
        self.guard = WaitGuard(multiple, self.setup, self.history) if multiple else None

    def priority(self, queue: NDArray[np.intp], state: State, /) -> Floats:
        """Return the place of each waiting job in the plan."""
        self.passes += 1
        self.history.look(queue, state)
        due = None if self.guard is None else self.guard.due(queue, state)
        if len(queue) < 2:
            return np.zeros(len(queue))
        counted, running = self._case(queue, state)
        if due is not None:
            counted = counted._replace(due=due, late=LATE / 3600.0 * float((counted.linear + counted.rate).sum()))
        order = self._order(placed_case(counted, queue, running, state), queue, state)
        ranks = np.empty(len(queue))
        ranks[order] = np.arange(len(queue), dtype=np.float64)
        self.previous[queue] = ranks
        return ranks

    def notes(self, wait: Floats, /) -> Mapping[str, Any]:
        """Return what a result says about this policy; ``wait`` is that of all jobs, (jobs,)."""
        return {} if self.guard is None else self.guard.notes(wait)

    def _case(self, queue: NDArray[np.intp], state: State) -> tuple[Case, Ints]:
        """Return the queue and the machine as the forecast sees them, and the running jobs in that order."""
        scale, bound, waiting = self.setup.ready.scale, self.setup.switches.bound, len(queue)
        learnt, backfill = self.policy.forecast == "learnt", self.setup.backfill != "none"
        estimate = np.maximum(state.estimate[queue], SHORTEST)
        limits = np.maximum(state.expected_end - state.now, 0.0)
        run, ends = estimate, limits
        if learnt:
            expected = self.history.expected(np.concatenate([queue, state.running]), state)
            run = np.maximum(expected.left[:waiting], SHORTEST)
            ends = np.minimum(expected.left[waiting:], limits)
        by_end = np.argsort(limits if backfill else ends, kind="stable")
        user, running = state.user[queue], state.running[by_end]
        case = case_of(
            self.policy.objective,
            bound,
            Waiting(
                state.now - state.submit[queue],
                run,
                estimate,
                np.round(state.procs[queue] * scale).astype(np.int64),
                user - user.min(initial=0),
            ),
            Held(
                ends[by_end],
                limits[by_end],
                np.round(state.procs[running] * scale).astype(np.int64),
            ),
            round(state.total * scale),
            backfill=backfill,
        )
        if not learnt:
            return case, running
        # a second of wait costs the mean of 1 / run time, which is more than 1 / mean run time
        times = expected.inverse[:waiting] * np.maximum(run, bound)
        later = self.history.later(self.policy.objective, state)
        later = later._replace(rate=later.rate * LATER / waiting)
        goals = {name for name, _ in objective(self.policy.objective).terms}
        horizon = HORIZON if goals & set(SLOWDOWNS) else math.inf
        case = case._replace(rate=case.rate * times, offset=case.offset * times, horizon=horizon, later=later)
        return case, running

    def _order(self, case: Case | HostCase, queue: NDArray[np.intp], state: State) -> Ints:
        """Return the best order found, as positions in the queue."""
        if isinstance(case, Case) and case.size.sum() <= case.free:
            return np.arange(len(queue))
        room = room_for(case)
        begin(case, room)
        orders = [self._heuristic(name, queue, state) for name in CANDIDATES]
        if not np.isnan(self.previous[queue]).all():
            last = np.argsort(np.where(np.isnan(self.previous[queue]), np.inf, self.previous[queue]), kind="stable")
            orders.append(last)
        found = [cost_of(case, order, room, 0, np.inf, False) for order in orders]
        best = orders[int(np.argmin(found))]
        if self.guard is not None:
            best = _late_first(case, best, room)
        gain = min(found) > least_cost(case) * (1 + SAME)  # else all start at once
        return self._search(case, best) if self.policy.evaluations and gain else best

    def _heuristic(self, name: str, queue: NDArray[np.intp], state: State) -> Ints:
        """Return the order of a heuristic; the queue is by submit time, which settles ties."""
        values = np.empty(len(queue))
        submit = state.submit[queue]
        values_at_submit(CODES[name], submit, state.now - submit, state.estimate[queue], state.procs[queue], values)
        return np.argsort(values, kind="stable")

    def _search(self, case: Case | HostCase, order: Ints) -> Ints:
        """Improve the head of an order."""
        head = order[:LONGEST_QUEUE]
        part = case
        if len(head) < len(order):
            part = some_jobs(case, head)
            first = np.arange(len(head))
        else:
            first = order.copy()
        best, curve = np.empty_like(first), np.empty((self.policy.evaluations, 2))
        key = np.random.SeedSequence([self.setup.switches.seed, self.passes]).generate_state(1, np.uint64)[0]
        local_search(part, first, room_for(part), HILL_CLIMB, self.policy.evaluations, key, best, curve)
        if part is case:
            return best
        return np.concatenate([head[best], order[LONGEST_QUEUE:]])


def _late_first(case: Case | HostCase, order: Ints, room: Room | HostRoom) -> Ints:
    """Return an order with the jobs in front that it starts too late, by submit time, if that costs less."""
    due = case.counted.due if isinstance(case, HostCase) else case.due
    cost = cost_of(case, order, room, 0, np.inf, False)
    late = room.start > due  # positions in the queue, which is by submit time
    if not late.any():
        return order
    other = np.concatenate([np.flatnonzero(late), order[~late[order]]])
    return other if cost_of(case, other, room, 0, np.inf, False) < cost else order
