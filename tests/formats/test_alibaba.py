"""Alibaba's tables: the whole real pod list, and PAI rows in the owners' columns, some from their README."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import numpy as np
import pytest
from shared_data import shared

import tracekit
from tracekit.clusters import completed
from tracekit.errors import FormatError
from tracekit.sim.hosts.demand import demand_of

JOBS = """\
4b3f04b66a525d2df903eb16,8cb3bec23d14dbde320b6613452e768cbbf35b8bd64ee28fcceb77d3c47d,58540f191766,Terminated,4550879.0,4551416.0
4f057009a5d481acec67b088,8cb3bec23d14dbde320b66134500,58540f191767,Running,1739000.0,
ffffffffffff000000000000,8cb3bec23d14dbde320b66134501,58540f191766,Waiting,1739001.0,
"""
TASKS = """\
4f057009a5d481acec67b088,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC
4b3f04b66a525d2df903eb16,ps,1.0,Terminated,4550880.0,4551416.0,600.0,10.0,,
4b3f04b66a525d2df903eb16,worker,2.0,Terminated,4550890.0,4551410.0,400.0,10.0,50.0,T4
000000000000000000000000,worker,2.0,Failed,4550890.0,4551410.0,400.0,10.0,50.0,T4
"""
INSTANCES = """\
4b3f04b66a525d2df903eb16,worker,0d39aa867a79,54dbcd2db287,e387fbc18d80,Terminated,4550890.0,4551410.0,471dda9ed849
4b3f04b66a525d2df903eb16,worker,0d39aa867a7a,54dbcd2db288,e387fbc18d80,Terminated,4550890.0,4551410.0,471dda9ed850
4b3f04b66a525d2df903eb16,ps,0d39aa867a7b,54dbcd2db289,e387fbc18d80,Terminated,4550890.0,4551410.0,471dda9ed849
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "pai"
    place.mkdir()
    (place / "pai_job_table.csv").write_text(JOBS)
    (place / "pai_task_table.csv").write_text(TASKS)
    (place / "pai_instance_table.csv").write_text(INSTANCES)
    return place


@pytest.mark.parametrize("name", ["", "pai_job_table.csv", "pai_task_table.csv", "pai_instance_table.csv"])
def test_tables_are_put_together_whichever_is_named(folder: Path, name: str) -> None:
    trace = tracekit.read(folder / name)
    jobs = trace.jobs
    assert len(trace) == 3
    first = jobs.iloc[0]
    # the README's own sum: 600 % + 2 × 400 % are 14 cores, 2 × 50 % are one GPU
    assert (first["req_procs"], first["req_gpus"], first["gpu_type"]) == (14, 1.0, "T4")
    assert (first["submit_time"], first["wait_time"], first["run_time"]) == (4550879, 1, 536)
    assert first["req_mem"] == pytest.approx(30 * 1024**2 / 14)
    assert (first["x_tasks"], first["x_instances"], first["alloc_nodes"]) == (2, 3, 2)
    assert first["tasks"] == 3  # one ps and two workers, placed all at once
    assert (first["status"], first["user"]) == ("completed", "58540f191766")
    second = jobs.iloc[1]
    assert (second["req_gpus"], second["wait_time"], second["status"]) == (0.5, 162, "unknown")
    assert np.isnan(second["run_time"])  # it has not ended
    assert np.isnan(trace.sizes()[2])  # no task, no size
    assert jobs["tasks"].isna().tolist() == [False, False, True]
    assert trace.machine.timezone == "Asia/Shanghai"
    assert trace.history == ("1 tasks whose job is not in the job table were left out",)


def test_without_a_job_table_tasks_make_jobs(folder: Path) -> None:
    (folder / "pai_job_table.csv").unlink()
    trace = tracekit.read(folder / "pai_task_table.csv")
    assert len(trace) == 3
    assert trace.jobs["submit_time"].tolist() == [1739162, 4550880, 4550890]
    assert trace.jobs["run_time"].tolist() == [38, 536, 520]
    assert not trace.has("wait_time")
    assert "no job table" in trace.history[0]


def test_a_job_table_alone_says_what_is_missing(folder: Path) -> None:
    (folder / "pai_task_table.csv").unlink()
    with pytest.raises(FormatError, match=r"pai_task_table\.csv"):
        tracekit.read(folder / "pai_job_table.csv")
    with pytest.raises(FormatError, match=r"pai_task_table\.csv"):
        tracekit.read(folder)


def test_header_rows_and_compression_do_no_harm(folder: Path) -> None:
    names = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    (folder / "pai_task_table.csv").unlink()
    (folder / "pai_task_table.csv.gz").write_bytes(gzip.compress((names + TASKS).encode()))
    assert tracekit.read(folder).jobs["req_procs"].tolist()[:2] == [14, 6]


def test_a_bad_number_is_named_by_line(folder: Path) -> None:
    (folder / "pai_task_table.csv").write_text(TASKS.replace("400.0,10.0,50.0,T4\n0000", "many,10.0,50.0,T4\n0000"))
    with pytest.raises(FormatError, match=r"pai_task_table.csv, line 3: 'many' in column plan_cpu"):
        tracekit.read(folder)
    kept = tracekit.read(folder, on_error="skip")
    assert kept.jobs["req_procs"].tolist()[0] == 6
    assert "skipped 1 damaged line" in kept.history[0]


def test_the_real_list_of_machines(folder: Path) -> None:
    with tarfile.open(shared("alibaba/pai_machine_spec.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    machine = tracekit.read(folder).machine
    assert machine.nodes == sum(group.count for group in machine.groups) == 1897
    assert machine.gpus == sum(group.count * (group.gpus or 0) for group in machine.groups) == 6742
    assert {group.gpu_type for group in machine.groups} == {"CPU", "MISC", "P100", "T4", "V100", "V100M32"}


def test_instances_are_placed_as_tasks_on_the_listed_machines(folder: Path, tmp_path: Path) -> None:
    """Units: 100 of plan_cpu are a core, 100 of plan_gpu a GPU, plan_mem is in GB, all of one instance."""
    task = "4b3f04b66a525d2df903eb16,worker,4.0,Terminated,4550890.0,4551410.0,600.0,29.296875,100.0,T4\n"
    (folder / "pai_task_table.csv").write_text(task)
    spec = "a1,T4,96,512,2\na2,T4,96,512,2\na3,CPU,96,512,0\n"
    (folder / "pai_machine_spec.csv").write_text(spec)
    trace = tracekit.read(folder)
    kept = tmp_path / "jobs.parquet"
    tracekit.write(trace, kept)
    again = tracekit.read(kept)
    assert again.machine.groups == trace.machine.groups
    assert again.jobs["tasks"].tolist()[:1] == trace.jobs["tasks"].tolist()[:1] == [4]
    demand = demand_of(trace, completed(trace.machine, "PAI"))
    cores, memory, pieces, gpus = demand.need[0, :4].tolist()
    assert (cores, pieces, gpus) == (24 * demand.scale, 4, 1)
    assert memory == pytest.approx(4 * 29.296875 * 1024**2, abs=4)
    result = tracekit.simulate(trace, cluster=trace.machine)
    assert list(result.hosts) == ["T4-2x-96c-512g-0:12/2+T4-2x-96c-512g-1:12/2"]


def test_the_real_pod_list() -> None:
    trace = tracekit.read(shared("alibaba/openb_pod_list_default.csv"))
    jobs = trace.jobs
    assert len(trace) == 8152
    second = jobs.iloc[1]  # openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061
    assert (second["req_procs"], second["req_gpus"], second["x_num_gpu"]) == (6, 0.46, 1)
    assert second["req_mem"] == 12288 * 1024 / 6
    assert (second["submit_time"], second["wait_time"], second["run_time"]) == (427061, 0, 12902960 - 427061)
    assert second["x_status"] == "Running"
    pending = jobs["x_status"] == "Pending"
    assert pending.sum() == 897
    assert jobs.loc[pending, "run_time"].isna().all()
    assert (trace.machine.nodes, trace.machine.gpus, trace.machine.unit) == (1213, 6212, "gpus")
    assert sum(group.count for group in trace.machine.groups) == 1213
    assert trace.machine.epoch is None


def test_pods_without_times_say_so(tmp_path: Path) -> None:
    path = tmp_path / "openb_pod_list_multigpu20.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0001,6000,12288,1,460\n")
    with pytest.raises(FormatError, match="creation_time"):
        tracekit.read(path)
