"""Loaders of users' files: whatever the bytes, a value or an error of ours."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import Rng, mutated, revalued
from shared_data import ROOT

import tracekit
from evaluation.experiment.about import read_run
from evaluation.experiment.compare import compare
from evaluation.experiment.grid import load as load_plan
from evaluation.report.run import content_of
from generators.synth import fit
from generators.synth import load as load_model
from tracekit.anonymize import read_key
from tracekit.cleaning import read_recipe
from tracekit.errors import FormatError, TracekitError, UsageError, reading
from tracekit.machine import Machine
from tracekit.sim.agents import checkpoint
from tracekit.sim.agents.agent import PACKAGED, Agent
from tracekit.sim.agents.config import Config
from tracekit.sim.analysis.check import read_schedule
from tracekit.sim.analysis.resimulate import provenance_of
from tracekit.sim.snapshot import Snapshot
from tracekit.sim.tasks.base import task_from_dict

MACHINE = 'name = "m"\nprocs = 8\nunit = "procs"\ntimezone = "UTC"\nepoch = 1e9\n[[groups]]\ncount = 2\ncores = 4\n'
RECIPE = 'rules = ["sort-by-submit", "drop-flurries:u1"]\n'
TRAIN = "[train]\nsteps = 1000\nwindows = 8\nlearning_rate = 0.001\nhidden = [32, 16]\n"
SCHEDULE = "job_id,submit_time,start_time,end_time,procs\n1,0,0,10,2\n2,5.5,10,20,1\n"
SWITCHES = {
    "policy": "fcfs",
    "backfill": "easy",
    "window": [0, 10],
    "switches": {"bound": 10.0, "outages": [[1, 2, 3]]},
}
ABOUT = {"identity": "x", "plan": {"a": 1}, "real": {"name": "r", "sha256": "0", "jobs": 3}, "parts": [], "models": []}
VERDICT = {"metric": "bsld", "margin": 0.1, "verdicts": [{"model": "m", "verdict": "same"}], "sensitivity": {}}
RUNNING = {"job_id": 5, "job_state": ["RUNNING"], "submit_time": 1, "start_time": 2, "time_limit": 5, "cpus": 1}
SQUEUE = {"jobs": [RUNNING]}

Text = dict[str, tuple[str, Callable[[Path], Any]]]
FILES: Text = {
    "machine.toml": (MACHINE, Machine.from_toml),
    "recipe.toml": (RECIPE, read_recipe),
    "train.toml": (TRAIN, Config.load),
    "plan.toml": ((ROOT / "experiments" / "sample.toml").read_text(), load_plan),
    "schedule.csv": (SCHEDULE, read_schedule),
    "switches.json": (json.dumps(SWITCHES), lambda path: provenance_of(path.parent / "schedule.csv")),
    "key": ("a long and random word\n", read_key),
    "log.jsonl": ('{"iteration": 1, "score": 2.0}\n' * 3, lambda path: checkpoint.read_log(path.parent)),
    "snapshot.json": ("", lambda path: Snapshot.from_json(path.read_text(errors="surrogateescape"))),
    "squeue.json": (json.dumps(SQUEUE), lambda path: Snapshot.from_squeue(path.read_text(errors="replace"), 16)),
    "experiment.json": (json.dumps(ABOUT), lambda path: read_run(path.parent)),
    "verdict.json": (json.dumps(VERDICT), lambda path: (read_run(path.parent), compare(path.parent, path.parent))),
}


def sound(folder: Path) -> None:
    """Write all of these files, whole."""
    for name, (text, _) in FILES.items():
        (folder / name).write_text(text or Snapshot.from_trace(tracekit.sample().head(30), 5000.0).to_json())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", FILES)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    sound(tmp_path)
    data = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(150):
        (tmp_path / name).write_bytes(mutated(data, rng))
        attempt(FILES[name][1], tmp_path / name)


def attempt(load: Callable[..., Any], *args: Any) -> Any:
    """Return what a loader returns, or None for an error of ours; any other is passed on."""
    try:
        return load(*args)
    except TracekitError:
        return None


def damage(file: Path, rng: Rng) -> None:
    data = file.read_bytes()
    if file.suffix == ".json" and rng.random() < 0.7:
        file.write_text(json.dumps(revalued(json.loads(data), rng)))
    else:
        file.write_bytes(mutated(data, rng))


@pytest.mark.filterwarnings("default")
def test_damaged_agents_are_refused_or_work(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    rng = np.random.default_rng(1)
    trace = tracekit.sample().head(40)
    for number in range(150):
        folder = tmp_path / "agent"
        shutil.copytree(PACKAGED / "default", folder, dirs_exist_ok=True)
        damage(folder / ("weights.safetensors" if number % 5 == 0 else "agent.json"), rng)
        agent = attempt(Agent.load, folder)
        if agent is not None:
            attempt(tracekit.simulate, trace, f"agent:{folder}")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("model", ["resample", "lublin", "sessions"])
def test_damaged_models(model: str, tmp_path: Path) -> None:
    fit(tracekit.sample().head(1500), model).save(tmp_path / "whole")
    rng = np.random.default_rng(zlib.crc32(model.encode()))
    files = sorted(path.name for path in (tmp_path / "whole").iterdir())
    for number in range(40):
        folder = tmp_path / "model"
        shutil.copytree(tmp_path / "whole", folder, dirs_exist_ok=True)
        damage(folder / files[number % len(files)], rng)
        attempt(load_model, folder)


def test_what_a_run_leaves(tmp_path: Path) -> None:
    sound(tmp_path)
    (tmp_path / "results.parquet").write_bytes(b"PAR1 nothing PAR1")
    for load in (content_of, read_run, lambda folder: compare(folder, folder)):
        attempt(load, tmp_path)


def test_a_file_does_not_choose_what_is_imported() -> None:
    with pytest.raises(UsageError):
        task_from_dict({"name": "os:system"})


def test_the_guard_keeps_the_cause() -> None:
    with pytest.raises(FormatError, match=r"file.x: .*ValueError") as found, reading("file.x", "a trace"):
        int("x")
    assert isinstance(found.value.__cause__, ValueError)
    for passed in (MemoryError, UsageError, ImportError):
        with pytest.raises(passed), reading("file.x", "a trace"):
            raise passed("as it is")
