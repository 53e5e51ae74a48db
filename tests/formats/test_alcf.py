"""ALCF's records: real rows of the older export, and made rows in the columns of the Cobalt and PBS years."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from swf.presets import PRESETS, preset
from tracekit.errors import FormatError

#: Names that readers of the PBS years use, in no order of the owners'; all but the timestamps made up.
PBS_HEADER = (
    "JOB_NAME,COBALT_JOBID,MACHINE_NAME,GPUS_REQUESTED,QUEUED_TIMESTAMP,START_TIMESTAMP,START_DATE_ID,END_TIMESTAMP,"
    "USERNAME_GENID,PROJECT_NAME_GENID,QUEUE_NAME,WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_USED,NODES_REQUESTED,"
    "CORES_USED,CORES_REQUESTED,LOCATION,EXIT_STATUS,QUEUED_WAIT_SECONDS,CAPABILITY,ALLOCATION_AWARD_CATEGORY"
)
HOST = "polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"
PBS_ROWS = "\n".join(
    [
        f"512001.{HOST},-1,polaris,-1,2023-06-01 12:00:00,2023-06-01 12:10:00,20230601,2023-06-01 13:10:00,71,81,prod,"
        '7200.0,3600.0,24.0,24.0,1536.0,1536.0,"x1,x2",0,600,capable,INCITE',
        f"512002.{HOST},-1,polaris,8,2023-06-01 12:01:00,1969-12-31 18:00:00,0,2023-06-01 12:30:00,72,81,debug,"
        "3600.0,0.0,0.0,2.0,0.0,128.0,,271,-1685638860,not-capable,DD",
        f"512003.{HOST},-1,polaris,4,2023-11-05 01:30:00,2023-11-05 03:30:00.5,20231105,2023-11-05 04:00:00,73,82,prod,"
        "3600.0,1800.0,1.0,1.0,64.0,64.0,x3,,7200,,ALCC",
    ]
)


def pbs(tmp_path: Path, rows: str = PBS_ROWS, *, reverse: bool = False) -> Path:
    path = tmp_path / "polaris.csv"
    path.write_text(PBS_HEADER + "\n" + rows.strip() + "\n")
    if reverse:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        frame[frame.columns[::-1]].to_csv(path, index=False)
    return path


def test_the_older_export_of_mira() -> None:
    trace = tracekit.read(shared("alcf/MIRA_cobalt_old-schema_3rows.csv"))
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [389021, 378419, 383815]
    # 2014-12-30 16:03:17 in Chicago's winter is 22:03:17 UTC
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2014-12-30 22:03:17", tz="UTC").timestamp()
    assert jobs["wait_time"].iloc[0] == 31 * 3600 + 23 * 60 + 12  # to 2014-12-31 23:26:29
    assert jobs["run_time"].tolist() == [3646, 41406, 21637]
    assert jobs["req_time"].tolist() == [7200, 43200, 21600]
    assert jobs["req_nodes"].tolist() == jobs["alloc_nodes"].tolist() == [512, 1024, 4096]
    assert jobs["req_procs"].tolist() == [8192, 16384, 65536]
    assert jobs["status"].tolist() == ["completed", "completed", "failed"]
    assert jobs["x_status"].tolist() == [0, 0, 143]
    assert jobs["user"].tolist() == ["57948927142633", "13148949161706", "68190251275985"]
    assert jobs["project"].iloc[0] == "68961232793033"
    assert jobs["x_cobalt_project_name_genid"].astype(str).iloc[0] == "71848090445552"
    assert jobs["partition"].iloc[2] == "MIR-40000-737F1-4096"
    assert (trace.machine.name, trace.machine.nodes, trace.machine.procs, trace.machine.unit) == (
        "Mira",
        49152,
        786432,
        "nodes",
    )
    assert trace.machine.timezone == "America/Chicago"


def test_a_zone_that_is_given_replaces_the_assumed_one() -> None:
    path = shared("alcf/MIRA_cobalt_old-schema_3rows.csv")
    there = tracekit.read(path, timezone="UTC")
    assert there.jobs["submit_time"].iloc[0] == pd.Timestamp("2014-12-30 16:03:17", tz="UTC").timestamp()
    assert there.machine.timezone == "UTC"


def test_a_header_alone_is_named() -> None:
    with pytest.raises(FormatError, match="only a header"):
        tracekit.read(shared("alcf/DJC_cobalt_MIRA_header.csv"))


def test_the_57_columns_of_the_cobalt_years_by_name(tmp_path: Path) -> None:
    header = shared("alcf/DJC_cobalt_MIRA_header.csv").read_text().strip().split(",")
    row = dict.fromkeys(header, "0") | {
        "JOB_NAME": "x",
        "COBALT_JOBID": "77",
        "MACHINE_NAME": "theta",
        "QUEUED_TIMESTAMP": "2019-07-01 00:00:00",
        "START_TIMESTAMP": "2019-07-01 00:01:40",
        "START_DATE_ID": "20190701",
        "END_TIMESTAMP": "2019-07-01 00:03:20",
        "WALLTIME_SECONDS": "600.0",
        "RUNTIME_SECONDS": "100.0",
        "NODES_USED": "128.0",
        "NODES_REQUESTED": "120.0",
        "QUEUED_WAIT_SECONDS": "100",
        "CAPABILITY": "",
        "EXIT_STATUS": "1",
    }
    path = tmp_path / "theta.csv.gz"
    path.write_bytes(gzip.compress((",".join(header) + "\n" + ",".join(row[name] for name in header) + "\n").encode()))
    trace = tracekit.read(path)
    job = trace.jobs.iloc[0]
    assert (job["job_id"], job["req_nodes"], job["alloc_nodes"], job["wait_time"]) == (77, 120, 128, 100)
    assert job["submit_time"] == pd.Timestamp("2019-07-01 05:00:00", tz="UTC").timestamp()  # daylight saving time
    assert trace.machine.nodes == 4392
    assert "x_is_overburn" in trace.jobs.columns
    assert len(trace.jobs.columns) >= 50


@pytest.mark.parametrize("reverse", [False, True])
def test_the_pbs_years_and_their_traps(tmp_path: Path, reverse: bool) -> None:
    trace = tracekit.read(pbs(tmp_path, reverse=reverse))
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [512001, 512002, 512003]
    assert jobs["req_gpus"].isna().tolist() == [True, False, False]
    assert jobs["req_gpus"].tolist()[1:] == [8, 4]
    assert jobs["wait_time"].tolist()[::2] == [600, 7200]
    assert np.isnan(jobs["wait_time"].iloc[1])  # START_DATE_ID 0: it never started
    assert jobs["alloc_nodes"].tolist() == [24, 0, 1]
    assert jobs["status"].tolist() == ["completed", "failed", "unknown"]
    assert jobs["x_allocation_award_category"].tolist() == ["INCITE", "DD", "ALCC"]
    np.testing.assert_array_equal(jobs["x_capability"], [1, 0, np.nan])
    assert jobs["x_capability_text"].tolist()[:2] == ["capable", "not-capable"]
    # 01:30 came twice on 5 November 2023; the first is daylight saving time, 06:30 UTC
    assert jobs["submit_time"].iloc[2] == pd.Timestamp("2023-11-05 06:30:00", tz="UTC").timestamp()
    assert "column QUEUED_TIMESTAMP: 1 local times that occurred twice" in trace.history[0]
    assert trace.machine.gpus == 2240


def test_a_bad_stamp_is_named_by_line_or_left_out(tmp_path: Path) -> None:
    rows = PBS_ROWS.strip().splitlines()
    rows[1] = rows[1].replace("2023-06-01 12:01:00", "a while ago")
    path = pbs(tmp_path, "\n".join([rows[0], "", *rows[1:]]))
    with pytest.raises(FormatError, match=r"line 4: 'a while ago' in column QUEUED_TIMESTAMP"):
        tracekit.read(path)
    kept = tracekit.read(path, on_error="skip")
    assert kept.jobs["job_id"].tolist() == [512001, 512003]
    assert any("skipped 1 damaged line (first: line 4)" in step for step in kept.history)


def test_written_and_read_again_nothing_is_lost(tmp_path: Path) -> None:
    trace = tracekit.read(pbs(tmp_path))
    lost = tracekit.write(trace, tmp_path / "again.alcf")
    again = tracekit.read(tmp_path / "again.alcf")
    for name in (
        "submit_time",
        "wait_time",
        "run_time",
        "req_time",
        "req_nodes",
        "req_gpus",
        "user",
        "project",
        "status",
    ):
        pd.testing.assert_series_equal(trace.jobs[name], again.jobs[name], check_categorical=False)
    assert again.jobs["x_allocation_award_category"].tolist() == ["INCITE", "DD", "ALCC"]
    assert again.machine.nodes == 560
    assert lost == ["the history"]


def test_the_chain_to_parquet_to_swf_and_back(tmp_path: Path) -> None:
    trace = tracekit.read(pbs(tmp_path))
    tracekit.write(trace, tmp_path / "1.parquet")
    once = tracekit.read(tmp_path / "1.parquet")
    assert once.equals(trace)
    tracekit.write(once, tmp_path / "2.swf")
    tracekit.write(tracekit.read(tmp_path / "2.swf"), tmp_path / "3.parquet")
    back = tracekit.read(tmp_path / "3.parquet")
    for name in ("submit_time", "wait_time", "run_time", "req_time", "req_procs", "alloc_procs"):
        np.testing.assert_array_equal(back.column(name), trace.column(name))
    assert back.jobs["user"].tolist() == trace.jobs["user"].tolist()


def test_presets_say_what_is_known() -> None:
    assert set(PRESETS) == {"mira", "cetus", "vesta", "cooley", "theta", "thetagpu", "polaris", "aurora"}
    aurora = preset(" Aurora ")
    assert aurora is not None
    assert (aurora.nodes, aurora.gpus, aurora.groups[0].cores, aurora.groups[0].power) == (10624, 63744, 104, None)
    assert preset("Frontier") is None
