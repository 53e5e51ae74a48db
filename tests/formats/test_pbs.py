from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from shared_data import shared

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit.errors import FormatError

PRO = (
    '04/16/2025 10:19:48;E;{id};user=ann group="A B" account="SC01" project=_pbs_project_default jobname=vnc queue=vis '
    "ctime=1744817013 qtime=1744817013 etime=1744817013 start=1744817058 exec_host=n15/3*8+n16/0*4 "
    "exec_vnode=(n15:ncpus=8:ngpus=1:mem=10485760kb)+(n16:ncpus=4) Resource_List.mem=12gb Resource_List.ncpus=12 "
    "Resource_List.ngpus=1 Resource_List.nodect=2 Resource_List.select=1:ncpus=8:ngpus=1+1:ncpus=4 "
    "Resource_List.walltime=04:00:00 session=45951 end=1744820388 Exit_status={code} resources_used.cput=00:02:56 "
    "resources_used.mem=1200kb resources_used.walltime=00:55:26 run_count=1\n"
)


def test_the_real_log() -> None:
    trace = tracekit.read(shared("pbs/IU-Mason_20171003.anon"))
    assert len(trace) == 225
    assert trace.machine.name == "m1.mason"
    assert Counter(trace.jobs["status"]) == {"completed": 196, "failed": 26, "timeout": 2, "cancelled": 1}
    assert trace.history == ("left out 63 jobs that had not ended (no E record)",)
    jobs = trace.jobs.set_index("job_id")
    first = jobs.loc[521060]
    assert first["submit_time"] == 1507003222
    assert (first["wait_time"], first["run_time"], first["req_time"]) == (101, 33, 8 * 3600)
    assert (first["req_procs"], first["alloc_procs"], first["alloc_nodes"]) == (1, 1, 1)
    assert (first["used_mem"], first["cpu_time"]) == (96388, 27)
    whole = jobs.loc[520752]  # exec_host=c10/0-31; killed at its limit of 80 hours
    assert (whole["req_procs"], whole["alloc_procs"], whole["status"]) == (32, 32, "timeout")
    assert whole["used_mem"] == 123620976 / 32
    assert jobs.loc[518474, "status"] == "cancelled"  # qdel: a D record and 271
    assert (trace.jobs["req_procs"] == trace.jobs["alloc_procs"]).all()


def test_pbs_pro(tmp_path: Path) -> None:
    path = tmp_path / "20250416"
    path.write_text(PRO.format(id="4413086.casper-pbs", code=-29))
    job = tracekit.read(path).jobs.iloc[0]
    assert job["job_id"] == 4413086
    assert (job["wait_time"], job["run_time"], job["req_time"]) == (45, 3330, 14400)
    assert (job["req_procs"], job["alloc_procs"], job["alloc_nodes"]) == (12, 12, 2)
    assert (job["req_gpus"], job["alloc_gpus"]) == (1, 1)
    assert (job["req_mem"], job["used_mem"]) == (12 * 1024**2 / 12, 100)
    assert job["cpu_time"] == 176 / 12
    assert (job["group"], job["project"], job["status"]) == ("A B", "SC01", "timeout")


def test_a_folder_of_days_and_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "accounting"
    folder.mkdir()
    (folder / "20250416").write_text(
        "04/16/2025 10:00:00;Q;7[].s;queue=vis\n04/16/2025 10:00:00;Q;7[1].s;queue=vis\n"
        "04/16/2025 10:00:00;L;license;floating license hour:3 day:3\n"
        "04/16/2025 10:00:00;R;7[1].s;\n04/16/2025 10:00:00;Q;9.s;queue=vis\n"
    )
    (folder / "20250417.gz").write_bytes(gzip.compress((PRO.format(id="7[1].s", code=0)).encode()))
    (folder / "20250418").write_text(PRO.format(id="7[2].s", code=1) + PRO.format(id="7[].s", code=0))
    (folder / "README").write_text("not a log\n")
    assert detect(folder, FORMATS).name == "pbs"
    trace = tracekit.read(folder)
    assert trace.jobs["job_id"].tolist() == [1, 2]
    assert trace.jobs["x_jobid"].tolist() == ["7[1].s", "7[2].s"]
    assert trace.jobs["x_reruns"].tolist() == [1, 0]
    assert trace.jobs["status"].tolist() == ["completed", "failed"]
    assert trace.history == (
        "left out 1 jobs that had not ended (no E record)",
        "left out 1 records of whole arrays",
        "skipped 1 files that are not accounting logs",
    )


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    for call in (lambda: tracekit.read(tmp_path), lambda: tracekit.read(tmp_path, "pbs")):
        with pytest.raises(FormatError):
            call()


def test_torque_notations_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "a"
    row = (
        "10/03/2017 00:00:00;E;{id}.s;user=u queue=q ctime=100 start={start} end=200 exec_host=c1/0+c1/1+c2/0 "
        "Resource_List.nodes={nodes} Resource_List.pmem=2mb Resource_List.walltime={wall} Exit_status=0 "
        "resources_used.cput=90 \n"
    )
    good = row.format(id=1, start=150, nodes="1:ppn=2:gpus=1+c7", wall=3600)
    path.write_text(good + row.format(id=2, start=0, nodes="3", wall="01:00:00"))
    jobs = tracekit.read(path).jobs
    assert jobs["req_procs"].tolist() == [3, 3]
    assert jobs["req_nodes"].tolist() == [2, 3]
    assert jobs["req_gpus"].iloc[0] == 1
    assert jobs["alloc_procs"].tolist() == [3, 3]
    assert jobs["req_mem"].tolist() == [2048, 2048]
    assert jobs["req_time"].tolist() == [3600, 3600]
    assert jobs["cpu_time"].tolist() == [30, 30]
    assert np.isnan(jobs["run_time"].iloc[1])  # start=0: it never ran
    path.write_text(good + row.format(id=2, start=150, nodes="3", wall="soon"))
    with pytest.raises(FormatError, match=r"line 2: 'soon' in Resource_List.walltime"):
        tracekit.read(path)
    path.write_text(good + "10/03/2017 rubbish\n")
    with pytest.raises(FormatError, match="line 2"):
        tracekit.read(path)
    assert len(tracekit.read(path, on_error="skip")) == 1


@pytest.mark.parametrize("tail", ["", ":mem=10gb", ":exclusive_process:shared"])
def test_a_whole_request_in_nodect(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "20190402"
    path.write_text(
        "04/02/2019 00:00:10;E;101.srv;user=ann ctime=1554156000 start=1554156010 exec_host=n1/0-23 "
        f"Resource_List.nodect=1:ppn=24:gpu=4{tail} Resource_List.walltime=01:00:00 end=1554156070 Exit_status=0\n"
    )
    job = tracekit.read(path).jobs.iloc[0]
    assert (job["req_nodes"], job["req_procs"], job["req_gpus"]) == (1, 24, 4)
    assert (job["alloc_procs"], job["alloc_nodes"], job["run_time"]) == (24, 1, 60)
