"""The waiting jobs of a static order: a tree over ranks that finds the next job able to start without a scan.

Every job has a fixed rank in the policy's order. A leaf holds the size and the estimate of the job with that rank
while it waits, infinity otherwise; an inner node holds the smallest size and the smallest estimate of its sixteen
children. A search for the next job that fits skips every subtree whose smallest size or estimate is too large, so
tens of thousands of waiting jobs that cannot be backfilled cost next to nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal, jit_merged

EMPTY = 2**62  # the size of an empty leaf: fits nowhere


class RankTree(NamedTuple):
    """The tree; ``m`` is the number of nodes, about 1.07 for each job."""

    size: NDArray[np.int64]  # (m,) processors, level by level from the leaves
    estimate: NDArray[np.float64]  # (m,) seconds
    level: NDArray[np.int64]  # (levels + 1,) where each level begins; the last is m
    rank: NDArray[np.int64]  # (jobs,) leaf of each job
    job: NDArray[np.int64]  # (jobs,) job of each leaf


def empty_tree(order: NDArray[np.intp] | None, jobs: int) -> RankTree:
    """Return an empty tree for jobs ranked by ``order`` (job of each rank; None = as they are numbered)."""
    # Sixteen children: their sizes are two cache lines, and five levels hold a million jobs.
    widths = [max(jobs, 1)]
    while widths[-1] > 16:
        widths.append((widths[-1] + 15) // 16)
    # Every group of siblings is complete, so a search need not know where a level ends; padding never fits.
    padded = [(width + 15) // 16 * 16 for width in widths]
    level = np.concatenate(([0], np.cumsum(padded))).astype(np.int64)
    job_of = np.arange(jobs, dtype=np.int64) if order is None else order.astype(np.int64, copy=False)
    rank = job_of if order is None else np.empty(jobs, np.int64)
    if order is not None:
        rank[job_of] = np.arange(jobs, dtype=np.int64)
    return RankTree(np.full(level[-1], EMPTY), np.full(level[-1], np.inf), level, rank, job_of)


@jit_internal
def enter(tree: RankTree, job: int, size: int, estimate: float) -> None:
    """Let a job wait."""
    sizes, estimates, level = tree.size, tree.estimate, tree.level
    k = tree.rank[job]
    sizes[k], estimates[k] = size, estimate
    for depth in range(1, len(level) - 1):
        k >>= 4
        node = level[depth] + k
        # Nodes above hold minima over even more jobs, so none of them changes either.
        if size >= sizes[node] and estimate >= estimates[node]:
            break
        sizes[node] = min(sizes[node], size)
        estimates[node] = min(estimates[node], estimate)


@jit_internal
def leave(tree: RankTree, job: int) -> None:
    """Take a job out of the queue."""
    sizes, estimates, level = tree.size, tree.estimate, tree.level
    k = tree.rank[job]
    size, estimate = sizes[k], estimates[k]
    sizes[k], estimates[k] = EMPTY, np.inf
    for depth in range(1, len(level) - 1):
        k >>= 4
        node = level[depth] + k
        if sizes[node] < size and estimates[node] < estimate:
            break  # this node owes nothing to the job, nor do those above
        first = level[depth - 1] + (k << 4)
        smallest, shortest = EMPTY, np.inf
        for child in range(first, first + 16):
            smallest = min(smallest, sizes[child])
            shortest = min(shortest, estimates[child])
        # Another child has the same minima: the nodes above do not change.
        if smallest == sizes[node] and shortest == estimates[node]:
            break
        sizes[node], estimates[node] = smallest, shortest


@jit_merged
def smallest_size(tree: RankTree) -> int:
    """Return the smallest size that waits (`EMPTY` when none does)."""
    level = tree.level
    smallest = EMPTY
    for node in range(level[-2], level[-1]):
        smallest = min(smallest, tree.size[node])
    return smallest


@jit_internal
def next_fit(tree: RankTree, rank: int, most: int, extra: int, now: float, shadow: float) -> int:
    """Return the first rank ≥ ``rank`` whose job has size ≤ most and (now + estimate ≤ shadow or size ≤ extra), or −1.

    Adding to a smaller estimate never gives a larger sum, also when rounded, so the very same test prunes and decides.
    """
    sizes, estimates, level = tree.size, tree.estimate, tree.level
    top = len(level) - 2
    depth, k = 0, rank
    if k >= level[1]:
        return -1
    while True:
        base, end = level[depth], (k | 15) + 1
        while k < end:
            # An inner node's size and estimate may come from two different jobs. A subtree may then be
            # searched in vain, but none that holds a job that qualifies is skipped.
            size = sizes[base + k]
            if size <= most and (size <= extra or now + estimates[base + k] <= shadow):
                break
            k += 1
        if k < end:
            # At a leaf both numbers belong to one job, so the test is exact.
            if depth == 0:
                return k
            depth -= 1  # down to its first child
            k <<= 4
        else:  # up, past every group that is exhausted
            # k is now the first of the next group, so k >> 4 is the next sibling of the parent.
            while k & 15 == 0:
                if depth == top:
                    return -1
                depth += 1
                k >>= 4


@jit_merged
def first_rank(tree: RankTree, rank: int) -> int:
    """Return the first rank ≥ ``rank`` whose job waits, or −1."""
    return next_fit(tree, rank, EMPTY - 1, EMPTY - 1, 0.0, 0.0)
