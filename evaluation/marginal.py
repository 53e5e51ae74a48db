"""Marginal fidelity: each column of the jobs by itself, regardless of the order of jobs and of other columns.

Wasserstein is scipy's. SDMetrics has KS and total variation too, but it cannot be a base dependency, because it brings
the BUSL-licensed copulas with it; tests compare ours with scipy's and, where it is installed, with SDMetrics.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats as scipy_stats

from evaluation.base import NAN, Score, Setting, absent
from evaluation.view import LABELS, NUMBERS, RAW_SIZES, SIZES, TIMES, Codes, Floats, View

TAIL_QUANTILES = {"p90": 0.9, "p99": 0.99, "p99.9": 0.999}
#: Columns of numbers that people choose from a short list, so that single values matter.
MODAL = ("req_time", *SIZES, "tasks")


def ks(real: Floats, synth: Floats) -> float:
    """Return the largest vertical distance between two empirical distribution functions, 0 … 1.

    The statistic of scipy's ks_2samp without its p-value, which takes most of the time and means little for jobs that
    are not independent.
    """
    ours, theirs = np.sort(real), np.sort(synth)
    points = np.concatenate([ours, theirs])
    below = [np.searchsorted(values, points, side="right") / len(values) for values in (ours, theirs)]
    return float(np.abs(below[0] - below[1]).max())


def w1(real: Floats, synth: Floats) -> float:
    """Return the area between two empirical distribution functions, in the values' own unit."""
    return float(scipy_stats.wasserstein_distance(real, synth))


def log_seconds(values: Floats) -> Floats:
    """Return ln(1 + seconds); what is below zero counts as zero."""
    return np.log1p(np.maximum(values, 0.0))


def tail_ratios(real: Floats, synth: Floats) -> dict[str, float]:
    """Return synthetic over real at p90, p99 and p99.9; NaN where the real quantile is not above zero."""
    points = list(TAIL_QUANTILES.values())
    ours, theirs = np.quantile(real, points), np.quantile(synth, points)
    return {name: float(b / a) if a > 0 else NAN for name, a, b in zip(TAIL_QUANTILES, ours, theirs, strict=True)}


def worst_log(ratios: dict[str, float]) -> float:
    """Return the largest |ln ratio|; a ratio of zero or below counts as one in a million."""
    known = [max(ratio, 1e-6) for ratio in ratios.values() if not np.isnan(ratio)]
    return max(abs(float(np.log(ratio))) for ratio in known) if known else NAN


def total_variation(real: Codes, synth: Codes, levels: int) -> float:
    """Return half the summed difference of the shares of codes 0 … levels − 1; 0 = the same, 1 = nothing in common."""
    ours, theirs = np.bincount(real, minlength=levels), np.bincount(synth, minlength=levels)
    return float(0.5 * np.abs(ours / len(real) - theirs / len(synth)).sum())


def numeric_columns(real: View) -> list[str]:
    """Return the columns of numbers that vary in the real trace; sizes as scheduled, then as the file has them."""
    return [name for name in (*NUMBERS, *RAW_SIZES) if real.varies(name)]


class KolmogorovSmirnov:
    """ks.<column>: two-sample Kolmogorov–Smirnov distance; ks.mean: mean over the columns, sizes counted once."""

    name: ClassVar[str] = "ks"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
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


def _unknown(real: View, synth: View, name: str) -> str:
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

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare every column of numbers that varies in the real trace."""
        scores = {}
        for name in (n for n in numeric_columns(real) if n in NUMBERS):
            if not synth.has(name):
                scores[f"wasserstein.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            ours, theirs = real.known(name), synth.known(name)
            if name in TIMES:
                ours, theirs = log_seconds(ours), log_seconds(theirs)
            scores[f"wasserstein.{name}"] = Score(w1(ours, theirs))
        return scores


class Tail:
    """tail.<column>: the largest |ln(synthetic / real)| of p90, p99 and p99.9; the ratios are in the detail."""

    name: ClassVar[str] = "tail"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "ln ratio"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
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

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare shares of labels (by name) and of modal values (exactly)."""
        scores = {}
        for name in (n for n in LABELS if real.varies(n)):
            if not synth.has(name):
                scores[f"tv.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            ours, theirs = real.labels[name], synth.labels[name]
            scores[f"tv.{name}"] = Score(
                total_variation(ours[ours >= 0], theirs[theirs >= 0], len(real.vocabulary[name]))
            )
        for name in (n for n in MODAL if real.varies(n)):
            if not synth.has(name):
                scores[f"tv.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            ours_n = real.known(name)
            values, codes = np.unique(np.concatenate([ours_n, synth.known(name)]), return_inverse=True)
            scores[f"tv.{name}"] = Score(total_variation(codes[: len(ours_n)], codes[len(ours_n) :], len(values)))
        return scores


class Unseen:
    """unseen.<column>: share of synthetic jobs whose limit or size never occurs in the real trace."""

    name: ClassVar[str] = "unseen"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Look every limit and size up among the real ones."""
        scores = {}
        for name in (n for n in MODAL if real.varies(n)):
            if not synth.has(name):
                scores[f"unseen.{name}"] = absent(f"the synthetic trace has no {name}")
                continue
            scores[f"unseen.{name}"] = Score(float((~np.isin(synth.known(name), np.unique(real.known(name)))).mean()))
        return scores


class UserShares:
    """user_shares.tv: total variation of the users' shares of jobs, busiest first, regardless of names."""

    name: ClassVar[str] = "user_shares"
    family: ClassVar[str] = "marginal"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the ranked shares."""
        for view, side in ((real, "real"), (synth, "synthetic")):
            if not view.has("user"):
                return {"user_shares.tv": absent(f"the {side} trace has no users")}
        ranked = [np.sort(np.bincount(v.labels["user"][v.labels["user"] >= 0]))[::-1] for v in (real, synth)]
        width = max(map(len, ranked))
        shares = [np.pad(r / r.sum(), (0, width - len(r))) for r in ranked]
        busiest = {f"{side}_top1": float(share[0]) for side, share in zip(("real", "synthetic"), shares, strict=True)}
        return {"user_shares.tv": Score(float(0.5 * np.abs(shares[0] - shares[1]).sum()), detail=busiest)}
