"""`ablation`: base policies alone, with an allocator, with an agent, with both, on the same held-out windows."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit import Machine, Trace
from tracekit.cli import main

pytest.importorskip("torch")

CLUSTER = """name = "two"
[[groups]]
name = "a"
count = 2
gpus = 4
pool = "x"
[[groups]]
name = "b"
count = 2
gpus = 4
pool = "y"
"""
OUTPUTS = {"ablation.json", "ablation.csv", "ablation.md", "ablation.png", "ablation.svg"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a busy GPU trace, a cluster of two pools, and the results of a first run."""
    folder = tmp_path_factory.mktemp("ablation")
    rng = np.random.default_rng(0)
    jobs = {
        "job_id": np.arange(1, 401),
        "submit_time": np.cumsum(rng.integers(0, 60, 400)).astype(float),
        "run_time": rng.integers(10, 600, 400).astype(float),
        "req_gpus": rng.choice([1, 2, 4, 6], 400),
    }
    tracekit.write(Trace(pd.DataFrame(jobs), Machine(name="busy", unit="gpus")), folder / "jobs.parquet")
    (folder / "two.toml").write_text(CLUSTER)
    assert run(folder) == 0
    return folder


def run(folder, *more: str, out: str = "run") -> int:
    small = ["--windows", "3", "--jobs", "40", "--steps", "200", "--init", "base", "--allocate", "milp-exact"]
    given = [str(folder / "jobs.parquet"), "--cluster", str(folder / "two.toml"), "--base", "fcfs,sjf", *small]
    return main(["ablation", *given, "-o", str(folder / out), *more])


def test_all_arms_on_the_same_windows(place) -> None:
    assert {path.name for path in (place / "run").iterdir()} == OUTPUTS | {"agents"}
    found = json.loads((place / "run" / "ablation.json").read_text())
    arms = ["base", "allocator", "agent", "both"]
    assert [(row["base"], row["arm"]) for row in found["rows"]] == [(b, a) for b in ("fcfs", "sjf") for a in arms]
    trace = tracekit.read(place / "jobs.parquet")
    starts = [start for start, _ in found["windows"]]
    assert min(starts) > 0.8 * len(trace)  # the last 15 % of the time
    base, allocator = found["rows"][:2]
    for row, allocate in ((base, "lexicographic"), (allocator, "milp-exact")):
        ours = [
            tracekit.simulate(
                trace.take(slice(start, start + jobs)),
                "fcfs",
                cluster=str(place / "two.toml"),
                allocate=allocate,
                backfill="easy",
            )
            for start, jobs in found["windows"]
        ]
        assert row["wait"]["values"] == [one.metrics["mean_wait_s"] for one in ours]
        assert row["fragmentation"]["values"] == [one.metrics["fragmentation"] for one in ours]
        assert row["gpu_utilization"]["values"] == [one.metrics["gpu_utilization"] for one in ours]
    difference = np.mean(np.subtract(allocator["jct"]["values"], base["jct"]["values"]))
    assert allocator["jct"]["paired_difference"] == pytest.approx(difference)
    assert base["wait"]["mean"] > 0
    assert set(base["pools"]) == {"x", "y"}


def test_the_table_and_the_page(place) -> None:
    rows = list(csv.DictReader((place / "run" / "ablation.csv").read_text().splitlines()))
    measures = {"wait", "jct", "bsld", "makespan", "fragmentation", "gpu_utilization", "utilization"}
    assert len(rows) == 2 * 4 * len(measures)
    assert {row["measure"] for row in rows} == measures
    assert all(row["low"] == "" for row in rows if row["arm"] == "base")
    page = (place / "run" / "ablation.md").read_text()
    assert all(word in page for word in ("GPU utilisation", "fragmentation", "Mean wait by pool", "| sjf | both |"))


def test_agents_are_used_again_and_only_with_the_same_settings(place, capsys) -> None:
    before = (place / "run" / "ablation.json").read_bytes()
    weights = place / "run" / "agents" / "sjf" / "weights.safetensors"
    old = weights.read_bytes()
    assert run(place) == 1  # the results are there
    assert run(place, "--force") == 0
    assert (place / "run" / "ablation.json").read_bytes() == before
    assert weights.read_bytes() == old
    for name in OUTPUTS:  # as after an interruption
        (place / "run" / name).unlink()
    assert run(place) == 0
    assert (place / "run" / "ablation.json").read_bytes() == before
    capsys.readouterr()
    assert run(place, "--force", "--backfill", "none") == 2
    assert "backfill" in capsys.readouterr().err
    assert (place / "run" / "ablation.json").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--base", "sjff"], "sjff"),
        (["--allocate", "milq"], "milq"),
        (["--windows", "1"], "--windows"),
        (["--cluster", "rltune-helioz"], "rltune-helioz"),
        (["--estimates", "noisy"], "noisy"),
        (["--backfill", "conservative"], "conservative"),
    ],
)
def test_wrong_settings_end_before_any_training(place, capsys, given, word) -> None:
    assert run(place, *given, out="other") in (1, 2)
    lines = capsys.readouterr().err.strip().splitlines()
    assert word in lines[-1]
    assert not (place / "other").exists()
