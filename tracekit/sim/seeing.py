"""What an agent sees at this moment: the features that change, compiled. `tracekit.sim.observe` defines them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.capacity import Processors, most
from tracekit.sim.compile import internal
from tracekit.sim.lanes import FILLED, FILLING, MAY_SKIP, PHASE, Rules, World
from tracekit.sim.observe import ALMOST_ONE, ALMOST_ZERO, CODES

Floats = NDArray[np.float64]

_WAIT = CODES["wait"]
_LONG_WAIT = CODES["long-wait"]
_STRETCH = CODES["stretch"]
_STARTS_NOW = CODES["starts-now"]
_FILL = CODES["fill"]
_DELAY = CODES["delay"]
_FREE = CODES["free"]
_QUEUE = CODES["queue"]
_BACKLOG = CODES["backlog"]
_FILLING = CODES["filling"]
_SPARE = CODES["spare"]
_SHADOW = CODES["shadow"]
_IN_TIME = CODES["ends-in-time"]
_NEXT_END = CODES["next-end"]
_USER_AVERAGE = CODES["user-average"]
_WAIT_SHARE = CODES["wait-share"]
_CAN_START = CODES["can-start"]


@internal
def observe_lane(world: World, rules: Rules, lane: int) -> None:
    """Write features and mask of the choices on offer in a lane; a finished lane has none."""
    count, filled = world.count[lane], world.state[lane, FILLED]
    out, mask, visible, fixed = world.features[lane], world.mask[lane], world.visible[lane], world.fixed[lane]
    submit, size, estimate = world.submit[lane], world.size[lane], world.estimate[lane]
    waits, sizes = world.key[lane], world.scratch[lane]  # of the slots, side by side
    now, width = world.time[lane, 0], out.shape[1]
    for i in range(count):
        job = visible[i]
        mask[i] = True
        waits[i], sizes[i] = now - submit[job], size[job]
        for f in range(width):
            out[i, f] = fixed[job, f]
    for i in range(count, filled):
        mask[i] = False
        for f in range(width):
            out[i, f] = 0.0
    if rules.skip:
        mask[rules.slots] = world.state[lane, MAY_SKIP] == 1
    world.state[lane, FILLED] = count
    if count == 0:
        return

    room, shadow = most(Processors(world.free[lane])), world.shadow[lane, 0]
    short, long, longest = world.constants[1], world.constants[2], world.constants[4]
    filling = world.state[lane, PHASE] == FILLING
    for f in range(width):  # one loop over the slots for each feature, and all in one function: calls would cost more
        code = world.codes[f]
        if code == 0:
            continue
        if code == _WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + short)
        elif code == _LONG_WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + long)
        elif code == _STRETCH:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + max(estimate[visible[i]], rules.bound))
        elif code == _WAIT_SHARE:
            for i in range(count):
                out[i, f] = min(waits[i] / longest, ALMOST_ONE)
        elif code == _STARTS_NOW:
            for i in range(count):
                out[i, f] = 1.0 if sizes[i] <= room else 0.0
        elif code == _CAN_START:
            for i in range(count):
                out[i, f] = ALMOST_ONE if sizes[i] <= room else ALMOST_ZERO
        elif code == _FILL:
            for i in range(count):
                out[i, f] = sizes[i] / room if sizes[i] <= room else 1.0
        elif code == _DELAY:
            _delays(
                count,
                sizes,
                out,
                f,
                now,
                room,
                world.tally[lane, 0],
                size,
                world.limit[lane],
                world.limit_job[lane],
                world.stair[lane],
                short,
            )
        elif code == _IN_TIME:
            for i in range(count):
                out[i, f] = 1.0 if filling and now + estimate[visible[i]] <= shadow else 0.0
        elif code == _USER_AVERAGE:
            _user_averages(count, visible, out, f, world.user[lane], world.by_user[lane])
        else:
            value = 0.0
            if code == _FREE:
                value = room / world.total[lane]
            elif code == _QUEUE:
                value = world.waiting_count[lane, 0] / (world.waiting_count[lane, 0] + world.constants[3])
            elif code == _BACKLOG:
                waiting, work = world.waiting[lane], 0.0
                for i in range(world.waiting_count[lane, 0]):
                    work += estimate[waiting[i]] * size[waiting[i]]
                value = work / (work + long * world.total[lane])
            elif code == _NEXT_END:
                running = world.tally[lane, 0]
                ahead = max(world.limit[lane, running - 1] - now, 0.0) if running > 0 else np.inf
                value = ahead / (ahead + short) if running > 0 else 1.0
            elif filling and code == _FILLING:
                value = 1.0
            elif filling and code == _SPARE:
                value = most(Processors(world.later[lane])) / world.total[lane]
            elif filling and code == _SHADOW:
                value = max(shadow - now, 0.0) / (max(shadow - now, 0.0) + short)
            for i in range(count):
                out[i, f] = value


@internal
def _delays(
    count: int,
    sizes: NDArray[np.int64],
    out: NDArray[np.float32],
    f: int,
    now: float,
    room: int,
    running: int,
    size: NDArray[np.int64],
    limit: Floats,
    limit_job: NDArray[np.int64],
    stair: NDArray[np.int64],
    half: float,
) -> None:
    """Write when each job could start by estimates: climb the stairs of processors that running jobs give back."""
    free = room
    stair[0] = free
    for i in range(running):  # stair[i]: free once i running jobs have ended
        free += size[limit_job[running - 1 - i]]
        stair[i + 1] = free
    for i in range(count):
        units = sizes[i]
        if units <= room:
            out[i, f] = 0.0
            continue
        low, high = 1, running
        while low < high:
            middle = (low + high) >> 1
            if stair[middle] < units:
                low = middle + 1
            else:
                high = middle
        ahead = max(limit[running - low] - now, 0.0)
        out[i, f] = ahead / (ahead + half)


@internal
def _user_averages(
    count: int,
    visible: NDArray[np.int64],
    out: NDArray[np.float32],
    f: int,
    user: NDArray[np.int64],
    by_user: Floats,
) -> None:
    largest = 0.0
    for each in range(len(by_user)):
        if by_user[each, 1] > 0:
            largest = max(largest, by_user[each, 0] / by_user[each, 1])
    for i in range(count):
        each = user[visible[i]]
        out[i, f] = by_user[each, 0] / by_user[each, 1] / largest if by_user[each, 1] > 0 else 0.0
