"""What is free of one counter from now on, as steps in time that are kept between passes.

`tracekit.sim.engine.profile` has a row of cells for every step and is written again at every pass. Here a step is a
single number, and steps are kept in blocks. Every block knows the least and the most that is free in it, and a number
that is to be added to all its steps. Searches and bookings so pass over whole blocks: with s steps in blocks of about
√s, they look at about √s numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.running import Running

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_STEP = -1

#: Steps in a block, a power of two: 2 to the ``SHIFT``.
SHIFT = 5
ROOM = 1 << SHIFT


class Steps(NamedTuple):
    """B blocks with room for K steps each. A step's place is (the block's place in ``order``) · K + its place there."""

    time: Floats  # (B · K,) where a step begins, block by block; the last step lasts for ever
    free: Ints  # (B · K,) what is free, less the block's ``plus``
    filled: Ints  # (B,) steps in use
    plus: Ints  # (B,) to be added to every step of the block
    least: Ints  # (B,) the least that is free in the block
    most: Ints  # (B,) the most
    order: Ints  # (B,) the blocks by time; behind the first ``used``, those that are not in use
    used: Ints  # (2,) blocks, and steps, in use


def empty_steps(steps: int) -> Steps:
    """Return room for ``steps`` steps and as many that have lost their meaning, see `is_crowded`."""
    blocks = 2 * steps // (ROOM // 2) + 4  # all but the first and the last are at least half full
    time, free = np.zeros(blocks * ROOM), np.zeros(blocks * ROOM, np.int64)
    count, plus, least, most = (np.zeros(blocks, np.int64) for _ in range(4))
    return Steps(time, free, count, plus, least, most, np.arange(blocks), np.zeros(2, np.int64))


@jit_internal
def is_crowded(steps: Steps) -> bool:
    """Return whether half of the room is in use: time to write the steps again, as plans leave some without meaning."""
    return bool(4 * steps.used[1] > len(steps.time))


@jit_internal
def write_running(steps: Steps, now: float, free: int, running: Running, size: Ints) -> None:
    """Write the steps of the running jobs alone; a job past its estimate counts as ending now."""
    limits, i = running.limits, running.tally[0].running - 1
    while i >= 0 and limits[i].time <= now:
        free += size[limits[i].job]
        i -= 1
    time, place, inside, block = now, 0, 0, steps.order[0]
    while True:
        if inside == ROOM // 2:  # half full, so that there is room for plans
            _close(steps, block, inside)
            place, inside = place + 1, 0
            block = steps.order[place]
        steps.time[block * ROOM + inside], steps.free[block * ROOM + inside] = time, free
        inside += 1
        if i < 0:
            break
        time = limits[i].time
        while i >= 0 and limits[i].time <= time:
            free += size[limits[i].job]
            i -= 1
    _close(steps, block, inside)
    steps.used[0], steps.used[1] = place + 1, place * (ROOM // 2) + inside


@jit_internal
def _close(steps: Steps, block: int, count: int) -> None:
    """Note that ``count`` steps were written into a block, with nothing to be added to them."""
    steps.filled[block], steps.plus[block] = count, 0
    _measure(steps, block)


@jit_internal
def _measure(steps: Steps, block: int) -> None:
    """Write the least and the most that is free in a block."""
    first = block * ROOM
    least = most = steps.free[first]
    for i in range(first + 1, first + steps.filled[block]):
        least, most = min(least, steps.free[i]), max(most, steps.free[i])
    steps.least[block], steps.most[block] = least + steps.plus[block], most + steps.plus[block]


@jit_internal
def begins_at(steps: Steps, place: int) -> float:
    """Return when a step begins."""
    return float(steps.time[steps.order[place >> SHIFT] * ROOM + (place & (ROOM - 1))])


@jit_internal
def free_at(steps: Steps, place: int) -> int:
    """Return what is free during a step."""
    block = steps.order[place >> SHIFT]
    return int(steps.free[block * ROOM + (place & (ROOM - 1))] + steps.plus[block])


@jit_internal
def next_with(steps: Steps, place: int, units: int) -> int:
    """Return the first step from ``place`` on with at least so many units free, or `NO_STEP`."""
    turn, inside = place >> SHIFT, place & (ROOM - 1)
    while turn < steps.used[0]:
        block = steps.order[turn]
        if steps.most[block] >= units:
            enough = units - steps.plus[block]
            for i in range(inside, steps.filled[block]):
                if steps.free[block * ROOM + i] >= enough:
                    return turn * ROOM + i
        turn, inside = turn + 1, 0
    return NO_STEP


@jit_internal
def next_without(steps: Steps, place: int, units: int) -> int:
    """Return the first step from ``place`` on with fewer units free, or `NO_STEP`."""
    turn, inside = place >> SHIFT, place & (ROOM - 1)
    while turn < steps.used[0]:
        block = steps.order[turn]
        if steps.least[block] < units:
            enough = units - steps.plus[block]
            for i in range(inside, steps.filled[block]):
                if steps.free[block * ROOM + i] < enough:
                    return turn * ROOM + i
        turn, inside = turn + 1, 0
    return NO_STEP


@jit_internal
def earliest_step(steps: Steps, units: int, estimate: float, before: float) -> int:
    """Return the first step from which so many units are free for ``estimate`` seconds.

    `NO_STEP` if it does not begin before ``before``.
    """
    place = 0
    while True:
        # Candidates are beginnings of steps only: between two of them nothing becomes free.
        place = next_with(steps, place, units)
        if place == NO_STEP or begins_at(steps, place) >= before:
            return NO_STEP
        other = next_without(steps, place, units)
        if other == NO_STEP or begins_at(steps, other) >= begins_at(steps, place) + estimate:
            return place
        place = other


@jit_internal
def most_before(steps: Steps, place: int) -> int:
    """Return a bound of what is free in the steps before ``place``: none of them has more."""
    most = 0
    for turn in range((place >> SHIFT) + 1):
        most = max(most, steps.most[steps.order[turn]])
    return most


@jit_internal
def add(steps: Steps, begin: float, end: float, units: int) -> None:
    """Add units to what is free from ``begin``, where a step begins or began, to ``end``; below 0 they are taken."""
    # An estimate of zero, or below the resolution of the time, holds nothing; what is past is not kept.
    if end <= begin or end <= begins_at(steps, 0):
        return
    _cut(steps, end)
    used = steps.used[0]
    turn = _turn_at(steps, begin)
    while turn < used and steps.time[steps.order[turn] * ROOM] < end:
        block = steps.order[turn]
        first = block * ROOM
        after = steps.time[steps.order[turn + 1] * ROOM] if turn + 1 < used else np.inf
        if steps.time[first] >= begin and after <= end:
            steps.plus[block] += units
            steps.least[block] += units
            steps.most[block] += units
        else:
            for i in range(first, first + steps.filled[block]):
                if begin <= steps.time[i] < end:
                    steps.free[i] += units
            _measure(steps, block)
        turn += 1


@jit_internal
def forget_before(steps: Steps, now: float) -> None:
    """Let the first step begin now; what was before is gone."""
    order = steps.order
    for _ in range(_turn_at(steps, now)):  # blocks that lie before now go behind those in use
        block, last = order[0], steps.used[0] - 1
        for i in range(last):
            order[i] = order[i + 1]
        order[last] = block
        steps.used[0] = last
        steps.used[1] -= steps.filled[block]
    block = order[0]
    first, count = block * ROOM, steps.filled[block]
    inside = _inside_at(steps, block, now)
    if inside > 0:
        for i in range(count - inside):
            steps.time[first + i], steps.free[first + i] = (
                steps.time[first + inside + i],
                steps.free[first + inside + i],
            )
        steps.filled[block] = count - inside
        steps.used[1] -= inside
        _measure(steps, block)
    steps.time[first] = now


@jit_internal
def _turn_at(steps: Steps, time: float) -> int:
    """Return the place in ``order`` of the block with the last step that begins at or before a time; at least 0."""
    low, high = 0, steps.used[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if steps.time[steps.order[middle] * ROOM] <= time:
            low = middle
        else:
            high = middle
    return low


@jit_internal
def _inside_at(steps: Steps, block: int, time: float) -> int:
    """Return the place within a block of its last step that begins at or before a time; at least 0."""
    first = block * ROOM
    low, high = 0, steps.filled[block]
    while high - low > 1:
        middle = (low + high) >> 1
        if steps.time[first + middle] <= time:
            low = middle
        else:
            high = middle
    return low


@jit_internal
def _cut(steps: Steps, time: float) -> None:
    """Let a step begin at ``time``, after the first: with as much free as the step has that it is cut from."""
    turn = _turn_at(steps, time)
    block = steps.order[turn]
    inside = _inside_at(steps, block, time)
    if steps.time[block * ROOM + inside] == time:
        return
    if steps.filled[block] == ROOM:
        other = _divide(steps, turn)
        if inside >= steps.filled[block]:
            inside -= steps.filled[block]
            block = other
    first = block * ROOM
    for i in range(first + steps.filled[block], first + inside + 1, -1):
        steps.time[i], steps.free[i] = steps.time[i - 1], steps.free[i - 1]
    steps.time[first + inside + 1], steps.free[first + inside + 1] = time, steps.free[first + inside]
    steps.filled[block] += 1
    steps.used[1] += 1


@jit_internal
def _divide(steps: Steps, turn: int) -> Any:
    """Move the later half of a full block into an unused one, and return that."""
    order, used = steps.order, steps.used[0]
    block, other = order[turn], order[used]
    for i in range(used, turn + 1, -1):
        order[i] = order[i - 1]
    order[turn + 1] = other
    steps.used[0] = used + 1
    kept = ROOM // 2
    for i in range(ROOM - kept):
        steps.time[other * ROOM + i] = steps.time[block * ROOM + kept + i]
        steps.free[other * ROOM + i] = steps.free[block * ROOM + kept + i]
    steps.filled[block], steps.filled[other] = kept, ROOM - kept
    steps.plus[other] = steps.plus[block]
    _measure(steps, block)
    _measure(steps, other)
    return other
