"""Model sessions on tables that lack things and on logs at the edge: it works, or says in one line why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tracekit
from evaluation.marginal import ks
from generators import synth as library
from generators.encode import without_run_time, without_size
from generators.sessions.local_calendar import LocalCalendar
from tracekit import Machine, Trace, stats
from tracekit.cli import main
from tracekit.errors import TracekitError, UsageError
from tracekit.validation import schedulable

SKELETONS = ("resampled", "modelled")
NOT_WORKLOAD = ("wait_time", "job_id")
CALENDAR = {"epoch": 1_704_067_200.0, "timezone": "Europe/Berlin"}
rng = np.random.default_rng


def table(n: int = 400, days: float = 30.0, users: int = 20, *, without: tuple[str, ...] = (), **columns: Any) -> Trace:
    """Return jobs at random times; ``columns`` replace or add some, ``machine`` describes the machine."""
    machine = {"procs": 128, **CALENDAR, **columns.pop("machine", {})}
    random = rng(7)
    jobs = {
        "job_id": np.arange(1, n + 1),
        "submit_time": np.sort(np.round(random.uniform(0, days * 86_400, n))),
        "run_time": np.round(random.lognormal(6, 1.5, n)),
        "req_procs": 2 ** random.integers(0, 5, n),
        "req_time": 86_400.0,
        "user": random.integers(0, users, n).astype(str),
        "status": random.choice(["completed", "failed"], n),
        **columns,
    }
    return Trace(pd.DataFrame({k: v for k, v in jobs.items() if k not in without}), Machine(**machine))


GPUS = {"req_gpus": 2 ** rng(1).integers(0, 4, 400), "machine": {"procs": None, "gpus": 64, "unit": "gpus"}}
CASES: dict[str, Callable[[], Trace]] = {
    "no users": lambda: table(without=("user",)),
    "no limits": lambda: table(without=("req_time",)),
    "no status": lambda: table(without=("status",)),
    "no calendar": lambda: table(machine={"epoch": None, "timezone": None}),
    "three days": lambda: table(days=3),
    "one hour": lambda: table(days=1 / 24),
    "ten years": lambda: table(days=3_650),
    "one user": lambda: table(users=1),
    "a user for each job": lambda: table(users=10**9),
    "all at one instant": lambda: table(submit_time=np.zeros(400)),
    "equal jobs": lambda: table(run_time=100.0, req_procs=4, user="a", status="completed"),
    "equal jobs and gaps": lambda: table(submit_time=np.arange(400) * 60.0, run_time=100.0, req_procs=4, user="a"),
    "all failed": lambda: table(status="failed"),
    "no job runs": lambda: table(run_time=0.0),
    "GPUs only": lambda: table(without=("req_procs",), **GPUS),
    "GPUs and zero CPUs": lambda: table(req_procs=0, **GPUS),
    "GPU types, tasks, pools, memory": lambda: table(
        gpu_type=rng(2).choice(["V100", "P40", None], 400),
        tasks=rng(3).choice([1, 2], 400),
        pool=rng(4).choice(["train", "infer"], 400),
        req_mem=rng(5).choice([1e6, 2e6, np.nan], 400),
        **GPUS,
    ),
    "not in order": lambda: table(submit_time=rng(6).uniform(0, 1e6, 400)),
    "nineteen jobs": lambda: table(19),
    "two jobs": lambda: table(2),
    "one job": lambda: table(1),
}


@pytest.mark.parametrize("skeleton", SKELETONS)
@pytest.mark.parametrize("name", CASES)
def test_what_the_real_trace_has_the_synthetic_one_has(name: str, skeleton: str) -> None:
    real = CASES[name]()
    made = library.synth(real, "sessions", seed=1, skeleton=skeleton)
    assert len(made) == len(real)
    assert {c for c in real.jobs if real.has(c)} - set(NOT_WORKLOAD) <= {c for c in made.jobs if made.has(c)}
    assert schedulable(made).all()
    assert (made.column("run_time") <= made.column("req_time")).all() or not real.has("req_time")
    if np.isfinite(real.offered_load()):
        assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.02)
        assert stats.span(made) == pytest.approx(stats.span(real), rel=0.3)
    for column in ("run_time", "req_procs", "req_gpus", "req_mem", "tasks"):
        if len(real) > 100 and real.has(column):
            assert ks(real.column(column), made.column(column)) < 0.08, column


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_log_with_one_job_gives_as_many_as_are_wanted(skeleton: str) -> None:
    fitted = library.fit(table(1), "sessions", skeleton=skeleton)
    assert any("only 1 jobs" in note for note in fitted.notes)
    made = library.make(fitted, 30, seed=1)
    assert len(made) == 30
    assert set(made.column("req_procs")) == set(table(1).column("req_procs"))


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_few_jobs_more_than_the_real_trace_has_do_not_make_it_longer(skeleton: str) -> None:
    real = table(2_000, days=60, users=60)
    fitted = library.fit(real, "sessions", skeleton=skeleton)
    made = library.make(fitted, 2_020, seed=1)
    assert len(made) == 2_020
    assert (np.diff(made.column("submit_time")) >= 0).all()
    assert stats.span(made) == pytest.approx(stats.span(real), rel=0.03)


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_rows_at_the_end_that_are_left_out_do_not_stretch_the_gaps(skeleton: str) -> None:
    """The real load is that of the whole log, which lasts longer than the usable jobs: fewer users, not longer gaps."""
    run = np.where(np.arange(2_000) < 1_800, np.round(rng(7).lognormal(6, 1.0, 2_000)), np.nan)
    real = table(2_000, days=60, users=60, run_time=run)
    made = library.synth(real, seed=1, skeleton=skeleton)
    said = re.search(r"reached (\S+)% of it\)(?: by stretching gaps by (\S+))?", made.history[-1])
    assert said is not None
    assert float(said[1]) == pytest.approx(100, abs=2)
    assert float(said[2] or 1) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("name", ["no users", "one user", "two jobs"])
def test_too_few_users_cannot_be_shared(name: str) -> None:
    with pytest.raises(UsageError, match="--privacy 10"):
        library.synth(CASES[name](), "sessions", for_sharing=True)


def test_nothing_to_learn_from_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracekit.write(table(run_time=np.nan), tmp_path / "real.swf")
    assert main(["synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.swf")]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("error: too few jobs")
    with pytest.raises(TracekitError, match="0 of 400"):
        library.synth(table(run_time=np.nan), keep_unusable=True)


def test_very_many_users() -> None:
    """Every job its own user: time and memory grow with the jobs, not with users times days."""
    real = table(30_000, days=3_650, users=10**9)
    for options in ({}, {"skeleton": "modelled"}, {"for_sharing": True}):
        made = library.synth(real, "sessions", seed=1, **options)
        assert made.jobs["user"].nunique() == pytest.approx(30_000, rel=0.01)


# ---- rows that cannot be scheduled -----------------------------------------------------------------------------------


def with_unusable() -> Trace:
    """One job in ten has no run time, mostly those of one user, and one in twenty no size."""
    random, real = rng(9), table(2_000, days=60)
    no_run = random.random(2_000) < np.where(real.jobs["user"].astype(str) == "3", 0.9, 0.06)
    no_size = random.random(2_000) < 0.05
    procs = real.column("req_procs")
    status = np.where(no_run, "cancelled", real.jobs["status"].astype(str))
    return real.assign(
        {
            "run_time": np.where(no_run, np.nan, real.column("run_time")),
            "req_procs": np.where(no_size, np.nan, procs),
            "status": pd.Categorical(status),
        }
    )


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_unusable_rows_keep_their_share(skeleton: str, tmp_path: Path) -> None:
    real = with_unusable()
    fitted = library.fit(real, "sessions", skeleton=skeleton, keep_unusable=True)
    made = library.make(fitted, seed=1)
    for missing in (without_run_time, without_size):
        assert missing(made).mean() == pytest.approx(missing(real).mean(), abs=0.01)
    assert stats.span(made) == pytest.approx(stats.span(real), rel=0.03), "the number of arrivals a day stays"
    assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.02)
    assert set(made.jobs.loc[without_run_time(made), "status"].astype(str)) == {"cancelled"}
    usable = [t.column("run_time")[~(without_run_time(t) | without_size(t))] for t in (real, made)]
    assert ks(*usable) < 0.05, "rows without a run time lend no zeros to the others"
    assert not any(name.startswith("x_") for name in made.jobs.columns)
    fitted.save(tmp_path / "model")
    assert library.make(library.load(tmp_path / "model"), seed=1).equals(made)
    left_out = library.synth(real, "sessions", seed=1, skeleton=skeleton)
    assert not without_run_time(left_out).any()
    rejected = sum(tracekit.simulate(made).rejected.values())
    assert rejected == (without_run_time(made) | without_size(made)).sum(), "the simulator treats them as real ones"


def test_keep_unusable_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracekit.write(with_unusable(), tmp_path / "real.swf")
    flags = ["synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.swf"), "--keep-unusable"]
    assert main(flags) == 0
    assert "cannot be scheduled" in capsys.readouterr().err
    assert without_run_time(tracekit.read(tmp_path / "made.swf")).any()
    assert main([*flags, "--force", "--model", "resample"]) == 0, "which draws whole rows"
    capsys.readouterr()
    assert main([*flags, "--force", "--model", "lublin"]) == 2
    assert "--keep-unusable" in capsys.readouterr().err


# ---- growth and change -----------------------------------------------------------------------------------------------


def growing(days: int = 120) -> Trace:
    """Users join one after another and stay: the last month is many times as busy as the first."""
    random, rows = rng(0), []
    for user in range(60):
        begin = 0 if user < 6 else days * np.sqrt(random.random())
        for _ in range(25):
            start = (np.floor(random.uniform(begin, days)) + random.normal(0.5, 0.12)) * 86_400
            for k in range(random.geometric(0.25)):
                rows.append((max(0.0, np.round(start + 90 * k)), str(user), np.round(random.lognormal(7, 1))))
    submit, user, run = zip(*sorted(rows), strict=True)
    jobs = {"job_id": np.arange(1, len(rows) + 1), "submit_time": submit, "user": user, "run_time": run, "req_procs": 4}
    return Trace(pd.DataFrame(jobs), Machine(procs=64, **CALENDAR))


def thirds(trace: Trace) -> np.ndarray:
    """Return the work of each third of the time, as shares."""
    submit = trace.column("submit_time")
    third = np.minimum(3 * (submit - submit.min()) // np.ptp(submit), 2).astype(int)
    work = np.bincount(third, weights=stats.work(trace))
    return np.asarray(work / work.sum())


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_trace_that_drifts_keeps_its_drift(skeleton: str) -> None:
    real = growing()
    assert LocalCalendar.fit(real).drifts
    fitted = library.fit(real, "sessions", skeleton=skeleton)
    for shaping in ({}, {"machine_procs": 128}, {"users": 120, "span": stats.span(real)}):
        made = library.make(fitted, seed=1, **shaping)
        assert np.abs(thirds(made) - thirds(real)).max() < 0.06, shaping
    many = made.jobs["user"][made.column("submit_time") > stats.span(made) / 2].nunique()
    few = made.jobs["user"][made.column("submit_time") < stats.span(made) / 4].nunique()
    assert few < many / 2, "users join as they did"
    long = library.make(fitted, seed=1, span=3 * stats.span(real))
    assert np.abs(thirds(long) - 1 / 3).max() < 0.06, "a longer trace repeats the period, and its growth"


def test_a_steady_trace_does_not_drift() -> None:
    assert not LocalCalendar.fit(table()).drifts
    assert not LocalCalendar.fit(tracekit.sample()).drifts


def test_a_year_begins_at_that_time_of_the_year() -> None:
    """Two years in which little is done from June to August."""
    real = table(6_000, days=730)
    month = pd.DatetimeIndex(stats.local_times(real)).month
    real = real.take(~(np.isin(month, (6, 7, 8)) & (rng(3).random(len(real)) < 0.9)))
    for skeleton in SKELETONS:
        made = library.synth(real, "sessions", seed=1, skeleton=skeleton, start="2031-04-15", span=365 * 86_400.0)
        month = np.bincount(pd.DatetimeIndex(stats.local_times(made)).month, minlength=13)
        assert month[[6, 7, 8]].max() < 0.5 * np.median(month[1:]), skeleton


def test_procs_scales_to_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = table()
    tracekit.write(real, tmp_path / "real.swf")
    flags = ["synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.swf"), "--force"]
    assert main([*flags, "--procs", "256"]) == 0
    assert "256" in capsys.readouterr().err
    made = tracekit.read(tmp_path / "made.swf")
    assert made.machine.procs == 256
    assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.02)
    assert made.column("req_procs").mean() == pytest.approx(2 * real.column("req_procs").mean(), rel=0.1)
    assert main([*flags, "--procs", "256", "--machine-procs", "512"]) == 2
    tracekit.write(real.replace(machine=Machine(**CALENDAR)), tmp_path / "real.swf", force=True)
    assert main([*flags, "--procs", "256"]) == 0
    made = tracekit.read(tmp_path / "made.swf")
    assert made.column("req_procs").mean() == pytest.approx(real.column("req_procs").mean(), rel=0.1), "REAL's size"


def test_a_table_of_another_tool(tmp_path: Path) -> None:
    """GPU jobs with names as ids, read by a map."""
    jobs = table().jobs
    named = pd.DataFrame(
        {"job_id": [f"app_{k}" for k in range(400)], "at": jobs["submit_time"], "lasts": jobs["run_time"], "gpus": 2}
    )
    named.to_csv(tmp_path / "real.csv", index=False)
    out = tmp_path / "made.parquet"
    names = "submit_time=at,run_time=lasts,req_gpus=gpus"
    assert main(["synth", str(tmp_path / "real.csv"), "-o", str(out), "--from", "csv", "--map", names]) == 0
    made = tracekit.read(out)
    assert len(made) == 400
    assert made.machine.unit == "gpus"
