from __future__ import annotations

import pandas as pd
from shared_data import shared

import tracekit


def test_seren() -> None:
    trace = tracekit.read(shared("acme/acme_seren_readme_2rows.csv"))
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [5778432, 5778469]
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2023-02-28 16:18:22", tz="UTC").timestamp()
    assert jobs["wait_time"].tolist() == [32, 13]
    assert jobs["run_time"].tolist() == [117, 2693]
    assert jobs["req_gpus"].tolist() == [8, 8]
    assert jobs["req_procs"].tolist() == [128, 128]
    assert jobs["x_gpu_time"].tolist() == [936, 21544]
    assert jobs["x_type"].tolist() == ["Other", "Other"]
    assert (trace.machine.name, trace.machine.unit, trace.machine.timezone) == ("Seren", "gpus", "Asia/Shanghai")


def test_kalos_durations_count_from_submission_and_are_not_believed() -> None:
    trace = tracekit.read(shared("acme/acme_kalos_readme_2rows.csv"))
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [1, 2]
    assert jobs["x_job_id"].tolist() == ["dlctk696s0jbvitv", "dlc1t2ypl09b8qtp"]
    assert jobs["submit_time"].iloc[0] == pd.Timestamp("2023-05-17 11:00:58", tz="UTC").timestamp()
    assert jobs["wait_time"].tolist() == [10, 12]
    assert jobs["run_time"].tolist() == [8, 70]  # 11:01:08 to 11:01:16; 11:28:54 to 11:30:04
    assert jobs["x_duration"].tolist() == [18, 82]
    assert "x_queue" not in jobs.columns
    assert jobs["req_nodes"].tolist() == [8, 8]
    assert jobs["x_mem_per_pod_GB"].tolist() == [1000, 1000]
    assert jobs["x_fail_time"].iloc[0] == pd.Timestamp("2023-05-17 11:01:16", tz="UTC").timestamp()
    assert jobs["x_stop_time"].isna().tolist() == [True, False]
    assert jobs["status"].tolist() == ["failed", "cancelled"]
    assert trace.machine.name == "Kalos"
