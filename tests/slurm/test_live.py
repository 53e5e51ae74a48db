"""A real Slurm on this machine; skipped, with the reason, where it is not installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from slurm_lab import NEEDS_SLURM, submit

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import TracekitError, UsageError
from tracekit.slurm import processes
from tracekit.slurm.own import Own
from tracekit.slurm.queue import priorities

Run = Callable[..., tuple[int, str, str]]
pytestmark = NEEDS_SLURM


def test_it_runs_on_the_loopback_address_and_says_so(own: Own, run: Run) -> None:
    code, out, error = run("slurm", "status", own.folder, "--json")
    assert code == 0, error
    found = json.loads(out)
    assert (found["running"], found["cpus"], found["nodes"], found["daemons"]) == (True, 4, 4, 4)
    ports = {f"{own.layout().port + k:04X}" for k in range(5)}
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
    ours = [place.partition(":") for place in listening if place.partition(":")[2] in ports]
    assert len(ours) == 5
    assert {address for address, _, _ in ours} == {"0100007F"}
    with pytest.raises(TracekitError, match="runs here already"):
        own.start(4)


def test_another_one_beside_it_is_not_touched(own: Own, room: Path) -> None:
    other = Own(room / "b")
    before = own.pids()
    try:
        other.start(2, 1, profile="none")
        job = submit(other, "--time=1")
        own.slurm.call("squeue")
        other.stop()
        assert not other.pids()
        assert own.pids() == before
        with pytest.raises(UsageError, match="has 2 CPUs"):
            other.start(3)
        other.start()  # with its jobs
        assert str(job) in other.slurm.call("squeue", "-h", "--states=all", "-o", "%i") or other.status().running
    finally:
        other.stop()
    assert own.status().running
    assert not (other.folder / "run" / "munged.pid").exists()


def test_a_dry_run_changes_nothing_and_steering_permutes(own: Own, queue: list[int], run: Run, tmp_path: Path) -> None:
    log = tmp_path / "drive.jsonl"
    before = priorities(own.slurm)
    assert before[queue[3]][0] == 0
    words = ("slurm", "drive", "--policy", "sjf", "--dir", own.folder, "--log", log, "--json")
    code, out, error = run(*words, "--dry-run")
    assert code == 0, error
    found = json.loads(out)
    assert found["order"] == [queue[2], queue[1], queue[0]]
    assert found["left_alone"] == {"held": 1}
    assert priorities(own.slurm) == before
    assert not log.exists()
    code, _, error = run(*words, "--once")
    assert code == 0, error
    after = priorities(own.slurm)
    assert sorted(after, key=lambda job: -after[job][0])[:3] == [queue[2], queue[1], queue[0]]
    assert sorted(after[job][0] for job in queue) == sorted(before[job][0] for job in queue)
    assert after[queue[3]][0] == 0
    assert run("slurm", "drive", "--policy", "sjf", "--restore", "--log", log)[0] == 0
    assert priorities(own.slurm) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_killed_leaves_no_priority_changed(
    own: Own, queue: list[int], tmp_path: Path, number: signal.Signals
) -> None:
    before = priorities(own.slurm)
    log = tmp_path / "drive.jsonl"
    words = ["slurm", "drive", "--policy", "sjf", "--dir", str(own.folder), "--log", str(log), "--every", "0.2"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tracekit", "-q", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert processes.wait_until(lambda: priorities(own.slurm) != before, 60)
        driver.send_signal(number)
        driver.wait(60)
        assert processes.wait_until(lambda: priorities(own.slurm) == before, 60)
        assert '"closed"' in log.read_text()
    finally:
        driver.kill()
        driver.wait()


@pytest.mark.slow
def test_a_replay_is_killed_goes_on_and_is_compared(room: Path, run: Run) -> None:
    """Eight jobs in a few seconds; killed in the middle, called again, nothing is lost or submitted twice."""
    n = 8
    rng = np.random.default_rng(2)
    jobs = {"job_id": np.arange(1, n + 1), "submit_time": np.arange(n) * 24.0, "run_time": rng.integers(30, 120, n)}
    jobs |= {"req_time": [3600.0] * n, "req_procs": rng.integers(1, 4, n), "user": ["ann", "bob"] * 4}
    tracekit.write(Trace(pd.DataFrame(jobs).astype({"run_time": float}), Machine(procs=4)), room / "t.swf")
    lab = room / "lab"
    words = [
        "slurm",
        "replay",
        str(room / "t.swf"),
        "-o",
        str(lab),
        "--speed",
        "60",
        "--cpus",
        "4",
        "--drive",
        "sjf",
    ]
    first = subprocess.Popen(
        [sys.executable, "-m", "tracekit", "-q", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        journal = lab / "jobs.jsonl"
        assert processes.wait_until(lambda: journal.is_file() and len(journal.read_text().splitlines()) >= 3, 90)
        first.kill()
        first.wait()
        code, out, error = run(*words, "--json")
        assert code == 0, error
        assert json.loads(out)["jobs"] == n
        names = [line.partition(" Name=")[2].split()[0] for line in (lab / "jobcomp.txt").read_text().splitlines()]
        assert len(names) == len(set(names)) == n
        assert not Own(lab).pids()  # it was stopped at the end
        code, out, error = run("slurm", "compare", lab, "--json", "--figure", room / "both.png")
        assert code == 0, error
        found = json.loads(out)
        assert (found["jobs"], found["policy"], found["backfill"]) == (n, "sjf", "easy")
        assert set(found["start_error_s"]) >= {"p50", "p90", "max"}
        assert (room / "both.png").stat().st_size > 1000
        assert (tracekit.read(lab / "outcome.csv").column("wait_time") >= 0).all()
    finally:
        first.kill()
        first.wait()
        if Own(lab).exists:
            from tracekit.slurm.guard import take_over

            take_over(lab)
            Own(lab).stop()


def test_tasks_run_as_a_job_array_and_a_cancelled_one_is_lost(own: Own, tmp_path: Path) -> None:
    """Answers come back, in any order; a task whose job is cancelled is lost, and the caller may try it again."""
    from evaluation.experiment.on_slurm import Arrays
    from evaluation.experiment.tasks import Result, Store, Task

    arrays = Arrays(Store(tmp_path / "run"), {"OMP_NUM_THREADS": "1"}, own.slurm)
    tasks = [Task(f"nonsense-{k}", {}, {}, "code") for k in range(2)]
    try:
        assert arrays.slots == 4
        own.slurm.call("scontrol", "update", "PartitionName=batch", "State=DOWN")  # nothing starts
        arrays.start(tasks[0])
        assert arrays.wait(0.1) == []
        arrays.stop(tasks[0])
        arrays.start(tasks[0])
        arrays.start(tasks[1])
        assert arrays.wait(0.1) == []
        own.slurm.call("scancel", next(name for name, (task, _) in arrays._running.items() if task is tasks[1]))
        own.slurm.call("scontrol", "update", "PartitionName=batch", "State=UP")
        found: dict[str, Result] = {}
        assert processes.wait_until(
            lambda: len(found.update({task.kind: r for task, r in arrays.wait(1.0)}) or found) == 2, 120
        )
        assert found["nonsense-0"].reason == "KeyError: 'nonsense-0'"
        assert not found["nonsense-0"].lost
        assert found["nonsense-1"].lost
    finally:
        own.slurm.attempt("scontrol", "update", "PartitionName=batch", "State=UP")
        arrays.close()
    assert processes.wait_until(lambda: not own.slurm.call("squeue", "-h").strip(), 30)
