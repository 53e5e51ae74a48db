"""Conservative backfilling with static priorities: plans that are kept from pass to pass, and made up to a wall.

By definition (`tracekit.sim.engine.conservative`) all waiting jobs are planned again at every event, in order, each at
its earliest fit. Two things save nearly all of that work, and leave every start as it is.

**Kept plans.** A plan comes out as before while what precedes it is as before: the running jobs with their estimated
ends, and the jobs before it in the order. So plans are made again only

- all of them, after a job has ended before its estimate, or after one has arrived that comes before a planned one;
- from the first one on whose time has passed without a start, because a running job has outlived its estimate.

**Walls.** A wall is a time at which less is free than the smallest job of the trace needs. No plan reaches over it, so
what is planned behind it cannot change what starts before it, and only starts now matter. Once the plans of some jobs
have made a wall, those that do not fit between now and the wall need no plan: too large for what is free there, too
long, or with their earliest fit behind it. The tree of ranks finds the others. Plans made so hold until the wall is
reached. Where all run to their estimates no walls are used, and every job is planned once.

And, as there, a job is planned only if that decides about a start now: the others wait without a plan until one of
them fits now.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.engine.capacity import fits, largest_startable
from tracekit.sim.engine.rank_tree import EMPTY, RankTree, first_rank, leave, next_fit, smallest_size
from tracekit.sim.engine.start import start
from tracekit.sim.engine.state import Simulation
from tracekit.sim.engine.steps import (
    NO_STEP,
    Steps,
    add,
    begins_at,
    earliest_step,
    empty_steps,
    forget_before,
    free_at,
    is_crowded,
    most_before,
    next_without,
    write_running,
)

NO_RANK = -1

#: How far the plans hold.
VALID = np.dtype(
    [
        ("planned", np.int64),  # jobs with a plan
        ("outdated", np.bool_),  # no plan holds: a job has ended before its estimate
        ("soonest", np.float64),  # the earliest plan
        ("reached", np.int64),  # the first rank that has not been looked at
        ("walls", np.bool_),  # whether plans are made up to a wall only
        ("smallest", np.int64),  # size of the smallest job of all
        ("wall", np.float64),  # when the first wall begins; inf: none is known, and all that was looked at is planned
        ("room", np.int64),  # no more than this is free before the wall
    ],
    align=True,
)


class Plan(NamedTuple):
    """The planned jobs, which are the first ones that wait, in order."""

    steps: Steps  # what running and planned jobs leave free
    rank: NDArray[np.int64]  # (jobs,)
    time: NDArray[np.float64]  # (jobs,) when each is to start
    valid: NDArray[Any]  # (1,) VALID


def empty_plan(size: NDArray[np.int64], most_running: int, *, walls: bool) -> Plan:
    """Return a plan with room for all jobs, by their sizes; the first pass makes it."""
    jobs = len(size)
    valid = np.zeros(1, VALID)
    valid["outdated"], valid["soonest"], valid["wall"] = True, np.inf, np.inf
    valid["walls"], valid["smallest"] = walls, size.min(initial=EMPTY)
    return Plan(empty_steps(jobs + most_running + 2), np.zeros(jobs, np.int64), np.zeros(jobs), valid)


@jit_merged
def note_end(plan: Plan, now: float, estimated: float) -> None:
    """A job has ended: if that was before its estimated end, everything is to be planned again."""
    plan.valid[0].outdated |= estimated > now


@jit_merged
def note_arrival(plan: Plan, rank: int) -> None:
    """A job has arrived: if it comes before jobs that are planned already, everything is planned again."""
    plan.valid[0].outdated |= rank < plan.valid[0].reached


@jit_merged
def planned_pass(sim: Simulation, queue: RankTree, plan: Plan) -> None:
    """Start the jobs that are planned for now, and plan others as far as they may start now."""
    now, valid = sim.state[0].now, plan.valid[0]
    if smallest_size(queue) > largest_startable(sim.capacity):
        return
    over = valid.walls and (valid.wall <= now or valid.soonest < now)
    if valid.outdated or over or is_crowded(plan.steps):
        write_running(plan.steps, now, largest_startable(sim.capacity), sim.running, sim.jobs.size)
        valid.planned, valid.outdated, valid.soonest = 0, False, np.inf
        valid.reached, valid.wall, valid.room = 0, np.inf, EMPTY - 1
    else:
        forget_before(plan.steps, now)
        _forget_passed(sim, queue, plan)
    if valid.soonest <= now:
        _start_planned(sim, queue, plan)
    while True:
        last = _next_startable(sim, queue, plan.steps, valid.reached)
        if last == NO_RANK:
            return
        while valid.reached <= last:  # the jobs before it are planned first: they may take its place
            if valid.wall == np.inf:
                rank = first_rank(queue, valid.reached)
            else:
                rank = next_fit(queue, valid.reached, valid.room, 0, now, valid.wall)
                if rank < 0 or rank > last:
                    valid.reached = last + 1
                    break
            valid.reached = rank + 1
            if _plan(sim, queue, plan, rank) and valid.walls:
                _look_for_wall(plan)


@jit_internal
def _forget_passed(sim: Simulation, queue: RankTree, plan: Plan) -> None:
    """Take plans back from the first one on whose time has passed."""
    jobs, valid, now = sim.jobs, plan.valid[0], sim.state[0].now
    if valid.soonest >= now:
        return
    first = 0
    while first < valid.planned and plan.time[first] >= now:
        first += 1
    for i in range(first, valid.planned):
        job = queue.job[plan.rank[i]]
        add(plan.steps, plan.time[i], plan.time[i] + jobs.estimate[job], jobs.size[job])
    valid.reached = plan.rank[first]
    valid.planned, valid.soonest = first, np.inf
    for i in range(first):
        valid.soonest = min(valid.soonest, plan.time[i])


@jit_internal
def _start_planned(sim: Simulation, queue: RankTree, plan: Plan) -> None:
    """Start the jobs that are planned for now; one that a job past its estimate is in the way of keeps its plan."""
    valid, now, kept = plan.valid[0], sim.state[0].now, 0
    valid.soonest = np.inf
    for i in range(valid.planned):
        job = queue.job[plan.rank[i]]
        if plan.time[i] <= now and fits(sim.capacity, job):
            _start(sim, queue, job)
        else:
            plan.rank[kept], plan.time[kept] = plan.rank[i], plan.time[i]
            valid.soonest = min(valid.soonest, plan.time[i])
            kept += 1
    valid.planned = kept


@jit_internal
def _next_startable(sim: Simulation, queue: RankTree, steps: Steps, rank: int) -> int:
    """Return the first job, by rank from ``rank`` on, that fits from now to its estimated end, or `NO_RANK`."""
    now, free = sim.state[0].now, largest_startable(sim.capacity)
    smallest, place, found = smallest_size(queue), 0, NO_RANK
    # From now on the least that is free falls from level to level: a job no larger than a level may run to its end.
    level = free_at(steps, place)
    while min(level, free) >= smallest:
        place = next_without(steps, place, level)
        until = begins_at(steps, place) if place != NO_STEP else np.inf
        other = next_fit(queue, rank, min(level, free), 0, now, until)
        if other >= 0 and (found == NO_RANK or other < found):
            found = other
        if place == NO_STEP:
            break
        level = free_at(steps, place)
    return found


@jit_internal
def _plan(sim: Simulation, queue: RankTree, plan: Plan, rank: int) -> bool:
    """Plan the next job in order, and start it if that is now and there is room; False: it is beyond the wall."""
    jobs, valid, job = sim.jobs, plan.valid[0], queue.job[rank]
    step = earliest_step(plan.steps, jobs.size[job], jobs.estimate[job], valid.wall)
    if step == NO_STEP:
        return False
    time = begins_at(plan.steps, step)
    add(plan.steps, time, time + jobs.estimate[job], -jobs.size[job])
    if time <= sim.state[0].now and fits(sim.capacity, job):
        _start(sim, queue, job)
        return True
    plan.rank[valid.planned], plan.time[valid.planned] = rank, time
    valid.planned += 1
    valid.soonest = min(valid.soonest, time)
    return True


@jit_internal
def _look_for_wall(plan: Plan) -> None:
    """Note where the first wall begins, and what is free before it at most."""
    steps, valid = plan.steps, plan.valid[0]
    place = next_without(steps, 0, valid.smallest)
    if place != NO_STEP and begins_at(steps, place) < valid.wall:
        valid.wall, valid.room = begins_at(steps, place), most_before(steps, place)


@jit_internal
def _start(sim: Simulation, queue: RankTree, job: int) -> None:
    start(sim, (), job, np.inf)
    leave(queue, job)
