"""Alibaba's batch jobs of 2018: the documented DAG with values worked out by hand, made tasks, damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_toys import alibaba_jobs, alibaba_previous, alibaba_tasks, plain_rows

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit import Trace
from tracekit.errors import FormatError, UsageError

pytest.importorskip("duckdb", reason="needs the extra events (duckdb)")
Run = Callable[..., tuple[int, str, str]]

#: The owners' example of a DAG (M1, M2_1, M3_1, R4_2, M5_3_4), an independent task, and one that still runs.
TASKS = """\
M1,2,j_7,1,Terminated,100,110,100.0,0.5
M2_1,4,j_7,1,Terminated,110,130,50.0,0.25
M3_1,1,j_7,1,Terminated,112,120,100,0.5
R4_2,1,j_7,2,Terminated,130,130,100,0.5
M5_3_4,3,j_7,2,Terminated,131,141,100,1
task_Nzg3ODAwNDgzMTAwNTc2NTQ2Mw==,1,j_3,12,Failed,90,95,50,0.1
MergeTask,1,j_9,2,Running,95,0,,
"""
INSTANCES = """\
ins_74901673,M1,j_7,1,Terminated,100,109,m_1,1,1,80,90,0.1,0.2
ins_74901674,M1,j_7,1,Terminated,101,110,m_2,1,1,80,90,0.1,0.2
ins_74901675,MergeTask,j_9,2,Running,95,0,m_2,1,1,,,,
"""
MACHINES = "m_1,0,1,2,96,100,USING\nm_1,50,1,2,96,100,USING\nm_2,0,1,2,96,50,USING\nm_3,0,1,2,,,USING\n"
CONTAINERS = (
    "c_1,m_1,0,app_1,started,400,800,1.56\nc_1,m_1,9,app_1,started,400,800,1.56\nc_2,m_1,0,app_1,started,800,800,3\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "trace"
    place.mkdir()
    (place / "batch_task.csv").write_text(TASKS)
    (place / "batch_instance.csv.gz").write_bytes(gzip.compress(INSTANCES.encode()))
    (place / "machine_meta.csv").write_text(MACHINES)
    (place / "container_meta.csv").write_text(CONTAINERS)
    return place


def column(trace: Trace, name: str) -> list[Any]:
    values = trace.jobs[name].astype(object)
    return [None if value is None or value != value else value for value in values.where(values.notna(), None)]


def test_jobs_hold_what_their_tasks_hold_at_once(folder: Path) -> None:
    trace = tracekit.read(folder)
    assert column(trace, "job_id") == [3, 9, 7]
    assert column(trace, "submit_time") == [90.0, 95.0, 100.0]
    assert column(trace, "run_time") == [5.0, None, 41.0]
    assert column(trace, "req_procs") == [0.5, None, 3.0]  # M2 and M3: 4 × 0.5 + 1; M5: 3 × 1
    assert column(trace, "tasks") == [1, None, 5]
    assert column(trace, "req_mem") == [0.001 * 2**30 / 0.5, None, 0.03 * 2**30 / 3]
    assert column(trace, "status") == ["failed", "unknown", "completed"]
    assert column(trace, "x_status") == ["Failed", "Running", "Terminated"]
    assert column(trace, "x_tasks") == [1, 1, 5]
    assert column(trace, "x_instances") == [1, 1, 11]
    assert column(trace, "x_dependencies") == [0, 0, 5]
    assert column(trace, "x_core_seconds") == [2.5, None, 20 + 40 + 8 + 0 + 30]
    assert "wait_time" not in trace.jobs


def test_tasks_are_jobs_if_wanted(folder: Path) -> None:
    trace = tracekit.read(folder, job="task")
    assert column(trace, "x_task_name")[2:] == ["M1", "M2_1", "M3_1", "R4_2", "M5_3_4"]
    assert column(trace, "prev_job") == [None, None, None, 3, 3, 4, 6]  # M5 waits for M3 (120) and R4 (130)
    assert column(trace, "x_job") == [3, 9, 7, 7, 7, 7, 7]
    assert column(trace, "run_time") == [5.0, None, 10.0, 20.0, 8.0, 0.0, 10.0]
    assert column(trace, "req_procs") == [0.5, None, 2.0, 2.0, 1.0, 1.0, 3.0]
    assert column(trace, "tasks") == [1, 1, 2, 4, 1, 1, 3]


def test_instances_are_jobs_if_wanted(folder: Path) -> None:
    trace = tracekit.read(folder, job="instance")
    assert column(trace, "submit_time") == [95.0, 100.0, 101.0]
    assert column(trace, "run_time") == [None, 9.0, 9.0]
    assert column(trace, "req_procs") == [None, 1, 1]
    assert column(trace, "x_machine_id") == ["m_2", "m_1", "m_2"]
    (folder / "batch_instance.csv.gz").unlink()
    with pytest.raises(FormatError, match="the table batch_instance is missing"):
        tracekit.read(folder, job="instance")


def test_the_machine(folder: Path) -> None:
    machine = tracekit.read(folder, unit_gb=512).machine
    assert (machine.procs, machine.nodes) == (192, 2)
    assert sorted(group.memory or 0 for group in machine.groups) == [256 * 2**20, 512 * 2**20]
    assert "1 hosts of unknown size are left out" in machine.notes
    assert "2 containers of online services share it and ask for 12 cores" in machine.notes


def test_found_by_content(folder: Path, tmp_path: Path, run: Run) -> None:
    assert detect(folder, FORMATS).name == "alibaba-2018"
    lone = tmp_path / "some.txt"
    lone.write_text(TASKS)
    assert detect(lone, FORMATS).name == "alibaba-2018"
    assert len(tracekit.read(lone)) == 3
    assert len(tracekit.read(folder / "batch_instance.csv.gz")) == 3
    headed = tmp_path / "headed.csv"
    names = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem"
    headed.write_text(f"{names}\n{TASKS}")
    assert len(tracekit.read(headed)) == 3
    code, _, said = run("convert", str(folder), str(tmp_path / "jobs.parquet"), "--read", "job=task")
    assert code == 0, said
    assert len(tracekit.read(tmp_path / "jobs.parquet")) == 7


@pytest.mark.parametrize("seed", range(10))
def test_made_tasks_mean_what_the_reference_says(seed: int, tmp_path: Path) -> None:
    rows = alibaba_tasks(seed)
    half = len(rows) // 2
    (tmp_path / "batch_task-0.csv").write_text(plain_rows(rows[:half]))
    (tmp_path / "batch_task-1.csv.gz").write_bytes(gzip.compress(plain_rows(rows[half:]).encode()))
    trace = tracekit.read(tmp_path)
    expected = alibaba_jobs(rows)
    twice = len(rows) - len(set(rows))
    assert any(f"{twice:,} rows that repeat another" in step for step in trace.history) == (twice > 0)
    assert trace.jobs["job_id"].tolist() == [job["job_id"] for job in expected]
    for name in ("submit_time", "run_time", "req_procs", "req_mem", "x_tasks", "x_dependencies"):
        theirs = np.array([job[name] for job in expected], dtype=float)
        ours = trace.jobs[name].to_numpy(dtype=float, na_value=np.nan)
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, err_msg=name)
    sized = [job for job in expected if job["req_procs"] == job["req_procs"]]
    tasks = dict(zip(trace.jobs["job_id"], trace.jobs["tasks"], strict=True))
    assert [tasks[job["job_id"]] for job in sized] == [job["tasks"] for job in sized]
    assert column(trace, "status") == [job["status"] for job in expected]


@pytest.mark.parametrize("seed", range(6))
def test_made_tasks_wait_for_the_last_of_those_before(seed: int, tmp_path: Path) -> None:
    rows = alibaba_tasks(seed)
    (tmp_path / "batch_task.csv").write_text(plain_rows(rows))
    jobs = tracekit.read(tmp_path, job="task").jobs
    expected = alibaba_previous(rows)
    name_of = dict(zip(jobs["job_id"], jobs["x_task_name"], strict=True))
    waiting = jobs[jobs["prev_job"].notna()]
    found = {(f"j_{row.x_job}", row.x_task_name): name_of[int(row.prev_job)] for row in waiting.itertuples()}
    assert set(found) == set(expected)
    assert all(name in expected[key] for key, name in found.items())


DAMAGE = {
    "empty": ("", "the file is empty"),
    "cells": (TASKS + "M1,2\n", "line 8: Expected Number of Columns: 9 Found: 2"),
    "text": (TASKS + "M1,x,j_7,1,Terminated,100,110,100.0,0.5\n", "'x' in column instance_num of table batch_task"),
    "size": (TASKS + "M1,1,j_7,1,Terminated,100,110,-100.0,0.5\n", "impossible values"),
    "job": (TASKS + "M1,1,,1,Terminated,100,110,100.0,0.5\n", "1 lines of table batch_task have no job_name"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line(name: str, folder: Path, tmp_path: Path, run: Run) -> None:
    content, words = DAMAGE[name]
    (folder / "batch_task.csv").write_text(content)
    code, out, said = run("convert", str(folder), str(tmp_path / "out.parquet"))
    assert (code, out) == (1, "")
    assert len(said.splitlines()) == 1
    assert words in said
    if content:
        trace = tracekit.read(folder, on_error="skip")
        assert "batch_task: 1 damaged lines were left out" in trace.history
        assert column(trace, "x_tasks") == [1, 1, 5]


def test_truncated_and_other_tables(folder: Path, run: Run) -> None:
    (folder / "batch_task.csv").unlink()
    packed = folder / "batch_task.csv.gz"
    packed.write_bytes(gzip.compress(TASKS.encode() * 5000)[:-200])
    code, _, said = run("info", str(folder))
    assert (code, "the compressed data is damaged or truncated" in said) == (1, True)
    with pytest.raises(FormatError, match="this is not the table batch_task or batch_instance"):
        tracekit.read(folder / "machine_meta.csv", "alibaba-2018")
    packed.unlink()
    with pytest.raises(FormatError, match="batch_task, which holds the sizes, is missing"):
        tracekit.read(folder, "alibaba-2018")
    with pytest.raises(UsageError, match="choose job, task or instance"):
        tracekit.read(folder, "alibaba-2018", job="collection")


def test_names_that_are_no_numbers_are_kept(tmp_path: Path) -> None:
    (tmp_path / "batch_task.csv").write_text(TASKS.replace("j_9", "nine"))
    trace = tracekit.read(tmp_path)
    assert column(trace, "job_id") == [1, 2, 3]
    assert column(trace, "x_job_name") == ["j_3", "nine", "j_7"]
