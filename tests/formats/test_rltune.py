from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import FormatError


def test_the_owners_synthetic_trace() -> None:
    trace = tracekit.read(shared("rltune/synthetic_trace.csv"))
    jobs = trace.jobs
    assert len(trace) == 960
    first = jobs.iloc[0]
    assert (first["x_job_id"], first["submit_time"], first["wait_time"], first["run_time"]) == (
        "deepspeech2-0_1",
        1201,
        0,
        25,
    )
    assert (first["alloc_gpus"], first["user"], first["group"], first["gpu_type"]) == (8, "2", "1", "0")
    assert not trace.has("partition")  # −1: no virtual cluster
    assert not trace.has("req_time")
    assert jobs["x_status"].unique().tolist() == [2]
    assert jobs["status"].unique().tolist() == ["unknown"]
    assert trace.machine.unit == "gpus"
    assert trace.machine.epoch is None


def test_the_readmes_row_and_the_wider_layout(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("c936346f45eccd34bf748541,2693235,-1,2612,1,-1,-1,-1,-1,29.296875,1,-1,-1,-1,0,-1,-1,-1,1\n")
    job = tracekit.read(path).jobs.iloc[0]
    assert (job["gpu_type"], job["x_request_memory"], job["status"]) == ("1", 29.296875, "completed")
    assert np.isnan(job["wait_time"])
    path.write_text("7,10,5,60,4,-1,-1,16,120,-1,5,3,1,-1,0,2,-1,30,6,3\n")
    job = tracekit.read(path).jobs.iloc[0]
    assert (job["job_id"], job["think_time"], job["partition"], job["gpu_type"]) == (7, 30, "6", "3")
    assert (job["req_procs"], job["req_time"], job["x_partition"], job["status"]) == (16, 120, 2, "cancelled")
    path.write_text(
        "a,10,5,60,4,-1,-1,16,120,-1,5,3.0,-1,-1,q,2,-1,30,6.0,-1\nb,10,5,60,4,-1,-1,16,120,-1,5,-1,1,-1,-1,2,-1,30,6,3\n"
    )
    table = tracekit.read(path, "rltune").jobs
    assert table["partition"].tolist() == ["6", "6"]
    assert table["user"].tolist()[0] == "3"
    assert table["queue"].isna().tolist() == [False, True]
    assert table["gpu_type"].isna().tolist() == [True, False]
    dated = tracekit.read(path, epoch="2020-01-01")
    assert dated.machine.epoch == pd.Timestamp("2020-01-01", tz="UTC").timestamp()


def test_written_and_read_again(tmp_path: Path) -> None:
    jobs = pd.DataFrame(
        {
            "job_id": [3, 4],
            "submit_time": [0.0, 7.5],
            "run_time": [10.0, np.nan],
            "req_gpus": [2, 8],
            "user": ["ann", "bob"],
            "partition": ["1", "2"],
            "status": ["completed", "timeout"],
            "req_nodes": [1, 2],
        }
    )
    lost = tracekit.write(Trace(jobs, Machine(gpus=16, unit="gpus")), tmp_path / "t.rltune")
    assert lost == ["column req_nodes", "the machine", "names of users (numbered from 1)"]
    back = tracekit.read(tmp_path / "t.rltune").jobs
    assert back["submit_time"].tolist() == [0, 7.5]
    assert back["alloc_gpus"].tolist() == [2, 8]
    assert back["partition"].tolist() == ["1", "2"]
    assert back["status"].tolist() == ["completed", "failed"]
    assert np.isnan(back["run_time"].iloc[1])


def test_rows_of_another_width_are_named(tmp_path: Path) -> None:
    good = "7,10,5,60,4,-1,-1,16,120,-1,5,3,1,-1,0,2,-1,30,6,3\n"
    path = tmp_path / "t"
    path.write_text(good * 3 + "8,9\n" + good)
    with pytest.raises(FormatError, match="line 4: 2 fields"):
        tracekit.read(path)
    assert len(tracekit.read(path, on_error="skip")) == 4
    path.write_text(good * 3 + good.replace("60", "1h"))
    with pytest.raises(FormatError, match="line 4: '1h' in column run_time"):
        tracekit.read(path)
    path.write_text("1,2,3\n")
    with pytest.raises(FormatError, match="19 or 20"):
        tracekit.read(path, "rltune")
