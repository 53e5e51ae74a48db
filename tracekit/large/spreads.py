"""Values with how often each occurs: in memory where few of them differ, as in most columns; else sorted on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit.large.amounts import quantile_between
from tracekit.large.runs import Runs

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Table = tuple[Floats, Counts]  # different values in order, and how often each occurs

#: Different values that are kept in memory before they go to disk.
KEPT = 100_000
#: Whole numbers below this are counted without sorting.
_SMALL = 1 << 20


class Spread:
    """Values in order with their counts, block by block."""

    def __init__(self, tables: Callable[[], Iterator[Table]]) -> None:
        self.blocks = tables
        self.count, self.low, self.high, total = 0, np.inf, -np.inf, np.longdouble(0)
        for values, counts in tables():
            self.count += int(counts.sum())
            self.low, self.high = min(self.low, float(values[0])), max(self.high, float(values[-1]))
            total += (values * counts).sum(dtype=np.longdouble)
        self._total = total

    def __len__(self) -> int:
        return self.count

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Return the spread of an array."""
        table = counted(values)
        return cls(lambda: iter([table] if len(table[0]) else []))

    def mean(self) -> float:
        """Return the mean; NaN if there are no values."""
        return float(self._total / self.count) if self.count else float("nan")

    def mapped(self, change: Callable[[Floats], Floats]) -> Spread:
        """Return the spread of changed values; ``change`` must not swap any two."""
        return Spread(lambda: ((change(values), counts) for values, counts in self.blocks()))

    def quantiles(self, shares: Sequence[float]) -> Floats:
        """Return quantiles as `numpy.quantile` does, to the last bit."""
        wanted = {min(int(share * (self.count - 1)) + more, self.count - 1) for share in shares for more in (0, 1)}
        ranks = np.array(sorted(wanted))
        found = dict(zip(ranks.tolist(), self.at(ranks).tolist(), strict=True))
        return np.array([quantile_between(found, share, self.count) for share in shares])

    def at(self, ranks: Counts) -> Floats:
        """Return the values of growing ranks, from 0."""
        made, before = [np.empty(0)], 0
        for values, counts in self.blocks():
            upto = before + np.cumsum(counts)
            here = ranks[np.searchsorted(ranks, before) : np.searchsorted(ranks, upto[-1])]
            made.append(values[np.searchsorted(upto, here, side="right")])
            before = int(upto[-1])
        return np.concatenate(made)

    def points(self, most: int) -> tuple[Floats, Floats]:
        """Return points of the cumulative distribution, ends included: values and the shares at or below."""
        ranks = np.unique(np.linspace(0, self.count - 1, min(most, self.count)).astype(np.int64))
        return self.at(ranks), (ranks + 1) / self.count


def counted(values: Floats) -> Table:
    """Return the different values in order, and how often each occurs."""
    if len(values) and values.min() >= 0 and values.max() < _SMALL:
        whole = values.astype(np.int64)
        if (whole == values).all():
            counts = np.bincount(whole)
            there = np.flatnonzero(counts)
            return there.astype(np.float64), counts[there]
    found, counts = np.unique(values, return_counts=True)
    return found, counts.astype(np.int64)


def merged(tables: Sequence[Table]) -> Table:
    """Return several tables as one."""
    values = np.concatenate([table[0] for table in tables])
    order = np.argsort(values, kind="stable")
    return _collapsed(values[order], np.concatenate([table[1] for table in tables])[order])


def _collapsed(values: Floats, counts: Counts) -> Table:
    """Return a table from sorted values of which some are equal."""
    if not len(values):
        return values, counts
    first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[first], np.add.reduceat(counts, first)


class Counting:
    """Makes a `Spread` of values that come batch by batch; ``folder`` is used where many of them differ, if given."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._waiting: list[Table] = []
        self._size = 0
        self._runs: Runs | None = None

    def add(self, values: Floats) -> None:
        """Take finite values."""
        if not len(values):
            return
        self._waiting.append(counted(values))
        self._size += len(self._waiting[-1][0])
        if self._size > KEPT:
            self._waiting = [merged(self._waiting)]
            self._size = len(self._waiting[0][0])
            if self.folder is not None and self._size > KEPT // 2:
                self._store()

    def _store(self) -> None:
        if self._runs is None:
            assert self.folder is not None
            self.folder.mkdir(parents=True)
            self._runs = Runs(self.folder)
        for values, counts in self._waiting:
            self._runs.add(values, counts)
        self._waiting, self._size = [], 0

    def spread(self) -> Spread:
        """Return what was counted."""
        if self._waiting:
            self._waiting = [merged(self._waiting)]
        if self._runs is None:
            tables = self._waiting
            return Spread(lambda: iter(tables))
        self._store()
        return Spread(lambda: _joined(self._runs))


def _joined(runs: Runs | None) -> Iterator[Table]:
    assert runs is not None
    for values, counts in runs.blocks():
        assert counts is not None
        yield _collapsed(values, counts)
