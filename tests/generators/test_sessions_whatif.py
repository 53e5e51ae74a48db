"""What-if options of model sessions: what is requested changes, the rest stays the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from evaluation.marginal import ks
from evaluation.view import prepare
from generators import synth as library
from generators.sessions.whatif import _has_label
from tracekit import Machine, Trace, stats
from tracekit.cli import main
from tracekit.errors import UnknownName, UsageError

SKELETONS = ("resampled", "modelled")


def gpu_trace() -> Trace:
    """20 users over six weeks; a third of the sessions ask for GPUs, memory and another partition."""
    rng = np.random.default_rng(8)
    rows = []
    for _ in range(2000):
        user, gpus = int(rng.integers(20)), int(rng.choice([0, 0, 1, 4]))
        start = rng.integers(42) * 86_400 + rng.normal(12, 3) * 3600
        for k in range(int(rng.geometric(0.25))):
            rows.append((max(0.0, round(start + 90 * k)), user, gpus, round(rng.lognormal(6 + gpus / 4, 0.5))))
    rows.sort()
    submit, user, gpus, run = (np.array(column) for column in zip(*rows, strict=True))
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, len(rows) + 1),
            "submit_time": submit,
            "run_time": np.minimum(run, 7200.0),
            "req_time": np.where(gpus > 1, 14_400.0, 7200.0),
            "req_procs": np.where(gpus > 0, 8 * gpus, 4),
            "req_nodes": 1,
            "req_gpus": gpus,
            "req_mem": np.where(gpus > 0, 4e6, 1e6),
            "user": user.astype(str),
            "project": (user // 4).astype(str),
            "partition": np.where(gpus > 0, "gpu", "cpu"),
        }
    )
    return Trace(jobs, Machine(name="toy", procs=512, nodes=32, gpus=64, epoch=1_704_067_200.0, timezone="UTC"))


@pytest.fixture(scope="module", params=SKELETONS)
def sample(request: pytest.FixtureRequest) -> library.Fitted:
    return library.fit(tracekit.sample(), "sessions", skeleton=request.param)


def columns_stay(real: Trace, made: Trace, *, within: float, but: tuple[str, ...] = ()) -> None:
    for name in ("run_time", "req_time", "req_procs", "req_nodes", "req_gpus", "req_mem"):
        if real.has(name) and name not in but:
            assert ks(real.column(name), made.column(name)) < within, name


def week_stays(real: Trace, made: Trace, within: float) -> None:
    a, b = prepare(real, [made], ["real", "made"])
    assert a.hour is not None
    assert b.hour is not None
    shares = [np.bincount(v.hour, minlength=168) / len(v) for v in (a, b)]
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() < within


def rate(trace: Trace) -> float:
    return len(trace) / stats.span(trace)


def test_twice_the_users(sample: library.Fitted) -> None:
    real = tracekit.sample()
    made = library.make(sample, 20_000, seed=1, users=160)
    assert rate(made) / rate(real) == pytest.approx(2, rel=0.12)
    assert made.offered_load() / real.offered_load() == pytest.approx(2, rel=0.03)
    assert 130 <= made.jobs["user"].nunique() <= 200
    columns_stay(real, made, within=0.06)
    week_stays(real, made, 0.25)


def test_half_the_users_bring_half_the_jobs_and_work(sample: library.Fitted) -> None:
    users, real = tracekit.sample().jobs["user"].nunique(), tracekit.sample()
    half = library.make(sample, len(real) // 2, users=users // 2, seed=2)
    assert half.jobs["user"].nunique() == pytest.approx(users / 2, rel=0.25)
    assert stats.span(half) == pytest.approx(stats.span(real), rel=0.2), "the remaining users make a difference"
    assert half.offered_load() == pytest.approx(real.offered_load() / 2, rel=0.02)


def test_another_load_by_the_number_of_users(sample: library.Fitted) -> None:
    real = tracekit.sample()
    made = library.make(sample, 10_000, seed=1, load=0.4)
    assert made.offered_load() == pytest.approx(0.4, rel=0.02)
    columns_stay(real, made, within=0.08)
    week_stays(real, made, 0.25)


@pytest.mark.parametrize("wanted", [0.05, 0.3])
def test_another_share_of_a_queue(sample: library.Fitted, wanted: float) -> None:
    real = tracekit.sample()
    made = library.make(sample, 10_000, seed=1, share={("queue", "3"): wanted})
    mine, theirs = (t.jobs["queue"].astype(str) == "3" for t in (made, real))
    assert mine.mean() == pytest.approx(wanted, abs=0.03)
    assert abs(theirs.mean() - wanted) > 0.05, "there was something to change"
    for inside in (True, False):  # within a queue nothing changes
        part, whole = made.take(np.flatnonzero(mine == inside)), real.take(np.flatnonzero(theirs == inside))
        columns_stay(whole, part, within=0.15)  # the smallest part has some 500 jobs in some 60 sessions
    assert rate(made) / rate(real) == pytest.approx(1, rel=0.12)


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_fifth_more_gpu_jobs(skeleton: str) -> None:
    real = gpu_trace()
    fitted = library.fit(real, "sessions", skeleton=skeleton)
    plain = library.make(fitted, span=stats.span(real), seed=1)
    made = library.make(fitted, span=stats.span(real), seed=1, more={"gpus": 1.2})
    count = [np.array([(t.column("req_gpus") > 0).sum(), (t.column("req_gpus") == 0).sum()]) for t in (plain, made)]
    assert count[1][0] / count[0][0] == pytest.approx(1.2, rel=0.08)
    assert count[1][1] / count[0][1] == pytest.approx(1.0, rel=0.08)
    for uses in (True, False):
        columns_stay(
            real.take(np.flatnonzero((real.column("req_gpus") > 0) == uses)),
            made.take(np.flatnonzero((made.column("req_gpus") > 0) == uses)),
            within=0.08,
        )
    on_gpu = made.jobs["partition"].astype(str).to_numpy() == "gpu"
    assert (on_gpu == (made.column("req_gpus") > 0)).all(), "resources stay together"


def test_several_resources_and_projects_go_with_their_users() -> None:
    real = gpu_trace()
    made = library.synth(real, "sessions", seed=1)
    columns_stay(real, made, within=0.03)
    assert (made.jobs.groupby("user", observed=True)["project"].nunique() == 1).all()


def test_another_start_date(sample: library.Fitted) -> None:
    real = tracekit.sample()
    made = library.make(sample, 10_000, seed=1, start="2031-03-13 09:00")
    first = stats.local_times(made)[0]
    assert pd.Timestamp("2031-03-13 09:00", tz="UTC") <= first < pd.Timestamp("2031-03-14 09:00", tz="UTC")
    columns_stay(real, made, within=0.05)
    week_stays(real, made, 0.25)


def test_another_machine(sample: library.Fitted) -> None:
    real = tracekit.sample()
    made = library.make(sample, 10_000, seed=1, machine_procs=1024)
    assert made.machine.procs == 1024
    assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.02)
    columns_stay(real, made, within=0.06, but=("req_procs",))
    assert np.median(made.column("req_procs")) == pytest.approx(4 * np.median(real.column("req_procs")), rel=0.15)


def test_ten_years_from_one_month() -> None:
    real = tracekit.sample()
    few = real.jobs["user"].cat.codes.to_numpy() % 8 == 0
    month = real.take(few).between(0, 30 * 86_400.0)
    made = library.synth(month, "sessions", seed=1, span=3652 * 86_400.0)
    assert stats.span(made) == pytest.approx(3652 * 86_400.0, rel=0.01)
    assert made.offered_load() == pytest.approx(month.offered_load(), rel=0.02)
    columns_stay(month, made, within=0.05)
    years = (made.column("submit_time") // (365.25 * 86_400)).astype(int)
    assert np.bincount(years).min() > 0.9 * np.median(np.bincount(years)[:10])
    assert made.jobs["user"].nunique() > 5 * month.jobs["user"].nunique(), "users come and go"


def test_wishes_that_make_no_sense_are_refused(sample: library.Fitted) -> None:
    no_users = tracekit.sample().replace(jobs=tracekit.sample().jobs.drop(columns="user"))
    with pytest.raises(UnknownName, match="unknown queue 'lang'"):
        library.make(sample, 10, share={("queue", "lang"): 0.5})
    with pytest.raises(UsageError, match="no labels"):
        _has_label(pd.DataFrame({"procs": [1, 2]}), "queue", "3")
    with pytest.raises(UsageError, match=r"--share colour: .*queue"):
        library.make(sample, 10, share={("colour", "red"): 0.5})
    with pytest.raises(UsageError, match="between 0 and 1"):
        library.make(sample, 10, share={("queue", "3"): 1.5})
    with pytest.raises(UsageError, match="no job of this trace uses any"):
        library.make(sample, 10, more={"gpus": 2.0})
    with pytest.raises(UnknownName, match="did you mean gpus"):
        library.make(sample, 10, more={"gpu": 2.0})
    for absurd in ({"users": 10**9}, {"load": 1e9}):
        with pytest.raises(UsageError, match=r"jobs requested|--load"):
            library.make(sample, 10, **absurd)
    with pytest.raises(UsageError, match=r"[\d,]+ jobs were requested"):
        library.make(sample, span=1e13)
    with pytest.raises(UsageError, match="no template is shared by more than"):
        library.fit(tracekit.sample(), "sessions", privacy=10_000)
    with pytest.raises(UsageError, match="the trace names none"):
        library.fit(no_users, "sessions", privacy=2)
    with pytest.raises(UsageError, match=r"--users .*sessions"):
        library.make(library.fit(tracekit.sample(), "resample"), 10, users=5)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--share", "queue:0.3"], "--share queue"),
        (["--share", "queue=3:x"], "--share queue"),
        (["--more", "gpus"], "--more gpus"),
        (["--model", "lublin", "--users", "5"], "--users"),
        (["--model", "lublin", "--skeleton", "modelled"], "--skeleton"),
        (["--skeleton", "modeled"], "did you mean modelled"),
        (["--users", "0"], "--users"),
    ],
)
def test_wrong_flags_exit_with_2(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracekit.write(tracekit.sample().head(300), tmp_path / "real.swf")
    code = main(["synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.swf"), *flags])
    assert code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "made.swf").exists()


def test_sessions_is_the_default(tmp_path: Path) -> None:
    tracekit.write(tracekit.sample().head(1000), tmp_path / "real.swf")
    assert main(["-q", "synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.parquet"), "--users", "30"]) == 0
    made = tracekit.read(tmp_path / "made.parquet")
    assert any("model sessions" in step for step in made.history)
    assert len(tracekit.synth(tracekit.sample().head(1000))) == 1000


def test_a_long_trace_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracekit.cli import synth as command

    monkeypatch.setattr(command, "_LARGE", 3_000)
    tracekit.write(tracekit.sample().head(2000), tmp_path / "real.swf")
    flags = ["-o", str(tmp_path / "made.parquet"), "--jobs", "7000"]
    assert main(["-q", "synth", str(tmp_path / "real.swf"), *flags]) == 0
    made = tracekit.read(tmp_path / "made.parquet")
    assert len(made) == 7000
    assert made.jobs["job_id"].is_unique
    assert (np.diff(made.column("submit_time")) >= 0).all()
