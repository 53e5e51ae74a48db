"""A capacity under a power cap: beside its own room a job needs watts, which running jobs give back when they end.

It stands around any other capacity, and is compiled only where there is a cap; environments have it on counters. Watts
are whole milliwatts on top of the idle machine. As running jobs end, room and watts only grow, so a reservation is at
the later of the two times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine import capacity as of
from tracekit.sim.engine.processors import ProcessorPool
from tracekit.sim.jobs import Prepared

Ints = NDArray[np.int64]


class Capped(NamedTuple):
    """Another capacity and the watts that are left."""

    inner: Any
    left: Ints  # (1,) milliwatts
    most: Ints  # (1,) milliwatts that jobs may draw together
    need: Ints  # (jobs,) milliwatts


def capped(room: Any, at_shadow: Any, need: Ints, headroom: int) -> tuple[Capped, Capped]:
    """Return a capacity and its second one under a cap; ``headroom`` is what jobs may draw together."""
    most = np.array([headroom])
    return Capped(room, most.copy(), most, need), Capped(at_shadow, np.zeros(1, np.int64), most, need)


class CappedPool(ProcessorPool):
    """Makes counters under a cap for many simulations side by side; `load_watts` writes what jobs draw."""

    name = "processors under a power cap"

    def allocate(self, lanes: int, jobs: int) -> Capped:  # type: ignore[override]
        """Return counters for ``lanes`` machines with room for ``jobs``."""
        left, most, need = (np.zeros((lanes, width), np.int64) for width in (1, 1, jobs))
        return Capped(super().allocate(lanes, jobs), left, most, need)

    def twin(self, capacity: Capped) -> Capped:  # type: ignore[override]
        """Return a second counter of the same jobs."""
        return capacity._replace(inner=super().twin(capacity.inner), left=np.zeros_like(capacity.left))

    def load(self, capacity: Capped, lane: int, ready: Prepared) -> None:  # type: ignore[override]
        """Write the sizes of jobs and an idle machine into a lane."""
        super().load(capacity.inner, lane, ready)


def load_watts(capacity: Any, lane: int, need: Ints, headroom: int) -> None:
    """Write what the jobs of a lane draw, and what they may draw together."""
    capacity.left[lane] = capacity.most[lane] = headroom
    capacity.need[lane, : len(need)] = need


def _register() -> None:
    def fits(capacity: Any, job: Any) -> Any:
        return capacity.need[job] <= capacity.left[0] and of.fits(capacity.inner, job)

    def take(capacity: Any, job: Any) -> Any:
        capacity.left[0] -= capacity.need[job]
        of.take(capacity.inner, job)

    def take_in_time(capacity: Any, at_shadow: Any, job: Any) -> Any:
        capacity.left[0] -= capacity.need[job]
        of.take_in_time(capacity.inner, at_shadow.inner, job)

    def give(capacity: Any, job: Any) -> Any:
        capacity.left[0] += capacity.need[job]
        of.give(capacity.inner, job)

    def fits_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        if capacity.need[job] > min(capacity.left[0], at_shadow.left[0]):
            return False
        return of.fits_beside(capacity.inner, at_shadow.inner, job)

    def take_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        capacity.left[0] -= capacity.need[job]
        at_shadow.left[0] -= capacity.need[job]
        of.take_beside(capacity.inner, at_shadow.inner, job)

    def reserve(capacity: Any, at_shadow: Any, now: Any, job: Any, running: Any) -> Any:
        limits, left, time = running.limits, capacity.left[0], now
        i = running.tally[0].running - 1
        while left < capacity.need[job] and i >= 0:
            left += capacity.need[limits[i].job]
            time = max(time, limits[i].time)
            i -= 1
        shadow = of.reserve(capacity.inner, at_shadow.inner, time, job, running)
        while i >= 0 and limits[i].time <= shadow:  # all others that have ended by then
            left += capacity.need[limits[i].job]
            i -= 1
        at_shadow.left[0] = left - capacity.need[job]
        return shadow

    def largest_startable(capacity: Any) -> Any:
        return of.largest_startable(capacity.inner)

    def asks(capacity: Any) -> Any:
        return of.asks(capacity.inner)

    def shares_pool(capacity: Any, job: Any, other: Any) -> Any:
        return of.shares_pool(capacity.inner, job, other)

    def keeps_reservation(capacity: Any, job: Any) -> Any:
        return of.keeps_reservation(capacity.inner, job)

    def lane_of(capacity: Any, lane: Any) -> Any:
        return Capped(of.lane_of(capacity.inner, lane), capacity.left[lane], capacity.most[lane], capacity.need[lane])

    def clear(capacity: Any) -> Any:
        of.clear(capacity.inner)
        capacity.left[0] = capacity.most[0]

    def free_units(capacity: Any) -> Any:
        return of.free_units(capacity.inner)

    def total_units(capacity: Any) -> Any:
        return of.total_units(capacity.inner)

    def tick(capacity: Any, now: Any) -> Any:
        of.tick(capacity.inner, now)

    def begins(capacity: Any, job: Any, now: Any, run: Any) -> Any:
        return of.begins(capacity.inner, job, now, run)

    def in_the_way(capacity: Any, job: Any) -> Any:
        return of.in_the_way(capacity.inner, job)

    def cells(capacity: Any) -> Any:
        return of.cells(capacity.inner) + 1

    def write_free(capacity: Any, row: Any, at: Any) -> Any:
        of.write_free(capacity.inner, row, at)
        row[at + of.cells(capacity.inner)] = capacity.left[0]

    def add_held(capacity: Any, job: Any, row: Any, at: Any) -> Any:
        of.add_held(capacity.inner, job, row, at)
        row[at + of.cells(capacity.inner)] += capacity.need[job]

    def claim(capacity: Any, row: Any, at: Any, job: Any, claimed: Any) -> Any:
        width = of.cells(capacity.inner)
        claimed[width] = capacity.need[job]
        return claimed[width] <= row[at + width] and of.claim(capacity.inner, row, at, job, claimed)

    def fits_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        return capacity.need[job] <= capacity.left[0] and of.fits_claimed(capacity.inner, job, claimed)

    def take_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        capacity.left[0] -= capacity.need[job]
        of.take_claimed(capacity.inner, job, claimed)

    def withdraw(capacity: Any, units: Any) -> Any:
        of.withdraw(capacity.inner, units)

    def overdrawn(capacity: Any) -> Any:
        return of.overdrawn(capacity.inner)

    def withdraw_from_row(capacity: Any, row: Any, at: Any, units: Any) -> Any:
        of.withdraw_from_row(capacity.inner, row, at, units)

    of.register_capacity(
        Capped,
        *(fits, take, give, fits_beside, take_beside, reserve),
        *(take_in_time, largest_startable, asks, shares_pool, keeps_reservation, tick, begins, in_the_way),
        *(cells, write_free, add_held, claim, fits_claimed, take_claimed),
        *(withdraw, overdrawn, withdraw_from_row, lane_of, clear, free_units, total_units),
    )


_register()
