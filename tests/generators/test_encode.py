"""The encoding gives every trace back, and gives possible jobs whatever a model writes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generators.clock import Clock
from generators.encode import DefaultEncoding, encoding_from_dict, fit_encoding, learnable
from generators.quantile import Quantiles, codes_to_normal, grain_of, normal_to_codes
from tracekit import Machine, Trace, stats
from tracekit.errors import TracekitError
from tracekit.validation import schedulable

seeds = st.integers(0, 2**31)
common = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def traces(draw: Any) -> Trace:
    """Any kind of trace: with and without limits, users, calendar, nodes, GPUs, memory, fractions and gaps in them."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.sampled_from([20, 37, 120, 700]))
    has = {
        name: draw(st.booleans())
        for name in (
            "limits",
            "some_limits",
            "users",
            "rare",
            "groups",
            "calendar",
            "nodes",
            "gpus",
            "memory",
            "fractions",
            "status",
            "cpu_time",
            "alloc",
            "overrun",
            "constant",
        )
    }
    size = np.ones(n) if has["constant"] else 2.0 ** rng.integers(0, 6, n)
    run = np.round(rng.lognormal(5, 2, n), 2 if has["fractions"] else 0)
    columns: dict[str, Any] = {
        "job_id": rng.permutation(n) + 5,
        "submit_time": np.cumsum(np.round(rng.exponential(draw(st.sampled_from([5.0, 2_000.0])), n))) - 100,
        "run_time": run,
        "req_procs": size,
    }
    if has["limits"]:
        limit = rng.choice([60.0, 600.0, 3_600.0, 86_400.0], n)
        columns["run_time"] = run = np.where(rng.random(n) < 0.2, limit, np.minimum(run, limit))
        if has["overrun"]:
            columns["run_time"] = np.where(rng.random(n) < 0.3, limit + rng.integers(1, 90, n), run)
        columns["req_time"] = np.where(rng.random(n) < 0.2, np.nan, limit) if has["some_limits"] else limit
    if has["nodes"]:
        columns["req_nodes"] = np.ceil(size / 4) if has["alloc"] else size
    if has["gpus"]:
        columns["req_gpus"] = rng.choice([0.0, 1.0, 8.0, np.nan], n)
        columns["gpu_type"] = pd.Series(rng.choice(["a", "b", ""], n)).replace("", None)
    if has["alloc"]:
        columns["alloc_procs"] = np.where(rng.random(n) < 0.5, size, np.nan)
    if has["memory"]:
        columns["req_mem"] = rng.choice([1024.0, 4096.0], n)
        columns["used_mem"] = np.where(rng.random(n) < 0.3, np.nan, np.round(rng.lognormal(8, 1, n)))
    if has["cpu_time"]:
        columns["cpu_time"] = np.round(columns["run_time"] * rng.random(n), 2)
    if has["users"]:
        user = rng.integers(0, n if has["rare"] else 4, n)
        columns["user"] = pd.Series([f"u{k}" for k in user]).mask(rng.random(n) < 0.1)
        if has["groups"]:
            columns["group"] = columns["user"].map(lambda u: u if pd.isna(u) else f"g{int(u[1:]) % 2}")
    if has["status"]:
        columns["status"] = rng.choice(["completed", "failed", "timeout"], n)
    machine = Machine(name="any", procs=64, epoch=1.6e9 if has["calendar"] else None, timezone="Europe/Berlin")
    return Trace(pd.DataFrame(columns), machine)


def pools(encoding: DefaultEncoding) -> dict[str, set[str]]:
    return {part.name: set(part.pool) for part in encoding.parts if hasattr(part, "pool")}


@common
@given(trace=traces(), seed=seeds)
def test_decoding_gives_back_what_was_encoded(trace: Trace, seed: int) -> None:
    trace, _ = learnable(trace)
    encoding = DefaultEncoding.fit(trace)
    back = encoding.decode(encoding.encode(trace, seed=seed), seed=seed)
    assert list(back.jobs["job_id"]) == list(range(1, len(trace) + 1))
    rare = pools(encoding)
    for name in trace.jobs.columns:
        if name == "job_id" or not trace.has(name):
            continue
        if isinstance(trace.jobs[name].dtype, pd.CategoricalDtype):
            ours, theirs = trace.jobs[name].astype(object), back.jobs[name].astype(object)
            source = trace.jobs["user"].astype(object) if name == "group" and "group" not in rare else ours
            free = source.isin(rare.get("user" if source is not ours else name, set()))
            same = (ours == theirs) | (ours.isna() & theirs.isna())
            assert (same | free).all(), name
            if rare.get(name):
                assert set(theirs[free]) <= rare[name]
            continue
        ours, theirs = trace.column(name), back.column(name)
        if name == "cpu_time":  # kept as a share of the run time
            ours = np.where(trace.column("run_time") > 0, ours, 0.0)
        np.testing.assert_allclose(
            theirs, ours, rtol=1e-9, atol=0.011 if name == "run_time" else 1e-6, equal_nan=True, err_msg=name
        )


@pytest.mark.parametrize(("limit", "run"), [(60.0, 123.0), (60.0, 245.0), (7.0, 61.0), (86400.0, 88000.07)])
def test_the_longest_overrun_is_not_rounded_down(limit: float, run: float) -> None:
    runs = np.array([run] * 3 + [limit / 2] * 30)
    table = {"job_id": np.arange(33), "submit_time": 10.0 * np.arange(33), "run_time": runs, "req_procs": 1}
    trace, _ = learnable(Trace(pd.DataFrame({**table, "req_time": limit}), Machine(procs=4)))
    encoding = DefaultEncoding.fit(trace)
    back = encoding.decode(encoding.encode(trace, seed=0), seed=0)
    np.testing.assert_allclose(back.column("run_time"), runs, rtol=0, atol=1e-9)


@common
@given(trace=traces(), seed=seeds, wild=st.sampled_from(["normal", "huge", "nan", "constant"]))
def test_whatever_a_model_writes_becomes_possible_jobs(trace: Trace, seed: int, wild: str) -> None:
    real, _ = learnable(trace)
    encoding = DefaultEncoding.fit(real)
    rng = np.random.default_rng(seed)
    n = 200
    table = pd.DataFrame({slot.name: rng.normal(size=n) * 3 + slot.levels / 2 for slot in encoding.slots})
    if wild == "huge":
        table *= 1e12
    elif wild == "nan":
        table = table.mask(rng.random(table.shape) < 0.5).replace(0, np.inf)
    elif wild == "constant":
        table[:] = 0.0
    made = encoding.decode(table, seed=seed)
    assert len(made) == n
    assert schedulable(made).all() or (made.column("submit_time") < 0).any()
    assert (np.diff(made.column("submit_time")) >= 0).all()
    for name in ("req_procs", "req_nodes", "req_gpus", "req_time"):
        if real.has(name):
            assert set(made.column(name)[np.isfinite(made.column(name))]) <= set(real.column(name))
    if real.has("req_time"):
        over = real.column("run_time") - real.column("req_time")
        grace = max(np.nanmax(over), 0.0) if (over > 0).mean() > 0.001 else 0.0
        made_over = made.column("run_time") - made.column("req_time")
        assert not (made_over > grace + 1e-6).any()
    assert (made.column("run_time") >= 0).all()
    if real.has("user"):
        assert set(made.jobs["user"].dropna()) <= set(real.jobs["user"].dropna())


@common
@given(trace=traces())
def test_a_saved_encoding_is_the_same(trace: Trace) -> None:
    trace, _ = learnable(trace)
    for name in ("default", "raw"):
        encoding = fit_encoding(trace, name)  # type: ignore[arg-type]
        again = encoding_from_dict(json.loads(json.dumps(encoding.to_dict(), allow_nan=False)))
        table = encoding.encode(trace, seed=3)
        pd.testing.assert_frame_equal(table, again.encode(trace, seed=3))
        assert encoding.decode(table, seed=3).equals(again.decode(table, seed=3))


@common
@given(trace=traces())
def test_the_raw_encoding_is_the_plain_columns(trace: Trace) -> None:
    trace, _ = learnable(trace)
    encoding = fit_encoding(trace, "raw")
    table = encoding.encode(trace)
    assert table["run_time"].tolist() == trace.column("run_time").tolist()
    assert all(np.issubdtype(dtype, np.number) for dtype in table.dtypes)
    back = encoding.decode(table)
    np.testing.assert_allclose(back.column("submit_time"), trace.column("submit_time"))
    for name in ("run_time", "req_time", "req_procs"):
        np.testing.assert_allclose(back.column(name), trace.column(name), equal_nan=True)


@common
@given(
    values=st.lists(st.floats(0, 1e9, allow_nan=False) | st.sampled_from([0.0, 60.0, 3600.0]), min_size=1), seed=seeds
)
def test_a_quantile_scale_is_its_own_inverse(values: list[float], seed: int) -> None:
    known = np.array(values)
    scale = Quantiles.fit(known)
    normal = scale.to_normal(known, np.random.default_rng(seed))
    np.testing.assert_allclose(scale.from_normal(normal), known, rtol=1e-6, atol=max(scale.grain, 1e-6))
    anything = scale.from_normal(np.array([-1e9, np.nan, 1e9, np.inf]))
    assert ((anything >= known.min()) & (anything <= known.max())).all()


def test_levels_keep_their_shares_on_the_normal_curve() -> None:
    rng = np.random.default_rng(1)
    codes = rng.choice(5, 2_000, p=[0.5, 0.2, 0.2, 0.05, 0.05]).astype(np.int64)
    shares = np.bincount(codes) / len(codes)
    normal = codes_to_normal(codes, shares, rng)
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert (normal_to_codes(normal, shares) == codes).all()


def test_the_grain_is_the_coarsest_that_fits() -> None:
    assert [grain_of(np.array(v)) for v in ([1.0, 5.0], [0.5], [0.25], [0.125], [1 / 3])] == [
        1.0,
        0.1,
        0.01,
        0.001,
        0.0,
    ]


def cyclic(n: int = 6_000, seed: int = 0) -> Trace:
    """Jobs that arrive in office hours only."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 60, n)
    day = day[day % 7 < 5]
    submit = np.sort(day * 86_400 + rng.uniform(9, 17, len(day)) * 3600)
    jobs = pd.DataFrame(
        {"job_id": np.arange(len(day)), "submit_time": np.floor(submit), "run_time": 60.0, "req_procs": 1}
    )
    return Trace(
        jobs, Machine(procs=8, epoch=1_583_107_200.0, timezone="America/New_York")
    )  # Monday, before the clock change


def test_the_week_comes_back_whatever_the_order_of_gaps() -> None:
    trace, _ = learnable(cyclic())
    encoding = DefaultEncoding.fit(trace)
    table = encoding.encode(trace)
    mixed = encoding.decode(table.sample(frac=1, random_state=1).reset_index(drop=True))
    ours, theirs = (np.bincount(stats.hour_of_week(t), minlength=168) / len(t) for t in (trace, mixed))
    assert 0.5 * np.abs(ours - theirs).sum() < 0.15
    assert theirs[ours == 0].sum() < 0.1  # nights and weekends stay quiet


def test_the_clock_runs_back_and_forth_over_a_change_of_summer_time() -> None:
    trace, _ = learnable(cyclic())
    clock = Clock.fit(trace)
    assert clock is not None
    submit = trace.column("submit_time")
    passed = clock.operational(submit)
    np.testing.assert_allclose(clock.wall(submit[0], np.diff(passed, prepend=passed[0])), submit, atol=1e-4)


def test_a_clock_needs_a_calendar_and_a_week(toy: Trace) -> None:
    assert Clock.fit(toy) is None  # 200 jobs
    long, _ = learnable(cyclic())
    assert Clock.fit(long.replace(machine=long.machine.replace(epoch=None))) is None


def test_dependencies_are_found_and_left_out() -> None:
    rng = np.random.default_rng(2)
    n = 400
    nodes = rng.integers(1, 50, n)
    user = rng.integers(0, 5, n)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_time": np.arange(n) * 60.0,
            "run_time": 50.0,
            "req_nodes": nodes,
            "req_procs": 64 * nodes,
            "alloc_nodes": nodes,
            "req_time": 100.0,
            "user": user.astype(str),
            "group": (user % 2).astype(str),
        }
    )
    encoding = DefaultEncoding.fit(learnable(Trace(jobs, Machine(nodes=64, unit="nodes")))[0])
    assert encoding.dependencies == [
        "group follows from user",
        "alloc_nodes = 1·req_nodes",
        "req_procs = 64·req_nodes",
        "req_time is constant",
    ]
    assert [slot.name for slot in encoding.slots] == ["user", "size", "run", "gap"]


def test_rare_overruns_are_accidents_and_common_ones_are_kept() -> None:
    n = 4_000
    jobs = pd.DataFrame(
        {"job_id": np.arange(n), "submit_time": np.arange(n) * 1.0, "run_time": 50.0, "req_procs": 1, "req_time": 100.0}
    )
    jobs.loc[:2, "run_time"] = 5_000.0
    few = DefaultEncoding.fit(learnable(Trace(jobs))[0])
    assert few.decode(few.encode(Trace(jobs))).column("run_time").max() == 100.0
    jobs.loc[:100, "run_time"] = 130.0
    many = DefaultEncoding.fit(learnable(Trace(jobs))[0])
    assert many.decode(many.encode(Trace(jobs))).column("run_time").max() == 130.0


def test_what_cannot_be_learnt_is_left_out_and_counted(toy: Trace) -> None:
    jobs = toy.jobs.copy()
    jobs.loc[0, "run_time"] = np.nan
    jobs.loc[1, "run_time"] = -5.0
    jobs.loc[2, "req_procs"] = 1_000
    jobs.loc[3, "submit_time"] = np.nan
    kept, notes = learnable(toy.replace(jobs=jobs))
    assert len(kept) == len(toy) - 4
    assert notes == [
        "1 jobs not learnt from: no submit time",
        "2 jobs not learnt from: no run time, or one below 0",
        "1 jobs not learnt from: larger than the machine",
    ]
    with pytest.raises(TracekitError, match="too few jobs to learn from: 5 of 5"):
        learnable(toy.head(5))


def test_a_million_jobs_encode_in_seconds() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    limit = rng.choice([600.0, 3600.0, 7200.0], n)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_time": np.cumsum(rng.exponential(20, n)).round(),
            "run_time": np.floor(limit * rng.random(n)),
            "req_time": limit,
            "req_procs": rng.integers(1, 65, n),
            "user": rng.integers(0, 3_000, n).astype(str),
        }
    )
    trace, _ = learnable(Trace(jobs, Machine(procs=64, epoch=1.6e9)))
    encoding = DefaultEncoding.fit(trace)
    assert {slot.name: slot.levels for slot in encoding.slots}["user"] <= 257
    assert len(encoding.decode(encoding.encode(trace).iloc[:1_000])) == 1_000
