"""Search in a running simulation: at every scheduling pass the queue is ordered by a forecast of the schedule.

The forecast knows what a scheduler knows: the waiting jobs, the running jobs and everybody's estimates. It plays the
queue to its end as if no more jobs came, with the simulation's own backfilling (without, or EASY), and search improves
the order. `BestForecast` only chooses among the orders of the heuristics; `SearchPolicy` goes on from there.

On hosts the forecast counts processors (or GPUs) of the whole cluster; the simulation itself places jobs on hosts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim.orders.evaluate import Case, begin, cost_of, room_for
from tracekit.sim.orders.guard import WaitGuard
from tracekit.sim.orders.problem import CANDIDATES, Held, Waiting, case_of
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


@dataclass(frozen=True)
class BestForecast:
    """At every pass the order of that heuristic whose forecast is best.

    ``max_wait_guard`` keeps the longest wait within this multiple of what FCFS with EASY would have; 0 = no guard.
    """

    formula: ClassVar[str] = "the heuristic with the best forecast"

    objective: str = "bsld"
    max_wait_guard: float = 0.0
    name: str = "best-forecast"
    evaluations: int = 0

    def __post_init__(self) -> None:
        objective(self.objective)
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


#: What can be set in a policy's name: ``search:objective=wait+evaluations=1000``.
OPTIONS: dict[str, Any] = {"objective": str, "evaluations": int, "max_wait_guard": float}


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
        self.guard = WaitGuard(self.policy.max_wait_guard, self.setup) if self.policy.max_wait_guard else None

    def priority(self, queue: NDArray[np.intp], state: State, /) -> Floats:
        """Return the place of each waiting job in the plan."""
        self.passes += 1
        if len(queue) < 2:
            return np.zeros(len(queue))
        case = self._case(queue, state)
        order = self._order(case, queue, state)
        if self.guard is not None:
            order = self.guard.urgent_first(order, case, queue, state)
        ranks = np.empty(len(queue))
        ranks[order] = np.arange(len(queue), dtype=np.float64)
        self.previous[queue] = ranks
        return ranks

    def _case(self, queue: NDArray[np.intp], state: State) -> Case:
        """Return the queue and the machine as the forecast sees them."""
        scale = self.setup.ready.scale
        estimate = np.maximum(state.estimate[queue], SHORTEST)
        ends = np.maximum(state.expected_end - state.now, 0.0)
        user = state.user[queue]
        return case_of(
            self.policy.objective,
            self.setup.switches.bound,
            Waiting(
                state.now - state.submit[queue],
                estimate,
                estimate,
                np.round(state.procs[queue] * scale).astype(np.int64),
                user - user.min(initial=0),
            ),
            Held(ends, ends, np.round(state.procs[state.running] * scale).astype(np.int64)),
            round(state.total * scale),
            backfill=self.setup.backfill != "none",
        )

    def _order(self, case: Case, queue: NDArray[np.intp], state: State) -> Ints:
        """Return the best order found, as positions in the queue."""
        room = room_for(case)
        begin(case, room)
        orders = [self._heuristic(name, queue, state) for name in CANDIDATES]
        if not np.isnan(self.previous[queue]).all():
            last = np.argsort(np.where(np.isnan(self.previous[queue]), np.inf, self.previous[queue]), kind="stable")
            orders.append(last)
        found = [cost_of(case, order, room, 0, np.inf, False) for order in orders]
        best = orders[int(np.argmin(found))]
        if self.policy.evaluations and case.size.sum() > case.free:
            best = self._search(case, best)
        return best

    def _heuristic(self, name: str, queue: NDArray[np.intp], state: State) -> Ints:
        """Return the order of a heuristic; the queue is by submit time, which settles ties."""
        values = np.empty(len(queue))
        submit = state.submit[queue]
        values_at_submit(CODES[name], submit, state.now - submit, state.estimate[queue], state.procs[queue], values)
        return np.argsort(values, kind="stable")

    def _search(self, case: Case, order: Ints) -> Ints:
        """Improve the head of an order."""
        head = order[:LONGEST_QUEUE]
        part = case
        if len(head) < len(order):
            part = case._replace(**{name: getattr(case, name)[head] for name in _PER_JOB})
            first = np.arange(len(head))
        else:
            first = order.copy()
        best, curve = np.empty_like(first), np.empty((self.policy.evaluations, 2))
        key = np.random.SeedSequence([self.setup.switches.seed, self.passes]).generate_state(1, np.uint64)[0]
        local_search(part, first, room_for(part), HILL_CLIMB, self.policy.evaluations, key, best, curve)
        if part is case:
            return best
        return np.concatenate([head[best], order[LONGEST_QUEUE:]])


_PER_JOB = ("size", "run", "estimate", "linear", "fixed", "least", "rate", "offset", "user", "user_weight")
