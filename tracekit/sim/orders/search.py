"""Local search over orders: hill climbing and annealing, with budgets in evaluations; compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.engine.chance import uniform
from tracekit.sim.orders.evaluate import begin, cost_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Moves: two jobs change places; one job, or a block of two or three, goes elsewhere.
SWAP, INSERT, BLOCK = range(3)


class Plan(NamedTuple):
    """How a local search goes."""

    swap: float  # shares of the moves; the rest are blocks
    insert: float
    heat: float  # first temperature, as a share of the cost of the first order; 0 = hill climbing
    cool: float  # last temperature, as a share of the first
    reach: float  # a job goes at most this share of the queue away, at first …
    last_reach: float  # … and at the end


#: Ties are accepted; moves get shorter towards the end of the budget.
HILL_CLIMB = Plan(swap=0.5, insert=0.5, heat=0.0, cool=1.0, reach=1.0, last_reach=0.1)
ANNEAL = Plan(swap=0.2, insert=0.6, heat=0.005, cool=0.01, reach=1.0, last_reach=0.2)


@jit_internal
def rotate(order: Ints, first: int, last: int, by: int) -> None:
    """Move the ``by`` first entries of ``order[first:last]`` to its end; ``by`` < 0: the last entries to its front."""
    if by > 0:
        for _ in range(by):
            moved = order[first]
            for k in range(first, last - 1):
                order[k] = order[k + 1]
            order[last - 1] = moved
    else:
        for _ in range(-by):
            moved = order[last - 1]
            for k in range(last - 1, first, -1):
                order[k] = order[k - 1]
            order[first] = moved


@jit_internal
def other_place(place: int, places: int, reach: int, chance: float) -> int:
    """Return another place at most ``reach`` away."""
    low, high = max(place - reach, 0), min(place + reach, places - 1)
    found = low + int(chance * (high - low))
    return found + 1 if found >= place else found


@jit
def local_search(
    case: Any, order: Ints, room: Any, plan: Plan, budget: int, key: np.uint64, best: Ints, curve: Floats
) -> int:
    """Improve ``order`` within ``budget`` evaluations; ``best`` gets the best order; return the number of improvements.

    ``curve``, (≥ budget, 2), gets (evaluations, cost) for each improvement. The first evaluation is that of ``order``.
    """
    jobs = len(order)
    begin(case, room)
    cost = cost_of(case, order, room, 0, np.inf, True)
    lowest, improved, turn = cost, 1, 0
    curve[0, 0], curve[0, 1] = 1.0, cost
    for k in range(jobs):
        best[k] = order[k]
    if jobs < 2:
        return improved
    heat = plan.heat * cost
    for used in range(2, budget + 1):
        done = used / budget
        limit = cost
        if heat > 0.0:
            temperature = heat * plan.cool**done
            limit = cost - temperature * np.log(max(uniform(key, turn), 1e-300))
            turn += 1
        reach = max(int((plan.reach + (plan.last_reach - plan.reach) * done) * jobs), 1)
        kind, a = uniform(key, turn), int(uniform(key, turn + 1) * jobs)
        where, turn = uniform(key, turn + 2), turn + 3
        if kind < plan.swap:
            b = other_place(a, jobs, reach, where)
            first = min(a, b)
            order[a], order[b] = order[b], order[a]
            last, by = 0, 0
        else:
            length = 1
            if kind >= plan.swap + plan.insert:
                length = min(2 + int(uniform(key, turn) * 2), jobs - 1)
                turn += 1
                a = min(a, jobs - length)
            b = other_place(a, jobs - length + 1, reach, where)
            first, last = min(a, b), max(a, b) + length
            by = length if b > a else -length
            rotate(order, first, last, by)
        # rounding must not turn a tie into a loss
        found = cost_of(case, order, room, first, limit * (1.0 + 1e-12), False)
        if found <= limit * (1.0 + 1e-12):
            cost = cost_of(case, order, room, first, np.inf, True)
            if cost < lowest * (1.0 - 1e-12):
                lowest = cost
                curve[improved, 0], curve[improved, 1] = float(used), cost
                improved += 1
                for k in range(jobs):
                    best[k] = order[k]
        elif last > 0:
            rotate(order, first, last, -by)
        else:
            order[a], order[b] = order[b], order[a]
    return improved
