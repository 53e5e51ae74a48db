"""simulate --timeline: trace events whose tracks never overlap and whose durations add up; reasons as in `explain`."""

from __future__ import annotations

import gzip
import io
import json
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.lanes import lanes
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis import timeline
from tracekit.sim.analysis.explain import Recorded, explain
from tracekit.sim.analysis.reasons import RECORDED, explained, short
from tracekit.sim.analysis.timeline import Timeline, micros, write_timelines
from tracekit.trace import Trace

from .helpers import trace_of

Run = Callable[..., tuple[int, str, str]]
JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 25), st.integers(1, 30), st.integers(1, 6)), min_size=1, max_size=25
)


def events_of(*timelines: Timeline) -> list[dict[str, Any]]:
    out = io.BytesIO()
    write_timelines(timelines, out)
    found: list[dict[str, Any]] = json.loads(out.getvalue())["traceEvents"]
    return found


def check_tracks(events: list[dict[str, Any]]) -> None:
    """No two slices of a track overlap, every track and process has a name, and nothing is before its start."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert set(tracks) == named
    assert {pid for pid, _ in tracks} <= {event["pid"] for event in events if event["name"] == "process_name"}


@settings(max_examples=40, deadline=None)
@given(JOBS, st.sampled_from(["fcfs", "sjf"]), st.sampled_from(["none", "easy"]))
def test_slices_are_the_schedule(jobs: list[tuple[int, int, int, int]], policy: str, backfill: str) -> None:
    trace = trace_of(*((s, r, max(r, e), p) for s, r, e, p in jobs), procs=6)
    result = tracekit.simulate(trace, policy, backfill)
    events = events_of(Timeline("one", result, trace))
    check_tracks(events)
    slices = [event for event in events if event["ph"] == "X"]
    by_job = defaultdict(list)
    for event in slices:
        by_job[event["args"]["job"]].append(event)
    for row, job in enumerate(result.job_id.tolist()):
        assert len(by_job[job]) == result.procs[row]  # one on each processor
        for event in by_job[job]:
            assert event["ts"] == result.start[row] * 1e6
            assert event["dur"] == result.run[row] * 1e6
    assert sum(event["dur"] for event in slices) / 1e6 == (result.run * result.procs).sum()


def test_counters_are_the_queue_the_use_and_the_power() -> None:
    trace = tracekit.sample().head(300)
    result = tracekit.simulate(trace, power="cpu-node")
    events = events_of(Timeline("one", result, trace))
    curves = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            curves[event["name"]].append((event["ts"] / 1e6, *event["args"].values()))
    assert set(curves) == {"queue", "procs in use", "utilisation", "power"}

    def area(name: str) -> float:
        times, values = np.array(curves[name]).T
        return float((values[:-1] * np.diff(times)).sum())

    assert area("queue") == pytest.approx(result.wait.sum())
    assert area("procs in use") == pytest.approx((result.run * result.procs).sum())
    assert area("utilisation") == pytest.approx(100 * (result.run * result.procs).sum() / result.total)
    assert result.energy is not None
    assert area("power") / 3600 == pytest.approx(result.energy.total_kwh)
    assert all(values[-1][1] == 0 for values in curves.values())


def test_many_slices_are_joined_and_still_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tracekit.sample().head(400)
    result = tracekit.simulate(trace)
    monkeypatch.setattr(timeline, "MOST_SLICES", 1000)
    events = events_of(Timeline("one", result, trace))
    check_tracks(events)
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) < result.procs.sum()
    used = sum(event["dur"] * event["args"]["procs"] for event in slices) / 1e6
    assert used == pytest.approx((result.run * result.procs).sum())


def test_jobs_that_hold_fractions_all_have_a_slice() -> None:
    jobs = trace_of(*((0, 9, 9, 1) for _ in range(3)), procs=2).jobs.drop(columns="req_procs")
    jobs = jobs.assign(req_gpus=[0.5, 0.5, 0.25], user=pd.Categorical(["a", None, "b"]))
    trace = Trace(jobs, Machine(gpus=2, unit="gpus"))
    events = events_of(Timeline("one", tracekit.simulate(trace, "fcfs"), trace))
    check_tracks(events)
    slices = [event for event in events if event["ph"] == "X"]
    assert [one["args"]["procs"] for one in slices] == [0.5, 0.5, 0.25]
    assert [one["args"].get("user") for one in slices] == ["a", None, "b"]


def test_hosts_are_processes_and_jobs_lie_in_lanes_of_them() -> None:
    cluster = Machine(groups=(HostGroup(3, cores=4, gpus=2, name="<b>node</b>"),))
    jobs = [(k, 10 + k % 7, 30, 1 + k % 3) for k in range(40)]
    trace = trace_of(*jobs, procs=12, req_gpus=[k % 2 for k in range(40)])
    result = tracekit.simulate(trace, cluster=cluster)
    events = events_of(Timeline("one", result, trace, cluster))
    check_tracks(events)
    slices = [event for event in events if event["ph"] == "X"]
    held = sum(event["dur"] * event["args"]["cores"] for event in slices) / 1e6
    assert held == pytest.approx((result.run * result.procs).sum())
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["one", *(f"one: <b>node</b>-{i}" for i in range(3))]
    assert any("fragmentation" in str(event["args"].get("reason")) or event["args"]["reason"] for event in slices)


def test_times_of_jobs_that_touch_still_touch() -> None:
    edges = np.cumsum(np.random.default_rng(0).random(1000)) + 1e9
    begin, length = micros(edges[:-1], edges[1:])
    assert ((begin + length)[:-1] == begin[1:]).all()


# ---- reasons ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(JOBS, st.sampled_from(["fcfs", "sjf", "largest"]), st.sampled_from(["none", "easy", "conservative"]))
def test_reasons_are_those_of_explain(jobs: list[tuple[int, int, int, int]], policy: str, backfill: str) -> None:
    trace = trace_of(*((s, r, max(r, e), p) for s, r, e, p in jobs), procs=6)
    result = tracekit.simulate(trace, policy, backfill)
    recorded = Recorded(result.job_id, result.submit, result.start, result.end, result.procs, 6.0)
    for row, found in enumerate(explained(recorded, np.arange(len(result)))):
        assert found is not None
        alone = explain(recorded, int(result.job_id[row]), float("nan"), float(result.run[row]))
        assert found.parts == pytest.approx(alone.parts)
        assert sum(found.parts.values()) == pytest.approx(found.wait)
        assert found.first_in_line == alone.first_in_line
        assert (found.jobs_ahead, found.jobs_overtaking) == (alone.jobs_ahead, alone.jobs_overtaking)


def test_no_other_estimate_was_tried_and_none_is_spoken_of() -> None:
    trace = trace_of((0, 50, 60, 4), (1, 10, 60, 4), procs=4)
    result = tracekit.simulate(trace)
    recorded = Recorded(result.job_id, result.submit, result.start, result.end, result.procs, 4.0)
    first, second = explained(recorded, [0, 1])
    assert first is not None
    assert second is not None
    assert short(first) == "did not wait"
    assert short(second) == "machine full 49 s"
    assert second.method == RECORDED
    assert "estimate" not in second.text()


# ---- places ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(JOBS)
def test_places_are_the_lowest_free_processors(jobs: list[tuple[int, int, int, int]]) -> None:
    start, run, procs = (np.array([job[k] for job in jobs], dtype=float) for k in (0, 1, 3))
    found = lanes(start, start + run, procs.astype(np.int64), 8)
    free_at = np.full(8, -np.inf)
    for job in np.lexsort((np.arange(len(start)), run > 0, start)):
        rows = np.flatnonzero(free_at <= start[job])[: int(procs[job])]
        free_at[rows] = start[job] + run[job]
        assert [k for first, count in found[job] for k in range(first, first + count)] == rows.tolist()
        assert all(a + n < b for (a, n), (b, _) in pairwise(found[job]))  # neighbours are one run


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def swf(tmp_path: Path) -> Path:
    tracekit.write(tracekit.sample().head(200), tmp_path / "s.swf")
    return tmp_path / "s.swf"


def test_one_file_for_all_schedules(swf: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "t.json.gz"
    words = ["simulate", swf, "--policy", "fcfs,sjf", "--window", "0:50", "--window", "50:50", "--timeline", out]
    code, _, error = run(*words)
    assert code == 0
    assert "slices" in error
    found = json.loads(gzip.decompress(out.read_bytes()))
    assert found["otherData"]["schedules"] == ["fcfs__easy__w0", "fcfs__easy__w50", "sjf__easy__w0", "sjf__easy__w50"]
    check_tracks(found["traceEvents"])
    before = out.read_bytes()
    code, _, error = run(*words)
    assert code == 1
    assert "--force" in error
    assert run(*words, "--force")[0] == 0
    assert out.read_bytes() == before  # same input, same bytes


def test_bad_names_of_timelines_are_errors_before_any_work(swf: Path, tmp_path: Path, run: Run) -> None:
    for name in ("t.txt", "-", str(tmp_path), str(tmp_path / "no" / "t.json")):
        code, out, error = run("simulate", swf, "--timeline", name)
        assert code == 1, name
        assert not out
        assert error.startswith("error: ")


def test_hostile_labels_stay_strings(tmp_path: Path, run: Run) -> None:
    users = ['"},{"ph":"X', "</script><script>alert(1)</script>", "ü\u2028\ud800"]
    trace = Trace(tracekit.sample().head(3).jobs.assign(user=users), tracekit.sample().machine)
    tracekit.write(trace, tmp_path / "s.parquet")
    assert run("simulate", tmp_path / "s.parquet", "--timeline", tmp_path / "t.json")[0] == 0
    found = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    seen = {event["args"].get("user") for event in found if event["ph"] == "X"}
    assert users[0] in seen
    assert users[1] in seen


def test_levers_are_named(tmp_path: Path) -> None:
    trace = tracekit.sample().head(150)
    result = tracekit.simulate(trace, power="cpu-node", power_cap=1.0)
    events = events_of(Timeline("one", result, trace))
    assert any("power cap" in event["args"].get("reason", "") for event in events if event["ph"] == "X")
