"""train --task predict-run-time, evaluate, and simulate --predict agent:DIR on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracekit
from tracekit.sim.predict.predictor import Predictor

TASK = ("--task", "predict-run-time")


@pytest.fixture(scope="module")
def swf(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.swf"
    tracekit.write(tracekit.sample().head(900), path)
    return path


@pytest.fixture(scope="module")
def agent(swf) -> Path:
    from tracekit.cli import main

    folder = swf.parent / "predictor"
    assert main(["-q", "train", str(swf), "-o", str(folder), *TASK]) == 0
    return folder


def test_training_prints_the_error_on_later_jobs(run, swf, agent, tmp_path) -> None:
    code, out, error = run("train", swf, "-o", tmp_path / "a", *TASK, "--json")
    assert code == 0, error
    found = json.loads(out)
    assert found["task"] == "predict-run-time"
    assert set(found["errors"]) == {"agent", "limit", "last-two", "user mean"}
    assert found["errors"]["agent"]["error"] > 0
    for path in agent.iterdir():
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()  # same seed, same bytes
    code, _, error = run("train", swf, "-o", agent, *TASK)
    assert (code, error.count("\n")) == (1, 1)
    assert "--force" in error


def test_evaluation_has_errors_and_waits(run, swf, agent) -> None:
    code, out, error = run("evaluate", agent, swf, "--policy", "fcfs", "--json")
    assert code == 0, error
    found = json.loads(out)
    assert found["errors"] == Predictor.load(agent).facts["metrics"]["errors"]
    rows = {row["estimates"]: row for row in found["waits"]}
    assert {"limits", "last-two, backfill", "agent, backfill", "agent, order", "agent, both", "true run times"} <= set(
        rows
    )
    assert all(row["mean_bsld"] >= 1 for row in rows.values())
    code, out, error = run("evaluate", agent, swf, "--policy", "fcfs")
    assert code == 0, error
    assert "user mean" in out


def test_simulate_by_predictions(run, swf, agent) -> None:
    command = ("simulate", swf, "--policy", "fcfs,predicted-index", "--predict", f"agent:{agent}", "--json")
    code, out, error = run(*command, "--predict-for", "both")
    assert code == 0, error
    switches = json.loads(out)["switches"]
    assert (switches["predict"], switches["predict_for"]) == (f"agent:{agent}", "both")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "{swf}", "-o", "{new}", *TASK, "--steps", "10"), "--steps"),
        (("train", "{swf}", "-o", "{new}", *TASK, "--network", "kernel"), "--network"),
        (("train", "{swf}", "-o", "{new}", *TASK, "--split", "2"), "--split"),
        (("evaluate", "{agent}", "{swf}", "--windows", "4"), "--windows"),
        (("simulate", "{swf}", "--predict", "agent:{new}"), "predict-run-time"),
        (("simulate", "{swf}", "--predict-for", "order"), "--predict"),
        (("simulate", "{swf}", "--predict", "last-two", "--predict-for", "ordering"), "order"),
        (("simulate", "{swf}", "--policy", "predicted-index"), "--predict"),
        (("simulate", "{swf}", "--policy", "agent:{agent}"), "--predict"),
    ],
)
def test_mistakes_are_one_line(run, swf, agent, tmp_path, words, said) -> None:
    places = {"swf": swf, "agent": agent, "new": tmp_path / "new"}
    code, _, error = run(*(word.format(**places) for word in words))
    assert code in (1, 2)
    assert said in error
    assert "Traceback" not in error
