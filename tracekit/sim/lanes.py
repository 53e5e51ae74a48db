"""The compiled part of an environment: many windows side by side, each stopped where somebody has to choose a job.

A *lane* is one simulation. `proceed` runs it by the engine's own functions until there is a choice to be made and
writes down who may be chosen; `choose` makes one choice. Both together say nothing about *which* job is best, and
everything else (events, reservations, backfilling) is the code that the heuristics run on.

All functions take a `World`, arrays with one row per lane, and a lane's number, so that compiled code of others (a
network, a rollout) can call them as well. Nothing here allocates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.backfill import EASY, NONE, Memory
from tracekit.sim.books import Books
from tracekit.sim.capacity import Processors
from tracekit.sim.compile import compiled
from tracekit.sim.decide import Queue, anyone_fits, drop_started, fill, fill_gaps, may_fill, place
from tracekit.sim.engine import admit, tick_from
from tracekit.sim.events import Clock, Jobs, advance, next_event, resume
from tracekit.sim.objectives import job_cost
from tracekit.sim.running import Running

#: Where a lane stands: between two events; a job is to be picked; a gap is to be filled under a reservation; done.
BETWEEN, PICKING, FILLING, FINISHED = range(4)
#: Columns of `World.state`: the above; choices asked for so far; slots filled by the observer; whether doing nothing
#: is on offer; how often the rule of visibility was needed.
PHASE, ASKED, FILLED, MAY_SKIP, STAMP = range(5)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Rules(NamedTuple):
    """The task in numbers."""

    slots: int
    backfill: int  # as in `tracekit.sim.backfill`
    commit: bool
    arrivals_first: bool
    interval: float  # seconds between passes; 0 = at every event
    skip: bool  # may the agent do nothing?
    ask_forced: bool  # ask also where there is only one choice
    orders: int  # orders that the visible jobs are drawn from in turn, 1 or 2
    bound: float  # seconds, of the bounded slowdown


class World(NamedTuple):
    """Arrays of every lane: L lanes with room for J jobs, M running ones, S slots and F features."""

    # the jobs of each window
    length: Ints  # (L,) jobs in use
    submit: Floats  # (L, J) seconds
    run: Floats  # (L, J)
    estimate: Floats  # (L, J)
    size: Ints  # (L, J) units
    start: Floats  # (L, J) NaN = not started
    user: Ints  # (L, J) numbered from 0 within the window
    order: Ints  # (L, 2, J) jobs by the rule(s) that decide who is visible
    fixed: NDArray[np.float32]  # (L, J, F) features that do not change
    begun: Ints  # (L, J) jobs that run when the window begins, by start …
    begun_count: Ints  # (L,) … and how many
    opening: Floats  # (L,) when the window begins; −inf = at the first submit
    # the machine and the clock
    total: Ints  # (L,) units of the machine
    free: Ints  # (L, 1)
    later: Ints  # (L, 1)
    end: Floats  # (L, M)
    turn: Ints  # (L, M)
    running: Ints  # (L, M)
    limit: Floats  # (L, M)
    limit_job: Ints  # (L, M)
    tally: Ints  # (L, 2)
    ended: Ints  # (L, M) scratch
    time: Floats  # (L, 1)
    arrived: Ints  # (L, 1)
    tick: Floats  # (L, 2) next pass; where passes are counted from
    # the waiting jobs
    waiting: Ints  # (L, J)
    value: Floats  # (L, J) unused: nobody's values
    scratch: Ints  # (L, J)
    key: Floats  # (L, J) scratch
    waiting_count: Ints  # (L, 1)
    memory: Ints  # (L, 3)
    shadow: Floats  # (L, 1)
    # what has come out so far
    weights: Floats  # (4,) of the additive objectives
    accrued: Floats  # (L, 2) cost of the jobs started since the last choice; jobs that count
    by_user: Floats  # (L, U, 2) sum of bounded slowdowns and number of started jobs of each user; U = 1 if unused
    # the question
    state: Ints  # (L, 5)
    visible: Ints  # (L, S) job of each slot
    mark: Ints  # (L, J) scratch
    stair: Ints  # (L, M + 1) scratch of the observer
    count: Ints  # (L,) valid slots: the first ones
    mask: NDArray[np.bool_]  # (L, S) or (L, S + 1) with skip
    features: NDArray[np.float32]  # (L, S, F)
    codes: Ints  # (F,) which feature, see `tracekit.sim.observe`
    constants: Floats  # (C,) what features are divided by
    done: NDArray[np.bool_]  # (L,)


# A lane's rows as the engine's own tuples. Views only, so this costs next to nothing.


@compiled
def jobs_of(world: World, lane: int) -> Jobs:
    """Return the jobs of a lane."""
    n = world.length[lane]
    return Jobs(
        world.submit[lane][:n],
        world.run[lane][:n],
        world.estimate[lane][:n],
        world.size[lane][:n],
        world.start[lane][:n],
    )


@compiled
def running_of(world: World, lane: int) -> Running:
    """Return the running jobs of a lane."""
    return Running(
        world.end[lane],
        world.turn[lane],
        world.running[lane],
        world.limit[lane],
        world.limit_job[lane],
        world.tally[lane],
    )


@compiled
def queue_of(world: World, lane: int) -> Queue:
    """Return the waiting jobs of a lane, by submit time."""
    return Queue(
        world.waiting[lane], world.value[lane], world.scratch[lane], world.key[lane], world.waiting_count[lane]
    )


@compiled
def begin_lane(world: World, rules: Rules, lane: int, books: Books) -> None:
    """Begin a lane's window, whose jobs have been written into its rows, and run it to the first choice."""
    jobs, running = jobs_of(world, lane), running_of(world, lane)
    world.free[lane, 0] = world.total[lane]
    world.tally[lane, 0], world.tally[lane, 1] = 0, 0
    world.time[lane, 0] = world.opening[lane]
    world.arrived[lane, 0] = 0
    world.waiting_count[lane, 0] = 0
    world.memory[lane, 0], world.memory[lane, 1], world.memory[lane, 2] = 0, -1, 0
    world.accrued[lane, 0] = 0.0
    world.state[lane, PHASE], world.state[lane, ASKED], world.state[lane, STAMP] = BETWEEN, 0, 0
    world.done[lane] = False
    for job in range(world.length[lane]):
        world.mark[lane, job] = -1
    for user in range(world.by_user.shape[1]):
        world.by_user[lane, user, 0], world.by_user[lane, user, 1] = 0.0, 0.0
    resume(
        world.begun[lane][: world.begun_count[lane]],
        jobs,
        Processors(world.free[lane]),
        running,
        world.opening[lane],
    )
    world.tick[lane, 0] = np.inf
    world.tick[lane, 1] = next_event(jobs, running, Clock(world.time[lane], world.arrived[lane]))
    proceed(world, rules, lane, books)


@compiled
def proceed(world: World, rules: Rules, lane: int, books: Books) -> None:
    """Run a lane until somebody has to choose, or to its end; forced moves are made on the way."""
    jobs, running, queue = jobs_of(world, lane), running_of(world, lane), queue_of(world, lane)
    capacity = Processors(world.free[lane])
    clock, memory = Clock(world.time[lane], world.arrived[lane]), Memory(world.memory[lane], world.shadow[lane])
    state, tick, total = world.state[lane], world.tick[lane], len(jobs.submit)
    while True:
        if state[PHASE] == BETWEEN:
            if queue.length[0] == 0:
                tick[0] = np.inf
            time = min(next_event(jobs, running, clock), tick[0])
            if time == np.inf or (clock.arrived[0] == total and queue.length[0] == 0):
                state[PHASE] = FINISHED
                world.count[lane] = 0
                state[MAY_SKIP] = 0
                world.done[lane] = True
                return
            first = clock.arrived[0]
            advance(time, rules.arrivals_first, jobs, capacity, running, clock, world.ended[lane])
            admit(first, jobs, clock, queue, books, False)
            if queue.length[0] == 0:
                continue
            if rules.interval > 0:
                tick[0] = tick_from(time, tick[1], rules.interval)
                if tick[0] > time:
                    continue
                tick[0] = tick_from(np.nextafter(time, np.inf), tick[1], rules.interval)
            settled = rules.commit and memory.number[1] >= 0
            if anyone_fits(jobs, capacity, queue) or (rules.commit and not settled):
                state[PHASE] = PICKING
                if settled:
                    _pick(world, rules, lane, memory.number[1])
            continue

        if state[PHASE] == PICKING and (
            queue.length[0] == 0 or not (rules.commit or anyone_fits(jobs, capacity, queue))
        ):
            state[PHASE] = BETWEEN  # a pick that cannot start now would be forgotten at the next event
            continue
        found = _show(world, rules, lane)
        if found == 0:
            state[PHASE] = BETWEEN
            continue
        may_skip = rules.skip and next_event(jobs, running, clock) < np.inf
        if found > 1 or may_skip or rules.ask_forced or state[ASKED] == 0:  # the first choice is always asked for
            world.count[lane] = found
            state[MAY_SKIP] = 1 if may_skip else 0
            state[ASKED] += 1
            return
        _take(world, rules, lane, world.visible[lane, 0])


@compiled
def choose(world: World, rules: Rules, lane: int, action: int) -> bool:
    """Make a choice: a slot, or `Rules.slots` to do nothing until the next event. False: it was not on offer."""
    if action == rules.slots and world.state[lane, MAY_SKIP] == 1:
        world.state[lane, PHASE] = BETWEEN
        return True
    if action < 0 or action >= world.count[lane]:
        return False
    _take(world, rules, lane, world.visible[lane, action])
    return True


@compiled
def _take(world: World, rules: Rules, lane: int, job: int) -> None:
    if world.state[lane, PHASE] == PICKING:
        _pick(world, rules, lane, job)
        return
    jobs = jobs_of(world, lane)
    fill(
        world.time[lane, 0],
        job,
        world.shadow[lane, 0],
        jobs,
        Processors(world.free[lane]),
        Processors(world.later[lane]),
        running_of(world, lane),
    )
    _account(world, rules, lane)


@compiled
def _pick(world: World, rules: Rules, lane: int, job: int) -> None:
    """Start a picked job, or reserve for it and see to the gaps before its turn."""
    jobs, running, queue = jobs_of(world, lane), running_of(world, lane), queue_of(world, lane)
    capacity, later = Processors(world.free[lane]), Processors(world.later[lane])
    memory, now = Memory(world.memory[lane], world.shadow[lane]), world.time[lane, 0]
    if place(now, job, jobs, capacity, later, running, rules.backfill, rules.commit, memory):
        world.state[lane, PHASE] = PICKING
    elif rules.backfill == EASY:
        world.state[lane, PHASE] = FILLING
        return
    else:
        world.state[lane, PHASE] = BETWEEN
        if rules.backfill == NONE:
            return
        fill_gaps(now, jobs, capacity, later, running, queue, rules.backfill, memory)
    _account(world, rules, lane)


@compiled
def _account(world: World, rules: Rules, lane: int) -> None:
    """Write down what the jobs that just started have cost, and take them out of the queue."""
    jobs, queue = jobs_of(world, lane), queue_of(world, lane)
    for i in range(queue.length[0]):
        job = queue.job[i]
        if not np.isnan(jobs.start[job]):
            wait, run = jobs.start[job] - jobs.submit[job], jobs.run[job]
            world.accrued[lane, 0] += job_cost(world.weights, rules.bound, wait, run) / world.accrued[lane, 1]
            if world.by_user.shape[1] > 1:
                user = world.user[lane, job]
                world.by_user[lane, user, 0] += max(1.0, (wait + run) / max(run, rules.bound))
                world.by_user[lane, user, 1] += 1.0
    drop_started(jobs, queue)


@compiled
def _on_offer(world: World, rules: Rules, lane: int, job: int) -> bool:
    """Tell whether a waiting job may be chosen now: anyone to pick, to fill a gap who is not in the way."""
    if world.state[lane, PHASE] == PICKING:
        return True
    return job != world.memory[lane, 1] and may_fill(
        world.time[lane, 0],
        job,
        world.shadow[lane, 0],
        True,
        jobs_of(world, lane),
        Processors(world.free[lane]),
        Processors(world.later[lane]),
    )


@compiled
def _show(world: World, rules: Rules, lane: int) -> int:
    """Write who may be chosen into ``visible``, by submit time, or by the rule where there are too many; how many."""
    visible, waiting = world.visible[lane], world.waiting[lane]
    found = 0
    for i in range(world.waiting_count[lane, 0]):
        job = waiting[i]
        if _on_offer(world, rules, lane, job):
            if found == rules.slots:
                return _show_some(world, rules, lane)
            visible[found] = job
            found += 1
    return found


@compiled
def _show_some(world: World, rules: Rules, lane: int) -> int:
    """Fill the slots from one order, or from two in turn, of those on offer."""
    visible, mark, start, order = world.visible[lane], world.mark[lane], world.start[lane], world.order[lane]
    world.state[lane, STAMP] += 1
    arrived, stamp = world.arrived[lane, 0], world.state[lane, STAMP]
    found, at, turn = 0, 0, 0
    first, second = 0, 0
    while found < rules.slots:
        at = first if turn == 0 else second
        while True:
            job = order[turn, at]
            at += 1
            if job < arrived and np.isnan(start[job]) and _on_offer(world, rules, lane, job):
                break
        if turn == 0:
            first = at
        else:
            second = at
        if rules.orders == 1 or mark[job] != stamp:
            mark[job] = stamp
            visible[found] = job
            found += 1
        if rules.orders == 2:
            turn = 1 - turn
    return found
