"""Marginal fidelity: each column of the jobs by itself, regardless of the order of jobs and of other columns.

Wasserstein is scipy's. SDMetrics has KS and total variation too, but it cannot be a base dependency, because it brings
the BUSL-licensed copulas with it; tests compare ours with scipy's and, where it is installed, with SDMetrics.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats as scipy_stats

from evaluation import spreads
from evaluation.base import NAN, Score, Setting, absent
from evaluation.spreads import Values, log_seconds, spread_of
from evaluation.view import LABELS, NUMBERS, RAW_SIZES, SIZES, TIMES, Codes, Seen
from tracekit.large.spreads import Spread

TAIL_QUANTILES = {"p90": 0.9, "p99": 0.99, "p99.9": 0.999}
#: Columns of numbers that people choose from a short list, so that single values matter.
MODAL = ("req_time", *SIZES, "tasks")


def ks(real: Values, synth: Values) -> float:
    """Return the largest vertical distance between two empirical distribution functions, 0 … 1.

    The statistic of scipy's ks_2samp without its p-value, which takes most of the time and means little for jobs that
    are not independent.
    """
    if isinstance(real, Spread) or isinstance(synth, Spread):
        return spreads.farthest(spread_of(real), spread_of(synth))
    ours, theirs = np.sort(real), np.sort(synth)
    points = np.concatenate([ours, theirs])
    below = [np.searchsorted(values, points, side="right") / len(values) for values in (ours, theirs)]
    return float(np.abs(below[0] - below[1]).max())


def w1(real: Values, synth: Values) -> float:
    """Return the area between two empirical distribution functions, in the values' own unit."""
    if isinstance(real, Spread) or isinstance(synth, Spread):
        return spreads.area(spread_of(real), spread_of(synth))
    return float(scipy_stats.wasserstein_distance(real, synth))


def tail_ratios(real: Values, synth: Values) -> dict[str, float]:
    """Return synthetic over real at p90, p99 and p99.9; NaN where the real quantile is not above zero."""
    points = list(TAIL_QUANTILES.values())
    ours, theirs = (v.quantiles(points) if isinstance(v, Spread) else np.quantile(v, points) for v in (real, synth))
    return {name: float(b / a) if a > 0 else NAN for name, a, b in zip(TAIL_QUANTILES, ours, theirs, strict=True)}


def worst_log(ratios: dict[str, float]) -> float:
    """Return the largest |ln ratio|; a ratio of zero or below counts as one in a million."""
    known = [max(ratio, 1e-6) for ratio in ratios.values() if not np.isnan(ratio)]
    return max(abs(float(np.log(ratio))) for ratio in known) if known else NAN


def total_variation(real: Codes, synth: Codes, levels: int) -> float:
    """Return half the summed difference of the shares of codes 0 … levels − 1; 0 = the same, 1 = nothing in common."""
    return shares_apart(np.bincount(real, minlength=levels), np.bincount(synth, minlength=levels))


def shares_apart(real: Codes, synth: Codes) -> float:
    """Return the total variation of two tables of counts, one of which may be longer."""
    width = max(len(real), len(synth))
    ours, theirs = (np.pad(counts / counts.sum(), (0, width - len(counts))) for counts in (real, synth))
    return float(0.5 * np.abs(ours - theirs).sum())


def values_apart(real: Values, synth: Values) -> float:
    """Return the total variation of numbers, taken value by value."""
    if isinstance(real, Spread) or isinstance(synth, Spread):
        return spreads.value_by_value(spread_of(real), spread_of(synth))
    values, codes = np.unique(np.concatenate([real, synth]), return_inverse=True)
    return total_variation(codes[: len(real)], codes[len(real) :], len(values))


def new_share(real: Values, synth: Values) -> float:
    """Return the share of synthetic values that never occur among the real ones."""
    if isinstance(real, Spread) or isinstance(synth, Spread):
        return spreads.without_equal(spread_of(real), spread_of(synth))
    return float((~np.isin(synth, np.unique(real))).mean())


def numeric_columns(real: Seen) -> list[str]:
    """Return the columns of numbers that vary in the real trace; sizes as scheduled, then as the file has them."""
    return [name for name in (*NUMBERS, *RAW_SIZES) if real.varies(name)]


class KolmogorovSmirnov:
    """ks.<column>: two-sample Kolmogorov–Smirnov distance; ks.mean: mean over the columns, sizes counted once."""

    name: ClassVar[str] = "ks"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare every column of numbers that varies in the real trace."""
        scores, counted = {}, []
        for name in numeric_columns(real):
            if not synth.has(name):
                scores[f"ks.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            score = Score(ks(real.known(name), synth.known(name)), note=_unknown(real, synth, name))
            scores[f"ks.{name}"] = score
            if name in NUMBERS:
                counted.append(score.value)
        scores["ks.mean"] = (
            Score(float(np.mean(counted)), note=f"over {len(counted)} columns")
            if counted
            else absent("no column of numbers varies in the real trace")
        )
        return scores


def _unknown(real: Seen, synth: Seen, name: str) -> str:
    """Return a note on the share of unknown values where the two traces differ."""
    shares = [1 - len(view.known(name)) / max(len(view), 1) for view in (real, synth)]
    if abs(shares[0] - shares[1]) < 0.01:
        return ""
    return f"unknown values left out: real {shares[0]:.0%}, synthetic {shares[1]:.0%}"


class Wasserstein:
    """wasserstein.<column>: 1-Wasserstein distance, of ln(1 + seconds) for times, in the column's unit for others."""

    name: ClassVar[str] = "wasserstein"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "ln seconds, units, KB or W"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare every column of numbers that varies in the real trace."""
        scores = {}
        for name in (n for n in numeric_columns(real) if n in NUMBERS):
            if not synth.has(name):
                scores[f"wasserstein.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            ours, theirs = (log_seconds(v.known(name)) if name in TIMES else v.known(name) for v in (real, synth))
            scores[f"wasserstein.{name}"] = Score(w1(ours, theirs))
        return scores


class Tail:
    """tail.<column>: the largest |ln(synthetic / real)| of p90, p99 and p99.9; the ratios are in the detail."""

    name: ClassVar[str] = "tail"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "ln ratio"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the upper tails of every column of numbers that varies in the real trace."""
        scores = {}
        for name in (n for n in numeric_columns(real) if n in NUMBERS):
            if not synth.has(name):
                scores[f"tail.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            ratios = tail_ratios(real.known(name), synth.known(name))
            value = worst_log(ratios)
            note = "no real quantile above zero" if np.isnan(value) else ""
            scores[f"tail.{name}"] = Score(value, detail=ratios, note=note)
        return scores


class TotalVariation:
    """tv.<column>: total variation distance of labels, and of limits and sizes taken value by value."""

    name: ClassVar[str] = "tv"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare shares of labels (by name) and of modal values (exactly)."""
        scores = {}
        for name in (n for n in LABELS if real.varies(n)):
            if not synth.has(name):
                scores[f"tv.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            scores[f"tv.{name}"] = Score(shares_apart(real.label_counts(name), synth.label_counts(name)))
        for name in (n for n in MODAL if real.varies(n)):
            if not synth.has(name):
                scores[f"tv.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            scores[f"tv.{name}"] = Score(values_apart(real.known(name), synth.known(name)))
        return scores


class Unseen:
    """unseen.<column>: share of synthetic jobs whose limit or size never occurs in the real trace."""

    name: ClassVar[str] = "unseen"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Look every limit and size up among the real ones."""
        scores = {}
        for name in (n for n in MODAL if real.varies(n)):
            if not synth.has(name):
                scores[f"unseen.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            scores[f"unseen.{name}"] = Score(new_share(real.known(name), synth.known(name)))
        return scores


class UserShares:
    """user_shares.tv: total variation of the users' shares of jobs, busiest first, regardless of names."""

    name: ClassVar[str] = "user_shares"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the ranked shares."""
        for view, side in ((real, "real"), (synth, "synthetic")):
            if not view.has("user"):
                return {"user_shares.tv": absent(f"the {side} trace has no users")}
        ranked = [np.sort(view.label_counts("user"))[::-1] for view in (real, synth)]
        busiest = {f"{side}_top1": float(r[0] / r.sum()) for side, r in zip(("real", "synthetic"), ranked, strict=True)}
        return {"user_shares.tv": Score(shares_apart(*ranked), detail=busiest)}
