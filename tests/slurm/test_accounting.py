"""A Slurm with slurmdbd and a MariaDB of its own; skipped, with the reason, where one is not installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_lab import NEEDS_ACCOUNTING, NEEDS_SLURM, stress, submit

import tracekit
from tracekit.errors import TracekitError
from tracekit.slurm import accounting, outcome, processes, tools
from tracekit.slurm.conf import Layout, slurm_conf
from tracekit.slurm.own import Own
from tracekit.slurm.plan import Plan, Planned

Run = Callable[..., tuple[int, str, str]]


def test_the_books_are_below_the_folder_and_on_the_loopback_address() -> None:
    layout = Layout("/lab", 4, 4, 20_000, accounting=True)
    text = slurm_conf(layout)
    assert "AccountingStorageHost=127.0.0.1\n" in text
    assert f"AccountingStoragePort={layout.dbd_port}\n" in text
    assert layout.port + layout.nodes < layout.dbd_port < layout.port + layout.ports
    settings = dict(line.split("=", 1) for line in accounting.dbd_conf("/lab", 20_005).splitlines())
    assert settings["DbdAddr"] == "127.0.0.1"
    assert settings["CommunicationParameters"] == "NoInAddrAny"
    assert all(settings[name].startswith("/lab/") for name in ("PidFile", "LogFile"))


def test_the_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> None:
    there = tools.find
    gone = {"mariadbd", "slurmdbd"}
    monkeypatch.setattr(tools, "find", lambda name: None if name in gone else there(name) or f"/bin/{name}")
    code, _, error = run("slurm", "start", "-o", tmp_path / "lab", "--accounting")
    assert code == 3
    assert "mariadbd, slurmdbd not found" in error
    assert "slurmdbd mariadb-server" in error
    assert not (tmp_path / "lab").exists()


class Books(tools.Slurm):
    """A Slurm whose sacct answers one text after another, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        super().__init__("/nowhere/slurm.conf")
        self.answers, self.looks = answers, 0

    def config(self) -> dict[str, str]:
        return {"AccountingStorageType": "accounting_storage/slurmdbd"}

    def call(self, *words: str, stdin: str | None = None, patience: float = 1.0) -> str:
        self.looks += 1
        return self.answers[min(self.looks, len(self.answers)) - 1]


def listing(*states: str) -> str:
    rows = [
        f"{7 + k}|{PLAN.jobs[k].name(PLAN.tag)}|u|{state}|2026-01-01T00:00:00|2026-01-01T00:00:01|"
        f"{'Unknown' if state == 'RUNNING' else '2026-01-01T00:00:05'}|4|1|1|1|1"
        for k, state in enumerate(states)
    ]
    return "\n".join([outcome._SACCT.replace(",", "|"), *rows]) + "\n"


PLAN = Plan("t", 1.0, 4, "tk", tuple(Planned(k, k, 0.0, 4.0, 1, 1) for k in range(2)))


def test_books_that_lag_behind_are_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(outcome, "_LOOK_S", 0.0)
    late = Books(listing(), listing("RUNNING", "COMPLETED"), listing("COMPLETED", "COMPLETED"))
    made = outcome.read_outcome(tmp_path, PLAN, late)
    assert (late.looks, made.column("run_time").tolist()) == (3, [4.0, 4.0])
    monkeypatch.setattr(outcome, "_LAG_S", 0.0)
    made = outcome.read_outcome(tmp_path, PLAN, Books(listing("RUNNING", "COMPLETED")))
    assert made.jobs["x_position"].tolist() == [1]  # no run time, no outcome
    with pytest.raises(TracekitError, match="none of the jobs of the replay has ended"):
        outcome.read_outcome(tmp_path, PLAN, Books(listing()))


def test_books_without_the_jobs_leave_the_word_to_the_completion_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(outcome, "_LAG_S", 0.0)
    rows = [
        f"JobId={7 + k} UserId=u(1) GroupId=g(1) Name={job.name(PLAN.tag)} JobState=COMPLETED Partition=batch "
        "TimeLimit=1 StartTime=2026-01-01T00:00:01 EndTime=2026-01-01T00:00:05 NodeList=n1 NodeCnt=1 "
        "ProcCnt=1 WorkDir=/ ReservationName= Tres=cpu=1 Account= QOS= WcKey= Cluster=unknown "
        "SubmitTime=2026-01-01T00:00:00 EligibleTime=2026-01-01T00:00:00 DerivedExitCode=0:0 ExitCode=0:0 \n"
        for k, job in enumerate(PLAN.jobs)
    ]
    (tmp_path / "jobcomp.txt").write_text("".join(rows))
    slurm = Books(listing())
    slurm.conf = str(tmp_path / "slurm.conf")
    assert outcome.read_outcome(tmp_path, PLAN, slurm).column("run_time").tolist() == [4.0, 4.0]


@NEEDS_SLURM
@NEEDS_ACCOUNTING
@pytest.mark.slow
def test_a_replay_is_read_from_the_books(room: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, trace = Own(room / "lab"), room / "t.swf"
    tracekit.write(stress().toy(5, 1), trace)
    asked = []
    whole = outcome._from_sacct
    monkeypatch.setattr(outcome, "_from_sacct", lambda *words: asked.append(words) or whole(*words))
    try:
        words = ("slurm", "replay", trace, "-o", lab.folder, "--speed", "60", "--cpus", "4", "--accounting", "--keep")
        code, out, error = run(*words, "--json")
        assert code == 0, error
        assert json.loads(out)["jobs"] == 5
        assert asked
        status = lab.status()
        assert status.accounting
        ports = {f"{lab.layout().port + k:04X}" for k in range(lab.layout().ports)}
        listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
        ours = [place.partition(":") for place in listening if place.partition(":")[2] in ports]
        assert {address for address, _, _ in ours} == {"0100007F"}
        assert len(ours) == lab.layout().ports
        books, log = (
            outcome.read_outcome(lab.folder, Plan.load(lab.folder), slurm).jobs for slurm in (lab.slurm, None)
        )
        assert books.drop(columns="x_state").equals(log.drop(columns="x_state"))
        job = submit(lab, "--time=1", sleep=0)
        assert processes.wait_until(lambda: f"{job}|COMPLETED" in lab.slurm.call("sacct", "-nPX", "-oJobID,State"), 60)
        (room / "sacct.json").write_text(lab.slurm.call("sacct", "--json"))
        assert len(tracekit.read(room / "sacct.json")) == 6
        lab.stop()
        assert not lab.pids()
        lab.start()  # with its books
        assert f"{job}|" in lab.slurm.call("sacct", "-nPX", "-oJobID,State")
    finally:
        if lab.exists:
            lab.stop()
    assert not lab.pids()


@NEEDS_SLURM
@NEEDS_ACCOUNTING
@pytest.mark.slow
def test_an_interrupted_start_leaves_no_database_behind(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def interrupted(_: Path) -> bool:
        begun.append(processes.read_pid(room / "lab" / "run" / "mariadbd.pid") or 0)
        raise KeyboardInterrupt

    monkeypatch.setattr(accounting, "_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Own(room / "lab").start(2, 2, with_accounting=True)
    assert begun[0]
    assert not processes.alive(begun[0])
    assert not Own(room / "lab").pids()
