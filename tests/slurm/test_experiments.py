"""Experiments on a real Slurm: as job arrays while nodes go and tasks are killed, and on Ray inside an allocation."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from shared_data import ROOT
from slurm_lab import NEEDS_SLURM

import tracekit
from evaluation.experiment import grid, study
from evaluation.experiment.compare import compare
from evaluation.experiment.engines import Where
from tracekit.slurm import processes
from tracekit.slurm.own import Own

pytestmark = [NEEDS_SLURM, pytest.mark.slow]
PLAN = """
[models]
names = ["resample"]
samples = 1
baselines = ["independent"]
[agents]
learner = "pick-heuristic"
seeds = 1
config = {windows = 4, jobs = 30}
[windows]
count = 4
jobs = 30
heuristics = ["fcfs", "sjf"]
[score]
families = ["marginal"]
[verdict]
draws = 100
"""


def plan() -> grid.Plan:
    """A plan of a few seconds."""
    return grid.from_dict(tomllib.loads(PLAN))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment on this machine."""
    folder = tmp_path_factory.mktemp("local") / "run"
    study.run(plan(), folder, tracekit.sample().head(1500), report=False)
    return folder


def running(own: Own) -> list[tuple[str, str]]:
    """Return job and node of every task that runs."""
    rows = own.slurm.call("squeue", "-h", "--array", "-t", "R", "-o", "%i %N").splitlines()
    return [(row.split()[0], row.split()[1]) for row in rows if len(row.split()) == 2]


def test_a_node_is_drained_and_a_task_is_killed(
    own: Own, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own.conf))
    done: list[str] = []

    def harm() -> None:
        """Drain the node of the first task that runs, and kill a task on another one; tasks may end at any moment."""
        seen: list[tuple[str, str]] = []

        def runs(other_than: str) -> bool:
            seen[:] = [one for one in running(own) if one[1] != other_than]
            return bool(seen)

        assert processes.wait_until(lambda: runs(""), 120)
        _, node = seen[0]
        own.slurm.call("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
        done.append(f"drained {node}")
        assert processes.wait_until(lambda: runs(node), 120)
        task, _ = seen[0]
        own.slurm.attempt("scancel", "--signal=KILL", "--full", task)
        done.append(f"killed {task}")

    thread = threading.Thread(target=harm)
    thread.start()
    try:
        study.run(plan(), tmp_path / "run", tracekit.sample().head(1500), where=Where("slurm"), report=False)
    finally:
        thread.join()
        for number in range(1, own.layout().nodes + 1):
            own.slurm.attempt("scontrol", "update", f"NodeName=n{number}", "State=RESUME")
    assert [word.split()[0] for word in done] == ["drained", "killed"]
    assert compare(local, tmp_path / "run")["same"]
    assert json.loads((tmp_path / "run" / "experiment.json").read_text())["engine"] == "slurm"
    assert not own.slurm.call("squeue", "-h").strip()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: pip install 'tracekit-hpc[ray]'")
def test_the_job_script_runs_ray_inside_an_allocation(own: Own, local: Path, tmp_path: Path) -> None:
    """The script of the docs, on one node of our own Slurm, with the same numbers as without Ray."""
    tracekit.write(tracekit.sample().head(1500), tmp_path / "jobs.parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    tools = Path(sys.executable).parent
    (tmp_path / "bin").mkdir()
    for name, module in (("tracekit", "tracekit"), ("ray", "ray.scripts.scripts")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    variables = {**own.slurm.environment, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_STORE": "100000000"}
    variables["PATH"] = f"{tmp_path / 'bin'}:{tools}:{os.environ['PATH']}"
    words = ["sbatch", "--wait", "--nodes=1", "--time=10", f"--output={tmp_path}/log", f"--chdir={tmp_path}"]
    words += [str(ROOT / "experiments" / "ray-in-slurm.sh"), str(tmp_path / "jobs.parquet")]
    words += ["--config", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "run")]
    ended = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=500, check=False)
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ended.stderr
    assert ended.returncode == 0, log[-2000:]
    assert json.loads((tmp_path / "run" / "experiment.json").read_text())["engine"] == "ray"
    assert compare(local, tmp_path / "run")["same"]
    assert processes.wait_until(lambda: not own._steps(), 30)  # nothing of Ray is left
