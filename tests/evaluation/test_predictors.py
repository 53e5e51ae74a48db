"""Which score foretells the verdict: rank correlations, and honesty about how few generators there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from evaluation.experiment.predictors import interval, predictors, spearman


def test_spearman_is_scipys() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 12), rng.normal(size=12)
    assert spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
    assert math.isnan(spearman(np.ones(5), y[:5]))


def test_the_interval_covers() -> None:
    rng = np.random.default_rng(1)
    truth = 6 / math.pi * math.asin(0.6 / 2)  # Spearman's ρ of a bivariate normal with correlation 0.6
    hits = 0
    for _ in range(500):
        x = rng.normal(size=15)
        y = 0.6 * x + 0.8 * rng.normal(size=15)
        low, high = interval(spearman(x, y), 15)
        hits += low <= truth <= high
    assert 0.91 < hits / 500 < 0.99


def test_the_right_score_comes_first() -> None:
    differences = dict(zip("abcdef", [0.0, 0.1, 0.2, 0.4, 0.6, 0.9], strict=True))
    badness = {
        name: {"good": value, "opposite": 1 - value, "flat": 1.0, **({"rare": 0.5} if name == "a" else {})}
        for name, value in differences.items()
    }
    rows, note = predictors(badness, differences)
    assert [row["key"] for row in rows] == ["good", "opposite"]  # flat and rare say nothing
    assert rows[0]["rho"] == pytest.approx(1)
    assert rows[0]["n"] == 6
    assert rows[0]["low"] is None  # six in perfect order are not certainty
    assert "6 generators" in note


def test_many_scores_look_good_by_chance_and_it_says_so() -> None:
    rng = np.random.default_rng(2)
    names = [f"g{k}" for k in range(5)]
    badness = {name: {f"key{k}": float(rng.normal()) for k in range(80)} for name in names}
    rows, note = predictors(badness, {name: float(rng.normal()) for name in names})
    assert rows[0]["rho"] == pytest.approx(1)
    chance = int(note.rsplit("in ", 1)[1].split("%")[0])
    assert chance == pytest.approx(100 * (1 - (1 - 1 / 120) ** 80), abs=8)  # 5! orders, 80 scores, one of them right


def test_few_generators_have_no_interval() -> None:
    rows, note = predictors({n: {"k": i} for i, n in enumerate("abc")}, {n: float(i) for i, n in enumerate("abc")})
    assert rows[0]["low"] is None
    assert "too few" in rows[0]["note"]
    rows, note = predictors({"a": {"k": 1.0}}, {"a": 0.0})
    assert rows == []
    assert "too few" in note


def test_the_best_score_is_one_that_all_generators_have() -> None:
    badness = {name: {"whole": value} for name, value in zip("abcd", (1.0, 2.0, 4.0, 3.0), strict=True)}
    for name, value in zip("abc", (1.0, 2.0, 3.0), strict=True):
        badness[name]["partial"] = value  # perfect, on three points
    rows, note = predictors(badness, {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})
    assert rows[0]["key"] == "partial"
    assert "the best, whole," in note
    none = {
        name: {name: 1.0, **dict.fromkeys("xyz".replace("xyz"[i % 3], ""), float(i))} for i, name in enumerate("abcd")
    }
    assert "nan" not in predictors(none, {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})[1]
