"""Traces merged, split and shaken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit import stats
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.trace import Trace
from tracekit.transform import merge, shake, split, split_at
from tracekit.transform.splitting import alternate_weeks, file_names

Run = Callable[..., tuple[int, str, str]]


def small(ids: list[int], submit: list[float], *, epoch: float | None = 1e9, procs: int = 8, name: str = "m") -> Trace:
    count = len(ids)
    jobs = pd.DataFrame(
        {
            "job_id": ids,
            "submit_time": submit,
            "run_time": np.arange(1.0, count + 1),
            "req_procs": [1] * count,
            "user": [str(i % 2) for i in range(count)],
            "prev_job": [np.nan] + [float(ids[0])] * (count - 1),
        }
    )
    return Trace(jobs, Machine(name=name, procs=procs, epoch=epoch))


# ---- merge -----------------------------------------------------------------------------------------------------------


def test_years_of_one_machine() -> None:
    """The second year's clock starts 100 s later; ids are distinct, so they stay."""
    first, second = small([1, 2], [0, 50]), small([3, 4], [0, 5], epoch=1e9 + 100)
    made = merge([first, second], ["a", "b"])
    assert (made.machines, made.labels, made.align, made.renumbered) == ("same", "join", "calendar", False)
    assert made.trace.jobs["submit_time"].tolist() == [0, 50, 100, 105]
    assert made.trace.jobs["job_id"].tolist() == [1, 2, 3, 4]
    assert made.trace.jobs["user"].tolist() == ["0", "1", "0", "1"]
    assert made.trace.jobs["x_source"].tolist() == ["a", "a", "b", "b"]
    assert (made.trace.machine.procs, made.trace.machine.epoch) == (8, 1e9)
    assert made.remarks == ()


def test_clusters_side_by_side() -> None:
    """Ids clash, users are different people, sizes add up, and prev_job follows its own cluster."""
    made = merge([small([1, 2], [0, 50]), small([1, 2], [10, 60], procs=4, name="n")], ["a", "b"])
    assert (made.machines, made.labels, made.renumbered) == ("add", "apart", True)
    jobs = made.trace.jobs
    assert jobs["submit_time"].tolist() == [0, 10, 50, 60]
    assert jobs["job_id"].tolist() == [1, 2, 3, 4]
    assert jobs["x_job_id"].tolist() == [1, 1, 2, 2]
    assert jobs["user"].tolist() == ["a:0", "b:0", "a:1", "b:1"]
    assert jobs["prev_job"].tolist()[2:] == [1, 2]
    assert made.trace.machine.procs == 12
    assert made.trace.machine.name == "m + n"
    assert "overlap" in made.remarks[0]
    joined = merge(
        [small([1, 2], [0, 50]), small([1, 2], [10, 60], procs=4)], ["a", "b"], labels="join", machines="same"
    )
    assert joined.trace.jobs["user"].tolist() == ["0", "0", "1", "1"]
    assert joined.trace.machine.procs == 8


def test_alignment_without_a_calendar() -> None:
    first, second = small([1, 2], [5, 50], epoch=None), small([3, 4], [1000, 1010], epoch=None)
    with pytest.raises(UsageError, match="no calendar"):
        merge([first, second], ["a", "b"])
    assert merge([first, second], ["a", "b"], align="start").trace.jobs["submit_time"].tolist() == [5, 5, 15, 50]
    assert merge([first, second], ["a", "b"], align="append").trace.jobs["submit_time"].tolist() == [5, 50, 50, 60]


def test_jobs_in_both_traces_are_expected() -> None:
    trace = small([1, 2, 3], [0, 50, 90])
    made = merge([trace, trace.take([1, 2])], ["a", "a"])
    assert "2 jobs have submit, run time and size in common" in made.remarks[0]
    assert set(made.trace.jobs["x_source"]) == {"a", "a-2"}


def test_what_cannot_be_merged() -> None:
    trace = small([1, 2], [0, 1])
    with pytest.raises(UsageError, match="two"):
        merge([trace], ["a"])
    nodes = trace.replace(machine=Machine(nodes=3, unit="nodes", epoch=1e9))
    with pytest.raises(TracekitError, match="--resource"):
        merge([trace, nodes], ["a", "b"])


# ---- split -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 40 * 86400), min_size=2, max_size=60), st.sampled_from(["week", "month", "user", "2"]))
def test_every_job_is_in_one_part_and_merging_gives_them_back(submit: list[int], by: str) -> None:
    trace = small(list(range(1, len(submit) + 1)), [float(s) for s in submit])
    parts = split(trace, by)
    assert sorted(job for _, part in parts for job in part.jobs["job_id"]) == list(range(1, len(submit) + 1))
    if len(parts) > 1:
        again = merge([part for _, part in parts], [name for name, _ in parts]).trace
        columns = ["submit_time", "run_time", "user", "prev_job"]
        left, right = (t.jobs.set_index("job_id").sort_index()[columns] for t in (trace, again))
        pd.testing.assert_frame_equal(left.astype(object), right.astype(object))


def test_names_of_parts() -> None:
    """1e9 s is 2001-09-09, a Sunday: the last day of ISO week 36."""
    trace = small([1, 2, 3], [0, 86400, 30 * 86400])
    assert [name for name, _ in split(trace, "week")] == ["2001-W36", "2001-W37", "2001-W41"]
    assert [(name, len(part)) for name, part in split(trace, "month")] == [("2001-09", 2), ("2001-10", 1)]
    assert [(name, len(part)) for name, part in split(trace, "user")] == [("0", 2), ("1", 1)]
    assert [(name, len(part)) for name, part in split(trace, 3)] == [("part1", 1), ("part2", 1), ("part3", 1)]
    assert [(name, len(part)) for name, part in split_at(trace, [86400.0])] == [("part1", 1), ("part2", 2)]
    assert file_names(["a/b", "a b", "..", "A-b"]) == ["a-b", "a-b-2", "unnamed", "A-b-3"]


def test_what_cannot_be_split() -> None:
    trace = small([1, 2, 3], [0, 1, 2], epoch=None)
    with pytest.raises(TracekitError, match="no calendar"):
        split(trace, "week")
    with pytest.raises(UnknownName, match="week"):
        split(trace, "wek")
    with pytest.raises(UsageError, match="2 to 3"):
        split(trace, 9)
    with pytest.raises(TracekitError, match="no queues"):
        split(trace, "queue")
    with pytest.raises(TracekitError, match="no jobs"):
        split(trace.head(0), 2)


# ---- shake -----------------------------------------------------------------------------------------------------------


def test_shaking_is_small_seeded_and_keeps_what_it_should() -> None:
    trace = tracekit.sample()
    one, same, other = shake(trace, 7, 0), shake(trace, 7, 0), shake(trace, 7, 1)
    assert one.jobs.equals(same.jobs)
    assert not one.jobs.equals(other.jobs)
    moved = one.column("submit_time") - trace.column("submit_time")
    assert 50 < np.abs(moved).max() <= 60
    assert abs(moved.mean()) < 2
    assert (moved == np.round(moved)).all()
    assert one.column("submit_time").min() >= trace.column("submit_time").min()
    assert one.jobs["job_id"].tolist() == trace.jobs["job_id"].tolist()
    assert (one.column("run_time") == trace.column("run_time")).all()
    assert not one.has("wait_time")
    longer = shake(trace, 7, 0, seconds=0, run_share=0.1)
    ratio = longer.column("run_time") / trace.column("run_time")
    assert ratio[trace.column("run_time") > 100].min() >= 0.89
    kept = trace.column("run_time") <= trace.column("req_time")
    assert (longer.column("run_time") <= longer.column("req_time"))[kept].all()
    for wrong in ({"seconds": -1.0}, {"run_share": 1.0}, {"seconds": 0.0}):
        with pytest.raises(UsageError):
            shake(trace, 0, **wrong)


# ---- commands --------------------------------------------------------------------------------------------------------


def test_commands(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "s.swf"
    trace = tracekit.sample().head(400)
    tracekit.write(trace, path)
    out = tmp_path / "parts"
    code, said, error = run("split", str(path), "-o", str(out), "--by", "4", "--json")
    assert code == 0, error
    rows = json.loads(said)["parts"]
    assert [row["jobs"] for row in rows] == [100] * 4
    files = [row["file"] for row in rows]
    assert run("split", str(path), "-o", str(out), "--by", "4")[0] == 1  # they exist
    assert run("split", str(path), "-o", str(out), "--by", "4", "--force")[0] == 0
    code, said, error = run("merge", *files, str(tmp_path / "all.swf"), "--json")
    assert code == 0, error
    assert json.loads(said)["jobs"] == 400
    assert tracekit.read(tmp_path / "all.swf").jobs["run_time"].tolist() == trace.jobs["run_time"].tolist()
    assert run("shake", str(path), "-o", str(out), "-k", "2", "--seed", "5")[0] == 0
    shaken = tracekit.read(out / "s_shake1.swf")
    assert (shaken.column("submit_time") == shake(trace, 5, 1).column("submit_time")).all()
    code, _, error = run("split", str(path), "-o", str(tmp_path / "two"), "--at", str(trace.column("submit_time")[200]))
    assert (code, "2 files" in error) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["merge", "IN", "OUT"], 2, "two traces"),
        (["merge", "IN", "IN", "OUT", "--labels", "joint"], 2, "did you mean join"),
        (["merge", "IN", "nowhere.swf", "OUT"], 1, "no such file"),
        (["split", "IN", "-o", "DIR"], 2, "--by"),
        (["split", "IN", "-o", "DIR", "--by", "wek"], 2, "did you mean week"),
        (["split", "IN", "-o", "DIR", "--at", "yesterday"], 2, "yesterday"),
        (["split", "IN", "-o", "IN", "--by", "2"], 1, "is a file"),
        (["split", "IN", "-o", "DIR", "--by", "2", "--to", "philly"], 2, "not written"),
        (["shake", "IN", "-o", "DIR", "--seconds", "-3"], 2, "seconds"),
    ],
)
def test_mistakes(tmp_path: Path, run: Run, words: list[str], code: int, expected: str) -> None:
    path = tmp_path / "in.swf"
    tracekit.write(small([1, 2, 3, 4], [0, 1, 2, 3]), path)
    places = {"IN": str(path), "OUT": str(tmp_path / "out.swf"), "DIR": str(tmp_path / "dir")}
    found, _, error = run(*[places.get(word, word) for word in words])
    assert (found, expected in error) == (code, True), error
    assert path.exists()


def test_alternate_weeks_hold_every_job_once(tmp_path: Path, run: Run) -> None:
    whole = tmp_path / "whole.swf"
    assert run("sample", whole)[0] == 0
    code, _, said = run("split", whole, tmp_path / "a.swf", tmp_path / "b.swf", "--alternate-weeks")
    assert code == 0, said
    trace = tracekit.read(whole)
    first, second = (tracekit.read(tmp_path / f"{name}.swf") for name in "ab")
    assert len(first) + len(second) == len(trace)
    week = ((trace.column("submit_time") - trace.column("submit_time").min()) // (7 * 86_400)).astype(int)
    for part, rest in ((first, 0), (second, 1)):
        np.testing.assert_array_equal(part.column("run_time"), trace.column("run_time")[week % 2 == rest])
        assert part.offered_load() == pytest.approx(trace.offered_load(), rel=0.05)
    hours = sum(np.bincount(stats.hour_of_week(part), minlength=168) for part in (first, second))
    np.testing.assert_array_equal(hours, np.bincount(stats.hour_of_week(trace), minlength=168))
    assert run("split", whole, tmp_path / "c.swf", "--alternate-weeks")[0] == 2
    assert run("split", whole, tmp_path / "c.swf", tmp_path / "d.swf", "--by", "2")[0] == 2


def test_alternate_weeks_keep_local_hours_and_share_empty_weeks() -> None:
    day = 86_400
    submit = np.array([0, 1, 4, 5, 6, 9, 10, 11]) * 7 * day + 8.5 * 3600  # weeks 2, 3, 7 and 8 are empty
    machine = Machine(procs=4, epoch=1_704_067_200, timezone="Europe/Stockholm")  # 2024-01-01; summer from week 13
    jobs = {"job_id": np.arange(1, 9), "submit_time": submit, "run_time": 60.0, "req_procs": 1}
    trace = Trace(pd.DataFrame(jobs), machine)
    one, other = alternate_weeks(trace)
    assert ((one.column("submit_time") - submit[0]) / (7 * day)).tolist() == [0, 2, 3, 5]
    assert ((other.column("submit_time") - submit[0]) / (7 * day)).tolist() == [0, 2, 4, 5]
    late = trace.assign({"submit_time": submit + 8 * 7 * day})  # some weeks move from summer into winter time
    hours = np.sort(np.concatenate([stats.hour_of_week(part) for part in alternate_weeks(late)]))
    np.testing.assert_array_equal(hours, np.sort(stats.hour_of_week(late)))
