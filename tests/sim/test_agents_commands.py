"""train, evaluate and simulate --policy agent:DIR on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import tracekit

SMALL = ("--steps", "300", "--jobs", "60", "--seed", "1", "--threads", "2")


@pytest.fixture(scope="module")
def swf(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.swf"
    tracekit.write(tracekit.sample().head(1500), path)
    return path


@pytest.fixture(scope="module")
def agent(swf) -> Path:
    from tracekit.cli import main

    folder = swf.parent / "agent"
    assert main(["-q", "train", str(swf), "-o", str(folder), "--init", "imitate:sjf", *SMALL]) == 0
    return folder


def test_training_tells_its_score_beside_the_best_heuristic(run, swf, tmp_path) -> None:
    code, out, error = run("train", swf, "-o", tmp_path / "a", "--json", *SMALL, "--network", "attention")
    assert code == 0, error
    found = json.loads(out)
    assert found["validation_score"] > 0
    assert found["best_heuristic_score"] > 0
    assert "score" in error
    assert found["best_heuristic"] in error


def test_training_goes_on_or_refuses(run, swf, agent) -> None:
    before = {path.name: path.read_bytes() for path in agent.iterdir()}
    command = ("train", swf, "-o", agent, "--init", "imitate:sjf", *SMALL)
    code, _, error = run(*command)
    assert (code, error.count("\n")) == (1, 1)
    assert "--resume" in error
    assert run(*command, "--resume")[0] == 0  # it was finished: nothing changes
    assert {path.name: path.read_bytes() for path in agent.iterdir()} == before
    assert run(*command, "--resume", "--force")[0] == 2


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--network", "kernl"), 2, "did you mean kernel"),
        (("--objective", "bsdl"), 2, "did you mean bsld"),
        (("--task", "pick-jobs"), 2, "did you mean pick-job"),
        (("--init", "imitate:nothing"), 2, "heuristic to imitate"),
        (("--init", "agent:nobody"), 1, "no such agent"),
        (("--backfill", "conservative"), 2, "conservative"),
        (("--observer", "defualt"), 2, "did you mean default"),
        (("--split", "1.5"), 2, "between 0 and 1"),
        (("--config", "nothing.toml"), 1, "no such file"),
        (("--learning-rate", "1e9", "--steps", "5000"), 1, "smaller learning rate"),
    ],
)
def test_mistakes_are_one_line(run, swf, tmp_path, flags, code, message) -> None:
    got, out, error = run("-q", "train", swf, "-o", tmp_path / "a", *SMALL, *flags)
    assert got == code, error
    assert message in error
    assert error.count("\n") == 1
    assert not out


def test_settings_come_from_a_file_and_flags_win(run, swf, tmp_path) -> None:
    settings = tmp_path / "train.toml"
    settings.write_text('steps = 999999\nnetwork = "mlp"\nhidden = [4]\nwindows = 8\n')
    assert run("train", swf, "-o", tmp_path / "a", "--config", settings, *SMALL)[0] == 0
    facts = json.loads((tmp_path / "a" / "agent.json").read_text())
    assert facts["config"]["steps"] == 300
    assert facts["network"] == "mlp"
    assert facts["trace"]["file"] == "small.swf"
    assert len(facts["trace"]["sha256"]) == 64


def test_tensorboard_files_are_written_where_asked(run, swf, tmp_path) -> None:
    pytest.importorskip("tensorboard")
    assert run("train", swf, "-o", tmp_path / "a", *SMALL, "--tensorboard")[0] == 0
    assert list((tmp_path / "a" / "tensorboard").glob("events*"))


def test_evaluation_follows_the_contract(run, swf, agent, tmp_path) -> None:
    code, out, error = run(
        "evaluate", agent, swf, "--windows", 3, "--jobs", 50, "--seed", 2, "--json", "--plot", tmp_path / "box.png"
    )
    assert code == 0, error
    found = json.loads(out)
    assert {"agent", "trace", "switches", "mean", "low", "high", "windows", "baselines"} <= set(found)
    assert len(found["windows"]) == 3
    assert {"fcfs", "f1", "multifactor", "random", "best per window"} <= set(found["baselines"])
    assert {"mean", "paired_difference", "low", "high", "p", "effect_size"} <= set(found["baselines"]["sjf"])
    scores = [window["score"] for window in found["windows"]]
    assert found["mean"] == pytest.approx(sum(scores) / 3)
    assert found["baselines"]["sjf"]["paired_difference"] == pytest.approx(
        found["mean"] - found["baselines"]["sjf"]["mean"]
    )
    assert (tmp_path / "box.png").read_bytes().startswith(b"\x89PNG")
    first = run("evaluate", agent, swf, "--windows", 3, "--jobs", 50, "--seed", 2, "--json")[1]
    assert json.loads(first)["mean"] == found["mean"]


def test_evaluation_takes_the_test_part_by_itself(run, swf, agent) -> None:
    code, out, error = run("evaluate", agent, swf)
    assert code == 0, error
    assert "test part" in error
    assert "agent − policy" in out
    code, out, _ = run("evaluate", agent, swf, "--window", "0:40", "--sample", 3, "--json")
    assert code == 0
    found = json.loads(out)
    assert len(found["windows"][0]["samples"]) == 3
    assert "overlap" in found["notes"][0]
    for flags in (("--window", "0:40", "--windows", 2), ("--window", "x"), ("--window", "0:99999")):
        assert run("evaluate", agent, swf, *flags)[0] == 2
    assert run("evaluate", "nobody", swf)[0] == 1


def test_simulate_takes_agents_beside_policies(run, swf, agent, tmp_path) -> None:
    code, out, error = run(
        "simulate", swf, "--policy", f"sjf,agent:{agent}", "--window", "0:200", "--window", "200:200", "--json"
    )
    assert code == 0, error
    rows = json.loads(out)["results"]
    assert [row["policy"] for row in rows] == ["sjf", f"agent:{agent}"]
    assert all(len(row["windows"]) == 2 for row in rows)
    assert run("simulate", swf, "--policy", "agent:nobody")[0] == 1


def test_simulating_jobs_of_the_training_is_found(run, swf, agent, tmp_path) -> None:
    policy = f"agent:{agent}"
    last = ("--window", "1400:50", "--window", "1450:50")
    code, out, _ = run("simulate", swf, "--policy", f"fcfs,{policy}", *last, "--json")
    assert code == 0
    assert json.loads(out)["notes"] == []  # its test part
    code, out, _ = run("simulate", swf, "--policy", f"fcfs,{policy}", "--window", "0:50", *last, "--json")
    found = json.loads(out)["notes"]
    assert found == [f"{policy}: 1 of 3 windows overlap the part of this trace that the agent was trained on"]
    code, _, error = run("simulate", swf, "--policy", f"fcfs,{policy}", "--procs-from", "max")
    assert code == 0
    assert f"{policy}: the agent was trained on part of this trace" in error
    tracekit.write(tracekit.read(swf).take(slice(0, 1000)), tmp_path / "other.swf")
    code, out, _ = run("simulate", tmp_path / "other.swf", "--policy", policy, "--json")
    assert json.loads(out)["notes"] == []  # other jobs, as far as can be checked
    code, out, _ = run("evaluate", agent, swf, "--window", "0:50", "--json")
    assert json.loads(out)["notes"] == ["1 of 1 windows overlap the part of this trace that the agent was trained on"]


def test_the_packaged_agent_is_there(run, swf, tmp_path, monkeypatch) -> None:
    from tracekit.sim.agents.agent import PACKAGED

    monkeypatch.chdir(tmp_path)
    assert sum(path.stat().st_size for path in (PACKAGED / "default").iterdir()) < 200_000
    code, out, error = run("evaluate", "default", swf, "--windows", 2, "--jobs", 60, "--json")
    assert code == 0, error
    assert json.loads(out)["mean"] >= 1
    code, out, error = run("simulate", swf, "--policy", "agent:default", "--json")
    assert code == 0, error
    assert json.loads(out)["results"][0]["jobs"] == 1500
