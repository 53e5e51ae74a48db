"""The compiled part of an environment: many windows side by side, each stopped where somebody has to choose a job.

A *lane* is one simulation. `proceed` makes a choice and runs by the engine's own functions to the next one, where it
writes down who may be chosen. It says nothing about *which* job is best; everything else (events, reservations,
backfilling) is the code that the heuristics run on.

All functions take a `World`, arrays with one row per lane, and a lane's number, so that compiled code of others (a
network, a rollout) can call them as well. Nothing here allocates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.backfill import EASY, NONE, Memory
from tracekit.sim.books import Books
from tracekit.sim.capacity import Processors, fits
from tracekit.sim.compile import inlined, internal
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
    count: Ints  # type: ignore[assignment]  # (L,) valid slots: the first ones; hides tuple.count, which nobody needs
    mask: NDArray[np.bool_]  # (L, S) or (L, S + 1) with skip
    features: NDArray[np.float32]  # (L, S, F)
    codes: Ints  # (F,) which feature, see `tracekit.sim.observe.CODES`
    constants: Floats  # (C,) what features are divided by
    done: NDArray[np.bool_]  # (L,)


# A lane's rows as the engine's own tuples. Views only, so this costs next to nothing.


@internal
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


@internal
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


@internal
def queue_of(world: World, lane: int) -> Queue:
    """Return the waiting jobs of a lane, by submit time."""
    return Queue(
        world.waiting[lane], world.value[lane], world.scratch[lane], world.key[lane], world.waiting_count[lane]
    )


@internal
def begin_lane(world: World, rules: Rules, lane: int, books: Books) -> None:
    """Begin a lane's window, whose jobs have been written into its rows, and run it to the first choice."""
    _open(world, lane)
    proceed(world, rules, lane, -1, books)


@internal
def ask_lane(world: World, rules: Rules, lane: int, books: Books) -> None:
    """Ask for a pick at the moment when a lane's window opens, whether or not anybody could start then."""
    _open(world, lane)
    jobs, running, capacity = jobs_of(world, lane), running_of(world, lane), Processors(world.free[lane])
    clock = Clock(world.time[lane], world.arrived[lane])
    advance(world.opening[lane], False, jobs, capacity, running, clock, world.ended[lane])
    admit(0, jobs, clock, queue_of(world, lane), books, False)
    world.state[lane, PHASE], world.state[lane, MAY_SKIP] = PICKING, 0
    world.state[lane, ASKED] += 1
    world.count[lane] = _show(world, rules, lane, jobs, capacity, Processors(world.later[lane]))


@internal
def _open(world: World, lane: int) -> None:
    """Put a lane to where its window begins."""
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


@internal
def chosen_job(world: World, rules: Rules, lane: int, action: int) -> int:
    """Return the job that an action means; −1 = do nothing until the next event; −2 = it is not on offer."""
    if 0 <= action < world.count[lane]:
        return int(world.visible[lane, action])
    return -1 if action == rules.slots and world.state[lane, MAY_SKIP] == 1 else -2


@internal
def proceed(world: World, rules: Rules, lane: int, job: int, books: Books) -> None:
    """Choose a job (−1: none until the next event) and run to the next choice, or to the end; forced ones are made."""
    jobs, running, queue = jobs_of(world, lane), running_of(world, lane), queue_of(world, lane)
    capacity, later = Processors(world.free[lane]), Processors(world.later[lane])
    clock, memory = Clock(world.time[lane], world.arrived[lane]), Memory(world.memory[lane], world.shadow[lane])
    state, tick, total = world.state[lane], world.tick[lane], len(jobs.submit)
    if job < 0:
        state[PHASE] = BETWEEN
    while True:
        if job >= 0:
            started = running.tally[1]
            if state[PHASE] == FILLING:
                fill(clock.time[0], job, memory.shadow[0], jobs, capacity, later, running)
            elif place(clock.time[0], job, jobs, capacity, later, running, rules.backfill, rules.commit, memory):
                state[PHASE] = PICKING
            elif rules.backfill == EASY:
                state[PHASE] = FILLING
            else:
                state[PHASE] = BETWEEN
                if rules.backfill != NONE:
                    fill_gaps(clock.time[0], jobs, capacity, later, running, queue, rules.backfill, memory)
            if running.tally[1] > started:
                _account(world, rules, lane, jobs, queue)
            job = -1

        if state[PHASE] == BETWEEN:
            if queue.length[0] == 0:
                tick[0] = np.inf
            time = min(next_event(jobs, running, clock), tick[0])
            if time == np.inf or (clock.arrived[0] == total and queue.length[0] == 0):
                state[PHASE], state[MAY_SKIP] = FINISHED, 0
                world.count[lane] = 0
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
            if settled and (rules.backfill != NONE or fits(capacity, jobs.size[memory.number[1]])):
                if anyone_fits(jobs, capacity, queue):
                    state[PHASE], job = PICKING, memory.number[1]
            elif not settled and (rules.commit or anyone_fits(jobs, capacity, queue)):
                state[PHASE] = PICKING
            continue

        if state[PHASE] == PICKING and not rules.commit and not anyone_fits(jobs, capacity, queue):
            state[PHASE] = BETWEEN  # a pick that cannot start now would be forgotten at the next event
            continue
        found = _show(world, rules, lane, jobs, capacity, later)
        if found == 0:
            state[PHASE] = BETWEEN
            continue
        may_skip = rules.skip and next_event(jobs, running, clock) < np.inf
        if found > 1 or may_skip or rules.ask_forced or state[ASKED] == 0:  # the first choice is always asked for
            world.count[lane] = found
            state[MAY_SKIP] = 1 if may_skip else 0
            state[ASKED] += 1
            return
        job = world.visible[lane, 0]


@inlined
def _account(world: World, rules: Rules, lane: int, jobs: Jobs, queue: Queue) -> None:
    """Write down what the jobs that just started have cost, and take them out of the queue."""
    by_user = world.by_user[lane]
    for i in range(queue.length[0]):
        each = queue.job[i]
        if not np.isnan(jobs.start[each]):
            wait, run = jobs.start[each] - jobs.submit[each], jobs.run[each]
            world.accrued[lane, 0] += job_cost(world.weights, rules.bound, wait, run) / world.accrued[lane, 1]
            if len(by_user) > 1:
                by_user[world.user[lane, each], 0] += max(1.0, (wait + run) / max(run, rules.bound))
                by_user[world.user[lane, each], 1] += 1.0
    drop_started(jobs, queue)


@inlined
def _show(world: World, rules: Rules, lane: int, jobs: Jobs, capacity: Processors, later: Processors) -> int:
    """Write who may be chosen into ``visible``, by submit time, or by the rule where there are too many; how many.

    To be picked: whoever waits. To fill a gap: whoever is not in the way.
    """
    visible, waiting, count = world.visible[lane], world.waiting[lane], world.waiting_count[lane, 0]
    filling, blocked, found = world.state[lane, PHASE] == FILLING, world.memory[lane, 1], 0
    now, shadow = world.time[lane, 0], world.shadow[lane, 0]
    if filling:
        for i in range(count):
            each = waiting[i]
            if each != blocked and may_fill(now, each, shadow, True, jobs, capacity, later):
                if found < rules.slots:
                    visible[found] = each
                found += 1
    else:
        found = count
        for i in range(min(count, rules.slots)):
            visible[i] = waiting[i]
    if found > rules.slots:
        found = rules.slots
        _show_some(world, rules, lane, filling)
    return found


@internal
def _show_some(world: World, rules: Rules, lane: int, filling: bool) -> None:
    """Fill the slots from one order, or from two in turn."""
    visible, mark, order = world.visible[lane], world.mark[lane], world.order[lane]
    jobs, capacity, later = jobs_of(world, lane), Processors(world.free[lane]), Processors(world.later[lane])
    now, shadow, blocked = world.time[lane, 0], world.shadow[lane, 0], world.memory[lane, 1]
    world.state[lane, STAMP] += 1
    arrived, stamp = world.arrived[lane, 0], world.state[lane, STAMP]
    found, turn, first, second = 0, 0, 0, 0
    while found < rules.slots:
        at = first if turn == 0 else second
        while True:
            each = order[turn, at]
            at += 1
            if each < arrived and np.isnan(jobs.start[each]):
                if not filling:
                    break
                if each != blocked and may_fill(now, each, shadow, True, jobs, capacity, later):
                    break
        if turn == 0:
            first = at
        else:
            second = at
        if mark[each] != stamp:
            mark[each] = stamp
            visible[found] = each
            found += 1
        if rules.orders == 2:
            turn = 1 - turn
