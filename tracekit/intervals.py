"""Are two policies different on the same windows? Means, intervals, a test and the size of the difference.

Two bootstraps over the same resamples: `interval` takes percentiles (as ``tracekit evaluate`` prints),
`intervals` is bias-corrected and accelerated, for slowdowns, which are skewed, and for many rows at once.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 5000
LEVEL = 0.95
_MOST = 20_000_000  # size of one resampling batch


def interval(values: Floats, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentiles over resampled windows) of the mean; NaN of one value alone."""
    if len(values) < 2:
        return float("nan"), float("nan")
    # Seeded by the number of windows as well: the same windows are drawn for every policy, so that intervals of
    # policies and of their differences fit together.
    rng = np.random.default_rng([seed, len(values)])
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``hits`` in ``trials`` (Wilson 1927); NaN without trials.

    >>> [round(end, 3) for end in wilson(2, 166)]
    [0.003, 0.043]
    """
    if trials < 1:
        return float("nan"), float("nan")
    z = 1.959963984540054
    share, weight = hits / trials, 1 + z**2 / trials
    middle = (share + z**2 / (2 * trials)) / weight
    half = z / weight * float(np.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2))
    return max(0.0, middle - half), min(1.0, middle + half)


def intervals(values: Floats, seed: int = 0) -> tuple[Floats, Floats]:
    """Return the 95 % bootstrap intervals of the means of ``values``, (rows, windows): lows and highs, (rows,) each.

    BCa (Efron, "Better bootstrap confidence intervals", JASA 82, 1987) by `scipy.stats.bootstrap`; where that is not
    defined, as for constant values, percentiles. NaN values are left out; fewer than two others give NaN.

    >>> low, high = intervals(np.array([[1.0, 2.0, 4.0, 9.0], [3.0, 3.0, 3.0, 3.0]]))
    >>> bool(low[0] < 4 < high[0]), float(low[1]), float(high[1])
    (True, 3.0, 3.0)
    """
    known = np.isfinite(values)
    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
    # Rows that lack the same windows are resampled together: one vectorised call, and the same draws for each.
    for there in np.unique(known, axis=0):
        count = int(there.sum())
        if count < 2:
            continue
        rows = np.flatnonzero((known == there).all(axis=1))
        # In parts, because the resamples of all rows at once may not fit into memory.
        step = max(1, _MOST // (RESAMPLES * count))
        for part in (rows[at : at + step] for at in range(0, len(rows), step)):
            low[part], high[part] = _bca(values[np.ix_(part, there)], seed)
        # BCa has no acceleration for values that are all equal, or nearly so.
        for row in rows[np.isnan(low[rows]) | np.isnan(high[rows])]:
            low[row], high[row] = interval(values[row, there], seed)
    return low, high


def _bca(values: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return BCa intervals of rows without gaps; NaN where there is none. The resamples are those of `interval`."""
    from scipy.stats import bootstrap

    rng = np.random.default_rng([seed, values.shape[1]])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # warnings about degenerate data: those rows are NaN and handled below
        found = bootstrap(
            (values,), _mean, axis=-1, vectorized=True, n_resamples=RESAMPLES, confidence_level=LEVEL, method="BCa",
            random_state=rng,
        ).confidence_interval  # fmt: skip
    return np.asarray(found.low, dtype=np.float64), np.asarray(found.high, dtype=np.float64)


def _mean(values: Floats, axis: int) -> Floats:
    """Return means summed in a fixed order, identical to the last bit whatever the other rows."""
    means: Floats = np.ascontiguousarray(values).mean(axis)
    return means


def signed_rank(difference: Floats) -> float:
    """Return p of Wilcoxon's signed-rank test of paired differences.

    Differences of zero and NaN are left out; if none remains, p is 1.
    """
    from scipy.stats import wilcoxon

    # Dropping zeros is Wilcoxon's own rule. scipy would do it too, but has no p when nothing is left.
    unequal = difference[np.isfinite(difference) & (difference != 0)]
    return float(wilcoxon(unequal).pvalue) if len(unequal) else 1.0


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

    ``p`` is that of `signed_rank`.
    """
    difference = agent - other
    low, high = interval(difference, seed)
    there = np.isfinite(difference)
    return {
        "mean": float(other.mean()),
        "paired_difference": float(difference.mean()),
        "low": low,
        "high": high,
        "p": signed_rank(difference),
        "effect_size": rank_biserial(difference[there]),
        "windows_smaller": int((difference < 0).sum()),
        "windows_equal": int((difference == 0).sum()),
    }
