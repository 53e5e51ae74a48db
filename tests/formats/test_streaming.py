"""Converted in parts or as a whole: the same file."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shared_data import ROOT, shared

import tracekit
from tracekit.api import is_large, to_parquet
from tracekit.errors import FormatError

OURS = "job_id,submit_time,run_time,req_procs,user,x_note\n"
GPW = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n"


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("streaming", ROOT / "benchmarks" / "bench_streaming.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same(path: Path, tmp_path: Path, *, part_bytes: int, **options: Any) -> tracekit.Trace:
    """Convert both ways, compare, and return the result."""
    parts, whole = tmp_path / "parts.parquet", tmp_path / "whole.parquet"
    done = to_parquet(path, parts, part_bytes=part_bytes, **options)
    assert done is not None
    tracekit.write(tracekit.read(path, **options), whole)
    ours, theirs = tracekit.read(parts), tracekit.read(whole)
    assert list(ours.jobs.columns) == list(theirs.jobs.columns)
    for name in theirs.jobs.columns:
        assert ours.jobs[name].equals(theirs.jobs[name]), name
    assert ours.equals(theirs)
    assert ours.history == theirs.history
    assert done[0] == len(ours)
    assert sorted(file.name for file in tmp_path.glob(".*")) == []
    return ours


@pytest.mark.parametrize("format", ["csv", "sacct", "swf"])
def test_two_hundred_thousand_jobs(format: str, tmp_path: Path) -> None:
    path = tmp_path / "big.gz"
    benchmark().make(path, 200_000, format)
    trace = same(path, tmp_path, part_bytes=2_000_000)
    assert len(trace) == 200_000


@pytest.mark.parametrize(
    "name",
    [
        "swf/CTC-SP2-1996-3.1-cln.swf.gz",  # CPU times with fractions in some parts only
        "swf-variants/21-fields-wagap-2013.swf",
        "sacct/xdmod_phillips.sacct.log",
        "gen-parallel-workloads/Theta/generated_data/synthetic_data_gc_theta.csv",
        "gen-parallel-workloads/Helios/training_data/helios_data_training.csv",
    ],
)
def test_real_files(name: str, tmp_path: Path) -> None:
    same(shared(name), tmp_path, part_bytes=100_000)


def test_types_that_change_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    early = "".join(f"{k},{k},5,4,{k % 12},\n" for k in range(1, 200))
    late = "".join(f"{k},{k}.5,5,1.5,u{k % 12},word {k}\n" for k in range(200, 400))
    for text in (early + late, late + early):
        path.write_text(OURS + text)
        trace = same(path, tmp_path, part_bytes=500)
        assert str(trace.jobs["req_procs"].dtype) == "float64"
        (tmp_path / "parts.parquet").unlink()
        (tmp_path / "whole.parquet").unlink()


def test_many_labels_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = [f"a-rather-long-name-of-a-user-{k * 7919 % 60_000}" for k in range(60_000)]  # more than 1 MB of labels
    path.write_text(OURS + "".join(f"{k},{k},5,4,{name},x\n" for k, name in enumerate(names, 1)))
    trace = same(path, tmp_path, part_bytes=500_000)
    assert trace.equals(tracekit.read(path))


def test_ids_are_counted_through(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("submit_time,run_time,req_procs\n" + "1,2,3\n" * 100)
    assert same(path, tmp_path, part_bytes=50).jobs["job_id"].tolist() == list(range(1, 101))


def test_steps_stay_with_their_job(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = ["JobID|Submit|Start|Elapsed|State|ReqCPUS|MaxRSS"]
    for k in range(1, 60):
        lines.append(f"{k}|2024-03-01T08:00:00|2024-03-01T08:00:05|00:10|COMPLETED|4|")
        lines += [f"{k}.{step}|2024-03-01T08:00:00|2024-03-01T08:00:05|00:10|COMPLETED|4|{k}M" for step in ("batch", 0)]
    path.write_text("\n".join(lines) + "\n")
    trace = same(path, tmp_path, part_bytes=333)
    assert trace.jobs["x_maxrss_kb"].tolist() == [1024.0 * k for k in range(1, 60)]
    path.write_text(path.read_text().replace("\n30|", "\n30_1|"))  # one array task: all jobs are numbered
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    assert same(path, tmp_path, part_bytes=333).jobs["x_jobid"].iloc[29] == "30_1"


def test_odd_hours_of_all_parts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = ["JobID|Submit|Start|Elapsed|State|ReqCPUS"]
    lines += [f"{k}|2024-10-27T02:30:00|2024-03-31T02:30:00|00:10|COMPLETED|4" for k in range(1, 60)]
    path.write_text("\n".join(lines) + "\n")
    trace = same(path, tmp_path, part_bytes=300, timezone="Europe/Berlin")
    assert trace.history == (
        "column submit: 59 local times that occurred twice, read as the first",
        "column start: 59 local times that the clock skipped, read one hour later",
    )


def test_no_limits_at_all_and_running_sums(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(GPW + "".join(f"{k},1,0,4,1,0.1,10,0,Pass\n" for k in range(300)))
    trace = same(path, tmp_path, part_bytes=400)
    assert trace.jobs["req_time"].isna().all()


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_damage_has_the_line_of_the_whole_file(on_error: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{k},{k},5,4,u,x\n" for k in range(1, 301)]
    rows[199] = "200,200,5\n"
    rows[249] = "250,250,soon,4,u,x\n"
    path.write_text(OURS + "".join(rows))
    target = tmp_path / "out.parquet"
    if on_error == "stop":
        with pytest.raises(FormatError, match=r"a\.csv, line 201: 3 fields"):
            to_parquet(path, target, part_bytes=400)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]
        return
    done = to_parquet(path, target, part_bytes=400, on_error="skip")
    assert done is not None
    assert done[0] == 298
    assert done[2] == ["skipped 2 damaged lines (first: line 201, 3 fields, the header has 6)"]


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{k},{k},5,4,u,x\n".encode() for k in range(1, 301)]
    rows[250] = b"251,251,5,4,J\xf6rg,x\n"
    rows[3] = "4,4,5,4,Jörg,x\n".encode()
    path.write_bytes(OURS.encode() + b"".join(rows))
    same(path, tmp_path, part_bytes=1000)


def test_the_command_chooses_parts_for_large_files(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress((OURS + "".join(f"{k},{k},5,4,u,x\n" for k in range(1, 3001))).encode()))
    assert not is_large(path)
    monkeypatch.setattr("tracekit.api.LARGE_BYTES", 1000)
    assert is_large(path)
    code, out, error = run("convert", path, tmp_path / "out.parquet", "--procs", 64)
    assert (code, out) == (0, ""), error
    assert "3,000 jobs" in error
    trace = tracekit.read(tmp_path / "out.parquet")
    assert (len(trace), trace.machine.procs, trace.machine.source) == (3000, 64, "a.csv.gz")
    code, _, error = run("convert", path, tmp_path / "out.parquet")
    assert code == 1
    assert "--force" in error
    code, _, error = run("convert", "--parts", shared("pbs/IU-Mason_20171003.anon"), tmp_path / "p.parquet")
    assert code == 0, error  # a format that is read whole


@pytest.mark.parametrize("text", ["", OURS, OURS + "\n\n"])
def test_a_file_without_jobs_is_not_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert to_parquet(path, tmp_path / "out.parquet", "csv") is None  # read whole, it says what is wrong
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]


def test_sacct_command(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("sacct-command", "--start", "2024-01-01", "--end", "2024-02-01", "--cluster", "alpha")
    assert code == 0
    assert out.startswith("TZ=UTC sacct --allusers --parsable2")
    assert "--clusters=alpha --starttime=2024-01-01 --endtime=2024-02-01 --format=JobID,JobIDRaw," in out
    assert out.endswith(",JobName > jobs.sacct\n")
    assert run("sacct-command", "--start", "yesterday")[0] == 2
