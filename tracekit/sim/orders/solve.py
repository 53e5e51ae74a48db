"""Solvers by name: from a queue to the best order that a budget of evaluations finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.registry import Registry
from tracekit.sim.orders.bounds import lower_bound
from tracekit.sim.orders.evaluate import Case, is_sum, room_for
from tracekit.sim.orders.exact import all_orders, branch_and_bound, branches_for
from tracekit.sim.orders.problem import Estimates, QueueProblem, check_order, order_cost
from tracekit.sim.orders.search import ANNEAL, HILL_CLIMB, Plan, local_search

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Evaluations where none are asked for.
EVALUATIONS = 10_000
#: Exhaustive search stops here: 9! = 362,880 orders.
MOST_EXHAUSTIVE = 9
#: A value at most this much above a bound (relative) counts as equal to it.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Found:
    """What a solver found: positions in order, and its cost by what the search saw."""

    order: Ints
    cost: float
    evaluations: int
    curve: Floats  # (improvements, 2): evaluations, cost
    complete: bool = False  # whether no order can be better, by what the search saw


@dataclass(frozen=True, eq=False)
class Solution:
    """An order for a queue. Values are means over its jobs with the actual run times; smaller is better."""

    problem: QueueProblem
    estimates: Estimates
    solver: str
    init: str
    order: Ints  # positions
    init_order: Ints
    value: float
    init_value: float
    lower_bound: float
    optimal: bool
    evaluations: int
    curve: Floats  # (improvements, 2): evaluations, and the objective by the run times that the search saw


def relative_change(solution: Solution) -> float:
    """Return how much smaller (negative) or larger the value is than that of the first order, as a share of it."""
    return (solution.value - solution.init_value) / abs(solution.init_value)


#: A solver: case, first order, evaluations, seed -> what it found.
Solver = Callable[[Case, Ints, int, int], Found]


def solve(
    problem: QueueProblem,
    solver: str = "hill-climb",
    *,
    evaluations: int = EVALUATIONS,
    estimates: Estimates = "actual",
    init: str = "best",
    seed: int = 0,
) -> Solution:
    """Return the best order that a solver finds from the order of a heuristic (``init``).

    With ``estimates="requested"`` heuristics and search see requested run times only.
    """
    if evaluations < 1:
        raise UsageError(f"--evaluations must be at least 1, not {evaluations}")
    run = SOLVERS.get(solver)
    case = problem.case(estimates)
    name, first = (init, problem.heuristic(init, estimates)) if init != "best" else problem.best_heuristic(estimates)
    found: Found = run(case, first, evaluations, seed)
    order = check_order(found.order, len(problem))
    value, bound = problem.value(order), lower_bound(problem.case("actual"))
    return Solution(
        problem,
        estimates,
        solver,
        name,
        order,
        first,
        value,
        problem.value(first),
        bound,
        (found.complete and estimates == "actual" and problem.backfill == "none") or value <= bound * (1 + SAME),
        found.evaluations,
        found.curve,
    )


def _none(case: Case, first: Ints, budget: int, seed: int) -> Found:
    """Return the first order as it is."""
    cost = order_cost(case, first)
    return Found(first, cost, 1, np.array([[1.0, cost]]))


def _local(plan: Plan) -> Solver:
    """Return a local search by a plan."""

    def search(case: Case, first: Ints, budget: int, seed: int) -> Found:
        best, curve = np.empty_like(first), np.empty((budget, 2))
        key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        improved = local_search(case, first.copy(), room_for(case), plan, budget, key, best, curve)
        used = budget if len(first) > 1 else 1
        return Found(best, float(curve[improved - 1, 1]), used, curve[:improved].copy(), len(first) == 1)

    return search


def _branch_and_bound(case: Case, first: Ints, budget: int, seed: int) -> Found:
    """Search branches from the first order; a short hill climb gives it an order to beat."""
    if case.backfill or not is_sum(case):
        raise UsageError(
            "branch-and-bound needs an objective that is a mean over jobs, and no backfilling; use hill-climb or anneal"
        )
    climb = _local(HILL_CLIMB)(case, first, max(budget // 4, 1), seed)
    if budget == climb.evaluations:
        return climb
    best, curve = climb.order.copy(), np.empty((budget, 2))
    result = np.array([climb.cost, climb.evaluations, 0.0, 0.0])
    branch_and_bound(case, climb.order.copy(), branches_for(case), budget - climb.evaluations, best, curve, result)
    whole = np.concatenate([climb.curve, curve[: int(result[2])]])
    return Found(best, float(result[0]), int(result[1]), whole, bool(result[3]))


def _exhaustive(case: Case, first: Ints, budget: int, seed: int) -> Found:
    """Evaluate every order."""
    if len(first) > MOST_EXHAUSTIVE:
        raise UsageError(
            f"exhaustive search takes at most {MOST_EXHAUSTIVE} jobs, the queue has {len(first):,}; "
            "use branch-and-bound, hill-climb or anneal"
        )
    best, curve, result = first.copy(), np.empty((10_000, 2)), np.array([np.inf, 0.0, 0.0, 0.0])
    all_orders(case, first.copy(), room_for(case), np.zeros(len(first), np.int64), best, curve, result)
    return Found(best, float(result[0]), int(result[1]), curve[: int(result[2])].copy(), True)


hill_climb, anneal = _local(HILL_CLIMB), _local(ANNEAL)

#: Every solver by name; other packages add theirs by the entry point group ``tracekit.solvers``.
SOLVERS: Registry[Solver] = Registry(
    "solver",
    {
        "none": f"{__name__}:_none",
        "hill-climb": f"{__name__}:hill_climb",
        "anneal": f"{__name__}:anneal",
        "branch-and-bound": f"{__name__}:_branch_and_bound",
        "exhaustive": f"{__name__}:_exhaustive",
    },
    group="tracekit.solvers",
)
