from __future__ import annotations

import numpy as np
import pytest
from conftest import make_trace

from evaluation.attacks.distance import nearest
from tracekit import Trace

METRICS = ("copies", "distance_to_closest", "membership", "user_linkage")


@pytest.fixture(scope="module")
def halves() -> tuple[Trace, Trace, Trace]:
    """Real weeks, hold-out weeks and fresh weeks of the same users."""
    return make_trace(1), make_trace(2), make_trace(3)


def every(compare, fitted: Trace, synth: Trace, holdout: Trace | None) -> dict[str, float]:
    return {key: score.value for name in METRICS for key, score in compare(name, fitted, synth, holdout).items()}


def test_without_a_holdout_all_is_null_and_says_so(compare, real: Trace) -> None:
    for name in METRICS:
        for score in compare(name, real, real).values():
            assert np.isnan(score.value)
            assert "--holdout" in score.note


def test_a_copy_gives_everything_away(compare, halves) -> None:
    fitted, holdout, _ = halves
    found = every(compare, fitted, fitted, holdout)
    assert found["privacy.exact_copies"] == 1
    assert found["privacy.dcr_ratio"] == 0
    assert found["privacy.near_copies"] == 1
    assert found["privacy.membership_auc"] > 0.8
    assert found["privacy.user_linkage"] == 1


def test_fresh_real_jobs_give_nothing_away(compare, halves) -> None:
    found = every(compare, *halves)
    assert found["privacy.exact_copies"] < 0.2
    assert found["privacy.dcr_ratio"] == pytest.approx(1, abs=0.25)
    near = compare("distance_to_closest", *halves[::2], halves[1])["privacy.near_copies"]
    assert near.value == pytest.approx(near.real, abs=0.04)
    assert found["privacy.membership_auc"] == pytest.approx(0.5, abs=0.03)


def test_some_copied_rows_are_counted(compare, halves) -> None:
    fitted, holdout, fresh = halves
    jobs = fresh.jobs.copy()
    columns = [c for c in jobs.columns if c not in ("job_id", "submit_time")]
    half = len(jobs) // 2
    for column in columns:
        theirs, ours = fitted.jobs[column].astype(object), jobs[column].astype(object)
        jobs[column] = [*theirs.iloc[:half], *ours.iloc[half:]]
    found = compare("copies", fitted, fresh.replace(jobs=jobs), holdout)["privacy.exact_copies"]
    assert 0.5 <= found.value < 0.65
    assert found.real < 0.2


def test_permuted_users_hide_the_users_and_not_the_jobs(compare, halves, damage) -> None:
    fitted, holdout, _ = halves
    hidden = every(compare, fitted, damage["users"](fitted), holdout)
    assert hidden["privacy.user_linkage"] < 0.5
    assert hidden["privacy.dcr_ratio"] == 0


def test_users_without_a_common_name_cannot_be_linked(compare, halves, damage) -> None:
    fitted, holdout, _ = halves
    found = compare("user_linkage", fitted, damage["names"](fitted), holdout)["privacy.user_linkage"]
    assert np.isnan(found.value)
    assert "under the same name" in found.note


def test_nearest_is_the_nearest() -> None:
    rng = np.random.default_rng(0)
    queries, targets = rng.normal(size=(50, 3)), rng.normal(size=(80, 3))
    direct = np.sqrt(((queries[:, None] - targets[None]) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(nearest(queries, targets), direct)
