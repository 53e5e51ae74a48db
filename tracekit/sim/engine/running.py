"""The running jobs, in two orders: by true end (the events to come) and by estimated end (what the scheduler knows)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.capacity import in_the_way
from tracekit.sim.engine.heap import ENTRY, Heap, pop, remove, sift_up

Floats = NDArray[np.float64]

LIMIT = np.dtype([("time", np.float64), ("job", np.int64)], align=True)
TALLY = np.dtype([("running", np.int64), ("started", np.int64)])  # how many run; how many have ever started


class Running(NamedTuple):
    """Room for every job that can run at once; the first ``tally[0].running`` entries are in use."""

    ends: Heap  # (most,) true ends in seconds; ties by the order in which the jobs started
    limits: NDArray[Any]  # (most,) LIMIT, estimated ends, descending: the next one is last, where changes are cheap
    tally: NDArray[Any]  # (1,) TALLY
    seen: NDArray[Any]  # (most,) LIMIT, scratch of `as_seen`


def no_jobs_running(most: int, *lanes: int) -> Running:
    """Return an empty set with room for ``most`` jobs (in each of ``lanes``, where given)."""
    limits, seen = (np.zeros((*lanes, most), LIMIT) for _ in range(2))
    return Running(np.zeros((*lanes, most), ENTRY), limits, np.zeros((*lanes, 1), TALLY), seen)


@jit_internal
def add(running: Running, job: int, end: float, limit: float) -> None:
    """Enter a job that has just started."""
    # True ends are a heap, because only the next one is ever needed. Estimated ends are a sorted array, because a
    # reservation walks through them in order; keeping it sorted moves no more entries than there are running jobs.
    tally, limits = running.tally[0], running.limits
    place = tally.running
    sift_up(running.ends, place, end, tally.started, job)
    tally.running += 1
    tally.started += 1
    _insert_limit(limits, place, limit, job)


@jit_internal
def pop_ended(running: Running, start: Floats, estimate: Floats) -> int:
    """Remove the job that ends first (of equals the one that started first) and return it."""
    job = pop(running.ends, running.tally[0].running)
    _forget_limit(running, job, start[job] + estimate[job])
    return job


@jit_internal
def as_seen(running: Running, window: float) -> Running:
    """Return the running jobs as a scheduler sees them that looks at their ends in groups, as Slurm does.

    A group begins with the next end, and holds all that are at most ``window`` seconds later; its jobs count as ending
    with its last one. Each group's window is twice that of the one before. 0: every job by itself.
    """
    if window <= 0:
        return running
    limits, seen = running.limits, running.seen
    first = running.tally[0].running - 1  # ends are in descending order
    while first >= 0:
        last = first
        while last > 0 and limits[last - 1].time <= limits[first].time + window:
            last -= 1
        for place in range(last, first + 1):
            seen[place].time, seen[place].job = limits[last].time, limits[place].job
        first = last - 1
        window *= 2
    return Running(running.ends, seen, running.tally, seen)


@jit_internal
def remove_last_started(running: Running, start: Floats, estimate: Floats, capacity: Any) -> int:
    """Remove the job that started last, of those in the way of an outage, before its end, and return it."""
    count, latest = running.tally[0].running, -1
    # A scan is good enough: this happens only when an outage stops jobs.
    for i in range(count):
        if (latest < 0 or running.ends[i].tie > running.ends[latest].tie) and in_the_way(
            capacity, running.ends[i].item
        ):
            latest = i
    job = running.ends[latest].item
    remove(running.ends, count, latest)
    _forget_limit(running, job, start[job] + estimate[job])
    return int(job)


@jit_internal
def _forget_limit(running: Running, job: int, limit: float) -> None:
    """Remove a job from the estimated ends, and count it out; ``limit`` is what it was added with."""
    limits = running.limits
    last = running.tally[0].running - 1
    running.tally[0].running = last
    # `limit` is the same sum start + estimate as in `add`, with the same rounding, so it can be searched for exactly.
    low, high = 0, last + 1
    while low < high:  # the first entry that is not above `limit`
        middle = (low + high) >> 1
        if limits[middle].time > limit:
            low = middle + 1
        else:
            high = middle
    # Several jobs may have the same estimated end.
    while limits[low].job != job:
        low += 1
    while low < last:
        limits[low].time = limits[low + 1].time
        limits[low].job = limits[low + 1].job
        low += 1


@jit_internal
def raise_limit(running: Running, place: int, limit: float) -> None:
    """Give the entry at ``place`` of the estimated ends a later one; it moves towards the front."""
    _insert_limit(running.limits, place, limit, running.limits[place].job)


@jit_internal
def _insert_limit(limits: NDArray[Any], place: int, limit: float, job: int) -> None:
    """Write an estimated end at ``place``, which is free, or before it, so that no earlier end comes before it."""
    while place > 0 and limits[place - 1].time < limit:
        limits[place].time = limits[place - 1].time
        limits[place].job = limits[place - 1].job
        place -= 1
    limits[place].time = limit
    limits[place].job = job
