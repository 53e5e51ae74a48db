"""The running jobs, in two orders: by true end (the events to come) and by estimated end (what the scheduler knows)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import compiled


class Running(NamedTuple):
    """Arrays with room for every job that can run at once; the first ``tally[0]`` entries are in use."""

    end: NDArray[np.float64]  # (most,) a binary heap of true ends, seconds …
    turn: NDArray[np.int64]  # (most,) … ties by the order in which the jobs started
    job: NDArray[np.int64]  # (most,) which job the heap's entry is
    limit: NDArray[np.float64]  # (most,) estimated ends, descending: the next one is last, where changes are cheap
    limit_job: NDArray[np.int64]  # (most,)
    tally: NDArray[np.int64]  # (2,) how many run; how many have ever started


def no_jobs_running(most: int) -> Running:
    """Return an empty set with room for ``most`` jobs."""
    return Running(
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most),
        np.empty(most, np.int64),
        np.zeros(2, np.int64),
    )


@compiled
def add(running: Running, job: int, end: float, limit: float) -> None:
    """Enter a job that has just started."""
    ends, turns, heap_jobs = running.end, running.turn, running.job
    limits, limit_jobs = running.limit, running.limit_job
    count, turn = running.tally[0], running.tally[1]
    running.tally[0] = count + 1
    running.tally[1] = turn + 1

    i = count
    while i > 0:  # sift up; a later turn never passes an equal end
        parent = (i - 1) >> 1
        if ends[parent] <= end:
            break
        ends[i], turns[i], heap_jobs[i] = ends[parent], turns[parent], heap_jobs[parent]
        i = parent
    ends[i], turns[i], heap_jobs[i] = end, turn, job

    i = count
    while i > 0 and limits[i - 1] < limit:
        limits[i], limit_jobs[i] = limits[i - 1], limit_jobs[i - 1]
        i -= 1
    limits[i], limit_jobs[i] = limit, job


@compiled
def pop(running: Running) -> int:
    """Remove the job that ends first (of equals the one that started first) from the heap and return it."""
    ends, turns, heap_jobs = running.end, running.turn, running.job
    count = running.tally[0] - 1
    running.tally[0] = count
    first = heap_jobs[0]
    end, turn, job = ends[count], turns[count], heap_jobs[count]
    i, child = 0, 1
    while child < count:
        right = child + 1
        if right < count and (
            ends[right] < ends[child] or (ends[right] == ends[child] and turns[right] < turns[child])
        ):
            child = right
        if end < ends[child] or (end == ends[child] and turn < turns[child]):
            break
        ends[i], turns[i], heap_jobs[i] = ends[child], turns[child], heap_jobs[child]
        i = child
        child = 2 * i + 1
    ends[i], turns[i], heap_jobs[i] = end, turn, job
    return int(first)


@compiled
def forget_limit(running: Running, job: int, limit: float) -> None:
    """Remove a job, already popped from the heap, from the estimated ends; ``limit`` is what it was added with."""
    limits, limit_jobs = running.limit, running.limit_job
    last = running.tally[0]  # the heap has lost it already, this list not yet
    low, high = 0, last + 1
    while low < high:  # the first entry that is not above `limit`
        middle = (low + high) >> 1
        if limits[middle] > limit:
            low = middle + 1
        else:
            high = middle
    while limit_jobs[low] != job:
        low += 1
    while low < last:
        limits[low], limit_jobs[low] = limits[low + 1], limit_jobs[low + 1]
        low += 1


@compiled
def remove(running: Running, job: int) -> None:
    """Take a job out of the heap before its end; `forget_limit` must follow, as after `pop`."""
    ends, turns, heap_jobs = running.end, running.turn, running.job
    count = running.tally[0] - 1
    running.tally[0] = count
    i = 0
    while heap_jobs[i] != job:
        i += 1
    end, turn, moved = ends[count], turns[count], heap_jobs[count]
    if i == count:
        return
    while i > 0:  # the last entry takes its place: up …
        parent = (i - 1) >> 1
        if ends[parent] < end or (ends[parent] == end and turns[parent] < turn):
            break
        ends[i], turns[i], heap_jobs[i] = ends[parent], turns[parent], heap_jobs[parent]
        i = parent
    child = 2 * i + 1
    while child < count:  # … or down
        right = child + 1
        if right < count and (
            ends[right] < ends[child] or (ends[right] == ends[child] and turns[right] < turns[child])
        ):
            child = right
        if end < ends[child] or (end == ends[child] and turn < turns[child]):
            break
        ends[i], turns[i], heap_jobs[i] = ends[child], turns[child], heap_jobs[child]
        i = child
        child = 2 * i + 1
    ends[i], turns[i], heap_jobs[i] = end, turn, moved


@compiled
def raise_limit(running: Running, place: int, limit: float) -> None:
    """Give the entry at ``place`` of the estimated ends a later one; it moves towards the front."""
    limits, limit_jobs = running.limit, running.limit_job
    job = limit_jobs[place]
    while place > 0 and limits[place - 1] < limit:
        limits[place], limit_jobs[place] = limits[place - 1], limit_jobs[place - 1]
        place -= 1
    limits[place], limit_jobs[place] = limit, job
