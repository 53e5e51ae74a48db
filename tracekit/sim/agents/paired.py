"""Are two policies different on the same windows? Means, intervals, a test and the size of the difference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 5000
_LEVEL = 0.95


def interval(values: Floats, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentiles over resampled windows) of the mean; NaN of one value alone."""
    if len(values) < 2:
        return float("nan"), float("nan")
    rng = np.random.default_rng([seed, len(values)])
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


def rank_biserial(difference: Floats) -> float:
    """Return the matched-pairs rank-biserial correlation, −1 … 1: 1 = every difference is above zero, 0 if none is.

    Kerby, "The simple difference formula", Comprehensive Psychology 3, 2014.

    >>> rank_biserial(np.array([1.0, 2.0, -3.0]))
    0.0
    """
    from scipy.stats import rankdata

    left = difference[difference != 0]
    if not len(left):
        return 0.0
    ranks = rankdata(np.abs(left))
    return float((ranks[left > 0].sum() - ranks[left < 0].sum()) / ranks.sum())


def compare(agent: Floats, other: Floats, seed: int = 0) -> dict[str, Any]:
    """Compare scores on the same windows, (windows,) each: agent − other, below zero where the agent's is smaller.

    ``p`` is that of Wilcoxon's signed-rank test; windows with equal scores say nothing and are left out, and with no
    others it is 1.
    """
    from scipy.stats import wilcoxon

    difference = agent - other
    low, high = interval(difference, seed)
    there = np.isfinite(difference)
    unequal = difference[there & (difference != 0)]
    return {
        "mean": float(other.mean()),
        "paired_difference": float(difference.mean()),
        "low": low,
        "high": high,
        "p": float(wilcoxon(unequal).pvalue) if len(unequal) else 1.0,
        "effect_size": rank_biserial(difference[there]),
        "windows_smaller": int((difference < 0).sum()),
        "windows_equal": int((difference == 0).sum()),
    }
