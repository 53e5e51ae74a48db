"""Values that are distributed as the real ones are: a synthetic job's rank is its own, the value at that rank is real.

Moving every campaign by itself changes the distribution where few campaigns hold most of the jobs. So what was moved
only decides the *order* of jobs of one stratum (alike in template and end, or in size and end); the values are read off
the sorted real values of that stratum, between neighbours. Values that many jobs have in common stay that common.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.shelf import MEMORY, Array, Column, Shelf, blocks, ranked, small, whole
from tracekit.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

#: A stratum has at least so many jobs; what has fewer is put together by the next coarser key.
ENOUGH = 100
#: Values are read at most so many ranks away.
REACH = 4.0
#: … but no farther away than this share of the value.
FARTHEST = 0.1
#: A value that this share of all jobs have, in one stratum, is common.
COMMON = 0.002
#: Jobs exchange their values with those so many ranks away, one distance after the other, until the sum is right.
APART = (1, 2, 4, 8, 16, 32, 64, 128, 32, 8, 128, 64)
#: … unless they differ by more than this share and so many seconds.
SIMILAR, SECONDS = 0.5, 60.0
#: So near a sum is near enough.
NEAR = 0.001


@dataclass(frozen=True)
class Sorted:
    """Values by stratum, sorted: those of stratum s are ``value[first[s]:first[s + 1]]``."""

    first: Ints  # (strata + 1,)
    value: Floats

    @classmethod
    def by(cls, stratum: Array, value: Floats, strata: int) -> Self:
        """Sort values."""
        first = np.append(0, np.cumsum(np.bincount(stratum, minlength=strata)))
        return cls(first, value[np.lexsort((value, stratum))])

    def at(self, stratum: Array, rank: Floats) -> Floats:
        """Return the value at a rank of each stratum, between neighbours; ranks beyond the ends are reflected."""
        first, last = self.first[stratum], self.first[stratum + 1] - self.first[stratum] - 1
        at = np.abs(rank)
        at = np.clip(np.where(at > last, 2 * last - at, at), 0, last)
        below = np.floor(at).astype(np.int64)
        low, high = self.value[first + below], self.value[first + np.minimum(below + 1, last)]
        return np.asarray(low + (at - below) * (high - low))


@dataclass(frozen=True)
class Strata:
    """Real jobs by stratum. All of shape (jobs,)."""

    of: Column  # stratum
    value: Column
    common: Column  # many jobs of the stratum have the same value
    shelf: Shelf

    @classmethod
    def fit(cls, keys: Sequence[Callable[[], Array]], value: Floats, shelf: Shelf = MEMORY) -> Self:
        """Divide jobs by the finest key (the last is the coarsest) by which enough jobs are alike.

        ``keys``: functions, because one key at a time is enough.
        """
        of, strata = np.full(len(value), -1, dtype=np.int32), 0
        for k, key in enumerate(keys):
            left = small(np.flatnonzero(of < 0))
            code = ranked(key()[left])[0]
            count = np.bincount(code)
            taken = (count >= ENOUGH) if k < len(keys) - 1 else np.ones(len(count), dtype=bool)
            of[left] = np.where(taken, strata + np.cumsum(taken) - 1, -1)[code]
            strata += int(taken.sum())
        del left, code
        return cls(shelf.keep(of), shelf.keep(value), shelf.keep(_common(of, value)), shelf)

    def matched(self, model: Array, wanted: Floats, most: Floats, rng: np.random.Generator) -> tuple[Floats, Marks]:
        """Return values in the order of ``wanted`` within each stratum, distributed as those of the models there.

        Also which of them many real jobs have. ``model``: real jobs after which the jobs are modelled; ``most``: the
        largest value that a job may have, which comes before the order.
        """
        stratum: Array = self.of[model]
        strata = int(whole(self.of).max()) + 1
        order = small(np.lexsort((-most, stratum)))
        ranks = stratum[order]
        drawn = Sorted.by(stratum, self.value[model], strata)
        value, growing = np.empty(len(order)), self.shelf.growing()
        for rows in blocks(len(order)):
            growing.add(rng.uniform(-1, 1, rows.stop - rows.start))
        away = growing.done()
        for rows in blocks(len(order)):
            ranked_here = ranks[rows]
            rank = (np.arange(rows.start, rows.stop) - drawn.first[ranked_here]).astype(np.float64)
            aside = rng.uniform(-1, 1, len(rank))
            own, far = drawn.at(ranked_here, rank), drawn.at(ranked_here, rank + REACH * away[rows])
            off = np.abs(far - own) > FARTHEST * np.abs(own)
            value[rows] = np.where(off, own * (1 + FARTHEST * aside), far)
        first = drawn.first
        del away, growing, drawn
        np.negative(value, out=value)
        for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
            value[begin:end].sort()
        np.negative(value, out=value)  # falling within each stratum
        found = np.asarray(_dealt(ranks, order, value, wanted, most))
        del ranks, order, value
        return found, self._is_common(stratum, found)

    def _is_common(self, stratum: Array, value: Floats) -> Marks:
        """Return which values are common in their strata."""
        marks = np.zeros(len(value), dtype=bool)
        here = np.flatnonzero(whole(self.common))
        if not len(here):
            return marks
        of, real = self.of[here].astype(np.int64), self.value[here]
        values = np.unique(real)
        codes = np.unique(of * len(values) + np.searchsorted(values, real))
        for rows in blocks(len(value)):
            place = np.minimum(np.searchsorted(values, value[rows]), len(values) - 1)
            code = stratum[rows].astype(np.int64) * len(values) + place
            marks[rows] = (values[place] == value[rows]) & np.isin(code, codes)
        return marks


def _common(of: Array, value: Floats) -> Marks:
    """Return which jobs have a value that many jobs of their stratum have."""
    order = small(np.lexsort((value, of)))
    new = np.ones(len(order), dtype=bool)
    for rows in blocks(max(len(order) - 1, 0)):
        here, after = order[rows], order[rows.start + 1 : rows.stop + 1]
        new[rows.start + 1 : rows.stop + 1] = (value[here] != value[after]) | (of[here] != of[after])
    first = np.flatnonzero(new)
    often = np.diff(np.append(first, len(order))) >= COMMON * len(value)
    common = np.zeros(len(order), dtype=bool)
    for begin, count in zip(first[often], np.diff(np.append(first, len(order)))[often], strict=True):
        common[order[begin : begin + count]] = True
    return common


def turned(campaign: Array, gain: Floats, excess: float, rng: np.random.Generator) -> Marks:
    """Choose the campaigns that move the other way, so that the work of all jobs is about what it should be.

    ``gain``: how much more work each job then brings, shape (jobs,); ``excess``: how much too much it is if none does.
    Campaigns are asked in random order.
    """
    gains = np.bincount(campaign, weights=gain)
    return np.asarray(_turning(gains, rng.permutation(len(gains)), excess)[campaign])


def exchanged(
    stratum: Array, value: Floats, weight: Floats, most: Floats, total: float, rng: np.random.Generator
) -> Floats:
    """Let jobs of one stratum exchange their values until Σ weight · value is ``total``, or as near as that goes.

    ``most``: the largest value that a job may have. Distributions stay as they are; neighbours in rank come first.
    """
    made = value.copy()
    for apart in APART:
        excess = float(weight @ made) - total
        if abs(excess) <= NEAR * total:
            break
        order = small(np.lexsort((made, stratum)))
        pairs, gains = [np.empty((2, 0), dtype=order.dtype)], [np.empty(0)]
        for rows in blocks(len(order)):
            one = np.arange(rows.start, min(rows.stop, len(order) - apart))
            one = one[one // apart % 2 == 0]
            left, right = order[one], order[one + apart]
            fits = (stratum[left] == stratum[right]) & (made[right] <= most[left]) & (made[left] <= most[right])
            fits &= made[right] - made[left] <= SIMILAR * np.abs(made[left]) + SECONDS
            left, right = left[fits], right[fits]
            pairs.append(np.stack([left, right]))
            gains.append((weight[left] - weight[right]) * (made[right] - made[left]))
        del order
        gain = np.concatenate(gains)
        del gains
        turned = _turning(gain, rng.permutation(len(gain)), excess)
        left, right = np.concatenate(pairs, axis=1)[:, turned]
        del gain, pairs, turned
        made[left], made[right] = made[right], made[left]
    return made


_jit: Any = partial(compiled, sources=Path(__file__).resolve().parent)


@_jit
def _dealt(stratum, order, value, wanted, most):  # type: ignore[no-untyped-def]
    """Deal values to jobs, each to the one that wants the largest among those that may have it.

    ``stratum``, ``value`` (falling) and ``order`` (jobs, by falling ``most``) are sorted by stratum. Largest first: who
    may have a value may have all smaller ones, so nobody is left without.
    """
    found = np.empty(len(order))
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and stratum[end] == stratum[begin]:
            end += 1
        waiting: Any = [(0.0, 0) for _ in range(0)]
        come = begin
        for k in range(begin, end):
            while come < end and (most[order[come]] >= value[k] or (not waiting and come == k)):
                heapq.heappush(waiting, (-wanted[order[come]], np.int64(order[come])))
                come += 1
            job = heapq.heappop(waiting)[1]
            found[job] = min(value[k], most[job])
        begin = end
    return found


@_jit
def _turning(gain, order, excess):  # type: ignore[no-untyped-def]
    """Mark those whose ``gain`` brings what is in excess nearer to 0."""
    turned = np.zeros(len(gain), np.bool_)
    for k in order:
        if abs(excess + gain[k]) < abs(excess):
            turned[k] = True
            excess += gain[k]
    return turned
