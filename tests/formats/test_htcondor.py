"""Job history of HTCondor, as its manual describes the attributes; values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracekit
from tracekit import Trace
from tracekit.errors import FormatError

FIRST: dict[str, Any] = {
    "MyType": "Job", "ClusterId": 12, "ProcId": 0, "QDate": 1700000000, "JobStartDate": 1700000100,
    "JobCurrentStartDate": 1700000100, "CompletionDate": 1700003700, "RemoteWallClockTime": 3600.0,
    "NumJobStarts": 1, "RequestCpus": 4, "CpusProvisioned": 4, "RequestMemory": 2048, "RequestGPUs": 1,
    "GPUsProvisioned": 1, "ResidentSetSize_RAW": 999000, "ResidentSetSize": 1000000, "RemoteUserCpu": 14000.0,
    "RemoteSysCpu": 40.0, "JobStatus": 4, "ExitBySignal": False, "ExitCode": 0, "Owner": "ann",
    "AccountingGroup": "group_physics.ann", "Cmd": "/home/ann/say \"hi\".sh", "JobUniverse": 5,
}  # fmt: skip


def classad(**changes: Any) -> dict[str, Any]:
    """Return a job; a change to None removes the attribute."""
    return {name: value for name, value in (FIRST | changes).items() if value is not None}


def long(ad: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in ad.items())


def history(*ads: dict[str, Any]) -> str:
    """Return a history file: every ClassAd is followed by its summary."""
    return "".join(
        f"{long(ad)}\n*** Offset = {k} ClusterId = {ad['ClusterId']} ProcId = 0\n" for k, ad in enumerate(ads)
    )


ADS = (
    classad(),
    classad(ClusterId=13, JobStatus=3, JobStartDate=None, JobCurrentStartDate=None, CompletionDate=0, ExitCode=None,
            RemoteWallClockTime=0.0, EnteredCurrentStatus=1700000500, CpusProvisioned=None),  # removed while it waited
    classad(ClusterId=14, JobCurrentStartDate=1700002000, NumJobStarts=2, ExitCode=1, RemoteWallClockTime=3000.0),
    classad(ClusterId=15, ExitBySignal=True, ExitCode=None, RequestCpus=None, CpusProvisioned=None,
            ResidentSetSize_RAW=None),
    classad(ClusterId=16, JobUniverse=11, MinHosts=3, RequestCpus=2, CpusProvisioned=None),
    classad(ClusterId=17, JobStatus=2),  # still running
)  # fmt: skip


def check(trace: Trace) -> None:
    assert trace.column("job_id").tolist() == [12, 13, 14, 15, 16]
    assert trace.column("submit_time").tolist() == [1700000000] * 5
    np.testing.assert_array_equal(trace.column("wait_time"), [100, np.nan, 2000, 100, 100])
    np.testing.assert_array_equal(trace.column("run_time"), [3600, np.nan, 1700, 3600, 3600])
    assert trace.jobs["status"].tolist() == ["completed", "cancelled", "failed", "failed", "completed"]
    np.testing.assert_array_equal(trace.column("req_procs"), [4, 4, 4, np.nan, 6])
    np.testing.assert_array_equal(trace.column("alloc_procs"), [4, np.nan, 4, np.nan, np.nan])
    assert trace.column("req_gpus").tolist() == [1] * 5
    assert trace.column("req_mem").tolist() == [524288, 524288, 524288, 2097152, 2048 * 1024 / 6]
    assert trace.column("used_mem").tolist()[:4] == [249750, 249750, 249750, 1000000]
    assert trace.column("cpu_time")[0] == 3510
    assert trace.jobs["user"].tolist() == ["ann"] * 5
    assert trace.jobs["group"].tolist()[0] == "group_physics.ann"
    assert trace.jobs["app"].tolist()[0] == '/home/ann/say "hi".sh'
    assert trace.jobs["x_RemoteWallClockTime"].tolist()[2] == 3000
    assert any("left out 1 jobs that had not ended" in step for step in trace.history)


@pytest.mark.parametrize(
    "text",
    [
        history(*ADS),
        "\n\n".join(map(long, ADS)),
        json.dumps(list(ADS), indent=2),
        "\n".join(map(json.dumps, ADS)),
        history(*({name.upper(): value for name, value in ad.items()} | {"ClusterId": ad["ClusterId"]} for ad in ADS)),
    ],
    ids=["history file", "-long", "-json", "-jsonl", "upper case"],
)
def test_every_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "history"
    path.write_text(text)
    check(tracekit.read(path))


def test_processes_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(history(classad(), classad(ProcId=1)))
    assert tracekit.read(path).jobs["x_jobid"].tolist() == ["12.0", "12.1"]


def test_expressions_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "history"
    expression = "ifthenelse(MemoryUsage =!= undefined,MemoryUsage,(ImageSize + 1023) / 1024)"
    path.write_text(
        long(classad(RequestMemory=None)) + f"\nRequestMemory = {expression}\nRequirements = (A == 1) && B\n"
    )
    assert not tracekit.read(path).has("req_mem")
    path.write_text(json.dumps([classad(RequestMemory=f"/Expr({expression})/")]))
    assert not tracekit.read(path).has("req_mem")


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(history(classad()) + "what is this\n")
    with pytest.raises(FormatError) as caught:
        tracekit.read(path)
    assert caught.value.line == len(FIRST) + 2
    assert len(tracekit.read(path, on_error="skip")) == 1
    path.write_text(history(classad(), classad(QDate="soon")))
    with pytest.raises(FormatError) as caught:
        tracekit.read(path)
    assert caught.value.line == len(FIRST) + 2
    path.write_text(history(classad(), classad(ClusterId=13, QDate=None)))
    with pytest.raises(FormatError, match="QDate"):
        tracekit.read(path)
    path.write_text(json.dumps([classad()])[:-30])
    with pytest.raises(FormatError):
        tracekit.read(path, "htcondor")
    path.write_text(history(classad(JobStatus=1)))
    with pytest.raises(FormatError, match="ended"):
        tracekit.read(path)
