"""Distances between distributions of values that are counted, however many jobs there are (`tracekit.large.spreads`).

They walk through two spreads side by side. Arrays of values, for traces in memory, have faster ways in
`evaluation.marginal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from tracekit.large.spreads import Counts, Floats, Spread, Table

Values = Floats | Spread


def spread_of(values: Values) -> Spread:
    """Return values as a spread."""
    return values if isinstance(values, Spread) else Spread.of(values)


@overload
def log_seconds(values: Floats) -> Floats: ...
@overload
def log_seconds(values: Spread) -> Spread: ...
def log_seconds(values: Values) -> Values:
    """Return ln(1 + seconds); what is below zero counts as zero."""
    if isinstance(values, Spread):
        return values.mapped(log_seconds)
    return np.asarray(np.log1p(np.maximum(values, 0.0)))


# ---- two spreads side by side ----------------------------------------------------------------------------------------


class _Side:
    """One of two spreads: what was read of it and not yet used."""

    def __init__(self, spread: Spread) -> None:
        self._blocks = spread.blocks()
        self.values, self.counts, self.spent = np.empty(0), np.empty(0, dtype=np.int64), False

    def fill(self) -> None:
        while not len(self.values) and not self.spent:
            self.values, self.counts = next(self._blocks, (np.empty(0), np.empty(0, dtype=np.int64)))
            self.spent = not len(self.values)

    def upto(self, cut: float) -> Table:
        end = int(np.searchsorted(self.values, cut, side="right"))
        taken = self.values[:end], self.counts[:end]
        self.values, self.counts = self.values[end:], self.counts[end:]
        return taken


def side_by_side(ours: Spread, theirs: Spread) -> Iterator[tuple[Floats, Counts, Counts]]:
    """Yield the values of both in order, and how often each occurs on either side."""
    sides = [_Side(spread) for spread in (ours, theirs)]
    while True:
        for side in sides:
            side.fill()
        ends = [float(side.values[-1]) for side in sides if not side.spent]
        if not ends:
            return
        tables = [side.upto(min(ends)) for side in sides]
        values = np.unique(np.concatenate([table[0] for table in tables]))
        counts = [np.zeros(len(values), dtype=np.int64) for _ in tables]
        for count, table in zip(counts, tables, strict=True):
            np.add.at(count, np.searchsorted(values, table[0]), table[1])  # a mapped spread may repeat a value
        yield values, counts[0], counts[1]


def _shares(ours: Spread, theirs: Spread) -> Iterator[tuple[Floats, Floats]]:
    """Yield the values of both in order, and the share of ours less that of theirs that is at or below each."""
    before = [0, 0]
    for values, a, b in side_by_side(ours, theirs):
        sums = before[0] + np.cumsum(a), before[1] + np.cumsum(b)
        before = [int(sums[0][-1]), int(sums[1][-1])]
        yield values, sums[0] / len(ours) - sums[1] / len(theirs)


def farthest(ours: Spread, theirs: Spread) -> float:
    """Return the largest vertical distance between two distribution functions."""
    return max(float(np.abs(apart).max()) for _, apart in _shares(ours, theirs))


def area(ours: Spread, theirs: Spread) -> float:
    """Return the area between two distribution functions."""
    total, last, height = 0.0, float("nan"), 0.0
    for values, apart in _shares(ours, theirs):
        if not np.isnan(last):
            total += height * (float(values[0]) - last)
        total += float(np.sum(np.abs(apart[:-1]) * np.diff(values)))
        last, height = float(values[-1]), abs(float(apart[-1]))
    return total


def value_by_value(ours: Spread, theirs: Spread) -> float:
    """Return half the summed difference of the shares of every single value."""
    blocks = side_by_side(ours, theirs)
    return 0.5 * sum(float(np.abs(a / len(ours) - b / len(theirs)).sum()) for _, a, b in blocks)


def without_equal(ours: Spread, theirs: Spread) -> float:
    """Return the share of theirs whose value never occurs in ours."""
    return sum(int(b[a == 0].sum()) for _, a, b in side_by_side(ours, theirs)) / len(theirs)


# ---- one value after the other ---------------------------------------------------------------------------------------


class Lagged:
    """Sums of products of a series with itself some places later, for its autocorrelation; known values only."""

    def __init__(self, lags: int) -> None:
        self.lags, self.count = lags, 0
        self.low, self.high = np.inf, -np.inf
        self._middle = 0.0  # about the mean, so that sums of squares keep their digits
        self._sum = np.longdouble(0)
        self._products = np.zeros(lags + 1, dtype=np.longdouble)
        self._first, self._last = np.empty(0), np.empty(0)  # as many as there are lags, less the middle

    def add(self, values: Floats) -> None:
        """Take the next values."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        if not self.count:
            self._middle = float(values.mean())
        moved = values - self._middle
        self.count += len(moved)
        self._sum += moved.sum(dtype=np.longdouble)
        both = np.concatenate((self._last, moved))
        self._products += _products(both, self.lags) - _products(self._last, self.lags)
        self._first = np.concatenate((self._first, moved[: self.lags - len(self._first)]))
        self._last = both[-self.lags :]

    def curve(self, lags: int) -> Floats:
        """Return the autocorrelation at lags 1 … ``lags``; NaN where it has no meaning."""
        assert lags <= self.lags, "more lags than were looked at"
        if self.count <= lags or self.low == self.high:
            return np.full(lags, np.nan)
        off = self._sum / self.count
        ends = (
            np.cumsum(np.concatenate(([0.0], self._first[:lags]))),
            np.cumsum(np.concatenate(([0.0], self._last[::-1][:lags]))),
        )
        steps = np.arange(lags + 1)
        sums = 2 * self._sum - ends[0] - ends[1]
        products = self._products[: lags + 1] - off * sums + (self.count - steps) * off**2
        return np.asarray(products[1:] / products[0], dtype=np.float64)


def _products(values: Floats, lags: int) -> Floats:
    """Return Σ x_t x_{t+k} for k = 0 … ``lags``."""
    if not len(values):
        return np.zeros(lags + 1)
    size = next_fast_len(len(values) + lags, real=True)
    return np.asarray(irfft(np.abs(rfft(values, size)) ** 2, size)[: lags + 1])
