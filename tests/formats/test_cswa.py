"""CSWA: no raw file is known to us, so these rows are made, in the poster's column names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import SWF_TEXT

import tracekit
from tracekit.errors import FormatError, UnknownName

HEADER = "u_id,user,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,job_status\n"


def test_the_posters_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(
        HEADER + "1,ann,56,2,2019-03-01 08:00:00,10,100,3600,Pass\n2,bob,28,1,2019-03-01 08:00:30,-1,5,-1,Killed\n"
    )
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2019-03-01", tz="UTC").timestamp()  # 8:00 in China
    assert jobs["req_procs"].tolist() == [56, 28]
    assert jobs["req_nodes"].tolist() == [2, 1]
    assert jobs["status"].tolist() == ["completed", "cancelled"]
    assert np.isnan(jobs["wait_time"].iloc[1])
    assert np.isnan(jobs["req_time"].iloc[1])
    tracekit.write(trace, tmp_path / "again.cswa")
    pd.testing.assert_frame_equal(tracekit.read(tmp_path / "again.cswa").jobs, jobs, check_categorical=False)


def test_intervals_add_up_and_numbers_have_no_calendar(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("u_id,user,cpu_num,interval,run_time,job_status\n1,a,4,5,10,1\n2,a,4,7,10,0\n3,a,4,0,10,9\n")
    trace = tracekit.read(path)
    assert trace.jobs["submit_time"].tolist() == [5, 12, 12]
    assert trace.jobs["status"].tolist() == ["completed", "failed", "unknown"]
    assert trace.machine.epoch is None


def test_swf_is_read_when_the_format_is_named_and_other_columns_by_map(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(SWF_TEXT)
    assert tracekit.read(path).equals(tracekit.read(path, "cswa"))
    path.write_text("id,who,cores,came,ran\n1,a,4,0,10\n")
    mapping = {"job_id": "id", "user": "who", "req_procs": "cores", "submit_time": "came", "run_time": "ran"}
    assert tracekit.read(path, "cswa", map=mapping).jobs["req_procs"].tolist() == [4]
    with pytest.raises(UnknownName):
        tracekit.read(path, "cswa", map=mapping | {"req_procs": "nothing"})
    with pytest.raises(FormatError, match="neither SWF nor a table"):
        tracekit.read(path, "cswa")


def test_gpw_keeps_its_own_files(tmp_path: Path) -> None:
    from swf import FORMATS
    from swf.base import detect

    path = tmp_path / "t"
    path.write_text(
        "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status,job_status\n1,1,1,1,1,1,1,1,Pass,1\n"
    )
    assert detect(path, FORMATS).name == "gpw"
