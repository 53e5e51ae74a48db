from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit import Trace
from tracekit.errors import FormatError

STAMPS = pd.to_datetime(["2020-05-01T00:00:00", "2020-05-01T00:01:00"])
PM100 = pd.DataFrame(
    {
        "job_id": [1, 2],
        "user_id": [7, 8],
        "group_id": [1, 1],
        "job_state": ["COMPLETED", "OUT_OF_MEMORY"],
        "submit_time": STAMPS,
        "eligible_time": STAMPS,
        "start_time": STAMPS + pd.Timedelta(seconds=30),
        "end_time": STAMPS + pd.Timedelta(seconds=90),
        "run_time": [60, 60],
        "time_limit": [10, 1440],
        "num_cores_req": [4, 128],
        "num_cores_alloc": [4, 128],
        "num_gpus_req": [1, 4],
        "num_gpus_alloc": [1, 4],
        "num_nodes_req": [1, 1],
        "num_nodes_alloc": [1, 1],
        "mem_req": [100, 200],
        "partition": ["a", "b"],
        "qos": ["x", "y"],
        "power_consumption": [[1, 2], [3]],
    }
)
FDATA = pd.DataFrame(
    {
        "jid": [11, 12],
        "usr": ["a", "b"],
        "jnam": ["n", "m"],
        "cnumr": [48, 96],
        "cnumat": [48, 96],
        "nnumr": [1, 2],
        "nnuma": [1, 2],
        "adt": STAMPS,
        "qdt": STAMPS,
        "sdt": STAMPS + pd.Timedelta(seconds=10),
        "edt": STAMPS + pd.Timedelta(seconds=25),
        "elpl": [3600, 7200],
        "ec": [0, 1],
        "mszl": [5, 6],
        "embedding": [[0.1], [0.2]],
    }
)


def test_pm100_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "file"
    PM100.to_parquet(path)
    assert detect(path, FORMATS).name == "pm100"
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2020-05-01", tz="UTC").timestamp()
    assert jobs["wait_time"].tolist() == [30, 30]
    assert jobs["run_time"].tolist() == [60, 60]
    assert jobs["req_time"].tolist() == [600, 86400]
    assert jobs["req_procs"].tolist() == [4, 128]
    assert jobs["alloc_gpus"].tolist() == [1, 4]
    assert jobs["status"].tolist() == ["completed", "failed"]
    assert jobs["x_mem_req"].tolist() == [100, 200]
    assert "x_power_consumption" not in jobs


def test_fdata_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "file"
    FDATA.to_parquet(path)
    assert detect(path, FORMATS).name == "fdata"
    jobs = tracekit.read(path, timezone="Asia/Tokyo").jobs
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2020-05-01", tz="Asia/Tokyo").timestamp()
    assert jobs["wait_time"].tolist() == [10, 10]
    assert jobs["run_time"].tolist() == [15, 15]
    assert jobs["req_nodes"].tolist() == [1, 2]
    assert jobs["status"].tolist() == ["completed", "failed"]
    assert "mean_watts" not in jobs
    FDATA.assign(econ=[2.0, 3.0], avgpcon=[481.0, np.nan]).to_parquet(path)  # Wh over 15 s, and W
    assert tracekit.read(path).jobs["mean_watts"].tolist() == [481.0, 3.0 * 3600 / 15]
    FDATA.assign(jid=["x1", "x2"]).to_parquet(path)
    assert tracekit.read(path).jobs["x_jid"].tolist() == ["x1", "x2"]


def test_our_own_file_stays_ours(toy: Trace, tmp_path: Path) -> None:
    path = tmp_path / "file"
    tracekit.write(toy, path, "parquet")
    assert detect(path, FORMATS).name == "parquet"
    with pytest.raises(FormatError, match="column"):
        tracekit.read(path, "pm100")


def test_an_infinite_limit_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "file"
    PM100.assign(time_limit=["INFINITE", "30"]).to_parquet(path)
    limits = tracekit.read(path).jobs["req_time"]
    assert np.isnan(limits.iloc[0])
    assert limits.iloc[1] == 1800


def test_pm100_keeps_the_power_of_jobs(tmp_path: Path) -> None:
    """One sample every 20 s: 100, 300 and 200 W are 600 × 20 = 12,000 J."""
    path = tmp_path / "file"
    power = {"node_power_consumption": [[100, 300, 200], []], "cpu_power_consumption": [[50, 150, 70], None]}
    PM100.assign(**power).to_parquet(path)
    jobs = tracekit.read(path).jobs
    np.testing.assert_array_equal(jobs["mean_watts"], [200, np.nan])
    np.testing.assert_array_equal(jobs["x_peak_watts"], [300, np.nan])
    np.testing.assert_array_equal(jobs["x_energy"], [12_000, np.nan])
    np.testing.assert_array_equal(jobs["x_cpu_mean_watts"], [90, np.nan])
    np.testing.assert_array_equal(jobs["x_cpu_peak_watts"], [150, np.nan])
    np.testing.assert_array_equal(jobs["x_cpu_energy"], [5_400, np.nan])
    PM100.assign(power_consumption=[[1, 2, None], [3.5]]).to_parquet(path, row_group_size=1)
    jobs = tracekit.read(path).jobs
    assert jobs["mean_watts"].tolist() == [1.5, 3.5]
    assert jobs["x_energy"].tolist() == [60, 70]
    assert "node_power_consumption" not in "".join(jobs.columns)
