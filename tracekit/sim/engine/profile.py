"""What is free from now on, as steps in time: where conservative backfilling and planned outages look ahead.

A step holds one row of the capacity's cells (`tracekit.sim.engine.capacity`): one number for a counter, one for each
host and resource elsewhere. A job that begins at a step needs the same cells over several steps, so it is tried on
the cell-by-cell minimum of their rows. With a single cell the compiler turns all of this into plain comparisons.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.capacity import add_held, cells, claim, withdraw_from_row, write_free
from tracekit.sim.engine.running import Running


class Profile(NamedTuple):
    """S steps of C cells; plans live here during one pass."""

    time: NDArray[np.float64]  # (S,) where a step begins; the first is now, the last lasts for ever
    free: NDArray[np.int64]  # (S · C,) what is free, row by row
    least: NDArray[np.int64]  # (S · C,) scratch: the least that is free from now to the end of a step
    row: NDArray[np.int64]  # (C,) scratch: the least that is free while a job runs
    claimed: NDArray[np.int64]  # (C,) what the job that was last looked at would take
    length: NDArray[np.int64]  # (1,) steps in use


def empty_profile(steps: int, cells: int = 1) -> Profile:
    """Return a profile with room for ``steps`` steps: running jobs + 2 × waiting jobs + outages' changes + 2."""
    row, table = (np.empty(length, np.int64) for length in (cells, steps * cells))
    return Profile(np.empty(steps), table, np.empty_like(table), row, np.empty_like(row), np.zeros(1, np.int64))


@jit_internal
def unroll(now: float, capacity: Any, running: Running, profile: Profile, dynamics: Any) -> None:
    """Write the profile of the running jobs and the known outages; a job past its estimate counts as ending now."""
    width, i, k, limits = cells(capacity), running.tally[0].running - 1, 0, running.limits
    time, free, row = profile.time, profile.free, profile.row
    step, away, ahead = 0, 0, 0
    if len(dynamics) > 0:
        away, ahead = dynamics.outages.now[0].away, dynamics.outages.now[0].ahead
    # `row` follows what running jobs give back, as if nothing were out of service. What is out is subtracted
    # from the copy in each step only, because it differs from step to step.
    write_free(capacity, row, 0)
    if away != 0:
        withdraw_from_row(capacity, row, 0, -away)
    # Jobs past their estimate count as ending now: the first step has their processors already.
    while i >= 0 and limits[i].time <= now:
        add_held(capacity, limits[i].job, row, 0)
        i -= 1
    time[0] = now
    for c in range(width):
        free[c] = row[c]
    if away != 0:
        withdraw_from_row(capacity, free, 0, away)
    while i >= 0 or k < ahead:
        # One step for each distinct time at which a job ends or an outage changes.
        until = np.inf
        if i >= 0:
            until = limits[i].time
        if len(dynamics) > 0 and k < ahead:
            until = min(until, dynamics.outages.known[k].time)
        while i >= 0 and limits[i].time <= until:
            add_held(capacity, limits[i].job, row, 0)
            i -= 1
        if len(dynamics) > 0:
            while k < ahead and dynamics.outages.known[k].time <= until:
                away = dynamics.outages.known[k].away
                k += 1
        step += 1
        time[step] = until
        for c in range(width):
            free[step * width + c] = row[c]
        if away != 0:
            withdraw_from_row(capacity, free, step * width, away)
    profile.length[0] = step + 1


@jit_internal
def earliest(capacity: Any, profile: Profile, job: int, estimate: float, before: float) -> int:
    """Return the first step from which a job fits for ``estimate`` seconds; leaves its claim in ``claimed``.

    −1 if there is none, or if it does not begin before ``before``.
    """
    width, count = cells(capacity), profile.length[0]
    time, free, row, claimed = profile.time, profile.free, profile.row, profile.claimed
    step = 0
    while True:
        # Candidates are beginnings of steps only: between two of them nothing becomes free.
        while step < count and not claim(capacity, free, step * width, job, claimed):
            step += 1
        if step == count or time[step] >= before:
            return -1
        until = time[step] + estimate
        for c in range(width):
            row[c] = free[step * width + c]
        other = step + 1
        while other < count and time[other] < until:
            for c in range(width):
                row[c] = min(row[c], free[other * width + c])
            if not claim(capacity, row, 0, job, claimed):
                break
            other += 1
        if other >= count or time[other] >= until:
            return step
        step = other if width == 1 else step + 1  # of one cell, `other` itself is too small


@jit_internal
def first_without(capacity: Any, profile: Profile, step: int, units: int, before: float) -> float:
    """Return when the first step from ``step`` on begins with less than ``units`` free, at most ``before``.

    Where there is more to be had than one counter, that cannot be told: ``before``.
    """
    if cells(capacity) == 1:
        while step < profile.length[0] and profile.time[step] < before:
            if profile.free[step] < units:
                return float(profile.time[step])
            step += 1
    return before


@jit_internal
def fits_from_now(capacity: Any, profile: Profile, job: int, estimate: float) -> bool:
    """Return whether a job fits from now on until its estimated end; leaves its claim in ``claimed``.

    It claims only what is really free now: not what a running job holds that is past its estimate.
    """
    width = cells(capacity)
    free, row = profile.free, profile.row
    write_free(capacity, row, 0)
    if estimate <= 0:  # holds nothing for longer than an instant: what is free right now is enough
        return bool(claim(capacity, row, 0, job, profile.claimed))
    for c in range(width):
        row[c] = min(row[c], free[c])
    until = profile.time[0] + estimate
    step = 1
    while step < profile.length[0] and profile.time[step] < until:
        for c in range(width):
            row[c] = min(row[c], free[step * width + c])
        step += 1
    return bool(claim(capacity, row, 0, job, profile.claimed))


@jit_internal
def fits_until(capacity: Any, profile: Profile, job: int, until: float) -> bool:
    """Return whether a job fits from now until ``until``, by the minima that `accumulate` has left."""
    width, low, high = cells(capacity), 1, profile.length[0]
    # `least` holds the minima from now on, so a single row answers for the whole stretch.
    while low < high:  # the first step after now that begins at or after the end
        middle = (low + high) >> 1
        if profile.time[middle] < until:
            low = middle + 1
        else:
            high = middle
    return bool(claim(capacity, profile.least, (low - 1) * width, job, profile.claimed))


@jit_internal
def accumulate(capacity: Any, profile: Profile) -> None:
    """Write for every step the least that is free of each cell from now to its end."""
    width = cells(capacity)
    free, least = profile.free, profile.least
    for c in range(width):
        least[c] = free[c]
    for i in range(width, profile.length[0] * width):
        least[i] = min(least[i - width], free[i])


@jit_internal
def book(capacity: Any, profile: Profile, step: int, estimate: float) -> None:
    """Take what was last claimed out of the profile from the beginning of ``step`` for ``estimate`` seconds."""
    width, count = cells(capacity), profile.length[0]
    time, free, claimed = profile.time, profile.free, profile.claimed
    until = time[step] + estimate
    # An estimate of zero, or below the resolution of the time, holds nothing.
    if until <= time[step]:
        return
    end = step + 1
    while end < count and time[end] < until:
        end += 1
    if end == count or time[end] > until:  # cut the last step in two
        # From the back, so that nothing is overwritten before it was moved.
        for i in range(count, end, -1):
            time[i] = time[i - 1]
        for i in range((count + 1) * width - 1, (end + 1) * width - 1, -1):
            free[i] = free[i - width]
        time[end] = until
        for c in range(width):
            free[end * width + c] = free[(end - 1) * width + c]
        profile.length[0] = count + 1
    for i in range(step, end):
        for c in range(width):
            free[i * width + c] -= claimed[c]
