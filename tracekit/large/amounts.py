"""Sums, extremes and exact quantiles of numbers that are seen batch by batch, in memory that does not grow.

A quantile is found in four passes over the numbers: each finds 16 more bits of the wanted order statistics, by
counting. The result is that of `numpy.quantile` on all numbers at once, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

#: How many bits of a number a pass finds, and so how many passes there are.
BITS = 16
PASSES = 64 // BITS


class Amount:
    """One quantity of the jobs: add the values of each batch in each of `PASSES` passes, with `next_pass` between."""

    def __init__(self, shares: Sequence[float] = ()) -> None:
        self.shares = tuple(shares)
        self.count = 0  # finite values
        self.total = np.longdouble(0)  # 64 bits of mantissa: sums of whole numbers are exact
        self.low, self.high = float("inf"), float("-inf")
        self.passed = 0
        self._counts: dict[int, NDArray[np.int64]] = {0: np.zeros(1 << BITS, dtype=np.int64)}
        self._ranks: dict[int, tuple[int, int]] = {}  # rank -> (bits found, rank among the numbers that begin so)

    def add(self, values: Floats) -> None:
        """Take the values of one batch; what is not finite is left out."""
        known = values[np.isfinite(values)]
        if not len(known):
            return
        if not self.passed:
            self.count += len(known)
            self.total += known.sum(dtype=np.longdouble)
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))
        if self.shares:
            self._tally(_keys(known))

    def _tally(self, keys: Keys) -> None:
        rest = np.uint64(64 - BITS * (self.passed + 1))
        if not self.passed:
            self._counts[0] += np.bincount((keys >> rest).astype(np.int64), minlength=1 << BITS)
            return
        begin = keys >> np.uint64(64 - BITS * self.passed)
        for found, counts in self._counts.items():
            mine = keys[begin == np.uint64(found)]
            counts += np.bincount((mine >> rest).astype(np.int64) & ((1 << BITS) - 1), minlength=1 << BITS)

    def next_pass(self) -> None:
        """End a pass."""
        if not self.passed:
            self._ranks = {rank: (0, rank) for rank in self._wanted()}
        for rank, (found, within) in self._ranks.items():
            below = np.cumsum(self._counts[found])
            place = int(np.searchsorted(below, within, side="right"))
            before = int(below[place - 1]) if place else 0
            self._ranks[rank] = (found << BITS | place, within - before)
        self.passed += 1
        self._counts = {found: np.zeros(1 << BITS, dtype=np.int64) for found, _ in self._ranks.values()}

    def _wanted(self) -> set[int]:
        """Return the ranks, from 0, of the order statistics that the quantiles lie between."""
        if not self.count:
            return set()
        places = [share * (self.count - 1) for share in self.shares]
        return {min(int(place) + more, self.count - 1) for place in places for more in (0, 1)}

    def quantiles(self) -> list[float]:
        """Return the quantiles after the last pass, interpolated as `numpy.quantile` does."""
        assert self.passed == PASSES, "not all passes were made"
        found = {rank: _value(bits) for rank, (bits, _) in self._ranks.items()}
        return [quantile_between(found, share, self.count) for share in self.shares]

    @property
    def mean(self) -> float:
        """The mean of the finite values; NaN if there are none."""
        return float(self.total / self.count) if self.count else float("nan")


def quantile_between(found: Mapping[int, float], share: float, count: int) -> float:
    """Return a quantile of ``count`` numbers from those of the ranks (from 0) that it lies between."""
    place = share * (count - 1)
    low = int(place)
    pair = np.array([found[low], found[min(low + 1, count - 1)]])
    return float(np.quantile(pair, place - low))


def _keys(values: Floats) -> Keys:
    """Return whole numbers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)  # −0 becomes 0
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)


def _value(key: int) -> float:
    sign = 1 << 63
    bits = key ^ sign if key & sign else key ^ ((1 << 64) - 1)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])
