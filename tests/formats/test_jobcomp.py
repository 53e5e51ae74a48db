from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit.errors import FormatError

LINE = (
    "JobId=4 UserId=cc(1000) GroupId=dd(7) Name=my  job JobState=TIMEOUT Partition=debug TimeLimit=UNLIMITED "
    "StartTime=2025-04-23T03:22:30 EndTime=2025-04-23T03:32:30 NodeList=n[1-2] NodeCnt=2 ProcCnt=8 WorkDir=/a b "
    "Tres=cpu=4,mem=8G,node=2,gres/gpu=2 Account=acc QOS= SubmitTime=2025-04-23T03:22:00 ExitCode=0:0 "
)


def test_the_real_log() -> None:
    trace = tracekit.read(shared("sacct/rltune_slurm_jobcomp.log"))
    assert len(trace) == 96
    assert Counter(trace.jobs["status"]) == {"completed": 64, "failed": 31, "timeout": 1}
    first = trace.jobs.iloc[0]
    assert first["job_id"] == 1
    assert first["submit_time"] == pd.Timestamp("2025-04-23T03:22:29Z").timestamp()
    assert (first["wait_time"], first["run_time"], first["req_time"]) == (1, 0, 300)
    assert (first["req_procs"], first["alloc_procs"], first["user"]) == (4, 4, "cc")
    assert first["req_mem"] == 128800 * 1024 / 4
    second = trace.jobs.iloc[1]  # asked for one processor, got two
    assert (second["req_procs"], second["alloc_procs"]) == (1, 2)


def test_values_with_blanks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(LINE + "\n")
    job = tracekit.read(path, timezone="Asia/Tokyo").jobs.iloc[0]
    assert job["app"] == "my  job"
    assert job["x_workdir"] == "/a b"
    assert job["submit_time"] == pd.Timestamp("2025-04-22T18:22:00Z").timestamp()
    assert (job["wait_time"], job["run_time"], job["req_gpus"], job["req_nodes"]) == (30, 600, 2, 2)
    assert pd.isna(job["req_time"])
    assert (job["user"], job["x_uid"], job["group"], job["x_gid"]) == ("cc", "1000", "dd", "7")


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(f"{LINE}\n{LINE}\nJobId=five Name=x\n")
    with pytest.raises(FormatError, match="line 3: no JobId"):
        tracekit.read(path)
    assert len(tracekit.read(path, on_error="skip")) == 2
