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
class Strata:
    """Real values by stratum, sorted."""

    of: Ints  # (jobs,) stratum of each real job
    first: Ints  # (strata + 1,)
    value: Floats  # (jobs,)

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
        order = np.lexsort((value, of))
        return cls(of, np.searchsorted(of[order], np.arange(strata + 1)).astype(np.int64), value[order])

    def matched(self, model: Ints, wanted: Floats, most: Floats, rng: np.random.Generator) -> Floats:
        """Return values in the order of ``wanted`` within each stratum, distributed as the real ones of the stratum.

        ``model``: real jobs after which the jobs are modelled; ``most``: the largest value that a job may have, which
        comes before the order.
        """
        stratum = self.of[model]
        order = np.lexsort((-most, stratum))
        ranked = stratum[order]
        begin = np.searchsorted(ranked, ranked)
        made = np.searchsorted(ranked, ranked, side="right") - begin
        real = self.first[ranked + 1] - self.first[ranked]
        rank = (np.arange(len(order)) - begin + 0.5) / made * real - 0.5
        away, aside = rng.uniform(-1, 1, (2, len(order)))
        own, value = self._at(ranked, rank), self._at(ranked, rank + REACH * away)
        value = np.where(np.abs(value - own) > FARTHEST * np.abs(own), own * (1 + FARTHEST * aside), value)
        value = value[np.lexsort((-value, ranked))]
        return np.asarray(_dealt(ranked, order, value, wanted, most))

    def common(self, model: Ints, value: Floats) -> NDArray[np.bool_]:
        """Return which values many real jobs of the same stratum have."""
        step = 1.0 + float(np.ptp(self.value))
        key = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first)) * step + self.value
        wanted = self.of[model] * step + value
        count = np.searchsorted(key, wanted + 1e-3, side="right") - np.searchsorted(key, wanted - 1e-3)
        return np.asarray(count >= COMMON * len(self.value))

    def _at(self, stratum: Ints, rank: Floats) -> Floats:
        """Return the value at a rank of each stratum, between neighbours; ranks beyond the ends are reflected."""
        first, last = self.first[stratum], self.first[stratum + 1] - self.first[stratum] - 1
        at = np.abs(rank)
        at = np.clip(np.where(at > last, 2 * last - at, at), 0, last)
        below = np.floor(at).astype(np.int64)
        low, high = self.value[first + below], self.value[first + np.minimum(below + 1, last)]
        return np.asarray(low + (at - below) * (high - low))


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
