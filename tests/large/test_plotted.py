"""plot in batches: the same bytes as pictures of the whole trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_described import odd_trace, stored

import tracekit
from swf.parts import Parts, part_name
from tracekit import Machine, Trace, plots
from tracekit.large import runs, spreads
from tracekit.plots.streamed import IN_PARTS, _Bins, draw_parts
from tracekit.stats import binned, steps

Run = Callable[..., tuple[int, str, str]]


def written(drawn: plots.Drawn, place: Path) -> bytes | str:
    """The bytes of a picture, or why there is none."""
    if drawn.figure is None:
        return drawn.skipped
    plots.save(drawn.figure, place, force=True)
    return place.read_bytes()


def busy(seed: int) -> Trace:
    """Jobs with waits and fractions, in order or not."""
    trace = odd_trace(seed, 250)
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 2, 7, 64], len(trace))
    columns = {"wait_time": rng.exponential(900, len(trace)), "req_procs": size, "run_time": rng.lognormal(6, 2, 250)}
    return trace.assign(columns)


@pytest.mark.parametrize(("trace", "kept"), [(busy(0), 100_000), (busy(1), 20)])
def test_pictures_are_those_of_the_whole_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trace: Trace, kept: int
) -> None:
    """Jobs in order and not, users that are numbers, values in memory and on disk."""
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "37")
    monkeypatch.setattr(spreads, "KEPT", kept)
    monkeypatch.setattr(runs, "BLOCK", 60)
    parts = stored(trace, tmp_path / "p", 90)
    (tmp_path / "spill").mkdir()
    whole = list(plots.draw(tracekit.read(tmp_path / "p"), IN_PARTS))
    for one, other in zip(whole, draw_parts(parts, IN_PARTS, tmp_path / "spill"), strict=True):
        assert one.name == other.name
        assert written(one, tmp_path / "a.png") == written(other, tmp_path / "b.png"), one.name


@pytest.mark.parametrize("missing", ["submit_time", "wait_time", "user", "epoch"])
def test_what_is_missing_is_said_as_of_the_whole_trace(tmp_path: Path, toy: Trace, missing: str) -> None:
    names = {"submit_time": np.nan, "run_time": np.nan, "req_procs": np.nan, "wait_time": np.nan}
    if missing == "epoch":
        trace = toy.replace(machine=toy.machine.replace(epoch=None))
    elif missing in names:
        trace = toy.assign({missing: np.full(len(toy), names[missing])})
    else:
        trace = toy.replace(jobs=toy.jobs.drop(columns=missing))
    parts = stored(trace, tmp_path / "p", 90)
    (tmp_path / "spill").mkdir()
    whole = list(plots.draw(tracekit.read(tmp_path / "p"), IN_PARTS))
    found = list(draw_parts(parts, IN_PARTS, tmp_path / "spill"))
    assert [drawn.skipped for drawn in found] == [drawn.skipped for drawn in whole]


def test_the_use_of_the_machine_in_bins_is_the_mean_of_its_steps() -> None:
    rng = np.random.default_rng(3)
    begin = rng.random(400) * 1000
    end, amount = begin + rng.exponential(90, 400), rng.integers(1, 9, 400).astype(float)
    edges = np.linspace(begin.min(), 900, 41)
    bins = _Bins(edges)
    for first in range(0, 400, 33):
        some = slice(first, first + 33)
        bins.add(begin[some], end[some], amount[some])
    np.testing.assert_allclose(bins.mean(), binned(*steps(begin, end, amount), edges), rtol=1e-12)


def test_a_machine_of_unknown_size_has_no_usage_in_parts(tmp_path: Path, toy: Trace) -> None:
    parts = stored(toy.replace(machine=Machine(name="m")), tmp_path / "p", 90)
    (tmp_path / "spill").mkdir()
    (drawn,) = draw_parts(parts, ["usage"], tmp_path / "spill")
    assert "--procs" in drawn.skipped


def test_the_command_writes_the_same_files_in_parts(tmp_path: Path, run: Run, toy: Trace) -> None:
    stored(toy, tmp_path / "p", 90)
    for flag in ("--parts", "--whole"):
        code, out, error = run(
            "plot", tmp_path / "p", "-o", tmp_path / flag[2:], flag, "--json", "--only", "cdfs,users"
        )
        assert code == 0, error
        assert json.loads(out)["jobs"] == len(toy)
    for name in ("cdfs.png", "users.png"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_without_a_choice_the_pictures_that_work_in_parts_are_drawn(
    tmp_path: Path, run: Run, toy: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_LIMITS", "")
    stored(toy, tmp_path / "p", 90)
    code, _, error = run("plot", tmp_path / "p", "-o", tmp_path / "out", "--limit", "memory=1K", "--format", "svg")
    assert code == 0
    assert "--only" in error
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(IN_PARTS)


def test_a_date_of_second_0_is_refused_in_parts_as_in_memory(tmp_path: Path, run: Run, toy: Trace) -> None:
    stored(toy, tmp_path / "p", 90)
    for command in (
        ("plot", "-o", tmp_path / "out"),
        ("info",),
        ("synth", "-o", tmp_path / "x.swf", "--model", "lublin"),
    ):
        for flag in ("--parts", "--whole"):
            code, _, error = run(command[0], tmp_path / "p", *command[1:], flag, "--epoch", "2020-01-01")
            assert (code, "does not support the option epoch" in error) == (2, True), error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]


@pytest.mark.parametrize("only", ["gantt", "cdfs,behaviour,repeats"])
def test_pictures_of_all_jobs_at_once_are_refused_first(tmp_path: Path, run: Run, toy: Trace, only: str) -> None:
    stored(toy, tmp_path / "p", 90)
    code, out, error = run("plot", tmp_path / "p", "-o", tmp_path / "out", "--parts", "--only", only)
    assert (code, out) == (1, "")
    assert len(error.strip().splitlines()) == 1
    assert "GB" in error
    assert f"--only {','.join(IN_PARTS)}" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fault", ["missing", "truncated", "columns", "inside"])
def test_a_bad_part_is_named_and_leaves_nothing(tmp_path: Path, run: Run, toy: Trace, fault: str) -> None:
    stored(toy, tmp_path / "p", 60)
    bad = tmp_path / "p" / part_name(2)
    if fault == "missing":
        bad.unlink()
    elif fault == "truncated":
        bad.write_bytes(bad.read_bytes()[:-50])
    elif fault == "columns":
        stored(toy.replace(jobs=toy.jobs.drop(columns="queue")), tmp_path / "other", 60)
        shutil.copy(tmp_path / "other" / part_name(2), bad)
    else:
        bad.write_bytes(bad.read_bytes()[:10] + bytes(1490) + bad.read_bytes()[1500:])
    code, out, error = run("plot", tmp_path / "p", "-o", tmp_path / "out", "--parts")
    assert (code, out) == (1, "")
    assert part_name(2) in next(line for line in error.splitlines() if line.startswith("error: "))
    assert not (tmp_path / "out").exists()


def test_an_empty_trace_has_no_pictures(tmp_path: Path) -> None:
    empty = Trace(pd.DataFrame({"job_id": [], "submit_time": [], "run_time": [], "req_procs": []}))
    empty.save(tmp_path / "empty.parquet")
    (tmp_path / "spill").mkdir()
    found = list(draw_parts(Parts(tmp_path / "empty.parquet"), IN_PARTS, tmp_path / "spill"))
    assert [drawn.skipped for drawn in found] == [d.skipped for d in plots.draw(empty, IN_PARTS)]
