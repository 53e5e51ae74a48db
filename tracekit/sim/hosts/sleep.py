"""Hosts that sleep: an idle host goes to sleep after a time, and a job that gets it waits until it is up again.

A host is idle from the end of its last job on. After ``after`` seconds it turns off for ``off`` seconds, and then
sleeps; a job that gets it while it turns off waits for that, too. All hosts of a job are held while it waits. A host
that wakes up for one job is up for all. No job is killed where hosts sleep, so its end is known when it starts.

All this is at the end of the hosts' real numbers (``SLEEP``): the clock, arrays by host, and when each job got its
hosts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.machine import Machine
from tracekit.sim.compile import jit_internal
from tracekit.sim.energy.model import power_of
from tracekit.sim.hosts.state import HOSTS, LOG, SLEEP, SPAN, Floats, Ints
from tracekit.sim.switches import Switches


class SleepTimes(NamedTuple):
    """How hosts sleep, (hosts,) each, seconds."""

    after: NDArray[np.float64]  # idle for so long, and it turns off; infinity: it never sleeps
    off: NDArray[np.float64]  # to turn off
    on: NDArray[np.float64]  # to wake up

    @property
    def longest(self) -> float:
        """The longest that a job may have to wait for a host."""
        sleeps = np.isfinite(self.after)
        return float((self.off + self.on)[sleeps].max(initial=0.0))


def sleep_times(cluster: Machine, switches: Switches) -> SleepTimes | None:
    """Return how the hosts of a cluster sleep, by its power fields or those of ``--power``; None if they do not."""
    if switches.sleep_after is None:
        return None
    model = power_of(cluster, switches.power)
    power = model.by_host()
    if np.isnan(power.sleep).all():
        raise UsageError(
            f"--sleep-after: no hosts of {model.name} can sleep; add sleep_watts, on_seconds, … to a group"
        )
    after = np.where(np.isnan(power.sleep), np.inf, switches.sleep_after)
    return SleepTimes(after, power.off_seconds, power.on_seconds)


#: Arrays by host, in this order, after the clock: as in `SleepTimes`; idle since or busy until; when it is up again.
AFTER, OFF, ON, BUSY, UP = range(5)
ARRAYS = 5


def sleep_words(hosts: int, jobs: int) -> int:
    """Return how many numbers hosts that sleep need."""
    return 1 + ARRAYS * hosts + jobs


def write(m: Ints, f: Floats, times: SleepTimes, begin: float) -> None:
    """Write hosts that are awake and idle at ``begin`` into one lane."""
    state = np.concatenate([[begin], *times, np.full(2 * len(times.after), begin)])
    f[m[SLEEP] : m[SLEEP] + len(state)] = state


def granted(m: Ints, f: Floats) -> Floats | None:
    """Return when each job of one lane got its hosts, (jobs,) seconds; None where hosts do not sleep."""
    return f[m[SLEEP] + 1 + ARRAYS * m[HOSTS] :].copy() if m[SLEEP] > 0 else None


@jit_internal
def at(m: Ints, what: int, h: int) -> int:
    """Return the place of a number of a host among the real numbers."""
    return int(m[SLEEP] + 1 + what * m[HOSTS] + h)


@jit_internal
def is_awake(m: Ints, f: Floats, h: int) -> bool:
    """Return whether a host is awake now."""
    return bool(m[SLEEP] == 0 or f[m[SLEEP]] - f[at(m, BUSY, h)] <= f[at(m, AFTER, h)])


@jit_internal
def wake(m: Ints, f: Floats, job: int, now: float, run: float) -> float:
    """Wake the hosts that a job has just got; return when all are up, and keep them busy until the job ends."""
    begin, first = now, m[m[SPAN] + 2 * job]
    last = first + m[m[SPAN] + 2 * job + 1]
    for i in range(first, last):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            if not is_awake(m, f, h):
                slept = f[at(m, BUSY, h)] + f[at(m, AFTER, h)] + f[at(m, OFF, h)]
                f[at(m, UP, h)] = max(now, slept) + f[at(m, ON, h)]
            begin = max(begin, f[at(m, UP, h)])
    for i in range(first, last):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            f[at(m, BUSY, h)] = max(f[at(m, BUSY, h)], begin + run)
    f[at(m, ARRAYS, job)] = now
    return float(begin)
