"""Sums, extremes and exact quantiles of numbers that are seen batch by batch, in memory that does not grow.

A quantile is found in four passes over the numbers: each finds 16 more bits of the wanted order statistics, by
counting. The result is that of `numpy.quantile` on all numbers at once, to the last bit. So is the sum of a known
number of values (`Total`), which is added up in the order in which numpy adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

#: How many bits of a number a pass finds, and so how many passes there are.
BITS = 16
PASSES = 64 // BITS
#: `Total` leaves so many values at a time to numpy.
LEAF = 1 << 16


class Total:
    """The sum of a known number of values that are seen batch by batch: that of `numpy.sum` of all of them at once.

    numpy halves the values until few are left, the first half a multiple of 8, and adds the sums of the halves. Here
    the halves of up to LEAF values are added by numpy, the others as numpy would.
    """

    def __init__(self, count: int) -> None:
        self.count, self.seen = count, 0
        self._leaves = _leaves(count)
        self._wanted = next(self._leaves, 0)
        self._waiting: list[Floats] = []
        self._there = 0
        self._sums: list[float] = []

    def add(self, values: Floats) -> None:
        """Take the next values."""
        self.seen += len(values)
        assert self.seen <= self.count, "more values than were said"
        while len(values):
            taken = values[: self._wanted - self._there]
            values = values[len(taken) :]
            self._waiting.append(taken)
            self._there += len(taken)
            if self._there == self._wanted:
                leaf = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
                self._sums.append(float(np.ascontiguousarray(leaf).sum()))
                self._waiting, self._there = [], 0
                self._wanted = next(self._leaves, 0)

    @property
    def value(self) -> float:
        """The sum, after the last value."""
        assert self.seen == self.count, "fewer values than were said"
        return _joined(self.count, iter(self._sums)) if self.count else 0.0

    @property
    def mean(self) -> float:
        """The sum by the number of values; there must be one."""
        return self.value / self.count


def _half(count: int) -> int:
    return count // 2 - count // 2 % 8


def _leaves(count: int) -> Iterator[int]:
    """Yield how many values are added at a time."""
    if count <= LEAF:
        yield from [count] * (count > 0)
        return
    yield from _leaves(_half(count))
    yield from _leaves(count - _half(count))


def _joined(count: int, sums: Iterator[float]) -> float:
    """Return the sum of so many values from the sums of their leaves."""
    if count <= LEAF:
        return next(sums)
    first = _joined(_half(count), sums)
    return first + _joined(count - _half(count), sums)


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

    def median(self) -> float:
        """Return the median after the last pass, as `numpy.median` does; a share of 0.5 must have been asked for."""
        found = {rank: _value(bits) for rank, (bits, _) in self._ranks.items()}
        low = (self.count - 1) // 2
        return float(np.median([found[low], found[self.count // 2]]))

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
