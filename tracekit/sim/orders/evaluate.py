"""What an order of waiting jobs costs: list scheduling, strictly in order or with EASY backfilling, compiled.

All jobs wait at time 0; none arrive later. Strictly in order, a job starts when it fits and no job before it still
waits, so starts never decrease along the order. With backfilling the first job that does not fit gets a reservation,
and jobs behind it start if they do not delay it, tried in the given order.

Searches use `begin` and `cost_of`, which compiled code chooses by the class of the case (`evaluator`). A `Case` counts
processors; that of a cluster of hosts is in `tracekit.sim.orders.on_hosts`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import chosen_by_class, jit, jit_internal
from tracekit.sim.orders.later import NOBODY, Later, cost_of_waiting, largest_later

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The state of a schedule is kept after every so many jobs, so that a changed order is not redone from its start.
STEP = 8


class Case(NamedTuple):
    """A queue as a search sees it; shape (jobs,) where not stated, times in seconds from now.

    Job i costs ``linear·t + fixed + max(least, rate·t + offset)`` if it starts at t, and ``late·(t − due)²`` if that is
    after ``due``. Two parts are not sums over jobs: ``makespan`` × (last end + ``oldest``) − ``utilization`` / (last
    end + ``oldest``), and ``worst_user`` × the largest of the users' means; the latter is then all that counts.

    With a finite ``horizon`` H, what lies ahead counts less: t is replaced by H·(1 − exp(−t / H)), except for ``late``.
    """

    size: Ints  # units of the machine
    run: Floats  # how long each job runs …
    estimate: Floats  # … and how long a reservation believes it will
    linear: Floats
    fixed: Floats
    least: Floats
    rate: Floats
    offset: Floats
    user: Ints  # number of the job's user, from 0
    user_weight: Floats  # (jobs,) share of a job in the sum of its user
    ends: Floats  # (running,) when running jobs end, ascending; with backfilling …
    expected: Floats  # … (running,) when they are expected to, ascending, and `ends` in the same order
    held: Ints  # (running,) what they hold
    free: int  # units
    utilization: float  # weight × work / units of the machine
    makespan: float  # weight
    oldest: float  # the longest age
    worst_user: float
    backfill: bool
    due: Floats  # infinite = never
    late: float = 0.0
    horizon: float = np.inf
    later: Later = NOBODY  # jobs that may still come


class Room(NamedTuple):
    """Scratch space of one search: the running jobs, and states that were kept on the way."""

    ends: Floats  # (jobs + running,) when jobs end, descending; with backfilling in the order of `expected` …
    expected: Floats  # … (jobs + running,) when they are expected to, ascending
    held: Ints  # (jobs + running,) what each of them holds
    users: Floats  # (users,)
    start: Floats  # (jobs,) starts, by job
    left: Ints  # (jobs,) order of the jobs that still wait
    clock: Floats  # (states,)
    cost: Floats  # (states,)
    end: Floats  # (states,) last end so far
    free: Ints  # (states,)
    length: Ints  # (states,) how many jobs run
    kept_ends: Floats  # (states, jobs + running)
    kept_held: Ints  # (states, jobs + running)
    since: Floats  # (classes,) when later jobs of each class could last have started
    kept_since: Floats  # (states, classes)


@singledispatch
def room_for(case: Any) -> Any:
    """Return scratch space for a case."""
    jobs, most = len(case.size), len(case.size) + len(case.ends)
    states = jobs // STEP + 1
    return Room(
        np.empty(most),
        np.empty(most),
        np.empty(most, np.int64),
        np.zeros(int(case.user.max(initial=0)) + 1),
        np.empty(jobs),
        np.empty(jobs, np.int64),
        np.zeros(states),
        np.zeros(states),
        np.zeros(states),
        np.zeros(states, np.int64),
        np.zeros(states, np.int64),
        np.empty((states, most)),
        np.empty((states, most), np.int64),
        np.zeros(len(case.later.size)),
        np.zeros((states, len(case.later.size))),
    )


@jit_internal
def push(ends: Floats, held: Ints, count: int, end: float, size: int) -> None:
    """Add an entry to ``count`` entries in descending order of their ends."""
    place = count
    while place > 0 and ends[place - 1] < end:
        ends[place], held[place] = ends[place - 1], held[place - 1]
        place -= 1
    ends[place], held[place] = end, size


@jit_internal
def clear(values: Floats) -> None:
    """Set all values to 0."""
    for k in range(len(values)):
        values[k] = 0.0


@jit_internal
def largest(values: Floats) -> float:
    """Return the largest value."""
    found = values[0]
    for k in range(1, len(values)):
        found = max(found, values[k])
    return float(found)


@jit_internal
def counted(case: Case, time: float) -> float:
    """Return how much a time from now counts."""
    return time if case.horizon == np.inf else -case.horizon * np.expm1(-time / case.horizon)


@jit_internal
def job_cost(case: Case, job: int, start: float) -> float:
    """Return what one job adds to the sum."""
    time = counted(case, start)
    cost = case.linear[job] * time + case.fixed[job] + max(case.least[job], case.rate[job] * time + case.offset[job])
    if start > case.due[job]:
        cost += case.late * (start - case.due[job]) ** 2
    return float(cost)


@jit_internal
def later_cost(case: Case, room: Room, free: int, until: float, freed: int) -> float:
    """Return what later jobs cost that can start at ``until``; see `cost_of_waiting`."""
    cost = cost_of_waiting(case.later, room.since, free, until, freed)
    return cost if case.horizon == np.inf or cost == 0.0 else cost * np.exp(-until / case.horizon)


@jit
def is_sum(case: Case) -> bool:
    """Return whether the cost is a sum over jobs."""
    return case.worst_user == 0.0 and case.utilization == 0.0 and case.makespan == 0.0


@jit_internal
def whole_cost(case: Case, users: Floats, cost: float, last: float) -> float:
    """Return the cost of a schedule, given the users' means, the sum over its jobs and its last end."""
    if case.worst_user != 0.0:
        return case.worst_user * largest(users)
    span = last + case.oldest
    if case.utilization != 0.0 and span > 0.0:
        cost -= case.utilization / span
    return cost + case.makespan * span


@jit_internal
def keep(room: Room, state: int, clock: float, cost: float, end: float, free: int, count: int) -> None:
    """Keep the state of a schedule."""
    room.clock[state], room.cost[state], room.end[state] = clock, cost, end
    room.free[state], room.length[state] = free, count
    for k in range(count):
        room.kept_ends[state, k] = room.ends[k]
        room.kept_held[state, k] = room.held[k]
    for k in range(len(room.since)):
        room.kept_since[state, k] = room.since[k]


def _begin(case: Any, room: Any) -> Any:
    running = len(case.ends)
    for k in range(running):
        room.ends[running - 1 - k], room.held[running - 1 - k] = case.ends[k], case.held[k]
    clear(room.since)
    keep(room, 0, 0.0, 0.0, 0.0, case.free, len(case.ends))


@jit
def in_order(case: Case, order: Ints, room: Room, first: int, limit: float, keeping: bool) -> float:
    """Return the cost of an order, strictly in order; infinity where it is above ``limit``, as far as that is known.

    Positions before ``first`` are as they were when states were last kept (``keeping``).
    """
    jobs = len(order)
    state = first // STEP
    if case.worst_user != 0.0:
        state = 0
        clear(room.users)
    clock, cost, last, free, count = (
        room.clock[state],
        room.cost[state],
        room.end[state],
        room.free[state],
        room.length[state],
    )
    ends, held = room.ends, room.held
    for k in range(count):
        ends[k], held[k] = room.kept_ends[state, k], room.kept_held[state, k]
    for k in range(len(room.since)):
        room.since[k] = room.kept_since[state, k]
    rest_slope = rest_cost = 0.0
    bounded = limit < np.inf and is_sum(case)
    if bounded:
        for k in range(state * STEP, jobs):
            job = order[k]
            rest_slope += case.linear[job] + case.rate[job]
            rest_cost += case.fixed[job] + case.offset[job]
    for k in range(state * STEP, jobs):
        if keeping and k % STEP == 0:
            keep(room, k // STEP, clock, cost, last, free, count)
        job = order[k]
        size = case.size[job]
        while size > free:
            count -= 1
            clock = max(clock, ends[count])
            cost += later_cost(case, room, free, clock, free + held[count])
            free += held[count]
        own = job_cost(case, job, clock)
        cost += own
        end = clock + case.run[job]
        last = max(last, end)
        push(ends, held, count, end, size)
        count += 1
        free -= size
        room.start[job] = clock
        if case.worst_user != 0.0:
            room.users[case.user[job]] += own * case.user_weight[job]
        elif bounded:
            rest_slope -= case.linear[job] + case.rate[job]
            rest_cost -= case.fixed[job] + case.offset[job]
            if cost + rest_slope * counted(case, clock) + rest_cost > limit:
                return np.inf
    most = largest_later(case.later)
    while free < most:
        count -= 1
        clock = max(clock, ends[count])
        cost += later_cost(case, room, free, clock, free + held[count])
        free += held[count]
    return whole_cost(case, room.users, cost, last)


@jit
def with_backfilling(case: Case, order: Ints, room: Room) -> float:
    """Return the cost of an order under EASY backfilling that keeps it."""
    left = room.left
    count, waiting, free, clock, cost, last = len(case.ends), len(order), case.free, 0.0, 0.0, 0.0
    most = largest_later(case.later)
    clear(room.users)
    clear(room.since)
    for k in range(count):
        room.ends[k], room.expected[k], room.held[k] = case.ends[k], case.expected[k], case.held[k]
    for k in range(waiting):
        left[k] = order[k]
    while True:
        blocked, shadow, extra, kept = False, 0.0, 0, 0
        for k in range(waiting):
            job = left[k]
            size, estimate = case.size[job], case.estimate[job]
            fits = size <= free and (not blocked or clock + estimate <= shadow or size <= extra)
            if not fits:
                if not blocked:
                    blocked = True
                    shadow, extra = reservation(room, count, free, size, clock)
                left[kept] = job
                kept += 1
                continue
            if blocked and clock + estimate > shadow:
                extra -= size
            own = job_cost(case, job, clock)
            cost += own
            room.users[case.user[job]] += own * case.user_weight[job]
            room.start[job] = clock
            last = max(last, clock + case.run[job])
            hold(room, count, clock + case.run[job], clock + estimate, size)
            count += 1
            free -= size
        waiting = kept
        if waiting == 0 and free >= most:
            return whole_cost(case, room.users, cost, last)
        clock, before = max(clock, next_end(room, count)), free
        free, count = release(room, count, free, clock)
        cost += later_cost(case, room, before, clock, free)


@jit_internal
def hold(room: Room, count: int, end: float, expected: float, size: int) -> None:
    """Add a running job to ``count`` others, in ascending order of their expected ends."""
    ends, later, held = room.ends, room.expected, room.held
    place = count
    while place > 0 and later[place - 1] > expected:
        ends[place], later[place], held[place] = ends[place - 1], later[place - 1], held[place - 1]
        place -= 1
    ends[place], later[place], held[place] = end, expected, size


@jit_internal
def next_end(room: Room, count: int) -> float:
    """Return when the first running job ends."""
    found = room.ends[0]
    for k in range(1, count):
        found = min(found, room.ends[k])
    return float(found)


@jit_internal
def release(room: Room, count: int, free: int, clock: float) -> tuple[int, int]:
    """Remove the jobs that have ended; return what is free then, and how many still run."""
    kept = 0
    for k in range(count):
        if room.ends[k] <= clock:
            free += room.held[k]
        else:
            room.ends[kept], room.expected[kept], room.held[kept] = room.ends[k], room.expected[k], room.held[k]
            kept += 1
    return free, kept


@jit_internal
def reservation(room: Room, count: int, free: int, size: int, clock: float) -> tuple[float, int]:
    """Return when ``size`` units are free by estimates, and what is left over then; overdue jobs end now."""
    time = clock
    for k in range(count):
        if free >= size and room.expected[k] > time:
            break
        free += room.held[k]
        time = max(time, room.expected[k])
    return time, free - size


def _cost(case: Any, order: Any, room: Any, first: Any, limit: Any, keeping: Any) -> Any:
    if case.backfill:
        return with_backfilling(case, order, room)
    return in_order(case, order, room, first, limit, keeping)


# ---- what searches use: the class of the case decides which body is meant --------------------------------------------

_BODIES: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def evaluator(kind: type, begin: Callable[..., Any], cost: Callable[..., Any]) -> None:
    """Register how orders of a class of cases are evaluated; arguments are named as in `begin` and `cost_of`."""
    _BODIES[kind] = begin, cost


def _begin_by_class(case: Any, room: Any) -> None:
    raise NotImplementedError("only compiled code can call this")


def _cost_by_class(case: Any, order: Any, room: Any, first: Any, limit: Any, keeping: Any) -> float:
    raise NotImplementedError("only compiled code can call this")


chosen_by_class(_begin_by_class, lambda kind: _BODIES[kind][0] if kind in _BODIES else None)
chosen_by_class(_cost_by_class, lambda kind: _BODIES[kind][1] if kind in _BODIES else None)
evaluator(Case, _begin, _cost)


@jit
def begin(case: Any, room: Any) -> None:
    """Keep the state before the first job."""
    _begin_by_class(case, room)


@jit
def cost_of(case: Any, order: Ints, room: Any, first: int, limit: float, keeping: bool) -> float:
    """Return the cost of an order; infinity where it is above ``limit``, as far as that is known.

    Positions before ``first`` are as they were when states were last kept (``keeping``).
    """
    return _cost_by_class(case, order, room, first, limit, keeping)


@jit
def costs(case: Any, orders: Ints, room: Any, found: Floats) -> None:
    """Write the costs of many orders, (orders, jobs), into ``found``, (orders,)."""
    begin(case, room)
    for k in range(len(orders)):
        found[k] = cost_of(case, orders[k], room, 0, np.inf, False)
