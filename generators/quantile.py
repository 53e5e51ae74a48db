"""Two ways to write one column as a standard-normal number or a small code, and to read any number back as a value.

A *quantile scale* suits what was measured (run times, gaps, memory used): the empirical distribution is laid out
along the normal curve, values that occur often as steps, the rest by interpolation of their logarithms. *Levels* suit
requested values (limits, sizes, queues): only values that occurred in the real trace are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: A value that at least this share of the jobs has (and three jobs at least) is a step of its own.
STEP_SHARE = 0.001
#: How many interpolation points one scale may hold beside its steps.
MAX_KNOTS = 2_000
#: Values whose grain is looked at together.
GRAIN_BLOCK = 1_000_000
#: Normal numbers beyond this are as good as the end of the scale.
EDGE = 5.0


@dataclass(frozen=True)
class Quantiles:
    """A monotone map between values and standard-normal numbers.

    ``share`` rises strictly from 0 to 1; ``value`` never falls and stays flat over the width of a step.
    """

    share: Floats  # shape (knots,)
    value: Floats  # shape (knots,)
    grain: float  # results are rounded to multiples of this; 0 = not rounded
    bend: float  # scale of the logarithm: values are interpolated in log1p((value − first) / bend)

    @classmethod
    def fit(cls, values: Floats, *, grain: float | None = None) -> Quantiles:
        """Lay out the finite ones of ``values``; with none, the scale is the single value 0."""
        known = np.asarray(values, dtype=np.float64)
        known = known[np.isfinite(known)]
        if not len(known):
            known = np.zeros(1)
        distinct, count = np.unique(known, return_counts=True)
        total = len(known)
        upper = np.cumsum(count) / total
        lower = upper - count / total
        step = count >= max(3, STEP_SHARE * total)
        single = np.flatnonzero(~step)
        if len(single) > MAX_KNOTS:
            single = single[np.unique(np.linspace(0, len(single) - 1, MAX_KNOTS).round().astype(np.int64))]
        margin = 1e-4 * (upper - lower)[step]  # a step keeps away from its neighbours, so that shares rise strictly
        share = np.concatenate([(lower[step] + margin), (upper[step] - margin), (lower + upper)[single] / 2])
        value = np.concatenate([distinct[step], distinct[step], distinct[single]])
        order = np.argsort(share, kind="stable")
        share, value = share[order], value[order]
        share = np.concatenate([[0.0], share, [1.0]])
        value = np.concatenate([distinct[:1], value, distinct[-1:]])
        above = known[known > distinct[0]] - distinct[0]
        bend = max(0.01 * float(np.median(above)), 1e-9) if len(above) else 1.0
        return cls(share, value, grain_of(known) if grain is None else grain, bend)

    def _bent(self, values: Floats) -> Floats:
        bent: Floats = np.log1p(np.maximum(values - self.value[0], 0.0) / self.bend)
        return bent

    def to_normal(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return where the values lie on the normal curve; one that lies on a step gets a place within its width."""
        values = np.asarray(values, dtype=np.float64)
        last = (np.searchsorted(self.value, values, side="right") - 1).clip(0)  # the knot at or below each value
        after = np.minimum(last + 1, len(self.value) - 1)
        bent, knot = self._bent(values), self._bent(self.value)
        width = knot[after] - knot[last]
        part = np.divide(bent - knot[last], width, out=np.zeros(len(values)), where=width > 0)
        share = self.share[last] + np.clip(part, 0.0, 1.0) * (self.share[after] - self.share[last])
        first = np.searchsorted(self.value, values, side="left").clip(0, len(self.value) - 1)
        low, high = self.share[first], self.share[last]
        flat = (self.value[first] == values) & (high > low)
        inside = low + (high - low) * (0.001 + 0.998 * rng.random(len(values)))
        share = np.where(flat, inside, share)
        numbers: Floats = np.clip(np.nan_to_num(ndtri(share)), -EDGE, EDGE)
        return numbers

    def from_normal(self, numbers: Floats) -> Floats:
        """Return a value for any number: what is beyond the curve's ends becomes the first or the last value."""
        share = ndtr(np.clip(np.nan_to_num(np.asarray(numbers, dtype=np.float64)), -2 * EDGE, 2 * EDGE))
        bent = np.interp(share, self.share, self._bent(self.value))
        values = self.value[0] + self.bend * np.expm1(bent)
        if self.grain:
            values = np.round(np.round(values / self.grain) * self.grain, 9)
        inside: Floats = np.clip(values, self.value[0], self.value[-1])
        return inside

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"share": self.share.tolist(), "value": self.value.tolist(), "grain": self.grain, "bend": self.bend}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Quantiles:
        """Read back what `to_dict` gave."""
        return cls(
            np.asarray(plain["share"], dtype=np.float64),
            np.asarray(plain["value"], dtype=np.float64),
            float(plain["grain"]),
            float(plain["bend"]),
        )


def grain_of(values: Floats) -> float:
    """Return the coarsest of 1, 0.1, 0.01, 0.001 that every value is a multiple of, or 0."""
    parts = [slice(first, first + GRAIN_BLOCK) for first in range(0, len(values), GRAIN_BLOCK)]
    most = max((np.abs(_finite(values[part])).max(initial=-1.0) for part in parts), default=-1.0)
    if most < 0 or most > 1e14:
        return 0.0
    for digits in range(4):
        known = (_finite(values[part]) for part in parts)
        if all(np.allclose(np.round(some, digits), some, rtol=0, atol=1e-9) for some in known):
            return float(10.0**-digits)
    return 0.0


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def level_codes(numbers: Floats, n_levels: int) -> Codes:
    """Turn whatever a model wrote into codes from 0 to ``n_levels`` − 1: rounded, clipped, unknown becomes 0."""
    numbers = np.nan_to_num(np.asarray(numbers, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(np.rint(numbers), 0, n_levels - 1).astype(np.int64)


def codes_to_normal(codes: Codes, shares: Floats, rng: np.random.Generator) -> Floats:
    """Spread ordered levels over the normal curve, each over as much of it as it has of the jobs."""
    upper = np.cumsum(shares) / np.sum(shares)
    lower = np.concatenate([[0.0], upper[:-1]])
    place = lower[codes] + (upper - lower)[codes] * (0.001 + 0.998 * rng.random(len(codes)))
    numbers: Floats = np.clip(ndtri(place), -EDGE, EDGE)
    return numbers


def normal_to_codes(numbers: Floats, shares: Floats) -> Codes:
    """Return the level under each number; the inverse of `codes_to_normal` whatever was drawn there."""
    upper = np.cumsum(shares) / np.sum(shares)
    share = ndtr(np.nan_to_num(np.asarray(numbers, dtype=np.float64)))
    return np.searchsorted(upper, share, side="right").clip(0, len(shares) - 1).astype(np.int64)
