"""csv, gpw and foreign Parquet: tables with a header row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared, shared_files

import tracekit
from tracekit.errors import FormatError, TracekitError, UnknownName
from tracekit.schema import EXACT_FLOATS
from tracekit.validation import usable, validate

GPW = """\
u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status
0,1,0,128,2,0,10.5,60,Pass
1,2,0,64,1,30,20,60,Killed
2,1,0,64,1,5,0,120,Failed
"""


def write(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_gpw_columns(tmp_path: Path) -> None:
    trace = tracekit.read(write(tmp_path, GPW))
    jobs = trace.jobs
    assert jobs["submit_time"].tolist() == [0, 30, 35]
    assert jobs["req_procs"].tolist() == [128, 64, 64]
    assert jobs["req_nodes"].tolist() == [2, 1, 1]
    assert jobs["req_time"].tolist() == [60, 60, 120]
    assert jobs["status"].tolist() == ["completed", "cancelled", "failed"]
    assert jobs["user"].tolist() == ["1", "2", "1"]
    assert trace.machine.epoch is None
    dated = tracekit.read(write(tmp_path, GPW), epoch="2023-01-02", timezone="Asia/Shanghai")
    assert dated.machine.epoch == pd.Timestamp("2023-01-02", tz="Asia/Shanghai").timestamp()


@pytest.mark.parametrize("path", shared_files("gen-parallel-workloads/*/*/*.csv"), ids=lambda p: p.name)
def test_gpw_files_load_as_they_are_and_come_back(path: Path, tmp_path: Path) -> None:
    source = pd.read_csv(path, **EXACT_FLOATS)
    trace = tracekit.read(path)
    assert len(trace) == 15_000
    np.testing.assert_array_equal(trace.column("run_time"), source["run_time"])
    np.testing.assert_array_equal(trace.column("req_nodes"), source["node_num"])
    tracekit.write(trace, tmp_path / "o.csv", "gpw")
    back = pd.read_csv(tmp_path / "o.csv", **EXACT_FLOATS)
    assert list(back.columns) == list(source.columns)[-9:]
    for name in ("u_id", "user", "gpu_num", "cpu_num", "node_num", "run_time", "wall_time", "new_status"):
        np.testing.assert_array_equal(back[name], source[name], err_msg=name)
    np.testing.assert_allclose(back["interval"], source["interval"], atol=1e-5)


def test_violations_of_the_published_sets_are_counted() -> None:
    folder = shared("gen-parallel-workloads/Theta/generated_data")
    source = pd.read_csv(folder / "synthetic_data_ctgan_theta.csv")
    trace = tracekit.read(folder / "synthetic_data_ctgan_theta.csv")
    found = {problem.rule: problem.count for problem in validate(trace)}
    fractional = (source[["cpu_num", "node_num"]] % 1 != 0).any(axis=1).sum()
    assert found["fractional-counts"] == fractional
    assert found["run-beyond-limit"] == (source["run_time"] > source["wall_time"]).sum()
    assert not usable(trace)
    constant = tracekit.read(folder / "synthetic_data_gan_theta.csv")
    assert {p.rule: p.count for p in validate(constant)}["duplicate-ids"] == 14_999
    assert usable(tracekit.read(shared("gen-parallel-workloads/Theta/training_data/theta_data_training.csv")))


def test_gpw_index_column_in_front_is_dropped(tmp_path: Path) -> None:
    lines = GPW.splitlines()
    text = "\n".join(["," + lines[0], *(f"{i},{line}" for i, line in enumerate(lines[1:]))]) + "\n"
    assert tracekit.read(write(tmp_path, text)).jobs.equals(tracekit.read(write(tmp_path, GPW)).jobs)


def test_a_dated_trace_starts_with_interval_zero(toy: tracekit.Trace, tmp_path: Path) -> None:
    lost = tracekit.write(toy, tmp_path / "o.gpw")
    back = pd.read_csv(tmp_path / "o.gpw")
    assert back["interval"][0] == 0
    assert back["interval"].sum() == np.ptp(toy.column("submit_time"))
    assert {"the machine", "the calendar"} <= set(lost)


FOREIGN = """\
Job;Owner;Queued;Began;Ended;Cores;Colour
7;zoe;2024-03-01 10:00:00;2024-03-01 10:05:00;2024-03-01 11:05:00;4;red
"""


def test_other_peoples_columns_by_map(tmp_path: Path) -> None:
    path = write(tmp_path, FOREIGN)
    mapping = {"job_id": "Job", "user": "Owner", "submit_time": "Queued", "start_time": "Began", "end_time": "Ended",
               "req_procs": "Cores"}  # fmt: skip
    trace = tracekit.read(path, map=mapping, timezone="Europe/Berlin")
    job = trace.jobs.iloc[0]
    assert (job["job_id"], job["wait_time"], job["run_time"], job["req_procs"], job["user"]) == (7, 300, 3600, 4, "zoe")
    assert job["x_Colour"] == "red"
    assert trace.machine.epoch == 0
    assert job["submit_time"] == pd.Timestamp("2024-03-01 09:00", tz="UTC").timestamp()


def test_a_map_is_remembered_beside_the_file(tmp_path: Path, run) -> None:  # type: ignore[no-untyped-def]
    path = write(tmp_path, "when,secs,n\n0,5,1\n9,6,2\n", "jobs.csv")
    code, _, error = run("info", path)
    assert code == 1
    assert "--map submit_time=THEIRS" in error
    mapping = "submit_time=when,run_time=secs,req_procs=n"
    assert run("info", path, "--map", mapping)[0] == 0
    assert list(tmp_path.iterdir()) == [path]  # looking leaves nothing behind
    code, _, error = run("convert", path, tmp_path / "o.swf", "--map", mapping)
    assert code == 0
    assert "jobs.csv.columns.toml" in error
    code, out, _ = run("info", path, "--json")
    assert code == 0
    assert '"jobs": 2' in out


def test_a_wrong_map_says_what_there_is(tmp_path: Path) -> None:
    path = write(tmp_path, "when,secs,n\n0,5,1\n")
    with pytest.raises(UnknownName, match="did you mean when"):
        tracekit.read(path, map={"submit_time": "wen", "run_time": "secs", "req_procs": "n"})
    with pytest.raises(FormatError, match="no column for run_time"):
        tracekit.read(path, map={"submit_time": "when", "req_procs": "n"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("submit_time,run_time,req_procs\n0,5,1\n1,5\n", "2 fields"),
        ("submit_time,run_time,req_procs\n0,5,1\n1,5,1,9\n", "4 fields"),
        ("submit_time,run_time,req_procs\n0,5,1\n1,5,1\n2,soon,1\n", "'soon' in column run_time"),
        ("submit_time,run_time,req_procs\n", "no jobs"),
    ],
)
def test_damaged_tables_name_the_line(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FormatError, match=words):
        tracekit.read(path)
    if "fields" in words or "soon" in words:
        trace = tracekit.read(path, on_error="skip")
        assert "skipped 1" in trace.history[0]


def test_csv_round_trip_is_exact(toy: tracekit.Trace, tmp_path: Path) -> None:
    tracekit.write(toy, tmp_path / "o.csv")
    assert tracekit.read(tmp_path / "o.csv").jobs.equals(toy.jobs)


def test_latin1_tables(tmp_path: Path) -> None:
    path = write(tmp_path, "user,submit_time,run_time,req_procs\nJ\xfcrgen,0,5,1\n".encode("latin-1"))
    assert tracekit.read(path).jobs["user"][0] == "J\xfcrgen"


def test_parquet_from_elsewhere(tmp_path: Path, toy: tracekit.Trace) -> None:
    pd.DataFrame({"t": [0, 1], "dur": [5, 6], "gpus": [1, 2]}).to_parquet(tmp_path / "f.parquet")
    trace = tracekit.read(tmp_path / "f.parquet", map={"submit_time": "t", "run_time": "dur", "req_gpus": "gpus"})
    assert trace.machine.unit == "gpus"
    assert trace.sizes().tolist() == [1, 2]
    with pytest.raises(FormatError, match="--map"):
        tracekit.read(tmp_path / "f.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "f.parquet").read_bytes()[:200])
    with pytest.raises(FormatError, match="Parquet"):
        tracekit.read(tmp_path / "cut.parquet")


def test_native_file_keeps_everything(tmp_path: Path, toy: tracekit.Trace) -> None:
    trace = toy.head(50)
    tracekit.write(trace, tmp_path / "a.parquet")
    tracekit.write(trace, tmp_path / "b.parquet")
    back = tracekit.read(tmp_path / "a.parquet")
    assert back.equals(trace.replace(machine=trace.machine.replace(source="a.parquet")))
    assert back.history == trace.history
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_map_for_a_format_without_columns_is_refused(toy_swf: Path) -> None:
    with pytest.raises(TracekitError, match="option map"):
        tracekit.read(toy_swf, "swf", map={"user": "u"})
