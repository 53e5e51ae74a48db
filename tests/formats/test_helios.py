from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import FormatError

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_the_owners_rows() -> None:
    trace = tracekit.read(shared("helios/helios_earth_readme_3rows.csv"))
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [1425511, 1425512, 1425513]
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2020-06-09 10:41:01", tz="UTC").timestamp()
    assert jobs["run_time"].tolist() == [36848, 249, 675233]
    assert jobs["wait_time"].tolist() == [0, 0, 0]
    assert jobs["req_gpus"].tolist() == [1, 4, 1]
    assert jobs["req_procs"].tolist() == [1, 16, 1]
    assert jobs["partition"].tolist() == ["vcJkd", "vchbv", "vcpDC"]
    assert jobs["status"].tolist() == ["completed", "failed", "cancelled"]
    assert trace.machine.unit == "gpus"
    assert "x_duration" not in jobs.columns  # it says what the stamps say


def test_the_file_beside_it_gives_the_gpus(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(HEADER + "1,u,vcA,8,64,1,NODE_FAIL,2020-06-09 00:00:00,,,,\n")
    (tmp_path / "cluster_gpu_number.csv").write_text("date,vcA,vcB,total\n2020-06-01,8,16,24\n2020-06-02,8,24,32\n")
    trace = tracekit.read(path)
    assert trace.machine.gpus == 32
    assert [(g.count, g.gpus, g.pool) for g in trace.machine.groups] == [(1, 8, "vcA"), (3, 8, "vcB")]
    assert trace.machine.nodes == 4
    assert trace.jobs["status"].tolist() == ["failed"]
    assert np.isnan(trace.jobs["run_time"].iloc[0])


def test_durations_fill_gaps_and_are_kept_where_they_disagree(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        HEADER
        + "1,u,v,0,4,1,COMPLETED,2020-06-09 00:00:00,2020-06-09 00:00:10,2020-06-09 00:01:10,70,10\n"
        + "2,u,v,0,4,1,TIMEOUT,2020-06-09 00:00:00,,,33,5\n"
    )
    trace = tracekit.read(path)
    assert trace.jobs["run_time"].tolist() == [60, 33]
    assert trace.jobs["wait_time"].tolist() == [10, 5]
    assert trace.jobs["x_duration"].tolist() == [70, 33]
    assert trace.jobs["status"].tolist() == ["completed", "timeout"]
    assert trace.machine.unit == "procs"  # no job has a GPU


def test_written_and_read_again(tmp_path: Path) -> None:
    trace = tracekit.read(shared("helios/helios_earth_readme_3rows.csv"))
    assert tracekit.write(trace, tmp_path / "out.helios") == ["the machine"]
    pd.testing.assert_frame_equal(tracekit.read(tmp_path / "out.helios").jobs, trace.jobs, check_categorical=False)


def test_bad_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEADER + "1,u,v,0,four,1,COMPLETED,2020-06-09 00:00:00,,,33,5\n")
    with pytest.raises(FormatError, match="line 2: 'four' in column cpu_num"):
        tracekit.read(path)
    path.write_text(HEADER.replace(",vc,", ",virtual,") + "1,u,v,0,4,1,COMPLETED,2020-06-09 00:00:00,,,33,5\n")
    with pytest.raises(FormatError, match="column vc"):
        tracekit.read(path, "helios")


def test_unknown_waits_sizes_and_calendars_survive_or_are_named(tmp_path: Path) -> None:
    jobs = pd.DataFrame(
        {"job_id": [1, 2], "submit_time": [0.0, 5.0], "wait_time": [np.nan, 3.0], "run_time": [60.0, np.nan]}
    ).assign(req_gpus=[4, None])
    lost = tracekit.write(Trace(jobs, Machine(unit="gpus")), tmp_path / "t.helios")
    assert any("no calendar" in phrase for phrase in lost)
    back = tracekit.read(tmp_path / "t.helios")
    for name in ("submit_time", "wait_time", "run_time", "req_gpus"):
        np.testing.assert_array_equal(back.column(name), Trace(jobs).column(name))
