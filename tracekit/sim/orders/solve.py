"""Solvers by name: from a queue to the best order that a budget of evaluations finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.registry import Registry, imported
from tracekit.sim.orders.bounds import SAME, lower_bound
from tracekit.sim.orders.evaluate import Case, is_sum, room_for
from tracekit.sim.orders.exact import all_orders, branch_and_bound, branches_for
from tracekit.sim.orders.on_hosts import HostCase
from tracekit.sim.orders.problem import Estimates, QueueProblem, check_order, order_cost
from tracekit.sim.orders.search import ANNEAL, HILL_CLIMB, Plan, local_search

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Evaluations where none are asked for.
EVALUATIONS = 10_000
#: Exhaustive search stops here: 9! = 362,880 orders.
MOST_EXHAUSTIVE = 9
#: Orders that a network gives at once.
MOST_DECODED = 4096
#: Names of agents begin with this.
AGENT = "agent:"
#: A restart shuffles this share of the best order, at one place.
SHUFFLED = 0.25

#: Processors are counted, or jobs are placed on hosts.
AnyCase = Case | HostCase


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
Solver = Callable[[AnyCase, Ints, int, int], Found]


def solve(
    problem: QueueProblem,
    solver: str = "hill-climb",
    *,
    evaluations: int = EVALUATIONS,
    estimates: Estimates = "actual",
    init: str = "best",
    decode: str = "greedy",
    restarts: int = 0,
    seed: int = 0,
) -> Solution:
    """Return the best order that a solver finds from the order of a heuristic, or of an agent (``init``).

    With ``estimates="requested"`` heuristics, agents and search see requested run times only. ``decode`` says how an
    agent (``agent:DIR`` as solver or init) gives orders: greedy, sample:K or beam:K; each of them is evaluated, and
    counts as an evaluation. ``restarts`` divide the budget: each begins from the best order so far, shuffled at one
    place.
    """
    if restarts < 0:
        raise UsageError(f"--restarts must be 0 or more, not {restarts}")
    run = with_restarts(find_solver(solver, decode), restarts)
    case = problem.case(estimates)
    spent = 0
    if init.startswith(AGENT):
        decoded = by_agent(init, decode)(case, np.empty(0, np.int64), evaluations, seed)
        # the search evaluates its first order itself
        name, first, spent = init, decoded.order, decoded.evaluations - 1
    elif init == "best":
        name, first = problem.best_heuristic(estimates)
    elif init == "random":
        name, first = init, np.random.default_rng(seed).permutation(len(problem))
    else:
        name, first = init, problem.heuristic(init, estimates)
    if restarts >= evaluations - spent:
        raise UsageError(f"--evaluations must be at least 1, and more than --restarts, not {evaluations}")
    found = run(case, first, evaluations - spent, seed)
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
        found.evaluations + spent,
        found.curve + np.array([spent, 0.0]),
    )


def find_solver(name: str, decode: str = "greedy") -> Solver:
    """Return a solver by name; ``agent:DIR`` is the network of an agent."""
    return by_agent(name, decode) if name.startswith(AGENT) else SOLVERS.get(name)


def by_agent(name: str, decode: str) -> Solver:
    """Return the best of the orders that an agent gives a queue; the first order that it is given is not used."""
    kind, count = parse_decoding(decode)
    orders_of = imported("tracekit.sim.agents.order.solver:decoded")

    def best_of(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
        if count > budget:
            raise UsageError(f"--decode {decode} evaluates {count:,} orders; --evaluations {budget:,} is fewer")
        seen = case.counted if isinstance(case, HostCase) else case  # the network knows nothing of hosts
        orders = orders_of(name.removeprefix(AGENT), seen, kind, count, seed)
        found = np.array([order_cost(case, order) for order in orders])
        at = np.flatnonzero(found == np.minimum.accumulate(found))
        at = at[np.diff(found[at], prepend=np.inf) < 0]
        return Found(orders[found.argmin()], float(found.min()), count, np.stack([at + 1.0, found[at]], 1))

    return best_of


def parse_decoding(text: str) -> tuple[str, int]:
    """Read greedy, sample:K or beam:K.

    >>> parse_decoding("greedy"), parse_decoding("beam:4")
    (('greedy', 1), ('beam', 4))
    """
    kind, _, count = text.partition(":")
    if kind not in ("greedy", "sample", "beam"):
        raise UnknownName("decoding", kind, ["greedy", "sample", "beam"])
    if kind == "greedy" and not count:
        return kind, 1
    if kind == "greedy" or not count.isdigit() or not 1 <= int(count) <= MOST_DECODED:
        raise UsageError(f"--decode {text}: write greedy, sample:K or beam:K, with K from 1 to {MOST_DECODED:,}")
    return kind, int(count)


def _none(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
    """Return the first order as it is."""
    cost = order_cost(case, first)
    return Found(first, cost, 1, np.array([[1.0, cost]]))


def _local(plan: Plan) -> Solver:
    """Return a local search by a plan."""

    def search(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
        best, curve = np.empty_like(first), np.empty((budget, 2))
        key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        improved = local_search(case, first.copy(), room_for(case), plan, budget, key, best, curve)
        used = budget if len(first) > 1 else 1
        return Found(best, float(curve[improved - 1, 1]), used, curve[:improved].copy(), len(first) == 1)

    return search


def with_restarts(search: Solver, restarts: int) -> Solver:
    """Return a search that begins again so many times, within the same budget."""
    if not restarts:
        return search

    def again(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
        rng = np.random.default_rng([seed, restarts])
        shares = np.diff(np.linspace(0, budget, restarts + 2).astype(np.int64)).tolist()
        best = search(case, first, shares[0], seed)
        for share in shares[1:]:
            if best.complete:
                break
            found = search(case, shuffled(best.order, rng), share, int(rng.integers(2**63)))
            later = found.curve[found.curve[:, 1] < best.cost] + np.array([best.evaluations, 0])
            kept = found if found.cost < best.cost else best
            best = Found(
                kept.order,
                kept.cost,
                best.evaluations + found.evaluations,
                np.concatenate([best.curve, later]),
                found.complete,
            )
        return best

    return again


def shuffled(order: Ints, rng: np.random.Generator) -> Ints:
    """Return an order in which some neighbouring jobs, chosen by chance, are shuffled."""
    length = max(round(SHUFFLED * len(order)), min(2, len(order)))
    first = int(rng.integers(len(order) - length + 1))
    made = order.copy()
    made[first : first + length] = rng.permutation(made[first : first + length])
    return made


def _branch_and_bound(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
    """Search branches from the first order; a short hill climb gives it an order to beat."""
    if isinstance(case, HostCase) or case.backfill or not is_sum(case):
        raise UsageError(
            "branch-and-bound needs an objective that is a mean over jobs, no backfilling and no hosts; "
            "use hill-climb or anneal"
        )
    climb = _local(HILL_CLIMB)(case, first, max(budget // 4, 1), seed)
    if budget == climb.evaluations:
        return climb
    best, curve = climb.order.copy(), np.empty((budget, 2))
    result = np.array([climb.cost, climb.evaluations, 0.0, 0.0])
    branch_and_bound(case, climb.order.copy(), branches_for(case), budget - climb.evaluations, best, curve, result)
    whole = np.concatenate([climb.curve, curve[: int(result[2])]])
    return Found(best, float(result[0]), int(result[1]), whole, bool(result[3]))


def _exhaustive(case: AnyCase, first: Ints, budget: int, seed: int) -> Found:
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
