from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit.errors import FormatError

HEADER = (
    "JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|State|ReqCPUS|AllocCPUS|ReqMem|MaxRSS|NTasks|TotalCPU|"
    "Timelimit|ReqTRES|AllocTRES"
)
ROWS = """\
101|bäckup|ann|phys|gpu|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T09:01:00|01:00:00|COMPLETED|8|8|4Gc|||02:00:00|1-00:00:00|billing=8,cpu=8,gres/gpu:a100=2,mem=32G,node=2|cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=32G,node=2
101.batch|batch|||||2024-03-01T08:01:00|2024-03-01T09:01:00|01:00:00|COMPLETED|4|4||1024K|1|00:10.500||cpu=4|cpu=4
101.0|solve|||||2024-03-01T08:01:10|2024-03-01T09:01:00|00:59:50|COMPLETED|8|8||2M|4|01:59:49||cpu=8|cpu=8
102|late|bob|chem|cpu|2024-03-01T08:00:10|Unknown|Unknown|00:00:00|PENDING|16|0|64000Mn||||UNLIMITED|cpu=16,mem=125G,node=2|
103|odd|cem|chem|cpu|2024-03-01T08:00:20|2024-03-01T08:00:30|2024-03-01T08:05:30|00:05:00|CANCELLED by 1001|4|4|2G|||00:00.000|Partition_Limit|cpu=4,mem=2G,node=1|cpu=4,mem=2G,node=1
"""  # noqa: E501
BASE = {"JobID": "7", "Submit": "2024-03-01T08:00:00", "Start": "2024-03-01T08:00:05", "Elapsed": "00:00:10"}
BASE |= {"State": "COMPLETED", "ReqCPUS": "4"}
UNKNOWN_ENERGY = str(2**64 - 2)


def table(path: Path, *rows: dict[str, str]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["|".join(names), *("|".join(row.get(name, "") for name in names) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_real_log() -> None:
    trace = tracekit.read(shared("sacct/xdmod_phillips.sacct.log"))
    jobs = trace.jobs
    assert len(trace) == 4285
    assert trace.machine.name == "phillips"
    assert Counter(jobs["status"]) == {"completed": 2324, "failed": 1717, "cancelled": 243, "timeout": 1}
    first = jobs.iloc[0]
    assert first["job_id"] == 163485
    assert first["submit_time"] == pd.Timestamp("2016-12-22T07:15:12Z").timestamp()
    assert first["wait_time"] == 1
    assert first["run_time"] == 10 * 86400 + 13 * 3600 + 27 * 60 + 6
    assert first["req_time"] == 37 * 86400 + 14 * 3600
    assert (first["req_procs"], first["alloc_procs"], first["alloc_nodes"], first["alloc_gpus"]) == (12, 12, 1, 2)
    assert pd.isna(first["req_gpus"])  # it got two, so that the request names none says nothing
    assert first["req_mem"] == 31000 * 1024 / 12
    assert (first["user"], first["project"], first["partition"]) == ("noror", "chaff", "focaccia")
    assert first["x_status"] == "CANCELLED by 380693"
    assert first["x_qos"] == "chestnut"
    assert jobs["alloc_gpus"].sum() == 4
    eight = jobs.iloc[1]  # 8000Mn on each of 8 nodes for 64 processors
    assert eight["req_mem"] == 1000 * 1024
    per_cpu = jobs.iloc[2]  # 2147486648Mn is 3000 MB with the mark for "per CPU": 24000M for 8 processors
    assert per_cpu["req_mem"] == 3000 * 1024


def test_header_steps_and_notations(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text(f"{HEADER}\n{ROWS}")
    assert detect(path, FORMATS).name == "sacct"
    trace = tracekit.read(path, timezone="Europe/Berlin")
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [101, 102, 103]
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2024-03-01T07:00:00Z").timestamp()
    assert jobs["app"].iloc[0] == "bäckup"
    assert jobs["wait_time"].tolist()[::2] == [60, 10]
    assert jobs["run_time"].tolist()[::2] == [3600, 300]
    assert np.isnan(jobs["wait_time"].iloc[1])
    assert np.isnan(jobs["run_time"].iloc[1])
    assert jobs["req_time"].iloc[0] == 86400
    assert jobs["req_time"].isna().tolist() == [False, True, True]
    assert jobs["req_gpus"].tolist() == [2, 0, 0]
    assert jobs["gpu_type"].iloc[0] == "a100"
    assert jobs["req_mem"].tolist() == [4 * 1024**2, 64000 * 1024 * 2 / 16, 2 * 1024**2 / 4]
    assert jobs["used_mem"].iloc[0] == 2048 * 4 / 8  # the largest step: 2 MB in each of 4 tasks, on 8 processors
    assert jobs["x_maxrss_kb"].iloc[0] == 2048
    assert jobs["cpu_time"].iloc[0] == 7200 / 8
    assert jobs["status"].tolist() == ["completed", "unknown", "cancelled"]
    assert jobs["x_status"].iloc[2] == "CANCELLED by 1001"


def test_arrays_and_heterogeneous_jobs(tmp_path: Path) -> None:
    rows = [BASE | {"JobID": name} for name in ("12_1", "12_2", "12_2.batch", "12_[3-9%2]", "20+0", "20+1", "21")]
    trace = tracekit.read(table(tmp_path / "a", *rows))
    assert trace.jobs["job_id"].tolist() == [1, 2, 3, 4, 5, 6]
    assert trace.jobs["x_jobid"].tolist() == ["12_1", "12_2", "12_[3-9%2]", "20+0", "20+1", "21"]
    raw = [row | {"JobIDRaw": str(number)} for number, row in enumerate(rows, 12) if ".batch" not in row["JobID"]]
    trace = tracekit.read(table(tmp_path / "b", *raw))
    assert trace.jobs["job_id"].tolist() == [12, 13, 15, 16, 17, 18]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("NODE_FAIL", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("BOOT_FAIL", "failed"),
        ("PREEMPTED", "cancelled"),
        ("DEADLINE", "timeout"),
        ("TIMEOUT", "timeout"),
        ("REQUEUED", "partial"),
        ("RUNNING", "unknown"),
        ("CANCELLED by 0", "cancelled"),
    ],
)
def test_states(state: str, status: str, tmp_path: Path) -> None:
    trace = tracekit.read(table(tmp_path / "a", BASE | {"State": state}))
    assert trace.jobs["status"].tolist() == [status]
    assert np.isnan(trace.jobs["run_time"].iloc[0]) == (state == "RUNNING")


def test_a_name_with_the_separator_is_put_together(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(
        "JobID|JobName|Submit|Start|Elapsed|State|ReqCPUS\n"
        "1|plain|2024-03-01T08:00:00|2024-03-01T08:00:05|00:10|COMPLETED|4\n"
        "2|a|b|c|2024-03-01T08:00:00|2024-03-01T08:00:05|00:20|FAILED|8\n"
        "3|plain|2024-03-01T08:00:00|2024-03-01T08:00:05|00:30|COMPLETED|4\n"
    )
    trace = tracekit.read(path)
    assert trace.jobs["app"].tolist() == ["plain", "a|b|c", "plain"]
    assert trace.jobs["run_time"].tolist() == [10, 20, 30]


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    rows = [BASE, {}, BASE | {"Elapsed": "soon"}, BASE | {"JobID": "9"}]
    path = table(tmp_path / "a", *rows)
    path.write_text(path.read_text().replace("|||||\n", "\n"))  # a blank line counts
    with pytest.raises(FormatError, match=r"line 4: 'soon' in elapsed"):
        tracekit.read(path)
    trace = tracekit.read(path, on_error="skip")
    assert trace.jobs["job_id"].tolist() == [7, 9]
    assert "skipped 1 damaged lines (line 4" in trace.history[0]
    path.write_text("JobID|JobName|Submit|State\n1|x|2024-03-01T08:00:00|COMPLETED\n")
    with pytest.raises(FormatError, match=r"Elapsed, ReqCPUS or AllocTRES.*sacct-command"):
        tracekit.read(path)


def test_parsable_with_a_trailing_separator_unix_times_and_unknown_columns(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(
        "JobID|User|Submit|Start|ElapsedRaw|State|AllocCPUS|WCKey|TimelimitRaw|\n"
        "5|1001|1700000000|1700000060|30|COMPLETED|2|blue|90|\n6|99|1700000000|1700000060|30|COMPLETED|2|red|1.5|\n"
    )
    trace = tracekit.read(path)
    assert trace.jobs["submit_time"].tolist() == [1_700_000_000] * 2
    assert trace.jobs["req_time"].tolist() == [5400, 90]
    assert trace.jobs["x_wckey"].tolist() == ["blue", "red"]
    assert list(trace.jobs["user"].cat.categories) == ["99", "1001"]


def test_the_hour_that_comes_twice_is_read(tmp_path: Path) -> None:
    row = BASE | {"Submit": "2024-10-27T02:30:00", "Start": "2024-10-27T03:00:00"}
    trace = tracekit.read(table(tmp_path / "a", row), timezone="Europe/Berlin")
    assert trace.jobs["submit_time"].iloc[0] == pd.Timestamp("2024-10-27T00:30:00Z").timestamp()


def test_a_converted_table_is_not_claimed() -> None:
    with pytest.raises(FormatError, match="no format recognises"):
        detect(shared("sacct/schedsim_slurm_testtrace.csv"), FORMATS)


@pytest.mark.parametrize(
    ("columns", "watts"),
    [
        ({"ConsumedEnergyRaw": "3000"}, 300.0),  # J over the 10 s of `BASE`
        ({"ConsumedEnergy": "4.50K"}, 450.0),  # prefixes in steps of 1000
        ({"ConsumedEnergyRaw": "3000", "ConsumedEnergy": "9M"}, 300.0),
        ({"AllocTRES": "billing=4,cpu=4,energy=2000,node=1"}, 200.0),
        ({"ConsumedEnergyRaw": "0", "AllocTRES": "cpu=4,energy=2000"}, 200.0),
        ({"ConsumedEnergyRaw": "0"}, np.nan),
        ({"ConsumedEnergyRaw": UNKNOWN_ENERGY}, np.nan),
        ({"ConsumedEnergyRaw": ""}, np.nan),
        ({"ConsumedEnergyRaw": "3000", "Elapsed": "00:00:00"}, np.nan),
        ({"ConsumedEnergyRaw": "3000", "State": "RUNNING"}, np.nan),
    ],
)
def test_energy_becomes_mean_watts(columns: dict[str, str], watts: float, tmp_path: Path) -> None:
    jobs = tracekit.read(table(tmp_path / "a", BASE | columns), "sacct").jobs
    np.testing.assert_array_equal(jobs["mean_watts"], [watts])
    assert not [name for name in jobs.columns if "energy" in name]


def test_energy_of_steps_is_not_added(tmp_path: Path) -> None:
    job, batch, step = (BASE | {"JobID": name, "ConsumedEnergyRaw": joules} for name, joules in
                        (("7", ""), ("7.batch", "1000"), ("7.0", "2500")))  # fmt: skip
    jobs = tracekit.read(table(tmp_path / "a", job, batch, step, BASE | {"JobID": "8"}), "sacct").jobs
    np.testing.assert_array_equal(jobs["mean_watts"], [250.0, np.nan])


def test_an_energy_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'much' in column consumedenergyraw is not an energy"):
        tracekit.read(table(tmp_path / "a", BASE | {"ConsumedEnergyRaw": "much"}), "sacct")
