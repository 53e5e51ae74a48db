from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats as st

import tracekit
from generators import MODELS, lublin_fit, lublin_model, tsafrir
from generators.lublin import Lublin
from generators.lublin_model import JobType
from tracekit.errors import FormatError, NotFitted, TracekitError, UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.schema import STATUSES
from tracekit.trace import Trace

MANY = 200_000


def is_power(size):
    return np.log2(size) % 1 == 0


# ---- the published model: closed forms -------------------------------------------------------------------------------


def test_sizes_of_the_published_model():
    size = lublin_model.sample_sizes(lublin_model.one_type(128), MANY, np.random.default_rng(0))
    assert (size == 1).mean() == pytest.approx(0.244, abs=0.003)
    assert is_power(size).mean() >= 0.820
    assert size.min() == 1
    assert size.max() == 128


def test_two_stage_uniform_has_its_mean():
    # E log2(size) = (prob·low + med + (1 − prob)·high) / 2 for jobs that are not rounded (Lublin & Feitelson, §3.1).
    kind = dataclasses.replace(lublin_model.one_type(2**20), serial=0.0, power2=0.0, low=10.0)
    size = lublin_model.sample_sizes(kind, MANY, np.random.default_rng(0))
    expected = (kind.prob * kind.low + kind.med + (1 - kind.prob) * kind.high) / 2
    assert np.log2(size).mean() == pytest.approx(expected, abs=0.03)


def test_run_times_of_the_published_model():
    kind = lublin_model.one_type(256)
    assert kind.a1 * kind.b1 == pytest.approx(3.948)
    assert kind.a2 * kind.b2 == pytest.approx(9.36)
    rng = np.random.default_rng(0)
    for p, mean in ((1.0, 3.948), (0.0, 9.36)):
        only = dataclasses.replace(kind, pa=0.0, pb=p, longest=np.inf)
        assert lublin_model.sample_log_runs(only, np.ones(MANY), rng).mean() == pytest.approx(mean, abs=0.02)


def test_first_gamma_becomes_rarer_with_size_and_stays_a_probability():
    share = lublin_model.first_gamma_share(JobType(), np.array([1, 100, 1000]))
    assert share == pytest.approx([0.7746, 0.24, 0.0])


def test_too_long_runs_are_drawn_again():
    kind = dataclasses.replace(JobType(), longest=5.0)
    log_run = lublin_model.sample_log_runs(kind, np.ones(MANY), np.random.default_rng(0))
    assert log_run.max() <= 5.0
    cut = st.gamma(4.2, scale=0.94)
    assert np.mean(log_run < 2) == pytest.approx(cut.cdf(2) / cut.cdf(5), abs=0.005)  # not piled up at the cut


def test_arrivals_of_the_published_model():
    kind = lublin_model.one_type(256)
    assert kind.gap_a * kind.gap_b == pytest.approx(5.095, abs=5e-4)
    log_gap = lublin_model.sample_log_gaps(kind, MANY, np.random.default_rng(0))
    assert log_gap.mean() == pytest.approx(5.095, abs=0.01)
    assert log_gap.max() <= 13
    submit = lublin_model.sample_arrivals(kind, MANY, np.random.default_rng(0))
    assert (np.diff(submit) > 0).all()
    share = np.bincount(((submit % 86_400) // 1800).astype(int), minlength=48) / MANY * 48
    assert np.corrcoef(share, lublin_model.day_weights(kind))[0, 1] > 0.95


def test_day_weights_are_the_gamma_moved_to_its_place():
    weights = lublin_model.day_weights(JobType())
    gamma = st.gamma(8.1737, scale=3.9631)
    assert weights.mean() == pytest.approx(1.0)
    # Bucket 11 (from 1) is the first of the gamma's day, bucket 10 its 48th, at 58.
    ratio = (gamma.cdf(11.5) - gamma.cdf(10.5)) / (gamma.cdf(58.5) - gamma.cdf(57.5))
    assert weights[10] / weights[9] == pytest.approx(ratio)
    assert 12 <= np.argmax(weights) / 2 <= 15  # the rush is after noon


def test_points_paid_bucket_by_bucket_give_the_same_times():
    """The reference program walks through the half-hours; the vectorised clock must agree with such a walk."""
    kind = lublin_model.one_type(256)
    weights = lublin_model.day_weights(kind)
    gaps = np.exp(lublin_model.sample_log_gaps(kind, 300, np.random.default_rng(3)))
    bucket, points, passed, slow = 0, 0.0, 0.0, []
    for gap in gaps:
        points += gap / 1800
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % 48
            passed += 1800
        slow.append(passed + 1800 * points / weights[bucket])
    fast = lublin_model.to_clock(np.cumsum(gaps), weights)
    assert fast == pytest.approx(np.array(slow), abs=1e-3)
    assert lublin_model.to_busy(fast, weights) == pytest.approx(np.cumsum(gaps), abs=1e-3)


def test_published_parameters_of_the_two_types():
    assert (lublin_model.batch(128).med, lublin_model.batch(128).high) == (5, 7)
    assert (lublin_model.interactive(128).med, lublin_model.interactive(128).high) == (3, 5.5)
    made = Lublin.published(128, two_types=True).sample(50_000, seed=1)
    batch = (made.jobs["queue"] == "batch").to_numpy()
    size = made.sizes()
    assert (size[batch] == 1).mean() == pytest.approx(0.2927, abs=0.02)
    assert (size[~batch] == 1).mean() == pytest.approx(0.1541, abs=0.02)
    assert size[~batch].max() <= 45
    assert np.diff(made.column("submit_time")).min() >= 0


@pytest.mark.parametrize("procs", [1, 2, 3, 6, 100, 1_000_000])
def test_any_machine_size(procs):
    for two_types in (False, True):
        size = Lublin.published(procs, two_types=two_types).sample(3000, seed=0).sizes()
        assert size.min() == 1
        assert size.max() <= procs


@pytest.mark.parametrize(("name", "facts"), [
    ("lublin_256.swf", (0.2493, 0.8613, 22.10, 4862.8, 5.683, 137, 770.7, 1.061)),
    ("lublin_256_new2.swf", (0.1675, 0.8306, 39.01, 1696.0, 3.914, 31, 460.3, 0.6163)),
])  # fmt: skip
def test_facts_of_the_published_files(data, name, facts):
    trace = tracekit.read(data / "swf" / name)
    size, run = trace.sizes(), trace.column("run_time")
    assert np.mean(size == 1) == pytest.approx(facts[0], abs=1e-4)
    assert is_power(size).mean() == pytest.approx(facts[1], abs=1e-4)
    assert size.mean() == pytest.approx(facts[2], abs=0.01)
    assert run.mean() == pytest.approx(facts[3], abs=0.1)
    assert np.log(run[run > 0]).mean() == pytest.approx(facts[4], abs=2e-3)
    assert np.median(run) == facts[5]
    assert trace.interarrival().mean() == pytest.approx(facts[6], abs=0.1)
    assert trace.offered_load() == pytest.approx(facts[7], abs=1e-3)


def test_our_published_model_makes_the_published_file_s_jobs(data):
    real = tracekit.read(data / "swf" / "lublin_256.swf")
    made = Lublin.published(256).sample(50_000, seed=1)
    for ours, theirs, critical in (
        (made.sizes(), real.sizes(), 0.02),
        (made.column("run_time"), real.column("run_time"), 0.02),
        (made.interarrival(), real.interarrival(), 0.02),
    ):
        assert st.ks_2samp(ours, theirs).statistic < critical
    log_gaps = [np.log(trace.interarrival().clip(1)).mean() for trace in (made, real)]
    assert log_gaps[0] == pytest.approx(log_gaps[1], abs=0.1)
    assert made.sizes().mean() == pytest.approx(22.10, rel=0.03)
    assert made.column("run_time").mean() == pytest.approx(4862.8, rel=0.05)


# ---- Tsafrir's limits ------------------------------------------------------------------------------------------------


def test_popularity_of_limits():
    share = tsafrir.popularity(tsafrir.modal_count(100_000))
    assert share.sum() == pytest.approx(1)
    assert (np.diff(share) <= 0).all()
    assert 0.75 < share[:20].sum() < 0.92  # the head covers most jobs
    percent = 14.0491 * np.exp(-0.177531 * np.array([1, 2])) + 0.462513
    assert share[0] / share[1] == pytest.approx(percent[0] / percent[1])
    assert share[29] / share[39] == pytest.approx((30 / 40) ** -2.267)


def test_number_and_spread_of_limits():
    assert tsafrir.modal_count(10_000) == round(0.653566 * 10_000**0.547761) == 101
    times = tsafrir.spread(101, 1000.0)
    a = 1 + 12.1039 * 101**-0.6026
    assert times[-1] == pytest.approx(1000)
    assert times[49] == pytest.approx(1000 * (a - 1) * (50 / 101) / (a - 50 / 101))
    assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("n_jobs", [1, 2, 30, 10_000])
def test_limits_are_distinct_round_and_include_the_longest(n_jobs):
    times, shares = tsafrir.modal_limits(n_jobs, 172_800.0, np.random.default_rng(0))
    assert times[-1] == 172_800
    assert (np.diff(times) > 0).all()
    assert (times % 60 == 0).all()
    assert shares.sum() == pytest.approx(1)
    assert len(times) <= tsafrir.modal_count(n_jobs)


def test_limits_are_at_or_above_run_times_and_keep_their_shares():
    rng = np.random.default_rng(0)
    run = np.floor(rng.lognormal(4, 1.5, MANY)).clip(0, 7200)
    times, shares = np.array([600.0, 1800.0, 3600.0, 7200.0]), np.array([0.4, 0.3, 0.2, 0.1])
    limit = tsafrir.assign_limits(run, times, shares, rng)
    assert (limit >= run).all()
    assert [np.mean(limit == t) for t in times] == pytest.approx(shares, abs=0.004)


def test_limits_too_short_for_the_jobs_give_way_to_longer_ones():
    run = np.full(1000, 5000.0)
    limit = tsafrir.assign_limits(run, np.array([60.0, 7200.0]), np.array([0.9, 0.1]), np.random.default_rng(0))
    assert (limit == 7200).all()
    assert (tsafrir.assign_limits(run, np.array([60.0]), np.array([1.0]), np.random.default_rng(0)) == 60).all()


# ---- fitted --------------------------------------------------------------------------------------------------------


def test_a_fit_finds_the_parameters_that_made_the_jobs():
    true = lublin_model.one_type(256)
    made = Lublin.published(256, limits=False).sample(60_000, seed=3)
    made = made.replace(machine=made.machine.replace(epoch=1_704_067_200.0, timezone="UTC"))
    found = Lublin().fit(made, seed=0).state.types[0]
    assert found.serial == pytest.approx(true.serial, abs=0.01)
    assert found.power2 == pytest.approx(true.power2, abs=0.02)
    assert found.low == pytest.approx(true.low, abs=0.1)
    assert found.med == pytest.approx(true.med, abs=0.3)
    assert found.prob == pytest.approx(true.prob, abs=0.03)
    assert found.a1 * found.b1 == pytest.approx(3.948, abs=0.1)
    assert found.a2 * found.b2 == pytest.approx(9.36, abs=0.05)
    assert found.a2 == pytest.approx(312, rel=0.1)
    assert found.pa == pytest.approx(-0.0054, abs=0.001)
    assert found.pb == pytest.approx(0.78, abs=0.02)
    assert found.gap_a * found.gap_b == pytest.approx(5.095, abs=0.1)
    assert np.corrcoef(lublin_model.day_weights(found), lublin_model.day_weights(true))[0, 1] > 0.98


def test_a_fit_to_mostly_large_jobs_keeps_its_sizes_in_order():
    """The likeliest middle size is the largest one, which rounding once put above it (as with the 15th trace here)."""
    rng = np.random.default_rng(0)
    for _ in range(16):
        top = int(rng.integers(5, 300))
        sizes = np.where(rng.random(60) < rng.random(), top, rng.integers(2, top + 1, 60))
        sizes[:2] = 2, top
        number = np.arange(60.0)
        columns = {"job_id": number, "submit_time": 100 * number, "run_time": number + 5, "req_procs": sizes}
        (kind,) = Lublin().fit(Trace(pd.DataFrame(columns), Machine(procs=512))).state.types
        assert kind.low <= kind.med <= kind.high


def test_fitted_to_the_toy(toy):
    made = Lublin().fit(toy, seed=0).sample(5000, seed=1)
    assert made.column("submit_time")[0] == toy.column("submit_time").min()
    assert made.interarrival().mean() == pytest.approx(toy.interarrival().mean(), rel=0.1)
    assert made.sizes().mean() == pytest.approx(toy.sizes().mean(), rel=0.1)
    assert set(made.jobs["req_time"].dropna().unique()) <= set(toy.jobs["req_time"].dropna().unique())
    assert made.jobs["req_time"].isna().mean() == pytest.approx(toy.jobs["req_time"].isna().mean(), abs=0.02)
    assert (made.jobs["req_procs"] == made.jobs["alloc_procs"]).all()
    assert made.offered_load() == pytest.approx(toy.offered_load(), rel=0.35)
    timeouts = (made.jobs["status"] == "timeout").to_numpy()
    assert (made.column("run_time")[timeouts] == made.column("req_time")[timeouts]).all()
    problems = {p.rule for p in made.validate()}
    assert problems <= {"zero-run-time", "cancelled-before-start"}


def test_fitted_to_kth(data):
    real = tracekit.read(data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    model = Lublin().fit(real, seed=0)
    made = model.sample(len(real), seed=1)
    size = real.sizes()[~np.isnan(real.sizes())]
    assert model.state.types[0].serial == pytest.approx(np.mean(size == 1))
    assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.15)
    assert made.sizes().mean() == pytest.approx(size.mean(), rel=0.05)
    assert made.column("run_time").mean() == pytest.approx(np.nanmean(real.column("run_time")), rel=0.05)
    assert made.interarrival().mean() == pytest.approx(real.interarrival().mean(), rel=0.05)
    assert st.ks_2samp(made.column("run_time"), real.column("run_time")).statistic < 0.06
    assert made.sizes().max() <= 100
    assert (made.column("run_time") <= made.column("req_time")).all()
    hour = tracekit.stats.hour_of_week(made) % 24
    assert np.isin(hour, range(9, 18)).mean() > 2 * np.isin(hour, range(9)).mean()


def test_without_a_calendar_there_is_no_daily_cycle(toys):
    model = Lublin().fit(toys(calendar=False), seed=0)
    assert model.state.types[0].day_a is None
    made = model.sample(20_000, seed=0)
    share = np.bincount((made.column("submit_time") % 86_400 // 3600).astype(int), minlength=24) / len(made)
    assert share.max() < 0.06


def test_published_parameters_on_a_real_trace_s_machine(toy):
    for parameters in ("published", "published-two-types"):
        made = Lublin(parameters=parameters).fit(toy, seed=0).sample(3000, seed=1)
        assert made.sizes().max() <= 64
        assert made.machine.epoch == toy.machine.epoch
        assert made.has("req_time")
        assert parameters in made.history[-1]
    assert made.has("queue")
    with pytest.raises(UnknownName, match="published"):
        Lublin(parameters="publisched").fit(toy, seed=0)


# ---- behaviour as a generator ----------------------------------------------------------------------------------------


def test_registered():
    assert MODELS.get("lublin") is Lublin
    assert not Lublin.info.copies


def test_deterministic_exact_and_made(toy):
    model = Lublin().fit(toy, seed=0)
    first, other = model.sample(777, seed=5), model.sample(777, seed=6)
    again = Lublin().fit(toy, seed=3).sample(777, seed=5)
    assert first.equals(again)
    assert not first.jobs.equals(other.jobs)
    assert len(first) == 777
    assert first.jobs["job_id"].tolist() == list(range(1, 778))
    assert "MADE" in first.history[-1]
    assert "MADE" in first.machine.source
    assert first.history[0] == "read from toy"
    assert tuple(first.jobs["status"].cat.categories) == STATUSES


@pytest.mark.parametrize("model", [
    Lublin.published(256), Lublin.published(64, two_types=True), Lublin.published(8, limits=False)
])  # fmt: skip
def test_save_and_load_published(model, tmp_path):
    model.save(tmp_path)
    assert Lublin.load(tmp_path).sample(500, seed=2).equals(model.sample(500, seed=2))


def test_save_and_load_fitted(toy, tmp_path):
    model = Lublin().fit(toy, seed=0)
    model.save(tmp_path / "m")
    loaded = Lublin.load(tmp_path / "m")
    made, again = model.sample(500, seed=2), loaded.sample(500, seed=2)
    assert made.equals(again)
    assert made.history == again.history
    assert {p.suffix for p in (tmp_path / "m").iterdir()} == {".json", ".npz"}


def test_damaged_saves(toy, tmp_path):
    model = Lublin().fit(toy, seed=0)
    model.save(tmp_path)
    (tmp_path / "limits.npz").write_bytes(b"no zip")
    with pytest.raises(FormatError, match="saved lublin model"):
        Lublin.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model": "lublin"}')
    with pytest.raises(FormatError, match="saved lublin model"):
        Lublin.load(tmp_path)


def test_not_fitted_and_nonsense(tmp_path):
    with pytest.raises(NotFitted):
        Lublin().sample(3, seed=0)
    with pytest.raises(NotFitted):
        Lublin().save(tmp_path)
    with pytest.raises(UsageError, match="whole number"):
        Lublin.published(8).sample(0, seed=0)
    with pytest.raises(UsageError, match="at least one processor"):
        Lublin.published(0)
    with pytest.raises(UsageError, match="low ≤ med"):
        JobType(low=3, med=2)
    with pytest.raises(UsageError, match="shares"):
        JobType(serial=0.9, power2=0.5)
    with pytest.raises(UsageError, match="gamma"):
        JobType(a1=0)


def test_too_little_to_learn_from(toy):
    with pytest.raises(TracekitError, match="at least 2 jobs"):
        Lublin().fit(toy.head(0), seed=0)
    with pytest.raises(TracekitError, match="at least 2 jobs"):
        Lublin().fit(toy.head(1), seed=0)
    with pytest.raises(TracekitError, match="size and run time"):
        Lublin().fit(toy.assign({"req_procs": np.nan, "alloc_procs": np.nan}), seed=0)


def test_missing_sizes_and_runs_are_left_out(toy):
    size = toy.column("req_procs").copy()
    size[::3] = np.nan
    run = toy.column("run_time").copy()
    run[::7] = np.nan
    holey = toy.assign({"req_procs": size, "alloc_procs": size, "run_time": run})
    made = Lublin().fit(holey, seed=0).sample(200, seed=0)
    assert not np.isnan(made.sizes()).any()
    assert (made.column("run_time") >= 0).all()


@pytest.mark.parametrize("change", [
    {"run_time": 100.0}, {"run_time": 0.0}, {"req_procs": 1, "alloc_procs": 1}, {"req_procs": 7, "alloc_procs": 7},
    {"submit_time": 5000.0}, {"req_time": np.nan}, {"run_time": -5.0, "req_procs": 4},
])  # fmt: skip
def test_constant_columns(toy, change):
    trace = toy.assign(change)
    if change.get("run_time") == -5.0:
        trace = toy.assign({**change, "run_time": np.where(np.arange(len(toy)) < 10, 50.0, -5.0)})
    made = Lublin().fit(trace, seed=0).sample(300, seed=0)
    assert len(made) == 300
    assert (made.column("run_time") >= 0).all()
    assert (np.diff(made.column("submit_time")) >= 0).all()
    for name in ("run_time", "req_procs"):
        if change.get(name, -1) > 0:
            assert made.column(name).min() == pytest.approx(change[name], rel=0.03)
    if "req_time" in change:
        assert not made.has("req_time")


def test_whole_nodes_of_a_machine_that_counts_processors(toy):
    nodes = toy.column("req_procs")
    trace = toy.assign({"req_procs": 64 * nodes, "alloc_procs": 64 * nodes, "req_nodes": nodes})
    trace = trace.replace(machine=trace.machine.replace(procs=64 * 64))
    for parameters in ("fitted", "published"):
        made = Lublin(parameters=parameters).fit(trace, seed=0).sample(500, seed=0)
        assert (made.jobs["req_procs"] == 64 * made.jobs["req_nodes"]).all()
        assert made.sizes().max() <= 64 * 64
    assert made.jobs["req_nodes"].nunique() > 5


def test_machines_of_unknown_size_and_jobs_larger_than_the_machine(toy):
    for procs, most in ((None, 32), (16, 16)):
        trace = toy.replace(machine=toy.machine.replace(procs=procs))
        made = Lublin().fit(trace, seed=0).sample(2000, seed=0)
        assert made.sizes().max() == most


def test_jobs_that_take_nothing_are_left_out(toy):
    size = toy.column("req_procs").copy()
    size[::2] = 0
    trace = toy.assign({"req_procs": size, "alloc_procs": size})
    made = Lublin().fit(trace, seed=0).sample(500, seed=0)
    assert made.sizes().min() >= 1
    assert "200 without size or run time left out" in made.history[-1]
    assert made.interarrival().mean() == pytest.approx(2 * toy.interarrival().mean(), rel=0.25)


def test_nodes_and_gpus_as_the_unit(toy):
    jobs = toy.jobs.drop(columns="alloc_procs").rename(columns={"req_procs": "req_nodes"})
    jobs["req_procs"] = jobs["req_nodes"] * 64
    trace = Trace(jobs, toy.machine.replace(procs=64 * 64, nodes=64, unit="nodes"))
    made = Lublin().fit(trace, seed=0).sample(500, seed=0)
    assert (made.jobs["req_procs"] == 64 * made.jobs["req_nodes"]).all()


def test_bursts_within_seconds():
    rng = np.random.default_rng(0)
    submit = np.cumsum(np.floor(rng.exponential(2.0, 5000)))
    jobs = {"job_id": np.arange(5000), "submit_time": submit, "run_time": 60.0, "req_procs": 1}
    trace = Trace(tracekit.trace.pd.DataFrame(jobs))
    made = Lublin().fit(trace, seed=0).sample(5000, seed=0)
    assert made.interarrival().mean() == pytest.approx(trace.interarrival().mean(), rel=0.1)


def test_gamma_fit_is_the_likeliest():
    x = np.random.default_rng(0).gamma(4.2, 0.94, 50_000)
    shape, scale = lublin_fit.fit_gamma(x, np.ones(len(x)))
    reference = st.gamma.fit(x, floc=0)
    assert (shape, scale) == pytest.approx((reference[0], reference[2]), rel=1e-3)


def test_expected_run_time_and_gap_agree_with_draws():
    kind = lublin_model.one_type(128)
    log_run = lublin_model.sample_log_runs(kind, np.full(MANY, 16), np.random.default_rng(0))
    assert lublin_fit.mean_run(kind, np.array([16.0]))[0] == pytest.approx(np.exp(log_run).mean(), rel=0.02)
    gaps = np.exp(lublin_model.sample_log_gaps(kind, 10 * MANY, np.random.default_rng(0)))
    assert lublin_fit.mean_gap(kind) == pytest.approx(gaps.mean(), rel=0.03)


def test_sampling_runs_no_python_per_job():
    """Lines of Python that are run are the same for ten times the jobs, up to the rounds of rejected draws."""

    def lines(jobs: int) -> int:
        count = 0

        def trace(frame, event, argument):
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert len(model.sample(jobs, seed=0)) == jobs
        finally:
            sys.settrace(before)
        return count

    model = Lublin.published(256)
    lines(100)  # imports
    assert lines(100_000) < 2 * lines(10_000)


def test_fitting_many_jobs():
    made = Lublin.published(256).sample(300_000, seed=0)
    assert len(Lublin().fit(made, seed=0).sample(10, seed=0)) == 10
