"""Conservative backfilling in order of submission, with plans that are kept from pass to pass.

By definition (`tracekit.sim.engine.conservative`) all waiting jobs are planned again at every event, in order, each at
its earliest fit. A plan comes out as before while what precedes it is as before: the running jobs with their
estimated ends, and the jobs before it in the order. Later arrivals come last. So plans are made again only

- all of them, after a job has ended before its estimate;
- from the first one on whose time has passed without a start, because a running job has outlived its estimate.

With exact estimates every job is planned once. And, as there, a job is planned only if that decides about a start
now: the planned jobs are the first ones in order, and the others wait without a plan until one of them fits now.
Where many jobs end early this is no faster than planning from the beginning; see `Session.can_rank`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.engine.capacity import fits, largest_startable
from tracekit.sim.engine.rank_tree import RankTree, first_rank, leave, next_fit, smallest_size
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
    ],
    align=True,
)


class Plan(NamedTuple):
    """The planned jobs, which are the first ones that wait, in order."""

    steps: Steps  # what running and planned jobs leave free
    rank: NDArray[np.int64]  # (jobs,)
    time: NDArray[np.float64]  # (jobs,) when each is to start
    valid: NDArray[Any]  # (1,) VALID


def empty_plan(jobs: int, most_running: int) -> Plan:
    """Return a plan with room for all jobs; the first pass makes it."""
    valid = np.zeros(1, VALID)
    valid["outdated"], valid["soonest"] = True, np.inf
    return Plan(empty_steps(jobs + most_running + 2), np.zeros(jobs, np.int64), np.zeros(jobs), valid)


@jit_merged
def note_end(plan: Plan, now: float, estimated: float) -> None:
    """A job has ended: if that was before its estimated end, everything is to be planned again."""
    plan.valid[0].outdated |= estimated > now


@jit_merged
def planned_pass(sim: Simulation, queue: RankTree, plan: Plan) -> None:
    """Start the jobs that are planned for now, and plan others as far as they may start now."""
    now, valid = sim.state[0].now, plan.valid[0]
    if smallest_size(queue) > largest_startable(sim.capacity):
        return
    if valid.outdated or is_crowded(plan.steps):
        write_running(plan.steps, now, largest_startable(sim.capacity), sim.running, sim.jobs.size)
        valid.planned, valid.outdated, valid.soonest = 0, False, np.inf
    else:
        forget_before(plan.steps, now)
        _forget_passed(sim, queue, plan)
    if valid.soonest <= now:
        _start_planned(sim, queue, plan)
    rank = plan.rank[valid.planned - 1] + 1 if valid.planned > 0 else 0
    while True:
        last = _next_startable(sim, queue, plan.steps, rank)
        if last == NO_RANK:
            return
        while rank <= last:  # the jobs before it are planned first: they may take its place
            rank = first_rank(queue, rank)
            _plan(sim, queue, plan, rank)
            rank += 1


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
def _plan(sim: Simulation, queue: RankTree, plan: Plan, rank: int) -> None:
    """Plan the next job in order, and start it if that is now and there is really room."""
    jobs, valid, job = sim.jobs, plan.valid[0], queue.job[rank]
    time = begins_at(plan.steps, earliest_step(plan.steps, jobs.size[job], jobs.estimate[job]))
    add(plan.steps, time, time + jobs.estimate[job], -jobs.size[job])
    if time <= sim.state[0].now and fits(sim.capacity, job):
        _start(sim, queue, job)
        return
    plan.rank[valid.planned], plan.time[valid.planned] = rank, time
    valid.planned += 1
    valid.soonest = min(valid.soonest, time)


@jit_internal
def _start(sim: Simulation, queue: RankTree, job: int) -> None:
    start(sim, (), job, np.inf)
    leave(queue, job)
