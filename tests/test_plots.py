"""Pictures: every one draws or says why not, the numbers behind them are right, and files are the same each time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tracekit import Machine, Trace, plots
from tracekit.errors import UnknownName
from tracekit.large.spreads import Spread
from tracekit.plots.outcomes import panels_of, size_ends
from tracekit.plots.people import _run_lengths, _top_shares
from tracekit.plots.recorded import load_experienced
from tracekit.plots.style import POINTS, top_of
from tracekit.recorded import Recorded
from tracekit.stats import queue_met

Run = Callable[..., tuple[int, str, str]]


def bare(**columns: object) -> Trace:
    rows = {"job_id": [1, 2], "submit_time": [0.0, 5.0], "run_time": [3.0, 4.0], "req_procs": [np.nan, np.nan]}
    return Trace(pd.DataFrame(rows | columns))


@pytest.mark.parametrize("name", plots.PICTURES)
def test_every_picture_of_a_whole_trace_is_drawn_with_a_title_and_n(name: str, toy: Trace) -> None:
    (drawn,) = plots.draw(toy, [name])
    assert drawn.skipped == ""
    assert drawn.figure is not None
    title = drawn.figure.get_suptitle().strip()
    assert len(title) > 15
    assert any("n = " in text.get_text() for text in drawn.figure.texts)


@pytest.mark.parametrize("name", plots.PICTURES)
@pytest.mark.parametrize(
    "trace",
    [
        Trace(pd.DataFrame({"job_id": [], "submit_time": [], "run_time": [], "req_procs": []})),
        bare(),
        bare(req_procs=[1, 2]),
        bare(req_procs=[0, 0], wait_time=[np.nan, 0.0]),
        Trace(pd.DataFrame({"job_id": [1], "submit_time": [np.nan], "run_time": [np.nan], "req_procs": [np.nan]})),
        Trace(
            pd.DataFrame({"job_id": [1], "submit_time": [0.0], "run_time": [0.0], "req_procs": [4]}), Machine(procs=1)
        ),
    ],
    ids=["empty", "bare", "sizes", "zeros", "unknown", "one"],
)
def test_a_poor_trace_gives_a_picture_or_a_reason(name: str, trace: Trace, tmp_path: Path) -> None:
    (drawn,) = plots.draw(trace, [name])
    assert (drawn.figure is None) == (len(drawn.skipped) > 10)
    if drawn.figure is not None:
        plots.save(drawn.figure, tmp_path / "x.png")


def test_unknown_names_are_refused(toy: Trace, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="cdfs"):
        list(plots.draw(toy, ["cdf"]))
    with pytest.raises(UnknownName, match="png"):
        plots.save(plots.cdfs(toy), tmp_path / "a.pmg")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_trace_gives_the_same_bytes(ending: str, toy: Trace, tmp_path: Path) -> None:
    for k in "ab":
        plots.save(plots.users(toy), tmp_path / f"{k}.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def recorded(submit: list[float], wait: list[float], run: list[float], size: list[float], total: int) -> Recorded:
    columns = [np.array(values, dtype=float) for values in (submit, wait, run, size)]
    return Recorded(*columns, total, "procs", waits_known=True, size_known=True)


def test_the_load_that_a_job_meets_is_averaged_from_its_submit_to_its_end() -> None:
    # 4 processors. A: 0–10 on 2. B: submitted at 5, waits 5, runs 10–20 on 4.
    seen = recorded([0, 5], [0, 5], [10, 10], [2, 4], 4)
    assert load_experienced(seen).tolist() == [0.5, (5 * 2 + 10 * 4) / 15 / 4]


def test_the_queue_that_a_job_meets_does_not_count_itself() -> None:
    # B and C wait 2–10 and 3–10; D comes at 4 and meets both; E comes when all have started.
    seen = recorded([0, 2, 3, 4, 30], [0, 8, 7, 6, 0], [10, 1, 1, 1, 1], [1] * 5, 1)
    assert queue_met(seen.submit, seen.start).tolist() == [0, 0, 1, 2, 0]


def test_repeats_are_counted_by_user() -> None:
    who, kind = np.array([0, 1, 0, 0, 1, 0]), np.array([7, 7, 7, 8, 7, 8])
    assert sorted(_run_lengths(who, kind).tolist()) == [2, 2, 2]
    shares = _top_shares(np.zeros(20, np.int64), np.array([1] * 10 + [2] * 6 + [3] * 4))
    assert shares[0, :3].tolist() == [0.5, 0.8, 1.0]
    assert not len(_top_shares(who, kind))


def test_classes_hold_every_known_job_once() -> None:
    rng = np.random.default_rng(1)
    size, run = rng.integers(1, 5000, 500).astype(float), rng.exponential(9000, 500)
    for panel, values in zip(panels_of(size_ends(size)), (size, run), strict=True):
        place = panel.add(values)
        assert (place >= 0).all()
        assert len(np.unique(place)) <= 8


def test_curves_are_thinned_but_keep_their_ends() -> None:
    values = np.random.default_rng(0).permutation(100_000).astype(float)
    x, share = Spread.of(values).points(POINTS)
    assert len(x) <= 2000
    assert (x[0], x[-1], share[-1]) == (0, 99_999, 1.0)
    assert np.all(np.diff(share) > 0)


def test_the_command_writes_lists_and_refuses(tmp_path: Path, toy_swf: Path, run: Run) -> None:
    out = tmp_path / "new" / "pictures"
    code, text, _ = run("plot", toy_swf, "-o", out, "--only", "cdfs,failures,usage", "--format", "png,svg", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(text)["pictures"]}
    assert rows["cdfs"]["files"] == [str(out / "cdfs.png"), str(out / "cdfs.svg")]
    assert all(Path(name).stat().st_size > 1000 for row in rows.values() for name in row["files"])
    code, _, error = run("plot", toy_swf, "-o", out, "--only", "cdfs")
    assert (code, "--force" in error) == (1, True)
    assert run("plot", toy_swf, "-o", out, "--only", "cdfs", "--force")[0] == 0
    assert run("plot", toy_swf, "-o", out, "--only", "cdsf")[0] == 2
    assert run("plot", toy_swf, "-o", out, "--format", "gif")[0] == 2
    assert run("plot", toy_swf, "-o", out, "--window", "5")[0] == 2
    assert run("plot", toy_swf, "-o", toy_swf)[0] == 1
    code, text, _ = run("plot", toy_swf, "-o", tmp_path / "b", "--only", "hour-of-week,repeats")
    assert (code, "skipped: no user has 20 jobs" in text) == (0, True)


def test_a_machine_that_is_hardly_used_is_not_drawn_empty(toy: Trace) -> None:
    huge = toy.replace(machine=toy.machine.replace(procs=100_000))
    assert plots.recorded_gantt(huge).axes[0].get_ylim()[1] <= 2 * toy.sizes().sum()
    assert plots.usage(huge).axes[0].get_ylim()[1] < 0.25
    assert plots.load_and_slowdown(huge).axes[0].get_xlim()[1] < 0.25


def test_an_axis_ends_at_the_whole_or_just_above_the_most() -> None:
    assert (top_of(70, 100), top_of(120, 100), top_of(3, 6000), top_of(0, 10)) == (100, 120, 3.6, 10)


def test_shares_of_a_gpu_are_seen(toy: Trace) -> None:
    jobs = toy.jobs.assign(req_gpus=np.resize([0.25, 0.5], len(toy)))
    figure = plots.cdfs(Trace(jobs, Machine(gpus=8, unit="gpus")))
    assert min(axis.get_xlim()[0] for axis in figure.axes) < 0.25
    assert "one GPU or less" in figure.get_suptitle()
