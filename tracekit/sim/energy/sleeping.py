"""When hosts slept: from where jobs ran, and since when they held their hosts, to states of hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.energy.states import SLEEPING, TURNING_OFF, TURNING_ON, HostStates
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.hosts.sleep import SleepTimes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def states_of(run: Any, hosts: Any) -> HostStates | None:
    """Return when hosts slept in a finished simulation (`Session`) that placed jobs on ``hosts``; None: none sleeps."""
    if run.switches.sleep_after is None:
        return None
    return sleep_states(hosts, run.jobs.start + run.jobs.run, run.machine.sleep, float(run.jobs.submit[0]))


def sleep_states(placements: Placements, end: Floats, times: SleepTimes, begin: float) -> HostStates:
    """Return when hosts slept or changed state; hosts are awake at ``begin`` and may sleep on after the last job.

    ``end`` are the ends of jobs, (jobs,).
    """
    granted = placements.granted
    assert granted is not None
    order = np.argsort(granted[: len(end)], kind="stable")
    by_host = np.array([*times, np.full(len(times.after), begin)])
    work = order, placements.span, placements.log, granted, end
    count = write_states(*work, by_host.copy(), np.zeros((0, 2), np.int64), np.zeros((0, 2)))
    which, when = np.zeros((count, 2), np.int64), np.zeros((count, 2))
    write_states(*work, by_host, which, when)
    return HostStates(which[:, 0], which[:, 1], when[:, 0], when[:, 1])


@jit
def write_states(
    order: Ints, span: Ints, log: Ints, granted: Floats, end: Floats, by_host: Floats, which: Ints, when: Floats
) -> int:
    """Return how many states there are, and write them where there is room: host and state, begin and end.

    ``by_host`` has rows after, off, on as in `SleepTimes`, and until when a host is busy.
    """
    count, busy = 0, by_host[3]
    for job in order:
        for i in range(span[job, 0], span[job, 0] + span[job, 1]):
            for h in range(log[i, 0], log[i, 1] + 1):
                if granted[job] - busy[h] > by_host[0, h]:
                    count = _write_one(h, granted[job], by_host, count, which, when)
                busy[h] = max(busy[h], end[job])
    for h in range(len(busy)):
        if by_host[0, h] < np.inf:
            count = _write_one(h, np.inf, by_host, count, which, when)
    return count


@jit
def _write_one(h: int, woken: float, by_host: Floats, count: int, which: Ints, when: Floats) -> int:
    """Write how a host turns off, sleeps until it is woken, and turns on; return how many states there are now."""
    turns_off = by_host[3, h] + by_host[0, h]
    asleep = turns_off + by_host[1, h]
    wakes = max(woken, asleep)
    for state in (TURNING_OFF, SLEEPING, TURNING_ON):
        if state == TURNING_ON and wakes == np.inf:
            break
        if count < len(which):
            which[count, 0], which[count, 1] = h, state
            when[count, 0] = turns_off if state == TURNING_OFF else asleep if state == SLEEPING else wakes
            when[count, 1] = asleep if state == TURNING_OFF else wakes if state == SLEEPING else wakes + by_host[2, h]
        count += 1
    return count
