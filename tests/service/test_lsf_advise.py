"""Advice for LSF: listings as the commands write them, damaged ones, and bmod run without a shell."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tracekit.cli import main
from tracekit.errors import FormatError
from tracekit.service.host_choice import Baseline
from tracekit.service.lsf import advise, read_hosts, read_jobs

BHOSTS: list[dict[str, Any]] = [
    {
        "HOST_NAME": "hostA",
        "STATUS": "ok",
        "MAX": "16",
        "NJOBS": "4",
        "AVAILABLE_MEM": "31.2G",
        "TOTAL_MEM": "64G",
        "NGPUS": "-",
    },
    {
        "HOST_NAME": "hostB",
        "STATUS": "closed_Full",
        "MAX": "16",
        "NJOBS": "16",
        "AVAILABLE_MEM": "1G",
        "TOTAL_MEM": "64G",
    },
    {
        "HOST_NAME": "hostC",
        "STATUS": "ok",
        "MAX": "8",
        "RUN": "1",
        "SSUSP": "1",
        "TOTAL_MEM": "-",
        "AVAILABLE_MEM": "30000",
    },
    {
        "HOST_NAME": "gpu-1",
        "STATUS": "ok",
        "MAX": "-",
        "NJOBS": "0",
        "NGPUS": "4",
        "NGPUS_ALLOC": "1",
        "TOTAL_MEM": "0.5T",
    },
]
BJOBS: list[dict[str, Any]] = [
    {
        "JOBID": "101",
        "STAT": "PEND",
        "NREQ_SLOT": "4",
        "EFFECTIVE_RESREQ": "select[type == any] rusage[mem=8192.00:duration=1]",
    },
    {
        "JOBID": "102",
        "JOBINDEX": "3",
        "STAT": "PEND",
        "NREQ_SLOT": "-",
        "MEMLIMIT": "31 G",
        "RUNTIMELIMIT": "90.0 min/hostA",
    },
    {"JOBID": "103", "STAT": "RUN", "NREQ_SLOT": "8"},
    {"JOBID": "104", "STAT": "PEND", "MIN_REQ_PROC": "1", "GPU_REQ": "num=2:mode=shared", "PEND_TIME": "77"},
    {"JOBID": "105", "STAT": "PEND", "SLOTS": "2000000"},
    {"JOBID": "106", "ERROR": "Job <106> is not found"},
]


def listing(command: str, records: Any) -> str:
    return json.dumps(
        {"COMMAND": command, "HOSTS" if command == "bhosts" else "JOBS": len(records), "RECORDS": records}
    )


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "h.json").write_text(listing("bhosts", BHOSTS))
    (tmp_path / "j.json").write_text(listing("bjobs", BJOBS))
    return ["--hosts", str(tmp_path / "h.json"), "--jobs", str(tmp_path / "j.json")]


def test_listings_are_read_with_their_units() -> None:
    hosts = read_hosts(listing("bhosts", BHOSTS))
    assert hosts.table.names == ["hostA", "hostC", "gpu-1"]
    assert hosts.closed == {"closed_Full": 1}
    assert hosts.table.free[0].tolist() == [12, 31.2 * 2**20, 0]
    assert hosts.table.free[1].tolist() == [6, 30000 * 1024, 0]
    assert hosts.table.free[2].tolist()[1:] == [2**29, 3]
    jobs = read_jobs(listing("bjobs", BJOBS))
    assert [job.id for job in jobs] == ["101", "102[3]", "104", "105"]
    assert (jobs[0].slots, jobs[0].memory) == (4, 8192 * 1024)
    assert (jobs[1].slots, jobs[1].memory, jobs[1].estimate) == (1, 31 * 2**20, 5400)
    assert (jobs[2].gpus, jobs[2].wait) == (2, 77)


def test_one_command_for_each_pending_job_that_fits(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lsf", "advise", "--policy", "best-fit", *files]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        'bmod -m "hostC+2 hostA+1" 101',
        'bmod -m "hostA+2 gpu-1+1" "102[3]"',
        'bmod -m "gpu-1+1" 104',
    ]
    assert "1 fit no host" in err
    assert main(["lsf", "advise", "--policy", "first-fit", "--top", "1", "--others", "--json", *files]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["advice"][0] == {"job": "101", "hosts": ["hostA"], "command": ["bmod", "-m", "hostA+1 others", "101"]}
    assert found["unplaced"] == ["105"]


def test_one_listing_may_come_from_stdin(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(listing("bjobs", BJOBS)))
    assert main(["lsf", "advise", "--policy", "best-fit", *files[:2], "--jobs", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["lsf", "advise", "--policy", "best-fit", "--hosts", "-", "--jobs", "-"]) == 2


def fake_bmod(folder: Path, *, fails: str = "") -> Path:
    log = folder / "bmod.log"
    script = folder / "bmod"
    script.write_text(
        f"#!{sys.executable}\nimport sys, json\n"
        f"open({str(log)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        f"sys.exit('Job: no such job' if sys.argv[-1] == {fails!r} else 0)\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return log


def test_apply_runs_bmod_with_arguments(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = fake_bmod(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert main(["lsf", "advise", "--policy", "best-fit", "--apply", *files]) == 0
    ran = [json.loads(line) for line in log.read_text().splitlines()]
    assert ran == [["-m", "hostC+2 hostA+1", "101"], ["-m", "hostA+2 gpu-1+1", "102[3]"], ["-m", "gpu-1+1", "104"]]
    assert capsys.readouterr().out == ""
    log.unlink()
    fake_bmod(tmp_path, fails="101")
    assert main(["lsf", "advise", "--policy", "best-fit", "--apply", *files]) == 1
    assert len(log.read_text().splitlines()) == 3
    assert "no such job" in capsys.readouterr().err


def test_apply_without_bmod(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["lsf", "advise", "--policy", "best-fit", "--apply", *files]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"RECORDS": 5}',
        '{"RECORDS": [5]}',
        "[" * 100_000,
        '{"COMMAND": "bqueues", "RECORDS": []}',
        listing("bhosts", [{}]),
        listing("bhosts", [{"HOST_NAME": "a; rm -rf /"}]),
        listing("bhosts", [{"HOST_NAME": "-x"}]),
        listing("bhosts", [{"HOST_NAME": "a", "MAX": "many"}]),
        listing("bhosts", [{"HOST_NAME": "a", "MAX": "1", "TOTAL_MEM": "x"}]),
        listing("bhosts", [{"HOST_NAME": "a", "MAX": "1"}] * 2),
        listing("bhosts", [{"HOST_NAME": "a", "MAX": "-3"}]),
    ],
)
def test_damaged_host_listings_are_named(text: str) -> None:
    with pytest.raises(FormatError):
        read_hosts(text, "h.json")


@pytest.mark.parametrize(
    "record",
    [{}, {"JOBID": "1; ls"}, {"JOBID": "-"}, {"JOBID": "1", "NREQ_SLOT": "x"}, {"JOBID": "1", "MEMLIMIT": "?"}],
)
def test_damaged_job_listings_are_named(record: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        read_jobs(listing("bjobs", [record | {"STAT": "PEND"}]), "j.json")


def test_no_open_host_and_no_pending_job() -> None:
    closed = read_hosts(listing("bhosts", [{"HOST_NAME": "a", "STATUS": "unavail"}]))
    assert [one.hosts for one in advise(closed, read_jobs(listing("bjobs", BJOBS)), Baseline("best-fit"))] == [()] * 4
    assert advise(read_hosts(listing("bhosts", BHOSTS)), [], Baseline("best-fit")) == []
