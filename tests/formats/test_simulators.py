from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import FormatError

WORKLOAD: dict[str, Any] = {
    "nb_res": 8,
    "jobs": [
        {"id": "w0!1", "subtime": 10, "walltime": 100, "res": 4, "profile": "d60"},
        {"id": "w0!2", "subtime": 12.5, "res": 1, "profile": "p"},
        {"id": "w0!3", "subtime": 20, "walltime": -1, "res": 8, "profile": "d60", "colour": {"a": 1}},
    ],
    "profiles": {"d60": {"type": "delay", "delay": 60}, "p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}},
}
RESULTS = """\
job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,\
starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata
1,w0,d60,10,4,100,1,COMPLETED_SUCCESSFULLY,15,60,75,5,65,1.08,0-2 7,-1,
2,w0,d60,12,2,30,0,COMPLETED_WALLTIME_REACHED,15,30,45,3,33,1.1,3-4,-1,
3,w0,d60,13,99,30,0,REJECTED,,,,,,,,-1,
"""


def test_batsim_workload(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps(WORKLOAD))
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert trace.machine.procs == 8
    assert trace.machine.epoch is None
    assert jobs["job_id"].tolist() == [1, 2, 3]
    assert jobs["submit_time"].tolist() == [10, 12.5, 20]
    assert jobs["run_time"].tolist()[::2] == [60, 60]
    assert np.isnan(jobs["run_time"].iloc[1])
    assert jobs["x_profile"].tolist() == ["delay", "parallel_homogeneous", "delay"]
    assert jobs["req_time"].isna().tolist() == [False, True, True]
    assert jobs["req_procs"].tolist() == [4, 1, 8]
    assert jobs["x_colour"].iloc[2] == '{"a": 1}'


def test_batsim_schedule(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(RESULTS)
    trace = tracekit.read(path)
    assert trace.jobs["job_id"].tolist() == [1, 2, 3]
    assert trace.jobs["wait_time"].tolist()[:2] == [5, 3]
    assert trace.jobs["run_time"].tolist()[:2] == [60, 30]
    assert trace.jobs["alloc_procs"].tolist()[:2] == [4, 2]
    assert trace.jobs["mean_watts"].isna().all()  # −1: Batsim ran without its energy plugin
    path.write_text(RESULTS.replace("0-2 7,-1", "0-2 7,48000"))
    assert tracekit.read(path).jobs["mean_watts"].tolist()[0] == 800  # J over 60 s
    assert trace.jobs["status"].tolist() == ["completed", "timeout", "cancelled"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda w: w["jobs"][0].pop("res"), 'job 1: has no "res"'),
        (lambda w: w["jobs"][1].update(profile="none"), "job 2: its profile 'none'"),
        (lambda w: w["jobs"][1].update(subtime="soon"), 'job 2: its "subtime"'),
        (lambda w: w["jobs"].insert(0, 7), "job 1: "),
        (lambda w: w.update(jobs={}), "needs a list"),
        (lambda w: w["jobs"].clear(), "no jobs"),
    ],
)
def test_batsim_damage(change: Callable[[Any], object], word: str, tmp_path: Path) -> None:
    workload = json.loads(json.dumps(WORKLOAD))
    change(workload)
    path = tmp_path / "file"
    path.write_text(json.dumps(workload))
    with pytest.raises(FormatError, match=word):
        tracekit.read(path, "batsim")


def test_slurmsim_the_real_events(tmp_path: Path) -> None:
    trace = tracekit.read(shared("slurmsim/workload_500.events"))
    jobs = trace.jobs
    assert len(trace) == 500
    assert jobs["job_id"].tolist() == list(range(1, 501))
    first, third = jobs.iloc[0], jobs.iloc[2]
    assert (first["submit_time"], first["run_time"], first["req_time"]) == (10.5, 84805, 3 * 86400)
    assert (first["req_procs"], first["req_nodes"], first["user"]) == (32, 1, "user001")
    assert first["req_mem"] == 500 * 1024**2 / 32
    assert third["req_mem"] == 250 * 1024**2 * 2 / 18  # --mem is per node
    assert jobs["submit_time"].iloc[-1] == 38201
    path = tmp_path / "back.events"
    tracekit.write(trace, path)
    back = tracekit.read(path)
    for name in (
        "job_id",
        "submit_time",
        "run_time",
        "req_time",
        "req_procs",
        "req_nodes",
        "req_gpus",
        "user",
        "x_qos",
    ):
        pd.testing.assert_series_equal(back.jobs[name], jobs[name])


def test_slurmsim_notations(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(
        "# made by hand\n"
        "-dt 5 -e submit_batch_job | -sim-walltime -1 -J a --uid=u -n 2 -c 4 -t 30 --gres=gpu:a100:2 -N 2 run.sh\n"
        "-dt 6 -e cancel_job | -J a\n"
        "-dt 7 -e submit_batch_job | -sim-walltime 0 -J b --uid=v -n 1 -t 1:30 --mem-per-cpu=100 run.sh\n"
    )
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert jobs["run_time"].tolist() == [1800, 0]  # −1: to the limit
    assert jobs["req_time"].tolist() == [1800, 90]
    assert jobs["req_procs"].tolist() == [8, 1]
    assert jobs["req_gpus"].iloc[0] == 4
    assert jobs["gpu_type"].iloc[0] == "a100"
    assert jobs["req_mem"].iloc[1] == 102400
    assert jobs["app"].tolist() == ["a", "b"]
    assert trace.history == ("left out 1 events that do not submit a job",)
    path.write_text(path.read_text() + "-dt 8 -e submit_batch_job | -sim-walltime soon -n 1\n")
    with pytest.raises(FormatError, match="line 5: 'soon' in sim-walltime"):
        tracekit.read(path)


@pytest.mark.parametrize("name", ["batsim", "slurmsim"])
def test_what_cannot_be_written_is_said(name: str, tmp_path: Path) -> None:
    jobs = pd.DataFrame(
        {
            "job_id": [1, 2, 3],
            "submit_time": [5.0, 6.0, 7.5],
            "run_time": [10.25, np.nan, 3.0],
            "req_procs": [1, 1, 2],
            "wait_time": [1.0, 2.0, 3.0],
            "user": ["a b", "c", "d"],
        }
    )
    path = tmp_path / "out"
    said = tracekit.write(Trace(jobs, Machine(procs=4, epoch=1e9)), path, name)
    assert "column wait_time" in said
    assert "the calendar" in said
    assert "1 jobs without a run time or a whole size" in said
    back = tracekit.read(path)
    assert back.jobs["job_id"].tolist() == [1, 3]
    assert back.jobs["submit_time"].tolist() == [0, 2.5]
    assert back.jobs["run_time"].tolist() == [10.25, 3]
