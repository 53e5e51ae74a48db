from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from evaluation.marginal import ks, tail_ratios, total_variation, w1, worst_log
from tracekit import Machine, Trace


def jobs(**columns: object) -> Trace:
    n = len(next(iter(columns.values())))  # type: ignore[arg-type]
    base = {"job_id": np.arange(n), "submit_time": np.arange(n) * 60.0, "run_time": np.ones(n), "req_procs": np.ones(n)}
    return Trace(pd.DataFrame(base | columns), Machine(procs=64))


@pytest.mark.parametrize("seed", range(5))
def test_ks_is_that_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 20, 300).astype(float), rng.integers(2, 25, 200).astype(float)  # many ties
    assert ks(a, b) == pytest.approx(scipy_stats.ks_2samp(a, b).statistic)


def test_ks_is_that_of_sdmetrics() -> None:
    sdmetrics = pytest.importorskip("sdmetrics.single_column")
    a, b = np.random.default_rng(0).normal(size=(2, 500))
    assert 1 - ks(a, b) == pytest.approx(sdmetrics.KSComplement.compute(pd.Series(a), pd.Series(b)))


def test_shifted_values_have_known_distances(compare) -> None:
    one, two = jobs(req_procs=np.tile([1, 2, 4, 8], 50)), jobs(req_procs=np.tile([2, 4, 8, 16], 50))
    assert compare("ks", one, two)["ks.procs"].value == 0.25
    assert compare("wasserstein", one, two)["wasserstein.procs"].value == pytest.approx(3.75)
    assert compare("tv", one, two)["tv.procs"].value == 0.25
    assert compare("unseen", one, two)["unseen.procs"].value == 0.25
    assert compare("tail", one, two)["tail.procs"].value == pytest.approx(np.log(2))


def test_times_are_compared_on_a_log_scale(compare) -> None:
    run = np.geomspace(10, 1e5, 200)
    found = compare("wasserstein", jobs(run_time=run), jobs(run_time=(1 + run) * np.e - 1))
    assert found["wasserstein.run_time"].value == pytest.approx(1.0)


def test_tail_reacts_to_the_tail_alone(compare) -> None:
    run = np.arange(1.0, 10_001)
    heavy = run.copy()
    heavy[-50:] *= 10
    found = compare("tail", jobs(run_time=run), jobs(run_time=heavy))["tail.run_time"]
    assert found.detail["p90"] == 1
    assert found.detail["p99"] == pytest.approx(1, abs=0.01)
    assert found.value == pytest.approx(np.log(10), rel=0.01)
    assert compare("ks", jobs(run_time=run), jobs(run_time=heavy))["ks.run_time"].value < 0.006


def test_tail_without_a_real_tail_says_so() -> None:
    ratios = tail_ratios(np.zeros(100), np.ones(100))
    assert np.isnan(worst_log(ratios))


def test_total_variation_of_disjoint_labels_is_one() -> None:
    assert total_variation(np.zeros(10, int), np.ones(7, int), 2) == 1
    assert total_variation(np.array([0, 1]), np.array([1, 0, 1, 0]), 2) == 0


def test_w1_of_a_shift_is_the_shift() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert w1(values, values + 3) == pytest.approx(3)


def test_a_missing_column_is_null_with_a_reason(compare, real: Trace) -> None:
    found = compare("ks", real, real.replace(jobs=real.jobs.drop(columns="req_time")))
    assert np.isnan(found["ks.req_time"].value)
    assert found["ks.req_time"].note == "the synthetic trace has no req_time"
    assert found["ks.mean"].value == 0


def test_constant_columns_are_left_out(compare, real: Trace) -> None:
    flat = real.assign({"req_time": np.full(len(real), 600.0)})
    assert "ks.req_time" not in compare("ks", flat, flat)


def test_sizes_count_once_in_the_mean(compare, real: Trace) -> None:
    slower = real.assign({"run_time": real.column("run_time") * 1.5})
    found = compare("ks", real, slower)
    columns = [found[f"ks.{name}"].value for name in ("run_time", "req_time", "procs", "nodes")]
    assert found["ks.mean"].value == pytest.approx(np.mean(columns))
    assert {"ks.req_nodes", "ks.req_procs"} < set(found)


def test_unknown_values_are_left_out_and_mentioned(compare, real: Trace) -> None:
    holes = real.column("run_time").copy()
    holes[::2] = np.nan
    found = compare("ks", real, real.assign({"run_time": holes}))["ks.run_time"]
    assert found.value < 0.05
    assert "synthetic 50%" in found.note


def test_user_shares_forget_names(compare, real: Trace, damage) -> None:
    renamed = damage["names"](real)
    assert compare("user_shares", real, renamed)["user_shares.tv"].value == 0
    assert compare("tv", real, renamed)["tv.user"].value == 1


@pytest.mark.parametrize("name", ["copy", "order", "users", "load"])
@pytest.mark.parametrize("metric", ["ks", "wasserstein", "tail", "tv", "unseen", "user_shares"])
def test_order_users_and_load_change_no_marginal(compare, real: Trace, damage, name: str, metric: str) -> None:
    assert all(score.value == 0 for score in compare(metric, real, damage[name](real)).values())
