"""Values that are distributed as the real ones are: a synthetic job's rank is its own, the value at that rank is real.

Moving every campaign by itself changes the distribution where few campaigns hold most of the jobs. So what was moved
only decides the *order* of jobs of one stratum (alike in template and end, or in size and end); the values are read off
the sorted real values of that stratum, between neighbours. Values that many jobs have in common stay that common.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tracekit.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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
    def by(cls, stratum: Ints, value: Floats, strata: int) -> Self:
        """Sort values."""
        order = np.lexsort((value, stratum))
        return cls(np.searchsorted(stratum[order], np.arange(strata + 1)).astype(np.int64), value[order])

    def at(self, stratum: Ints, rank: Floats) -> Floats:
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

    of: Ints  # stratum
    value: Floats
    common: NDArray[np.bool_]  # many jobs of the stratum have the same value

    @classmethod
    def fit(cls, keys: Sequence[Ints], value: Floats) -> Self:
        """Divide jobs by the finest of ``keys`` (the last is the coarsest) by which enough jobs are alike."""
        of = np.full(len(value), -1, dtype=np.int64)
        strata = 0
        for k, key in enumerate(keys):
            left = np.flatnonzero(of < 0)
            _, code, count = np.unique(key[left], return_inverse=True, return_counts=True)
            taken = (count >= ENOUGH) if k < len(keys) - 1 else np.ones(len(count), dtype=bool)
            number = np.where(taken, strata + np.cumsum(taken) - 1, -1)
            of[left] = number[code]
            strata += int(taken.sum())
        _, code, count = np.unique(
            np.column_stack([of.astype(np.float64), value]), axis=0, return_inverse=True, return_counts=True
        )
        return cls(of, value, np.asarray((count >= COMMON * len(value))[code.ravel()]))

    def matched(
        self, model: Ints, wanted: Floats, most: Floats, rng: np.random.Generator
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return values in the order of ``wanted`` within each stratum, distributed as those of the models there.

        Also which of them many real jobs have. ``model``: real jobs after which the jobs are modelled; ``most``: the
        largest value that a job may have, which comes before the order.
        """
        stratum = self.of[model]
        order = np.lexsort((-most, stratum))
        ranked = stratum[order]
        drawn = Sorted.by(stratum, self.value[model], int(self.of.max()) + 1)
        rank = (np.arange(len(order)) - drawn.first[ranked]).astype(np.float64)
        away, aside = rng.uniform(-1, 1, (2, len(order)))
        own, value = drawn.at(ranked, rank), drawn.at(ranked, rank + REACH * away)
        value = np.where(np.abs(value - own) > FARTHEST * np.abs(own), own * (1 + FARTHEST * aside), value)
        value = value[np.lexsort((-value, ranked))]
        found = np.asarray(_dealt(ranked, order, value, wanted, most))
        return found, self._is_common(stratum, found)

    def _is_common(self, stratum: Ints, value: Floats) -> NDArray[np.bool_]:
        """Return which values are common in their strata."""
        if not self.common.any():
            return np.zeros(len(value), dtype=bool)
        values = np.unique(self.value[self.common])
        code = self.of[self.common] * len(values) + np.searchsorted(values, self.value[self.common])
        place = np.minimum(np.searchsorted(values, value), len(values) - 1)
        return np.asarray((values[place] == value) & np.isin(stratum * len(values) + place, np.unique(code)))


def turned(campaign: Ints, one: Floats, other: Floats, work: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose the campaigns that move the other way, so that the work of all jobs is about ``work``.

    ``one`` and ``other``: the work of each job either way, shape (jobs,). Campaigns are asked in random order.
    """
    gain = np.bincount(campaign, weights=other - one)
    return np.asarray(_turning(gain, rng.permutation(len(gain)), float(one.sum()) - work)[campaign])


def exchanged(
    stratum: Ints, value: Floats, weight: Floats, most: Floats, total: float, rng: np.random.Generator
) -> Floats:
    """Let jobs of one stratum exchange their values until Σ weight · value is ``total``, or as near as that goes.

    ``most``: the largest value that a job may have. Distributions stay as they are; neighbours in rank come first.
    """
    made = value.copy()
    for apart in APART:
        excess = float(weight @ made) - total
        if abs(excess) <= NEAR * total:
            break
        order = np.lexsort((made, stratum))
        one = np.flatnonzero(np.arange(len(order)) // apart % 2 == 0)
        one = one[one + apart < len(order)]
        left, right = order[one], order[one + apart]
        fits = (stratum[left] == stratum[right]) & (made[right] <= most[left]) & (made[left] <= most[right])
        fits &= made[right] - made[left] <= SIMILAR * np.abs(made[left]) + SECONDS
        left, right = left[fits], right[fits]
        gain = (weight[left] - weight[right]) * (made[right] - made[left])
        turned = _turning(gain, rng.permutation(len(gain)), excess)
        left, right = left[turned], right[turned]
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
        waiting = [(0.0, 0) for _ in range(0)]
        come = begin
        for k in range(begin, end):
            while come < end and (most[order[come]] >= value[k] or (not waiting and come == k)):
                heapq.heappush(waiting, (-wanted[order[come]], order[come]))
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
