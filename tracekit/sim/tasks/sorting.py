"""Sorting in compiled code: a stable merge sort on plain arrays that the caller brings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit


@jit
def merge_sort(key: NDArray[np.float64], row: NDArray[np.int64], count: int) -> int:
    """Sort the first ``count`` keys, and rows with them; of equal keys the first stays first.

    Both have the shape (2, n): given in [0], with scratch space in [1]. Returns which of the two holds the result.
    """
    now, width = 0, 1
    while width < count:
        from_key, to_key, from_row, to_row = key[now], key[1 - now], row[now], row[1 - now]
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for at in range(begin, end):
                if right >= end or (left < middle and from_key[left] <= from_key[right]):
                    to_key[at], to_row[at] = from_key[left], from_row[left]
                    left += 1
                else:
                    to_key[at], to_row[at] = from_key[right], from_row[right]
                    right += 1
        now = 1 - now
        width *= 2
    return now
