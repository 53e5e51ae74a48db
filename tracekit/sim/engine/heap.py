"""A binary heap over a plain array, the smallest (key, tie) on top: the only heap, and the only sort, of the engine.

A heap's length is kept by its owner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal

#: One entry; entry i has the children 2i + 1 and 2i + 2. Of equal keys the smaller tie comes first.
ENTRY = np.dtype([("key", np.float64), ("tie", np.int64), ("item", np.int64)], align=True)
Heap = NDArray[Any]  # (n,) ENTRY


@jit_internal
def sift_up(heap: Heap, place: int, key: float, tie: int, item: int) -> None:
    """Write an entry at ``place``, which is free, or above it, so that no parent is larger."""
    # The new entry is written once, at the end: parents in its way move down one place instead of being swapped.
    while place > 0:
        above = heap[(place - 1) >> 1]
        if above.key < key or (above.key == key and above.tie < tie):
            break
        _write(heap, place, above.key, above.tie, above.item)
        place = (place - 1) >> 1
    _write(heap, place, key, tie, item)


@jit_internal
def sift_down(heap: Heap, count: int, place: int, key: float, tie: int, item: int) -> None:
    """Write an entry at ``place``, which is free, or below it among ``count`` entries, so that no child is smaller."""
    # Ties are distinct (job numbers, or numbers of starts), so the order is total: what `pop` returns does not
    # depend on how the heap was built. Schedules are the same to the bit for that reason.
    child = 2 * place + 1
    while child < count:
        right = child + 1
        if right < count and (
            heap[right].key < heap[child].key
            or (heap[right].key == heap[child].key and heap[right].tie < heap[child].tie)
        ):
            child = right
        below = heap[child]
        if key < below.key or (key == below.key and tie < below.tie):
            break
        _write(heap, place, below.key, below.tie, below.item)
        place = child
        child = 2 * place + 1
    _write(heap, place, key, tie, item)


@jit_internal
def _write(heap: Heap, place: int, key: float, tie: int, item: int) -> None:
    heap[place].key = key
    heap[place].tie = tie
    heap[place].item = item


@jit_internal
def pop(heap: Heap, count: int) -> int:
    """Remove the smallest of ``count`` entries and return its item; ``count − 1`` are left."""
    first, last = heap[0].item, heap[count - 1]
    sift_down(heap, count - 1, 0, last.key, last.tie, last.item)
    return int(first)


@jit_internal
def remove(heap: Heap, count: int, place: int) -> None:
    """Remove the entry at ``place``: the last one takes its place, and moves up or down from there."""
    if place == count - 1:
        return
    # The last entry comes from another subtree, so it can be smaller than the parent of the gap: look both ways.
    key, tie, item = heap[count - 1].key, heap[count - 1].tie, heap[count - 1].item
    above = heap[(place - 1) >> 1]
    if place > 0 and (key < above.key or (key == above.key and tie < above.tie)):
        sift_up(heap, place, key, tie, item)
    else:
        sift_down(heap, count - 1, place, key, tie, item)


@jit_internal
def heapify(heap: Heap, count: int) -> None:
    """Turn the first ``count`` entries, in any order, into a heap."""
    # Linear time. A pass seldom pops more than a few entries, so this costs less than sorting them all.
    for place in range((count >> 1) - 1, -1, -1):
        sift_down(heap, count, place, heap[place].key, heap[place].tie, heap[place].item)
