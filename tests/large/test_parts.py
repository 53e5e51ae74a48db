"""Traces in parts: written and read back, and every way in which a folder of parts can be wrong."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from swf.parts import Parts, in_chunks, part_name, write_parts
from tracekit import Machine, Trace
from tracekit.errors import FormatError, OutputError, UsageError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, toy: Trace) -> Path:
    """The toy trace in parts of 60 jobs: 60, 60, 60, 20."""
    write_parts(in_chunks(toy, 7), tmp_path / "toy", part_jobs=60)
    return tmp_path / "toy"


def test_a_folder_of_parts_is_the_trace(folder: Path, toy: Trace) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [part_name(k) for k in range(4)]
    back = tracekit.read(folder)
    assert back.equals(toy.replace(machine=back.machine))
    assert back.machine == toy.machine.replace(source="toy")
    assert tracekit.read(folder / part_name(3)).jobs.equals(back.take(slice(180, 200)).jobs)


@pytest.mark.parametrize("part_jobs", [1, 33, 200, 5000])
@pytest.mark.parametrize("chunk", [11, 200])
def test_the_jobs_do_not_depend_on_the_sizes_of_parts(toy: Trace, tmp_path: Path, part_jobs: int, chunk: int) -> None:
    whole = tmp_path / "whole.parquet"
    named = toy.replace(machine=toy.machine.replace(source="toy"), step="some")
    tracekit.write(named, whole)
    write_parts(in_chunks(named, chunk), tmp_path / "parts", part_jobs=part_jobs)
    tracekit.write(tracekit.read(tmp_path / "parts"), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == whole.read_bytes()


def test_batches_are_the_jobs(folder: Path, toy: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "17")
    parts = Parts(folder)
    batches = list(parts.batches())
    assert max(map(len, batches)) == 17
    assert sum(map(len, batches)) == parts.jobs == len(toy)
    joined = pd.concat([batch.jobs.astype({"user": object, "queue": object}) for batch in batches], ignore_index=True)
    pd.testing.assert_frame_equal(joined, toy.jobs.astype({"user": object, "queue": object}))
    few = next(iter(parts.batches(["wait_time"])))
    assert set(few.jobs.columns) == {"job_id", "submit_time", "wait_time", "run_time", "req_procs"}


def test_types_that_differ_between_chunks_become_one(tmp_path: Path) -> None:
    jobs = pd.DataFrame({"job_id": range(6), "submit_time": 0.0, "run_time": 1.0, "req_procs": [1, 2, 3, 4, 1.5, 2]})
    trace = Trace(jobs.assign(user=list("cabbac"), x_note=[None, None, "a", None, None, "b"]))
    write_parts(in_chunks(trace, 2), tmp_path / "parts", part_jobs=2)
    assert tracekit.read(tmp_path / "parts").jobs.equals(trace.jobs)


def test_a_missing_part_is_named(folder: Path, run: Run) -> None:
    (folder / part_name(1)).unlink()
    code, _, error = run("info", folder, "--parts")
    assert code == 1
    assert part_name(1) in error
    with pytest.raises(FormatError, match=part_name(1)):
        tracekit.read(folder)


@pytest.mark.parametrize("command", ["info", "validate"])
@pytest.mark.parametrize("flag", ["--parts", "--whole"])
def test_a_truncated_part_is_named(folder: Path, run: Run, command: str, flag: str) -> None:
    damaged = folder / part_name(2)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    code, _, error = run(command, folder, flag)
    assert code == 1
    assert part_name(2) in error
    assert len(error.strip().splitlines()) == 1


def test_damage_inside_a_part_is_named_and_leaves_nothing(folder: Path, run: Run, tmp_path: Path) -> None:
    damaged = folder / part_name(2)
    data = bytearray(damaged.read_bytes())
    data[10:1500] = b"\0" * 1490
    damaged.write_bytes(bytes(data))
    before = sorted(tmp_path.rglob("*"))
    code, _, error = run("convert", folder, tmp_path / "out", "--parts", "--part-jobs", "50")
    assert code == 1
    assert part_name(2) in error
    assert sorted(tmp_path.rglob("*")) == before


def test_another_schema_is_named(folder: Path, toy: Trace, run: Run) -> None:
    other = Parts(folder)
    write_parts(in_chunks(toy.replace(jobs=toy.jobs.drop(columns="queue"))), folder.parent / "other", part_jobs=60)
    shutil.copy(folder.parent / "other" / part_name(2), folder / part_name(2))
    code, _, error = run("info", folder, "--parts")
    assert code == 1
    assert part_name(2) in error
    assert "queue" in error
    assert other.jobs == 200


def test_a_part_of_another_trace_is_named(folder: Path, toy: Trace) -> None:
    write_parts(in_chunks(toy.take(slice(0, 190))), folder.parent / "other", part_jobs=60)
    shutil.copy(folder.parent / "other" / part_name(2), folder / part_name(2))
    with pytest.raises(FormatError, match=part_name(2)):
        Parts(folder)


def test_files_of_tracekit_side_by_side_are_a_trace(toy: Trace, tmp_path: Path) -> None:
    years = tmp_path / "years"
    years.mkdir()
    toy.take(slice(0, 120)).save(years / "2023.parquet")
    toy.take(slice(120, 200)).save(years / "2024.parquet")
    joined = tracekit.read(years)
    assert joined.jobs.equals(toy.jobs)
    toy.replace(machine=Machine(name="other")).save(years / "2025.parquet")
    with pytest.raises(FormatError, match=r"2025\.parquet"):
        tracekit.read(years)


def test_tables_of_other_programs_are_rejected_before_anything_is_read(tmp_path: Path, run: Run) -> None:
    pd.DataFrame({"job_id": [1], "submit_time": [0.0], "run_time": [1.0], "req_procs": [1]}).to_parquet(
        tmp_path / "other.parquet"
    )
    code, _, error = run("info", tmp_path / "other.parquet", "--parts")
    assert code == 1
    assert "other.parquet" in error
    assert run("info", tmp_path / "other.parquet")[0] == 0


def test_texts_are_not_read_in_parts(toy_swf: Path, run: Run) -> None:
    assert run("info", toy_swf, "--parts")[0] == 2


def test_parts_are_replaced_only_with_force(folder: Path, toy: Trace) -> None:
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="--force"):
        write_parts(in_chunks(toy), folder, part_jobs=100)
    write_parts(in_chunks(toy), folder, part_jobs=100, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", part_name(0), part_name(1)]


def test_convert_makes_a_folder_of_parts(toy: Trace, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.save(tmp_path / "toy.csv")
    toy.save(tmp_path / "toy.swf")
    for name, flag in (("toy.csv", "--parts"), ("toy.swf", "--parts"), ("toy.swf", "--whole")):
        out = tmp_path / f"{name}{flag}"
        assert run("convert", tmp_path / name, out, flag, "--part-jobs", "64")[0] == 0
        assert len(list(out.iterdir())) == 4
        whole = tracekit.read(tmp_path / name)
        assert tracekit.read(out).equals(whole)
        monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "50")
        assert run("convert", out, tmp_path / "one.parquet", "--parts", "--force")[0] == 0
        one = tracekit.read(tmp_path / "one.parquet")
        assert one.equals(whole)
        assert one.history == whole.history
    assert run("convert", tmp_path / "toy.swf", tmp_path / "x", "--part-jobs", "64", "--to", "csv")[0] == 2


def test_a_trace_that_does_not_fit_is_refused_with_its_size(folder: Path, run: Run) -> None:
    code, _, error = run("simulate", folder, "--limit", "memory=1K")
    assert code == 1
    assert "GB" in error
    assert "200 jobs" in error
    assert run("info", folder, "--limit", "memory=1K")[0] == 0  # in parts by itself
    assert run("info", folder, "--limit", "memory=1K", "--whole")[0] == 1
    assert run("info", folder, "--limit", "memory=none", "--whole")[0] == 0


def test_a_full_disk_leaves_nothing(folder: Path, run: Run, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = sorted(tmp_path.rglob("*"))
    results = []
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
    try:
        results.append(run("convert", folder, tmp_path / "out", "--parts", "--part-jobs", "1000"))
        results.append(run("convert", folder, tmp_path / "out.parquet", "--parts"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for code, _, error in results:
        assert code == 1, error
        assert len(error.strip().splitlines()) == 1
        assert "out" in error
    assert sorted(tmp_path.rglob("*")) == before


def test_the_size_of_batches_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "many")
    with pytest.raises(UsageError, match="TRACEKIT_BATCH_JOBS"):
        list(Parts(folder).batches())
    assert np.isfinite(Parts(folder).bytes_whole())
