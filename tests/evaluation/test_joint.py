from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from evaluation.detection import auc, equal_rows
from evaluation.joint import correlation_ratio, cramers_v, pearson, prdc, shared_numbers, spearman
from evaluation.view import prepare
from tracekit import Trace


def test_pearson_and_spearman_are_those_of_the_libraries(real: Trace) -> None:
    view, _ = prepare(real, [real], ["a", "b"])
    names = shared_numbers(view, view)
    table = np.column_stack([view.numbers[name] for name in names])
    np.testing.assert_allclose(pearson(view, names), np.corrcoef(table, rowvar=False), atol=1e-12)
    np.testing.assert_allclose(spearman(view, names), scipy_stats.spearmanr(table).statistic, atol=1e-12)


def test_correlation_ratio_of_known_cases() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 50, 5000)
    assert correlation_ratio(codes.astype(float) ** 2, codes) == 1
    assert correlation_ratio(rng.normal(size=5000), codes) < 0.06  # without the correction it would be 0.1
    assert correlation_ratio(np.ones(5000), codes) == 0


def test_cramers_v_of_known_cases() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 30, 3000)
    assert cramers_v(a, a) == pytest.approx(1, abs=1e-6)
    assert cramers_v(a, rng.integers(0, 30, 3000)) < 0.05  # without the correction it would be 0.1
    assert cramers_v(a, np.zeros(3000, int)) == 0


def test_cramers_v_is_that_of_scipy_up_to_its_correction() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, 4, 20_000)
    b = np.where(rng.random(20_000) < 0.5, a, rng.integers(0, 4, 20_000))
    plain = scipy_stats.contingency.association(pd.crosstab(a, b).to_numpy(), method="cramer")
    assert cramers_v(a, b) == pytest.approx(plain, abs=0.002)


def test_independent_columns_are_noticed(compare, real: Trace) -> None:
    rng = np.random.default_rng(0)
    apart = real.assign({"req_time": rng.permutation(real.column("req_time"))})
    found = compare("correlation", real, apart)
    assert found["correlation.mad_spearman"].value > 0.05
    assert found["correlation.mad_spearman"].detail["run_time~req_time"] < -0.3
    assert compare("association", real, apart)["association.mad"].value > 0.05
    assert compare("c2st", real, apart)["c2st.auc"].value > 0.7
    assert compare("prdc", real, apart)["prdc.precision"].value < 0.95


def test_spearman_does_not_react_to_a_stretched_column(compare, real: Trace) -> None:
    longer = real.assign({"run_time": real.column("run_time") * 3})
    assert compare("correlation", real, longer)["correlation.mad_spearman"].value == pytest.approx(0, abs=1e-12)


def test_a_constant_column_correlates_with_nothing_and_says_so(compare, real: Trace) -> None:
    found = compare("correlation", real, real.assign({"run_time": np.full(len(real), 5.0)}))["correlation.mad_pearson"]
    assert found.value > 0
    assert "constant in the synthetic trace" in found.note


@pytest.mark.parametrize("name", ["copy", "order", "load"])
def test_order_and_load_change_nothing_within_jobs(compare, real: Trace, damage, name: str) -> None:
    other = damage[name](real)
    assert all(score.value == pytest.approx(0, abs=1e-12) for score in compare("correlation", real, other).values())
    assert compare("association", real, other)["association.mad"].value == pytest.approx(0, abs=1e-12)
    assert compare("c2st", real, other)["c2st.auc"].value == pytest.approx(0.5, abs=0.03)


def test_permuted_users_are_noticed_by_associations_with_users(compare, real: Trace, damage) -> None:
    found = compare("association", real, damage["users"](real))["association.mad"]
    changed = {pair for pair, difference in found.detail.items() if abs(difference) > 1e-9}
    assert changed
    assert all("user" in pair for pair in changed)


def test_a_copy_is_not_told_apart_and_not_below_one_half(compare, real: Trace) -> None:
    assert compare("c2st", real, real)["c2st.auc"].value == 0.5
    doubled = real.take(np.repeat(np.arange(len(real)), 2)[: len(real)])
    assert compare("c2st", real, doubled)["c2st.auc"].value > 0.45


def test_renamed_users_are_not_held_against_the_trace(compare, real: Trace, damage) -> None:
    found = compare("c2st", real, damage["names"](real))["c2st.auc"]
    assert found.value == 0.5
    assert "without user" in found.note


def test_auc_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    truth, scores = rng.random(300) < 0.3, np.round(rng.random(300), 1)
    assert auc(scores, truth) == pytest.approx(roc_auc_score(truth, scores))


def test_equal_rows_share_a_number() -> None:
    groups = equal_rows(np.array([[1.0, np.nan], [2.0, 3.0], [1.0, np.nan]]))
    assert groups[0] == groups[2] != groups[1]


def test_prdc_of_copies_and_strangers() -> None:
    points = np.random.default_rng(0).normal(size=(1200, 3))
    assert [part.mean() for part in prdc(points, points, 5)[:2]] == [1, 1]
    assert [part.mean() for part in prdc(points, points + 100, 5)] == [0, 0, 0, 0]
    inner = points[np.abs(points).max(axis=1) < 0.5]
    precision, recall, _, _ = (part.mean() for part in prdc(points, inner, 5))
    assert precision == 1
    assert recall < 0.5
