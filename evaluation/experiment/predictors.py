"""Which cheap score foretells the verdict? Rank correlations across generators, with what so few of them can show.

For every fidelity score: Spearman's ρ between how bad a generator's score is and how much worse agents trained on its
jobs are. +1: the score ranks the generators as the experiment does. There are as many points as generators, rarely ten,
so the intervals are wide, and with dozens of scores some ρ is high by chance: `chance_of_best` says how easily.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

#: Below this many generators there is a ρ but no interval.
MIN_FOR_INTERVAL = 5
MIN_POINTS = 3
PERMUTATIONS = 2000


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's ρ with ties at their mean rank; NaN when either side is constant."""
    a, b = scipy_stats.rankdata(x), scipy_stats.rankdata(y)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def interval(rho: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Bonett & Wright's interval of ρ (Psychometrika 65, 2000); NaN for too few points, or for ρ = ±1.

    >>> [round(end, 2) for end in interval(0.9, 10)]
    [0.53, 0.98]
    """
    if n < MIN_FOR_INTERVAL or not abs(rho) < 1 - 1e-9:  # a perfect order has no spread to take an interval from
        return float("nan"), float("nan")
    half = float(scipy_stats.norm.ppf((1 + level) / 2)) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)


def predictors(
    badness: Mapping[str, Mapping[str, float]], differences: Mapping[str, float], *, seed: int = 0
) -> tuple[list[dict[str, Any]], str]:
    """Return one row a score key, best first, and a sentence on what so few generators can show.

    ``badness``: generator → key → how far from perfect, 0 = perfect; ``differences``: generator → how much worse the
    agents are. A key that a generator lacks is correlated over the others.
    """
    names = [name for name in differences if name in badness and math.isfinite(differences[name])]
    keys = list(dict.fromkeys(key for name in names for key in badness[name]))
    target = np.array([differences[name] for name in names])
    table = np.array([[badness[name].get(key, float("nan")) for key in keys] for name in names]).reshape(
        len(names), len(keys)
    )
    rows: list[dict[str, Any]] = []
    used: list[np.ndarray] = []  # ranks of complete keys, for the permutations
    for column, key in enumerate(keys):
        known = np.isfinite(table[:, column])
        n = int(known.sum())
        if n < MIN_POINTS:
            continue
        rho = spearman(table[known, column], target[known])
        if not math.isfinite(rho):
            continue
        low, high = interval(rho, n)
        note = "" if math.isfinite(low) else f"{n} generators are too few for an interval"
        if n >= MIN_FOR_INTERVAL and not math.isfinite(low):
            note = "the same order, for which there is no interval"
        rows.append({"key": key, "rho": rho, "low": _finite(low), "high": _finite(high), "n": n, "note": note})
        if n == len(names):
            used.append(_standard(scipy_stats.rankdata(table[:, column])))
    rows.sort(key=lambda row: (-row["rho"], row["key"]))
    if not rows:
        return [], f"{len(names)} generators with a difference: too few to conclude which score to trust"
    best = next((row for row in rows if row["n"] == len(names)), None)  # of few generators, any score is best easily
    if best is None:
        return rows, f"{len(names)} generators, but no score of all of them: which is best means nothing"
    chance = _chance_of_best(np.array(used), target, best["rho"], seed)
    said = (
        f"{len(names)} generators, {len(rows)} scores: the best, {best['key']}, has ρ = {best['rho']:.2f}; "
        f"with scores that mean nothing the best of them reaches that in {_shown(chance)} of cases"
    )
    return rows, said


def _shown(chance: float) -> str:
    return f"{chance:.0%}" if chance >= 0.01 else "fewer than 1%"


def _standard(ranks: np.ndarray) -> np.ndarray:
    centred = ranks - ranks.mean()
    return np.asarray(centred / np.sqrt((centred**2).sum()))


def _chance_of_best(ranks: np.ndarray, target: np.ndarray, best: float, seed: int) -> float:
    """Return how often shuffled verdicts give some key a ρ as high as ``best``; ranks are (keys, generators)."""
    rng = np.random.default_rng([seed, 7])
    order = _standard(scipy_stats.rankdata(target))
    shuffled = rng.permuted(np.tile(order, (PERMUTATIONS, 1)), axis=1)  # (permutations, generators)
    highest = (shuffled @ ranks.T).max(axis=1)
    return float((1 + np.sum(highest >= best - 1e-12)) / (1 + PERMUTATIONS))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
