from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared_data import shared

import tracekit
from swf.lsf import record
from tracekit.errors import FormatError

RUSAGE = "0.004997 0.006155 3748 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1"
TAIL = (
    f'100.0 "Jöb ""A""" "/bin/sleep 3" {RUSAGE} "" "default" {{exit}} 4 "" "" {{idx}} 2048 0 "" "" "" "" 0 "" {{info}} '
    '"" -1 "" "" "" "" -1 "" "" 5136 "" 1644826546 "" "" 2 1032 "0" 1033 "0" 0 {limit} 4194304 1024 "select[x]" "" -1'
)
ROW = (
    '"JOB_FINISH" "10.108" 1644826549 386 1501 33554434 4 1644826500 0 0 {start} "simuser" "sender" "" "" "" "from" '
    f'"/root" "" "" "" "1644826545.386" 1 "asked" 2 "3*hostA" "hostB" {{status}} {TAIL}\n'
)
DONE = {"start": 1644826546, "status": 64, "exit": 0, "idx": 0, "info": 0, "limit": 3600}


def test_the_real_records() -> None:
    trace = tracekit.read(shared("lsf/xdmod_lsf_sample.lsb.acct"))
    assert len(trace) == 2
    first = trace.jobs.iloc[0]
    assert first["job_id"] == 404717
    assert first["submit_time"] == 1389642318
    assert (first["wait_time"], first["run_time"]) == (453, 40368)
    assert first["req_time"] == 12 * 3600  # bsub -W 12:00
    assert (first["req_procs"], first["alloc_procs"], first["alloc_nodes"]) == (128, 128, 8)
    assert first["used_mem"] == 10725376 / 128
    assert first["cpu_time"] == pytest.approx((5793844.23 + 679.06) / 128)
    assert (first["user"], first["queue"], first["project"], first["app"]) == (
        "anonuser",
        "regular",
        "anonproject",
        "abcde0040",
    )
    assert first["status"] == "completed"
    second = trace.jobs.iloc[1]  # hosts in the long form: one name for each slot
    assert (second["alloc_procs"], second["alloc_nodes"]) == (8, 4)


def test_lists_quotes_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(
        '"JOB_NEW" "10.108" 1644826500 386 \n'
        + ROW.format(**DONE)
        + ROW.format(**DONE | {"status": 32, "exit": 140, "info": 5, "idx": 3, "limit": -1})
        + ROW.format(**DONE | {"status": 32, "exit": 130, "info": 14, "start": 0})
    )
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert jobs["app"].iloc[0] == 'Jöb "A"'
    assert (jobs["alloc_procs"].iloc[0], jobs["alloc_nodes"].iloc[0]) == (4, 2)
    assert jobs["status"].tolist() == ["completed", "timeout", "cancelled"]
    assert jobs["req_time"].iloc[0] == 3600
    assert np.isnan(jobs["req_time"].iloc[1])
    assert jobs["x_jobid"].tolist() == ["386", "386[3]", "386"]
    assert jobs["run_time"].tolist() == [3, 3, 0]
    assert np.isnan(jobs["wait_time"].iloc[2])
    assert trace.history == ("left out 1 records that are not finished jobs",)


def test_an_old_version_stops_earlier() -> None:
    text = ROW.format(**DONE)
    row = record(text[: text.index('"" "" "" "" 0 "" 0')] + '"" "" ""')
    assert row["memory"] == 2048
    assert np.isnan(row["limit"])


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    good = ROW.format(**DONE)
    for bad in (good[:120] + "\n", good.replace('1 "asked"', '900 "asked"'), good.replace("1644826500", '"soon"')):
        path.write_text(good + bad)
        with pytest.raises(FormatError, match="line 2"):
            tracekit.read(path)
        assert len(tracekit.read(path, on_error="skip")) == 1
