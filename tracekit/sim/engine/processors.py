"""The plain capacity: a pool of alike processors, where all that counts is how many are free."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine.capacity import register_capacity
from tracekit.sim.jobs import Prepared

Ints = NDArray[np.int64]


class Processors(NamedTuple):
    """A counter of free units; with a leading axis of lanes where there are several machines."""

    free: Ints  # (1,) may fall below 0 while an outage waits for running jobs to end
    total: Ints  # (1,)
    size: Ints  # (jobs,) units of each job


class ProcessorPool:
    """Makes counters: the machine model wherever no other one is given."""

    name = "processors"

    def most_running(self, jobs: int, units: int) -> int:
        """Return how many of ``jobs`` jobs can run at once: each holds at least one unit."""
        return min(jobs, units)

    def allocate(self, lanes: int, jobs: int) -> Processors:
        """Return counters for ``lanes`` machines with room for ``jobs``."""
        return Processors(*(np.zeros((lanes, width), np.int64) for width in (1, 1, jobs)))

    def twin(self, capacity: Processors) -> Processors:
        """Return a second counter of the same jobs."""
        return capacity._replace(free=np.zeros_like(capacity.free))

    def load(self, capacity: Processors, lane: int, ready: Prepared) -> None:
        """Write the sizes of jobs and an idle machine into a lane."""
        capacity.free[lane] = capacity.total[lane] = ready.total
        capacity.size[lane, : len(ready.units)] = ready.units

    def place(self, capacity: Processors, at_shadow: Processors | None, job: int) -> None:
        """Do nothing: there is only one place."""

    def hosts(self, capacity: Processors) -> None:
        """Return None: processors have no names."""


def _register() -> None:
    def fits(capacity: Any, job: Any) -> Any:
        return capacity.size[job] <= capacity.free[0]

    def take(capacity: Any, job: Any) -> Any:
        capacity.free[0] -= capacity.size[job]

    def give(capacity: Any, job: Any) -> Any:
        capacity.free[0] += capacity.size[job]

    def fits_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        return capacity.size[job] <= capacity.free[0] and capacity.size[job] <= at_shadow.free[0]

    def take_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        capacity.free[0] -= capacity.size[job]
        at_shadow.free[0] -= capacity.size[job]

    def reserve(capacity: Any, at_shadow: Any, now: Any, job: Any, running: Any) -> Any:
        limits, needed, free, shadow = running.limits, capacity.size[job], capacity.free[0], now
        i = running.tally[0].running - 1
        # `limits` is in descending order, so running jobs end from the back of it.
        while free < needed and i >= 0:
            free += capacity.size[limits[i].job]
            shadow = max(now, limits[i].time)
            i -= 1
        while i >= 0 and limits[i].time <= shadow:  # all others that have ended by then
            free += capacity.size[limits[i].job]
            i -= 1
        # The extra processors: others may hold as many beyond the shadow time without delaying the reserved job.
        at_shadow.free[0] = free - needed
        return shadow

    def largest_startable(capacity: Any) -> Any:
        return capacity.free[0]

    def stairs(capacity: Any, running: Any, stair: Any) -> Any:
        free, count = capacity.free[0], running.tally[0].running
        stair[0] = free
        for i in range(count):  # stair[i]: free once i running jobs have ended
            free += capacity.size[running.limits[count - 1 - i].job]
            stair[i + 1] = free

    def earliest_start(capacity: Any, scratch: Any, now: Any, job: Any, running: Any, stair: Any) -> Any:
        count, units = running.tally[0].running, capacity.size[job]
        # `stair` never falls, so the number of jobs that must end is found by bisection.
        low, high = 1, count
        while low < high:
            middle = (low + high) >> 1
            if stair[middle] < units:
                low = middle + 1
            else:
                high = middle
        return max(running.limits[count - low].time, now)

    def lane_of(capacity: Any, lane: Any) -> Any:
        return Processors(capacity.free[lane], capacity.total[lane], capacity.size[lane])

    def clear(capacity: Any) -> Any:
        capacity.free[0] = capacity.total[0]

    def free_units(capacity: Any) -> Any:
        return capacity.free[0]

    def total_units(capacity: Any) -> Any:
        return capacity.total[0]

    def cells(capacity: Any) -> Any:
        return 1

    def write_free(capacity: Any, row: Any, at: Any) -> Any:
        row[at] = capacity.free[0]

    def add_held(capacity: Any, job: Any, row: Any, at: Any) -> Any:
        row[at] += capacity.size[job]

    def claim(capacity: Any, row: Any, at: Any, job: Any, claimed: Any) -> Any:
        claimed[0] = capacity.size[job]
        return claimed[0] <= row[at]

    def fits_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        return claimed[0] <= capacity.free[0]

    def take_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        capacity.free[0] -= claimed[0]

    def withdraw(capacity: Any, units: Any) -> Any:
        capacity.free[0] -= units

    def overdrawn(capacity: Any) -> Any:
        return capacity.free[0] < 0

    def withdraw_from_row(capacity: Any, row: Any, at: Any, units: Any) -> Any:
        row[at] -= units

    register_capacity(
        Processors,
        *(fits, take, give, fits_beside, take_beside, reserve),
        *(largest_startable, stairs, earliest_start),
        *(lane_of, clear, free_units, total_units),
        *(cells, write_free, add_held, claim, fits_claimed, take_claimed),
        *(withdraw, overdrawn, withdraw_from_row),
    )


_register()
