"""score in batches: the numbers of the whole traces."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from evaluation import chained, flat, marginal, streamed
from evaluation.base import Setting
from evaluation.score import Scores, score, score_parts
from evaluation.spreads import Lagged
from evaluation.streamed import FAMILIES_IN_PARTS
from evaluation.temporal import autocorrelation
from swf.parts import Parts, in_chunks, part_name, write_parts
from tracekit import Machine, Trace
from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError
from tracekit.large import runs, source, spreads
from tracekit.large.source import Loaded
from tracekit.large.spreads import Counting, Spread

Run = Callable[..., tuple[int, str, str]]
FAMILIES = ",".join(FAMILIES_IN_PARTS)


def working(seed: int, jobs: int = 900, weeks: float = 6) -> Trace:
    """Jobs in submit order with sessions of users, fractions, unknown values and jobs without a submit time."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.random(jobs // 6).repeat(6) * weeks * 604_800 + rng.exponential(300, jobs // 6 * 6))
    count = len(submit)
    limit = rng.choice([60.0, 600, 3600, 3600, np.nan], count)
    columns: dict[str, Any] = {
        "job_id": np.arange(count),
        "submit_time": np.where(rng.random(count) < 0.01, np.nan, np.round(submit, seed % 2)),
        "run_time": np.where(rng.random(count) < 0.03, np.nan, rng.lognormal(5, 2, count)),
        "req_time": limit,
        "req_procs": rng.choice([1, 2, 4, 64, 0, -1], count),
        "alloc_nodes": rng.choice([1, 2, np.nan], count),
        "mean_watts": rng.normal(300, 90, count),
        "used_mem": np.full(count, np.nan),
        "status": rng.choice(["completed", "failed", "unknown"], count),
        "user": rng.choice(["ann", "bob", "10", "9", None], count, p=[0.5, 0.2, 0.1, 0.1, 0.1]),
        "queue": rng.choice([f"q{seed}", "long"], count),
    }
    if seed % 3 == 2:
        del columns["user"], columns["req_time"], columns["mean_watts"]
    machine = Machine(name="made", procs=128 if seed % 2 else None, epoch=1.6e9, timezone="Europe/Berlin")
    return Trace(pd.DataFrame(columns), machine)


def stored(trace: Trace, folder: Path, part_jobs: int = 400) -> Parts:
    write_parts(in_chunks(trace, 300), folder, part_jobs=part_jobs)
    return Parts(folder)


def numbers(scores: Scores) -> dict[str, Any]:
    made = scores.to_dict()
    made["switches"].pop("in_parts", None)
    return made


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """The same keys, words, counts; numbers to 12 digits, autocorrelations near zero to 12 places."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            assert_same(value, other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, (value, another) in enumerate(zip(one, other, strict=True)):
            assert_same(value, another, f"{where}/{number}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12), where
    else:
        assert one == other, where


@pytest.mark.parametrize(("batch", "kept", "seeds"), [(211, 40, (0, 1)), (97, 100_000, (1, 2)), (5000, 60, (2, 0))])
def test_scores_are_those_of_the_whole_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, kept: int, seeds: tuple[int, int]
) -> None:
    """Also where values go to disk; with three weeks against six, so that weeks and halves are drawn."""
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", str(batch))
    monkeypatch.setattr(spreads, "KEPT", kept)
    monkeypatch.setattr(streamed, "BATCH", batch)
    monkeypatch.setattr(runs, "BLOCK", 150)
    monkeypatch.setattr("evaluation.score._draws", lambda jobs, quick: (6, 5))
    monkeypatch.setattr(Setting, "detection_rows", 300)
    monkeypatch.setattr(Setting, "trees", 5)
    parts = [
        stored(working(seed, weeks=weeks), tmp_path / f"p{seed}") for seed, weeks in zip(seeds, (6, 3), strict=True)
    ]
    whole = [tracekit.read(tmp_path / f"p{seed}") for seed in seeds]
    known: dict[str, Any] = {"families": FAMILIES_IN_PARTS, "names": ["real", "made"], "seed": 3}
    wanted = score(whole[0], whole[1], baselines=False, **known)
    found = score_parts(parts[0], [parts[1]], **known)
    assert_same(numbers(wanted), numbers(found))
    for key in wanted.family:  # counts and quantiles to the last bit
        if key.startswith(("ks", "tail", "unseen", "idc", "hurst", "hour", "user_repeat", "job_repeat")):
            assert str(found[key].value) == str(wanted[key].value), key


def test_a_trace_without_a_calendar_and_few_jobs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "7")
    monkeypatch.setattr(streamed, "BATCH", 5)
    monkeypatch.setattr(flat, "_SUBMITS", 11)
    trace = working(1, 60)
    trace = trace.replace(machine=trace.machine.replace(epoch=None))
    parts = stored(trace, tmp_path / "p")
    whole = tracekit.read(tmp_path / "p")
    known: dict[str, Any] = {"families": ["marginal", "time"], "names": ["a", "b", "c"], "quick": True}
    wanted = score(whole, [whole, whole.head(30)], baselines=False, **known)
    assert_same(numbers(wanted), numbers(score_parts(parts, [parts, Loaded(whole.head(30))], **known)))


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.integers(0, 9), st.floats(-5, 5)), min_size=1, max_size=60),
    st.lists(st.one_of(st.integers(0, 9), st.floats(-5, 5)), min_size=1, max_size=60),
    st.integers(1, 9),
)
def test_spreads_on_disk_have_the_distances_of_arrays(
    tmp_path_factory: pytest.TempPathFactory, ours: list[float], theirs: list[float], size: int
) -> None:
    arrays = [np.array(values, dtype=np.float64) + 0.0 for values in (ours, theirs)]
    before = spreads.KEPT, runs.BLOCK
    spreads.KEPT, runs.BLOCK = 6, 12
    try:
        made = []
        for array in arrays:
            counting = Counting(tmp_path_factory.mktemp("spread") / "values")
            for first in range(0, len(array), size):
                counting.add(array[first : first + size])
            made.append(counting.spread())
        a, b = made
        assert [len(a), a.low, a.high] == [len(ours), min(arrays[0]), max(arrays[0])]
        assert marginal.ks(a, b) == marginal.ks(*arrays)
        assert marginal.w1(a, b) == pytest.approx(marginal.w1(*arrays), rel=1e-12, abs=1e-12)
        assert marginal.new_share(a, b) == marginal.new_share(*arrays)
        assert marginal.values_apart(a, b) == pytest.approx(marginal.values_apart(*arrays), abs=1e-12)
        assert a.quantiles([0, 0.3, 0.99]).tolist() == np.quantile(arrays[0], [0, 0.3, 0.99]).tolist()
        assert a.mean() == pytest.approx(arrays[0].mean(), abs=1e-12)
    finally:
        spreads.KEPT, runs.BLOCK = before


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
def test_autocorrelation_in_batches(size: int) -> None:
    rng = np.random.default_rng(size)
    values = np.cumsum(rng.normal(0, 1, 400)) + 1e6
    values[rng.random(400) < 0.1] = np.nan
    lagged = Lagged(20)
    for first in range(0, len(values), size):
        lagged.add(values[first : first + size])
    np.testing.assert_allclose(lagged.curve(20), autocorrelation(values, 20), atol=1e-9)
    assert lagged.curve(1)[0] == pytest.approx(autocorrelation(values, 1)[0], abs=1e-9)
    constant = Lagged(3)
    constant.add(np.full(10, 2.0))
    assert np.isnan(constant.curve(3)).all()


@pytest.mark.parametrize("cluster", [None, "openb"])
def test_hosts_are_named_as_in_the_score_of_the_whole_trace(cluster: str | None) -> None:
    for name in ("", "nodes"):
        hosts = cluster_of("openb").replace(name=name)
        trace = working(2).replace(machine=hosts.replace(epoch=1.6e9, unit="procs"))
        whole = score(trace, trace, families=["load"], baselines=False, quick=True, cluster=cluster)
        parts = score_parts(Loaded(trace), [Loaded(trace)], names=["a", "b"], families=["load"], cluster=cluster)
        assert parts.switches["cluster"] == whole.switches["cluster"] is not None


def test_a_user_who_comes_back_after_many_batches(tmp_path: Path) -> None:
    found = chained.Chained(2, ("req_time",), tmp_path)
    for user, submit, limit in ((0, 0.0, 60.0), (1, 100.0, 60.0), (0, 1200.0, 60.0), (0, 2401.0, 90.0)):
        given_numbers = {"run_time": np.array([1199.0]), "req_time": np.array([limit])}
        found.add(np.array([user]), np.array([submit]), given_numbers)
    habits = found.habits()
    assert (habits.neighbours, habits.same_user, habits.followed, habits.same_job) == (3, 1, 2, 1)

    def lengths(spread: Any) -> list[tuple[list[float], list[int]]]:
        assert isinstance(spread, Spread)
        return [(values.tolist(), counts.tolist()) for values, counts in spread.blocks()]

    assert lengths(habits.sessions) == [([1, 2], [2, 1])]
    assert lengths(habits.thinks) == [([1, 2], [1, 1])]
    assert lengths(habits.batches) == [([1], [4])]


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name, seed in (("real", 1), ("made", 0)):
        stored(working(seed, 480), tmp_path / name, 150)
    return tmp_path / "real", tmp_path / "made"


def test_the_command_prints_the_same_in_parts(folders: tuple[Path, Path], run: Run) -> None:
    flags = ("--quick", "--families", FAMILIES, "--json")
    whole, parts = (json.loads(run("score", *folders, flag, *flags)[1]) for flag in ("--whole", "--parts"))
    for cell in (cell for one in (whole, parts) for side in one["synthetic"] for cell in side["scores"].values()):
        cell.pop("not_better_than")
    assert parts["switches"].pop("in_parts") is True
    assert parts.pop("baselines") == []
    assert len(whole.pop("baselines")) == 2
    assert_same(whole, parts)
    shown = run("score", *folders, "--parts", *flags[:3])[1]
    assert "without the trivial baselines" in " ".join(shown.split())


def test_traces_too_large_for_memory_are_scored_in_parts_by_themselves(
    folders: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_LIMITS", "")  # --limit changes it, and this puts it back
    flags = ("--limit", "memory=1K", "--quick", "--json")
    code, out, _ = run("score", *folders, "--families", FAMILIES, *flags)
    assert code == 0
    assert json.loads(out)["switches"]["in_parts"]
    code, out, error = run("score", *folders, *flags)
    assert (code, out) == (1, "")
    assert "GB" in error
    assert "--families" in error


@pytest.mark.parametrize("families", [(), ("--families", "marginal,joint"), ("--families", "privacy")])
def test_families_that_need_the_whole_trace_are_refused_first(
    folders: tuple[Path, Path], run: Run, families: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise AssertionError("a job was read")

    monkeypatch.setattr("evaluation.streamed.Survey.of", none)
    code, out, error = run("score", *folders, "--parts", *families)
    assert (code, out) == (1, "")
    assert len(error.strip().splitlines()) == 1
    assert "GB" in error
    assert "--families marginal,time,load" in error


def test_holdouts_presets_and_texts_are_not_for_parts(folders: tuple[Path, Path], run: Run, toy_swf: Path) -> None:
    only = ("--parts", "--families", "marginal")
    assert run("score", *folders, *only, "--holdout", folders[0])[0] == 2
    assert run("score", *folders, *only, "--preset", "poster")[0] == 2
    assert run("score", toy_swf, toy_swf, *only)[0] == 2


def test_a_text_beside_parts_is_read_whole(folders: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    run("convert", folders[1], tmp_path / "made.csv")
    flags = ("--parts", "--families", "marginal,load", "--quick", "--json")
    both = [run("score", folders[0], other, *flags) for other in (folders[1], tmp_path / "made.csv")]
    assert [one[0] for one in both] == [0, 0], both
    assert_same(*(json.loads(one[1])["synthetic"][0]["scores"] for one in both))


def test_a_file_that_is_not_there_is_named_first(folders: tuple[Path, Path], run: Run) -> None:
    for names in ((folders[0], "none"), ("none", folders[0])):
        code, _, error = run("score", *names, "--parts")
        assert (code, "none: no such file" in error) == (1, True), error


def test_jobs_out_of_order_are_refused_with_the_size(tmp_path: Path, run: Run) -> None:
    trace = working(1, 300)
    stored(trace.take(np.arange(len(trace))[::-1]), tmp_path / "back", 100)
    code, _, error = run("score", tmp_path / "back", tmp_path / "back", "--parts", "--families", "marginal")
    assert code == 1
    assert "GB" in error
    assert "submit order" in error


def test_too_few_jobs_are_one_line(tmp_path: Path) -> None:
    few = Loaded(working(1, 300).head(5))
    with pytest.raises(TracekitError, match="at least 10 jobs"):
        score_parts(few, [few], names=["a", "b"], families=["marginal"])


@pytest.mark.parametrize("fault", ["missing", "truncated", "columns"])
def test_a_bad_part_is_named(folders: tuple[Path, Path], run: Run, fault: str, tmp_path: Path) -> None:
    bad = folders[1] / part_name(1)
    if fault == "missing":
        bad.unlink()
    elif fault == "truncated":
        bad.write_bytes(bad.read_bytes()[:-50])
    else:
        other = working(0, 480)
        stored(other.replace(jobs=other.jobs.drop(columns="queue")), tmp_path / "other", 150)
        shutil.copy(tmp_path / "other" / part_name(1), bad)
    code, out, error = run("score", *folders, "--parts", "--families", "marginal")
    assert (code, out) == (1, "")
    assert part_name(1) in error
    assert len(error.strip().splitlines()) == 1


def test_a_small_disk_is_refused_before_any_work(
    folders: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("score", *folders, "--parts", "--families", "marginal")
    with monkeypatch.context() as patch:
        patch.setattr(source.shutil, "disk_usage", lambda _: SimpleNamespace(free=100.0))
        code, out, error = run(*command)
    assert (code, out) == (1, "")
    assert "TMPDIR" in error

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    code, out, error = run(*command)
    assert (code, out) == (1, "")
    assert "No space left" in error
