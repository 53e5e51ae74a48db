"""Exact search: all orders of a short queue, and branch and bound over the first jobs of an order; compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.orders.evaluate import Case, begin, cost_of, job_cost, push

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A branch must promise at least this share less than the best order, or rounding would count as a gain.
LEAST_GAIN = 1e-12


class Branches(NamedTuple):
    """The states along one branch, one more than there are jobs."""

    clock: Floats  # (jobs + 1,)
    cost: Floats  # (jobs + 1,)
    free: Ints  # (jobs + 1,)
    length: Ints  # (jobs + 1,) running jobs
    ends: Floats  # (jobs + 1, jobs + running) descending
    held: Ints  # (jobs + 1, jobs + running)
    tried: Ints  # (jobs,) position in the first order of the job tried last, at each depth
    used: Ints  # (jobs,) 1 = the job is on the branch
    by_area: Ints  # (jobs,) jobs by area per weight


def branches_for(case: Case) -> Branches:
    """Return room for the branches of a case."""
    jobs, most = len(case.size), len(case.size) + len(case.ends)
    weight = case.linear + case.rate
    ratio = np.divide(case.run * case.size, weight, out=np.full(jobs, np.inf), where=weight > 0)
    return Branches(
        np.zeros(jobs + 1),
        np.zeros(jobs + 1),
        np.zeros(jobs + 1, np.int64),
        np.zeros(jobs + 1, np.int64),
        np.empty((jobs + 1, most)),
        np.empty((jobs + 1, most), np.int64),
        np.zeros(jobs, np.int64),
        np.zeros(jobs, np.int64),
        np.argsort(ratio, kind="stable"),
    )


@jit
def branch_and_bound(
    case: Case, first: Ints, room: Branches, budget: int, best: Ints, curve: Floats, result: Floats
) -> None:
    """Search depth first, in the order ``first``; ``best`` holds an order to beat, ``result`` its cost.

    ``result`` is (cost, evaluations, improvements, whether the search came to its end). Each job put on a branch counts
    as one evaluation. A branch is left when its cost so far, and at least what the other jobs must cost, is not below
    the best.
    """
    jobs = len(first)
    running = len(case.ends)
    room.clock[0], room.cost[0], room.free[0], room.length[0] = 0.0, 0.0, case.free, running
    for k in range(running):
        room.ends[0, running - 1 - k], room.held[0, running - 1 - k] = case.ends[k], case.held[k]
    for k in range(jobs):
        room.used[k] = 0
    depth, evaluations = 0, 0
    room.tried[0] = -1
    while depth >= 0:
        place = room.tried[depth] + 1
        while place < jobs and room.used[first[place]] == 1:
            place += 1
        if place == jobs:
            depth -= 1
            if depth >= 0:
                room.used[first[room.tried[depth]]] = 0
            continue
        if evaluations == budget:
            break
        room.tried[depth] = place
        job = first[place]
        evaluations += 1
        add_job(case, room, depth, job)
        # Two neighbours that start together: the other way round no job starts later, so one of the two ways is enough.
        if depth > 0 and room.clock[depth + 1] == room.clock[depth] and place < room.tried[depth - 1]:
            continue
        room.used[job] = 1
        if room.cost[depth + 1] + least_rest(case, room, room.clock[depth + 1]) >= result[0] * (1.0 - LEAST_GAIN):
            room.used[job] = 0
        elif depth + 1 == jobs:
            improved = int(result[2])
            result[0], result[2] = room.cost[jobs], improved + 1.0
            curve[improved, 0], curve[improved, 1] = result[1] + evaluations, result[0]
            for k in range(jobs):
                best[k] = first[room.tried[k]]
            room.used[job] = 0
        else:
            depth += 1
            room.tried[depth] = -1
    result[1] += evaluations
    result[3] = 1.0 if depth < 0 else 0.0


@jit_internal
def add_job(case: Case, room: Branches, depth: int, job: int) -> None:
    """Write the state after one more job below the state at ``depth``."""
    ends, held, count = room.ends[depth + 1], room.held[depth + 1], room.length[depth]
    clock, free = room.clock[depth], room.free[depth]
    while case.size[job] > free:
        count -= 1
        clock = max(clock, room.ends[depth, count])
        free += room.held[depth, count]
    for k in range(count):
        ends[k], held[k] = room.ends[depth, k], room.held[depth, k]
    push(ends, held, count, clock + case.run[job], case.size[job])
    room.clock[depth + 1], room.free[depth + 1], room.length[depth + 1] = clock, free - case.size[job], count + 1
    room.cost[depth + 1] = room.cost[depth] + job_cost(case, job, clock)


@jit_internal
def least_rest(case: Case, room: Branches, clock: float) -> float:
    """Return what the jobs that are not on the branch cost at least: none starts before ``clock``.

    The larger of two bounds: all start at once, or all share the machine (`tracekit.sim.orders.bounds`).
    """
    total = case.free
    for k in range(len(case.held)):
        total += case.held[k]
    at_once, together, end = 0.0, 0.0, clock
    for k in range(len(case.size)):
        job = room.by_area[k]
        if room.used[job] == 1:
            continue
        at_once += job_cost(case, job, clock)
        slope, area = case.linear[job] + case.rate[job], case.run[job] * case.size[job] / total
        end += area
        together += slope * (end - 0.5 * (area + case.run[job])) + case.fixed[job] + case.offset[job]
    return max(at_once, together)


@jit
def all_orders(case: Any, order: Ints, room: Any, counts: Ints, best: Ints, curve: Floats, result: Floats) -> None:
    """Evaluate every order (Heap's algorithm, Computer Journal 6, 1963); ``counts``, (jobs,), is scratch."""
    jobs = len(order)
    begin(case, room)
    for k in range(jobs):
        counts[k] = 0
    evaluate_one(case, order, room, best, curve, result)
    k = 1
    while k < jobs:
        if counts[k] < k:
            other = 0 if k % 2 == 0 else counts[k]
            order[other], order[k] = order[k], order[other]
            evaluate_one(case, order, room, best, curve, result)
            counts[k] += 1
            k = 1
        else:
            counts[k] = 0
            k += 1
    result[3] = 1.0


@jit_internal
def evaluate_one(case: Any, order: Ints, room: Any, best: Ints, curve: Floats, result: Floats) -> None:
    """Evaluate one order and keep it if it is the best."""
    cost = cost_of(case, order, room, 0, np.inf, False)
    result[1] += 1.0
    if cost < result[0] * (1.0 - LEAST_GAIN):
        improved = int(result[2])
        result[0], result[2] = cost, improved + 1.0
        curve[improved, 0], curve[improved, 1] = result[1], cost
        for k in range(len(order)):
            best[k] = order[k]
