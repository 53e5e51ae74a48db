from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.temporal import Dispersion, Hurst, autocorrelation
from evaluation.users import Chains, think_times
from evaluation.view import prepare
from tracekit import Machine, Trace


def arrivals(submit: np.ndarray, users: list[str] | None = None, run: float = 10.0, **more: object) -> Trace:
    n = len(submit)
    columns = {"job_id": np.arange(n), "submit_time": submit, "run_time": np.full(n, run), "req_procs": np.ones(n)}
    return Trace(pd.DataFrame(columns | ({"user": users} if users else {}) | more), Machine(procs=4))


def view_of(trace: Trace):
    return prepare(trace, [trace], ["a", "b"])[0]


def test_autocorrelation_of_an_autoregressive_series() -> None:
    rng = np.random.default_rng(0)
    values = np.zeros(50_000)
    for t in range(1, len(values)):
        values[t] = 0.7 * values[t - 1] + rng.normal()
    np.testing.assert_allclose(autocorrelation(values, 3), [0.7, 0.49, 0.343], atol=0.02)
    assert np.isnan(autocorrelation(np.ones(100), 1)).all()


def test_autocorrelation_is_the_usual_estimator() -> None:
    values = np.random.default_rng(1).gamma(2, size=500)
    centred = values - values.mean()
    direct = [(centred[k:] * centred[:-k]).sum() / (centred**2).sum() for k in range(1, 101)]
    np.testing.assert_allclose(autocorrelation(values, 100), direct, atol=1e-12)


def test_autocorrelation_is_that_of_statsmodels() -> None:
    stattools = pytest.importorskip("statsmodels.tsa.stattools")
    values = np.random.default_rng(1).gamma(2, size=500)
    np.testing.assert_allclose(autocorrelation(values, 20), stattools.acf(values, nlags=20)[1:], atol=1e-12)


def test_poisson_arrivals_have_dispersion_one_and_no_memory() -> None:
    rng = np.random.default_rng(0)
    view = view_of(arrivals(np.cumsum(rng.exponential(60, 40_000))))
    found = Dispersion().measure(view)
    assert found["idc.60"] == pytest.approx(1, abs=0.05)
    assert found["idc.3600"] == pytest.approx(1, abs=0.2)
    assert Hurst().measure(view)["hurst"] == pytest.approx(0.5, abs=0.07)


def test_clockwork_has_no_dispersion() -> None:
    found = Dispersion().measure(view_of(arrivals(np.arange(5000) * 30.0)))
    assert found["idc.60"] == 0
    assert found["idc.86400"] == "shorter than five windows of 86,400 s"


def test_counts_leave_out_the_incomplete_last_window() -> None:
    assert view_of(arrivals(np.array([0.0, 10, 61, 125]))).arrivals(60).tolist() == [2, 1]


def test_bursts_at_every_scale_raise_the_hurst_exponent(real: Trace) -> None:
    found = Hurst().measure(view_of(real))["hurst"]
    assert isinstance(found, float)
    assert found > 0.55


def test_user_repeat_and_job_repeat_by_hand(compare) -> None:
    trace = arrivals(np.arange(6) * 100.0, list("aabbab"), req_time=[60.0, 60, 60, 90, 60, 90])
    assert compare("user_repeat", trace, trace)["user_repeat"].value == pytest.approx(2 / 5)
    # a: 60 60 60 -> 2 of 2; b: 60 90 90 -> 1 of 2
    assert compare("job_repeat", trace, trace)["job_repeat"].value == pytest.approx(3 / 4)


def test_sessions_and_think_times_by_hand() -> None:
    view = view_of(arrivals(np.array([0.0, 5, 100, 2000, 2010]), list("abaaa"), run=20.0))
    chains = Chains.of(view)
    think = think_times(view, chains)[chains.follows]
    assert think.tolist() == [80, 1880, -10]  # of a; b has one job only
    assert chains.stretches(np.diff(view.submit[chains.order]) > 1200).tolist() == [2, 2, 1]
    assert chains.stretches(think_times(view, chains) > 0).tolist() == [1, 1, 2, 1]


def test_shuffled_order_ends_all_memory_and_keeps_all_gaps(compare, real: Trace, damage) -> None:
    other = damage["order"](real)
    lag = compare("acf1", real, other)
    assert lag["acf1.run_time"].real > 0.4
    assert abs(lag["acf1.run_time"].value) < 0.05
    assert abs(lag["acf1.nodes"].value) < 0.05
    assert lag["acf1.interarrival"].value == lag["acf1.interarrival"].real
    assert compare("acf", real, other)["acf.run_time"].value > 0.02
    repeat = compare("user_repeat", real, other)["user_repeat"]
    assert repeat.real > 0.6 > 0.3 > repeat.value
    assert compare("c2st_window", real, other)["c2st.window_auc"].value > 0.8
    for name in ("interarrival", "hour_of_week"):
        assert all(score.value == 0 for score in compare(name, real, other).values())
    for name in ("idc", "hurst"):
        assert all(score.value == score.real for score in compare(name, real, other).values())


def test_permuted_users_break_sessions_and_repeats_only(compare, real: Trace, damage) -> None:
    other = damage["users"](real)
    repeat = compare("job_repeat", real, other)["job_repeat"]
    assert repeat.value < 0.5 < repeat.real
    assert compare("sessions", real, other)["sessions.length"].value > 0.2
    for name in ("acf1", "idc", "hurst"):
        assert all(score.value == score.real for score in compare(name, real, other).values())
    assert compare("hour_of_week", real, other)["hour_of_week.tv"].value == 0


def test_renamed_users_change_no_structure(compare, real: Trace, damage) -> None:
    other = damage["names"](real)
    assert all(score.value == 0 for score in compare("sessions", real, other).values())
    for name in ("user_repeat", "job_repeat"):
        assert all(score.value == score.real for score in compare(name, real, other).values())
    assert compare("c2st_window", real, other)["c2st.window_auc"].value == 0.5


def test_hours_follow_the_clock(compare, real: Trace) -> None:
    later = real.assign({"submit_time": real.column("submit_time") + 12 * 3600})
    assert compare("hour_of_week", real, later)["hour_of_day.tv"].value > 0.5
    weekend = real.assign({"submit_time": real.column("submit_time") + 5 * 86_400})
    found = compare("hour_of_week", real, weekend)
    assert found["hour_of_day.tv"].value == 0
    assert found["hour_of_week.tv"].value > 0.3


def test_no_calendar_and_no_users_are_null_with_a_reason(compare, real: Trace) -> None:
    bare = real.replace(jobs=real.jobs.drop(columns="user"), machine=real.machine.replace(epoch=None))
    found = compare("hour_of_week", real, bare) | compare("user_repeat", real, bare) | compare("sessions", real, bare)
    assert all(np.isnan(score.value) and score.note for score in found.values())
    assert found["user_repeat"].real > 0


def test_halved_gaps_shift_the_gaps_but_not_their_memory(compare, real: Trace, damage) -> None:
    other = damage["load"](real)
    assert compare("interarrival", real, other)["wasserstein.interarrival"].value == pytest.approx(np.log(2), abs=0.15)
    assert compare("acf1", real, other)["acf1.run_time"].value == compare("acf1", real, real)["acf1.run_time"].value
    repeat = compare("user_repeat", real, other)["user_repeat"]
    assert repeat.value == repeat.real
