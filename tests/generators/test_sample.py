"""The embedded sample: that the script in the repository makes it, and that it has the traits of a real log."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tracekit
from generators import sample_trace
from tracekit import stats

EMBEDDED = Path(tracekit.__file__).parent / "data" / "sample.swf.gz"


@pytest.fixture(scope="module")
def sample():
    return tracekit.sample()


def lag1(values):
    return np.corrcoef(values[1:], values[:-1])[0, 1]


def test_the_script_makes_the_embedded_file(sample, tmp_path, monkeypatch):
    out = tmp_path / "again.swf.gz"
    monkeypatch.setattr(sys, "argv", ["sample_trace", str(out)])
    sample_trace.main()
    again = tracekit.read(out)
    assert again.machine.replace(source="") == sample.machine.replace(source="")
    for name in sample.jobs.columns:
        assert again.jobs[name].equals(sample.jobs[name]), name


def test_the_script_wants_one_file_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sample_trace"])
    with pytest.raises(SystemExit, match="usage"):
        sample_trace.main()


def test_it_says_that_it_is_made(sample):
    text = "\n".join(sample.machine.header)
    assert "MADE by a seeded script of tracekit" in text
    assert "not recorded" in text
    assert "not recorded" in repr(sample)


def test_it_is_small_and_clean(sample):
    assert EMBEDDED.stat().st_size < 200_000
    assert len(sample) == 10_000
    assert sample.machine.procs == 256
    assert sample.offered_load() == pytest.approx(0.80, abs=0.005)
    assert sample.validate() == []
    assert stats.has_calendar(sample)
    assert str(stats.local_times(sample)[0]).startswith("2024-01-01")


def test_users_are_unequal_and_come_in_sessions(sample):
    user = sample.column("user")
    share = np.sort(np.bincount(user))[::-1] / len(user)
    assert 60 <= len(share) <= 100
    assert share[0] > 0.15
    assert share[:8].sum() > 0.5
    assert 0.4 < np.mean(user[1:] == user[:-1]) < 0.7
    assert 0.3 < lag1(np.log1p(sample.interarrival())) < 0.6
    assert 0.3 < lag1(np.log(sample.column("run_time"))) < 0.5


def test_jobs_repeat_inside_sessions(sample):
    jobs = sample.jobs[["user", "req_procs", "req_time", "app", "queue"]].astype(str)
    same = (jobs.iloc[1:].to_numpy() == jobs.iloc[:-1].to_numpy()).all(axis=1)
    assert 0.25 < same.mean() < 0.6
    run = sample.column("run_time")
    assert (run[1:][same] != run[:-1][same]).mean() > 0.8  # near-identical, not identical


def test_day_and_week_are_visible(sample):
    hours = stats.hour_of_week(sample)
    by_hour, by_day = np.bincount(hours % 24) / len(hours), np.bincount(hours // 24) / len(hours)
    assert by_hour[12:17].mean() > 3 * by_hour[2:7].mean()
    assert by_day[:5].min() > 2 * by_day[5:].max()
    per_hour = np.bincount((sample.column("submit_time") // 3600).astype(int))
    assert per_hour.var() / per_hour.mean() > 2  # index of dispersion; 1 for a Poisson process


def test_limits_are_modal_and_bind(sample):
    run, limit = sample.column("run_time"), sample.column("req_time")
    assert (run <= limit).all()
    top = sample.jobs["req_time"].value_counts(normalize=True)
    assert 30 < len(top) < 150
    assert top.head(20).sum() > 0.75
    made = sample_trace.make_sample(waits=False)  # SWF has no code for a timeout
    timeout = (made.jobs["status"] == "timeout").to_numpy()
    assert 0.01 < timeout.mean() < 0.08
    assert (timeout == (run == limit)).all()
    assert set(sample.jobs["status"].unique()) == {"completed", "failed", "cancelled"}


def test_sizes_and_queues(sample):
    size = sample.sizes()
    assert 0.15 < np.mean(size == 1) < 0.35
    assert np.mean(np.log2(size) % 1 == 0) > 0.75
    assert size.max() <= 256
    names = sample.jobs["queue"].astype(str).map(dict(sample.machine.queues))
    longest = sample.jobs.groupby(names)["req_time"].max()
    assert longest["debug"] <= 1800 < longest["normal"] <= 8 * 3600 < longest["long"]
    assert sample.jobs.groupby("user", observed=True)["group"].nunique().max() == 1


def test_waits_are_those_of_an_easy_schedule(sample):
    wait = sample.column("wait_time")
    assert (wait >= 0).all()
    assert 0.2 < np.mean(wait > 0) < 0.9
    assert 1800 < wait.mean() < 8 * 3600
    start, end = sample.column("submit_time") + wait, sample.column("submit_time") + wait + sample.column("run_time")
    events = np.concatenate([np.stack([end, -sample.sizes()]), np.stack([start, sample.sizes()])], axis=1)
    order = np.lexsort((events[1], events[0]))  # at one instant, ends first
    assert np.cumsum(events[1][order]).max() <= 256


def test_other_seeds_make_other_samples_with_the_same_load():
    other = sample_trace.make_sample(7, waits=False)
    assert other.offered_load() == pytest.approx(0.80, abs=0.005)
    assert not other.jobs.equals(sample_trace.make_sample(8, waits=False).jobs)
    assert not other.has("wait_time")
