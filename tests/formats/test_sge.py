"""Accounting files of Grid Engine: the lines that Open XDMoD publishes, and made rows worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_data import shared

import tracekit
from swf.sge import FIELDS, requests
from tracekit import Trace
from tracekit.errors import FormatError

USUAL = dict.fromkeys(FIELDS[:45], "0") | {
    "qname": "all.q", "hostname": "n1", "group": "users", "owner": "ann", "job_name": "sim", "job_number": "7",
    "account": "sge", "submission_time": "1000", "start_time": "1100", "end_time": "1400", "ru_wallclock": "300",
    "project": "NONE", "department": "defaultdepartment", "granted_pe": "NONE", "slots": "1", "category": "NONE",
    "pe_taskid": "NONE", "cpu": "240.0", "maxvmem": "1048576.0",
}  # fmt: skip
UNIVA = {"job_class": "NONE", "qdel_info": "NONE", "maxrss": "0"}


def line(univa: bool = False, **changes: Any) -> str:
    fields = USUAL | (UNIVA if univa else {}) | {name: str(value) for name, value in changes.items()}
    return ":".join(fields.values()) + (":submithost:/home/ann:qsub job.sh:300.1:12" if univa else "")


def read(tmp_path: Path, *lines: str, **options: Any) -> Trace:
    path = tmp_path / "accounting"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tracekit.read(path, **options)


def test_seconds_of_the_published_log() -> None:
    trace = tracekit.read(shared("sge/sge_accounting.log"))
    assert len(trace) == 2
    assert trace.column("submit_time").tolist() == [1310761621.0] * 2
    assert trace.column("wait_time").tolist() == [1311095354 - 1310761621] * 2
    assert trace.column("run_time").tolist() == [60.0, 60.0]
    assert trace.column("req_time").tolist() == [36000.0, 36000.0]
    assert trace.column("req_mem")[1] == 2.0**30  # mem_free=1.000T, in KB
    assert trace.jobs["user"].tolist() == ["jdoe", "jdoe"]
    assert trace.jobs["status"].tolist() == ["completed", "completed"]


def test_milliseconds_of_the_published_log() -> None:
    trace = tracekit.read(shared("sge/uge_accounting.log"))
    assert trace.column("submit_time").tolist() == [1310761621.0, 1652111621.288]
    assert trace.column("wait_time").tolist() == [333733.0, 1.587]
    assert trace.column("run_time").tolist() == [60.0, 12837.318]
    assert trace.column("alloc_procs").tolist() == [1, 16]
    assert trace.column("req_gpus").tolist()[1] == 1
    assert trace.column("req_mem")[1] == 1024**2  # m_mem_free=1.000G per slot
    assert trace.column("used_mem")[1] == 668106752 / 1024 / 16
    assert trace.column("cpu_time")[1] == 198790.352 / 16


def test_made_rows(tmp_path: Path) -> None:
    asked = "-l h_rt=00:10:00,h_vmem=2G,ngpus=2 -pe mpi 4"
    trace = read(
        tmp_path,
        "# Version: 8.1.9",
        "",
        line(job_number=1, category=asked, slots=4, granted_pe="mpi", project="physics"),
        line(job_number=2, start_time=0, end_time=0, failed=21),  # never started
        line(job_number=3, exit_status=1),
        line(job_number=4, failed=37, exit_status=137),
        line(job_number=5, failed=100, exit_status=137, category="-l h_rt=300"),  # killed at its limit
        line(job_number=6, failed=100, exit_status=139, category="-l h_rt=900 -pe smp 2-8", slots=6),
    )
    assert trace.column("job_id").tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(trace.column("wait_time"), [100, np.nan, 100, 100, 100, 100])
    np.testing.assert_array_equal(trace.column("run_time"), [300, np.nan, 300, 300, 300, 300])
    assert trace.jobs["status"].tolist() == ["completed", "failed", "failed", "timeout", "timeout", "failed"]
    assert trace.column("req_procs").tolist() == [4, 1, 1, 1, 1, 6]
    np.testing.assert_array_equal(trace.column("alloc_procs"), [4, np.nan, 1, 1, 1, 6])
    np.testing.assert_array_equal(trace.column("req_time"), [600, np.nan, np.nan, np.nan, 300, 900])
    assert trace.column("req_mem")[0] == 2 * 1024**2
    assert trace.column("req_gpus")[0] == 2
    assert trace.column("used_mem").tolist()[:2] == [1024 / 4, 1024]
    assert trace.column("cpu_time").tolist()[:2] == [60, 240]
    assert trace.jobs["project"].tolist()[0] == "physics"
    assert trace.machine.epoch == 0.0


def test_array_tasks_parallel_tasks_and_attempts(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        line(job_number=5, task_number=1),
        line(job_number=5, task_number=2, failed=25, end_time=1200),  # rescheduled …
        line(job_number=5, task_number=2, start_time=1300, end_time=1500),  # … and run
        line(job_number=6, pe_taskid="1.node7"),
        line(job_number=6, slots=8),
    )
    assert trace.jobs["x_jobid"].tolist() == ["5.1", "5.2", "6"]
    assert trace.column("job_id").tolist() == [1, 2, 3]
    assert trace.column("run_time").tolist() == [300, 200, 300]
    assert sum("left out 1 " in step for step in trace.history) == 2


def test_univa_jobs_that_were_deleted(tmp_path: Path) -> None:
    times = {"submission_time": 1652111621288, "start_time": 1652111622875, "end_time": 1652111623875}
    trace = read(
        tmp_path,
        line(univa=True, **times, failed=100, exit_status=137, qdel_info="ann@login1"),
        line(univa=True, **times, job_number=8, maxrss=2048),
    )
    assert trace.jobs["status"].tolist() == ["cancelled", "completed"]
    assert trace.column("used_mem").tolist() == [1024, 2]
    assert trace.column("run_time").tolist() == [1, 1]


def test_damaged_lines_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        read(tmp_path, line(), line(), "cut:in:two", format="sge")
    assert caught.value.line == 3
    trace = read(tmp_path, line(), "cut:in:two", format="sge", on_error="skip")
    assert len(trace) == 1
    assert "line 2" in trace.history[0]
    with pytest.raises(FormatError) as caught:
        read(tmp_path, line(), line(cpu="soon"))
    assert caught.value.line == 2


def test_a_colon_within_a_category_is_written_as_the_byte_255() -> None:
    assert requests("-l h_rt=10\xff00\xff00 -pe mpi 3") == {"h_rt": "10:00:00", "pe": "3"}
    assert requests("NONE") == {}
