"""train, evaluate, simulate and experiment with agents on clusters of hosts, on the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from hosts_toys import CLUSTER, hosts_trace

import tracekit
from tracekit.clusters import describe_groups
from tracekit.errors import UsageError
from tracekit.service.decide import Decider
from tracekit.sim.agents import Agent
from tracekit.sim.tasks.base import task_from_dict

SMALL = ("--steps", "200", "--jobs", "40", "--seed", "1", "--threads", "1")


def cluster_text() -> str:
    lines = ['name = "three kinds"', 'unit = "gpus"']
    for group in describe_groups(CLUSTER.groups):
        lines += ["[[groups]]", *(f"{key} = {json.dumps(value)}" for key, value in group.items())]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace, a cluster, and an agent trained there."""
    from tracekit.cli import main

    folder = tmp_path_factory.mktemp("hosts")
    trace = hosts_trace(400)
    jobs = trace.jobs.assign(submit_time=np.floor(trace.jobs["submit_time"].to_numpy() / 90))
    tracekit.write(tracekit.Trace(jobs, trace.machine), folder / "jobs.parquet")
    tracekit.write(tracekit.Trace(jobs.assign(req_gpus=0.0), trace.machine), folder / "plain.parquet")
    (folder / "small.toml").write_text(cluster_text(), encoding="utf-8")
    flags = ("--cluster", str(folder / "small.toml"), "--allocate", "packing", "--base", "fcfs", "--reward", "relative")
    assert main(["-q", "train", str(folder / "jobs.parquet"), "-o", str(folder / "agent"), *flags, *SMALL]) == 0
    return folder


def test_an_agent_holds_its_cluster(place: Path) -> None:
    task = json.loads((place / "agent" / "agent.json").read_text())["task"]
    assert [group["name"] for group in task["cluster"]["groups"]] == ["v", "p", "t"]
    assert (task["allocate"], task["base"], task["reward"], task["observer"]) == (
        "packing",
        "fcfs",
        "relative",
        "hosts",
    )
    again = task_from_dict(task)
    assert again.cluster.groups == CLUSTER.groups
    assert dataclasses.replace(again, allocate="first-fit").switches.allocate == "first-fit"
    assert again.to_dict() == task_from_dict(json.loads(json.dumps(again.to_dict()))).to_dict()


def test_evaluate_uses_the_agents_cluster_and_says_where_another_differs(place: Path, run) -> None:
    command = ("evaluate", place / "agent", place / "jobs.parquet", "--window", "300:60", "--policy", "fcfs", "--json")
    code, out, error = run(*command)
    assert code == 0, error
    found = json.loads(out)
    assert set(found["measures"]) == {f"agent:{place / 'agent'}", "fcfs"}
    assert 0 < found["measures"]["fcfs"]["gpu_utilization"] <= 1
    theirs = tracekit.simulate(
        tracekit.read(place / "jobs.parquet").take(np.arange(300, 360)), "fcfs", cluster=CLUSTER, allocate="packing"
    )
    assert found["baselines"]["fcfs"]["mean"] == pytest.approx(theirs.metrics["mean_bsld"])
    (place / "other.toml").write_text(cluster_text().replace("count = 6", "count = 7"), encoding="utf-8")
    code, out, error = run(*command, "--cluster", place / "other.toml")
    assert code == 0, error
    assert any("cluster" in note for note in json.loads(out)["notes"])


def test_simulate_with_an_agent_names_hosts(place: Path, run) -> None:
    command = (
        "simulate",
        place / "jobs.parquet",
        "--policy",
        f"agent:{place / 'agent'}",
        "--window",
        "300:60",
        "--json",
    )
    code, out, error = run(*command, "--cluster", place / "small.toml", "--allocate", "packing")
    assert code == 0, error
    (row,) = json.loads(out)["results"]
    judged = json.loads(run("evaluate", place / "agent", place / "jobs.parquet", "--window", "300:60", "--json")[1])
    assert row["mean_bsld"] == pytest.approx(judged["mean"])
    assert row["gpu_utilization"] > 0
    code, _, error = run(*command)  # a counter
    assert (code, error.count("\n")) == (2, 1)
    assert "--cluster" in error


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (("jobs", "--cluster", "mira", "--observer", "rltune"), 2, "GPUs"),
        (("plain", "--cluster", "small", "--observer", "rltune"), 1, "GPUs"),
        (("plain", "--cluster", "small", "--objective", "gpu-utilization"), 1, "GPUs"),
        (("jobs", "--objective", "gpu-utilization"), 2, "--cluster"),
        (("jobs", "--observer", "hosts"), 2, "--cluster"),
        (("jobs", "--observer", "rltune"), 2, "--cluster"),
        (("jobs", "--cluster", "small", "--observer", "spare"), 2, "spare"),
        (("jobs", "--cluster", "small", "--warm", "10"), 2, "warm"),
        (("jobs", "--cluster", "small", "--allocate", "fgd,packing"), 2, "--allocate"),
        (("jobs", "--allocate", "fgd"), 2, "--cluster"),
        (("jobs", "--reward", "relativ"), 2, "relative"),
        (("jobs", "--base", "no-such"), 2, "policy"),
        (("jobs", "--cluster", "no-such"), 2, "cluster"),
        (("jobs", "--compat", "rltune"), 2, "--cluster"),
    ],
)
def test_what_cannot_be_is_one_clear_line(place: Path, run, tmp_path: Path, flags, code, word) -> None:
    trace, *rest = (str(place / "small.toml") if flag == "small" else flag for flag in flags)
    found, _, error = run("train", place / f"{trace}.parquet", "-o", tmp_path / "a", *rest, *SMALL)
    assert (found, error.count("\n")) == (code, 1), error
    assert word in error


def test_agents_of_a_counter_and_of_a_cluster_are_told_apart(place: Path, run) -> None:
    code, _, error = run("evaluate", "default", place / "jobs.parquet", "--cluster", place / "small.toml")
    assert (code, error.count("\n")) == (2, 1)
    with pytest.raises(UsageError, match="cluster"):
        Decider(Agent.load(place / "agent"), "agent")


def test_an_allocator_of_an_agents_file_is_not_imported(place: Path, run, tmp_path: Path) -> None:
    agent = Agent.load(place / "agent")
    agent.task["allocate"] = "no_such_module:Class"
    agent.save(tmp_path / "agent")
    code, _, error = run("evaluate", tmp_path / "agent", place / "jobs.parquet", "--window", "300:40")
    assert (code, error.count("\n")) == (2, 1)
    assert "--allocate" in error


def test_experiments_run_on_a_cluster(place: Path, run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[models]\nnames = ['resample']\nbaselines = []\nsamples = 1\n[agents]\nlearner = 'pick-heuristic'\nseeds = 1\n"
        "config = { policies = ['fcfs', 'sjf'], windows = 2, jobs = 20 }\n"
        "[windows]\ncount = 3\njobs = 20\nheuristics = ['fcfs']\n[scarce]\nshare = 0\n"
        "[score]\nfamilies = ['marginal']\n",
        encoding="utf-8",
    )
    flags = ("--config", plan, "--cluster", place / "small.toml", "--allocate", "packing", "-o", tmp_path / "run")
    code, _, error = run("experiment", place / "jobs.parquet", *flags)
    assert code == 0, error
    rows = pd.read_parquet(tmp_path / "run" / "results.parquet")
    assert len(rows)
