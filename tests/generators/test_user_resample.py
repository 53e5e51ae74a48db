from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tracekit
from generators import MODELS
from generators.user_resample import UserResample
from tracekit.errors import NotFitted, TracekitError, UsageError
from tracekit.stats import hour_of_week
from tracekit.trace import Trace

WEEK = 7 * 86_400.0


def weekly(users: dict[str, list[float]], weeks: int = 10) -> Trace:
    """Return a trace of jobs at given hours since Monday 0:00, plus one user who is there from first to last hour."""
    rows = [("always", 0.0), *(("always", w * 168 + 9.0) for w in range(weeks)), ("always", weeks * 168 - 1.0)]
    rows += [(user, hour) for user, hours in users.items() for hour in hours]
    rows.sort(key=lambda row: row[1])
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(len(rows)),
            "submit_time": [3600 * hour for _, hour in rows],
            "run_time": 60.0,
            "req_procs": 1,
            "user": [user for user, _ in rows],
        }
    )
    return Trace(jobs, tracekit.Machine(procs=8, epoch=1_704_067_200.0, timezone="UTC"))


def test_registered_and_declared_as_copies():
    assert MODELS.get("user-resample") is UserResample
    assert UserResample.info.copies


def test_a_user_s_history_keeps_its_order_gaps_and_hours_of_the_week():
    trace = weekly({"visitor": [170.0, 170.5, 200.25]})
    made = UserResample().fit(trace, seed=0).sample(200, seed=3)
    mine = made.jobs[made.jobs["user"] == "visitor"]["submit_time"].to_numpy() / 3600
    assert len(mine) >= 6
    visits = mine[: len(mine) // 3 * 3].reshape(-1, 3)
    assert np.diff(visits, axis=1) == pytest.approx(np.tile([0.5, 29.75], (len(visits), 1)))
    assert visits[:, 0] % 168 == pytest.approx(np.full(len(visits), 2.0))


def test_long_term_users_are_there_once_per_period():
    trace = weekly({})
    made = UserResample().fit(trace, seed=0).sample(120, seed=0)
    per_period = np.bincount((made.column("submit_time") // (10 * WEEK)).astype(int))
    assert per_period.tolist() == [12] * 10


def test_hour_of_week_comes_back(toy):
    made = UserResample().fit(toy, seed=0).sample(4000, seed=1)
    real = np.bincount(hour_of_week(toy), minlength=168) / len(toy)
    drawn = np.bincount(hour_of_week(made), minlength=168) / len(made)
    assert np.abs(real - drawn).sum() / 2 < 0.15


def test_ten_times_longer_does_not_repeat_itself(toy):
    made = UserResample().fit(toy, seed=0).sample(10 * len(toy), seed=1)
    assert tracekit.stats.span(made) == pytest.approx(10 * tracekit.stats.span(toy), rel=0.15)
    period = 5 * WEEK
    submit = made.column("submit_time")
    starts = [submit[(submit >= k * period) & (submit < (k + 1) * period)] - k * period for k in range(9)]
    for a in range(9):
        for b in range(a):
            same = len(starts[a]) == len(starts[b]) and np.array_equal(starts[a], starts[b])
            assert not same
    assert made.offered_load() == pytest.approx(toy.offered_load(), rel=0.15)


def test_exact_size_fresh_ids_sorted(toy):
    for n_jobs in (1, 7, 400, 1234):
        made = UserResample().fit(toy, seed=0).sample(n_jobs, seed=0)
        assert made.jobs["job_id"].tolist() == list(range(1, n_jobs + 1))
        assert (np.diff(made.column("submit_time")) >= 0).all()
        assert made.column("submit_time")[0] >= 0
    assert list(made.jobs.columns) == [c for c in toy.jobs.columns if c not in ("wait_time", "prev_job", "think_time")]
    assert made.jobs["user"].isna().any()
    assert "without a user" in made.history[-1]
    assert "MADE" in made.machine.source


def test_jobs_are_copies(toy):
    made = UserResample().fit(toy, seed=0).sample(1000, seed=0)
    names = ["run_time", "req_time", "req_procs", "user", "queue"]
    drawn, real = (set(map(str, trace.jobs[names].itertuples(index=False))) for trace in (made, toy))
    assert drawn <= real


def test_same_seed_same_jobs_other_seed_other_jobs(toy):
    model = UserResample().fit(toy, seed=0)
    assert model.sample(500, seed=4).equals(UserResample().fit(toy, seed=1).sample(500, seed=4))
    assert not model.sample(500, seed=4).jobs.equals(model.sample(500, seed=5).jobs)


def test_without_users_whole_weeks_are_drawn(toy):
    bare = Trace(toy.jobs.drop(columns="user"), toy.machine)
    made = UserResample().fit(bare, seed=0).sample(1000, seed=0)
    assert "no users known" in made.history[-1]

    # Every week of the result is a week of the trace, seconds and all.
    def weeks(trace):
        submit = trace.column("submit_time")
        return [tuple(submit[submit // WEEK == k] % WEEK) for k in range(int(submit.max() // WEEK) + 1)]

    assert set(weeks(made)[:-1]) <= set(weeks(bare))  # the last one is cut to the number of jobs
    assert len(set(weeks(made))) > 1


@pytest.mark.parametrize(("days", "unit"), [(35, "weeks"), (13, "days"), (3, "days"), (1, "hours")])
def test_short_traces_use_shorter_units_and_say_so(toys, days, unit):
    trace = toys(300, days=days)
    made = UserResample().fit(trace, seed=0).sample(900, seed=0)
    assert f"whole {unit}" in made.history[-1]
    assert ("shorter than two weeks" in made.history[-1]) == (unit != "weeks")
    assert made.offered_load() == pytest.approx(trace.offered_load(), rel=0.5)


def test_without_a_calendar_weeks_count_from_the_first_job(toys):
    trace = toys(calendar=False)
    made = UserResample().fit(trace, seed=0).sample(1000, seed=0)
    assert made.column("submit_time").min() >= trace.column("submit_time").min()


def test_a_trace_that_begins_within_a_week_has_no_negative_submits(toys):
    trace = toys()
    trace = trace.replace(machine=trace.machine.replace(epoch=trace.machine.epoch + 3.5 * 86_400))
    made = UserResample().fit(trace, seed=0).sample(1000, seed=0)
    assert made.column("submit_time").min() >= 0
    hours = (np.bincount(hour_of_week(t) % 24, minlength=24) / len(t) for t in (trace, made))
    assert np.abs(next(hours) - next(hours)).sum() / 2 < 0.15


def test_one_user(toy):
    made = UserResample().fit(toy.assign({"user": "ada"}), seed=0).sample(1000, seed=0)
    assert (made.jobs["user"] == "ada").all()


def test_too_little(toy, tmp_path):
    with pytest.raises(TracekitError, match="at least 2 jobs"):
        UserResample().fit(toy.head(0), seed=0)
    with pytest.raises(TracekitError, match="at least 2 jobs"):
        UserResample().fit(toy.head(1), seed=0)
    with pytest.raises(TracekitError, match="two hours"):
        UserResample().fit(toy.assign({"submit_time": 1000.0}), seed=0)
    with pytest.raises(NotFitted):
        UserResample().sample(1, seed=0)
    with pytest.raises(NotFitted):
        UserResample().save(tmp_path)
    with pytest.raises(UsageError):
        UserResample().fit(toy, seed=0).sample(0, seed=0)


def test_save_and_load(toy, tmp_path):
    model = UserResample().fit(toy, seed=0)
    model.save(tmp_path / "m")
    made, again = model.sample(600, seed=2), UserResample.load(tmp_path / "m").sample(600, seed=2)
    assert made.equals(again)
    assert made.history == again.history


def test_thousands_of_users_and_a_million_jobs(toys):
    trace = toys(20_000, days=60)
    users = np.random.default_rng(0).integers(0, 5000, len(trace)).astype(str)
    made = UserResample().fit(trace.assign({"user": users}), seed=0).sample(1_000_000, seed=0)
    assert len(made) == 1_000_000


def test_kth(data):
    real = tracekit.read(data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    made = UserResample().fit(real, seed=0).sample(len(real), seed=1)
    user = made.column("user")
    assert np.mean(user[1:] == user[:-1]) > 0.3  # sessions survive
    gaps = np.log1p(made.interarrival())
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] > 0.25
    assert made.offered_load() == pytest.approx(real.offered_load(), rel=0.1)
