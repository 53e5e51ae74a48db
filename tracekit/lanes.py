"""Places for drawing: which processors a job has, where a schedule only counts them."""

from __future__ import annotations

import heapq
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from tracekit.stats import Floats, steps

Runs = list[tuple[int, int]]


def lanes(start: Floats, end: Floats, procs: NDArray[np.int64], total: int) -> list[Runs]:
    """Give every job processors of its own, lowest first, as runs (first, count) of neighbours; for drawing only.

    A job that finds fewer processors free than it holds (a log can be wrong) gets those that are free.

    >>> lanes(np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 6.0]), np.array([2, 1, 3]), 4)
    [[(0, 2)], [(2, 1)], [(0, 2), (3, 1)]]
    """
    firsts, counts = [0], [int(total)]  # free runs by position; no two of them touch
    held: list[tuple[float, int]] = []  # end and job, earliest end first
    found: list[Runs] = [[] for _ in range(len(start))]
    begins, ends, sizes = start.tolist(), np.maximum(start, end).tolist(), procs.tolist()
    for job in np.lexsort((np.arange(len(start)), end > start, start)).tolist():  # jobs of no length come and go first
        while held and held[0][0] <= begins[job]:
            for run in found[heapq.heappop(held)[1]]:
                _release(firsts, counts, *run)
        found[job] = _take(firsts, counts, sizes[job])
        heapq.heappush(held, (ends[job], job))
    return found


def whole_lanes(start: Floats, end: Floats, procs: Floats, total: int) -> tuple[NDArray[np.int64], int]:
    """Return how many lanes each job gets, and how many there are: more than ``total`` where jobs hold fractions.

    >>> whole_lanes(np.zeros(3), np.ones(3), np.array([0.5, 0.5, 1.5]), 2)
    (array([1, 1, 2]), 4)
    """
    held = np.clip(np.ceil(procs), 1, total).astype(np.int64)
    return held, max(total, most_at_once(start, end, held)) if (procs % 1 != 0).any() else total


def most_at_once(start: Floats, end: Floats, held: NDArray[np.int64]) -> int:
    """Return how many lanes jobs need that are all to have theirs."""
    long = end > start
    if not long.any():
        return max(int(held.max(initial=1)), 1)
    return max(int(steps(start[long], end[long], held[long])[1].max()), int(held.max()), 1)


def _take(firsts: list[int], counts: list[int], wanted: int) -> Runs:
    """Take the lowest free processors out of the free runs."""
    taken: Runs = []
    whole = 0  # free runs that are used up
    while wanted > 0 and whole < len(firsts):
        count = min(wanted, counts[whole])
        taken.append((firsts[whole], count))
        wanted -= count
        if count < counts[whole]:
            firsts[whole] += count
            counts[whole] -= count
        else:
            whole += 1
    del firsts[:whole], counts[:whole]
    return taken


def _release(firsts: list[int], counts: list[int], first: int, count: int) -> None:
    """Put a run back among the free ones, joined with its neighbours."""
    at = bisect_left(firsts, first)
    if at < len(firsts) and first + count == firsts[at]:
        count += counts[at]
        del firsts[at], counts[at]
    if at and firsts[at - 1] + counts[at - 1] == first:
        counts[at - 1] += count
    else:
        firsts.insert(at, first)
        counts.insert(at, count)
