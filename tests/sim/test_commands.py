"""The commands, through the command line's own entry."""

import json

import pandas as pd
import pytest

import tracekit
from tracekit.cli import main
from tracekit.sim.policies.builtin import POLICIES


@pytest.fixture
def swf(toy, tmp_path):
    path = tmp_path / "toy.swf"
    tracekit.write(toy, path)
    return str(path)


def answer(capsys, *arguments, code=0):
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_simulate_json(swf, capsys):
    found = answer(capsys, "simulate", swf, "--policy", "fcfs,wfp3", "--backfill", "none,easy")
    assert found["trace"] == swf
    assert found["switches"]["estimates"] == "requested"
    assert [(r["policy"], r["backfill"]) for r in found["results"]] == [
        ("fcfs", "none"),
        ("fcfs", "easy"),
        ("wfp3", "none"),
        ("wfp3", "easy"),
    ]
    keys = {"jobs", "rejected", "mean_wait_s", "mean_bsld", "p95_bsld", "utilization", "makespan_s"}
    assert all(keys <= set(row) and "windows" not in row for row in found["results"])


def test_windows(swf, capsys, tmp_path):
    found = answer(
        capsys, "simulate", swf, "--window", "0:50", "--window", "100:50", "--out", str(tmp_path / "o"), "--no-figures"
    )
    row = found["results"][0]
    assert [window["start"] for window in row["windows"]] == [0, 100]
    assert row["mean_bsld"] == pytest.approx(sum(window["mean_bsld"] for window in row["windows"]) / 2)
    assert (tmp_path / "o" / "fcfs__easy__w100" / "schedule.csv").is_file()
    drawn = answer(capsys, "simulate", swf, "--windows", "3", "--jobs", "20", "--seed", "1")
    assert drawn == answer(capsys, "simulate", swf, "--windows", "3", "--jobs", "20", "--seed", "1")
    assert len(drawn["results"][0]["windows"]) == 3


def test_out_and_check_schedule(swf, capsys, tmp_path):
    out = tmp_path / "runs"
    assert main(["simulate", swf, "--policy", "sjf", "--out", str(out)]) == 0
    assert "sjf" in capsys.readouterr().out
    folder = out / "sjf__easy"
    assert {path.name for path in folder.iterdir()} == {
        "schedule.csv",
        "switches.json",
        "gantt.png",
        "utilization.png",
    }
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["simulate", swf, "--policy", "sjf", "--out", str(out)]) == 1  # exists
    assert "--force" in capsys.readouterr().err
    assert main(["simulate", swf, "--policy", "sjf", "--out", str(out), "--force"]) == 0
    assert first == {path.name: path.read_bytes() for path in folder.iterdir()}
    schedule = pd.read_csv(folder / "schedule.csv")
    assert list(schedule.columns[:5]) == ["job_id", "submit_time", "start_time", "end_time", "procs"]
    capsys.readouterr()
    assert answer(capsys, "check-schedule", str(folder / "schedule.csv"), swf)["feasible"] is True
    schedule["start_time"] -= 1e6
    schedule.to_csv(tmp_path / "bad.csv", index=False)
    bad = answer(capsys, "check-schedule", str(tmp_path / "bad.csv"), swf, code=1)
    assert bad["violations"][0]["kind"] == "early-start"
    assert main(["check-schedule", str(tmp_path / "bad.csv"), swf]) == 1
    assert "early-start" in capsys.readouterr().out


def test_every_switch_is_accepted(swf, capsys):
    found = answer(
        capsys,
        "simulate",
        swf,
        "--policy",
        "multifactor",
        "--backfill",
        "easy-sjf",
        "--commit",
        "--kill-at-limit",
        "--bound",
        "60",
        "--estimates",
        "factor:2",
        "--procs-from",
        "max",
        "--procs",
        "64",
        "--resource",
        "procs",
        "--interval",
        "60",
        "--option",
        "half_life=3600",
    )
    switches = found["switches"]
    assert switches["commit"]
    assert switches["kill_at_limit"]
    assert (switches["bound"], switches["procs"], switches["interval"]) == (60, 64, 60)
    assert switches["options"]["half_life"] == 3600
    theirs = answer(capsys, "simulate", swf, "--compat", "rlscheduler")
    assert theirs["results"][0]["backfill"] == "rlscheduler"
    assert theirs["switches"]["ties"] == "arrivals"
    assert theirs["switches"]["procs_from"] == "max"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "fcsf"], "did you mean fcfs"),
        (["--backfill", "esy"], "did you mean easy"),
        (["--compat", "maui"], "rlscheduler"),
        (["--window", "5"], "START:COUNT"),
        (["--window", "0:9999"], "does not lie within"),
        (["--windows", "2", "--jobs", "9999"], "do not fit"),
        (["--window", "0:5", "--windows", "2"], "not both"),
        (["--estimates", "factor:x"], "factor:x"),
        (["--option", "half_life"], "NAME=NUMBER"),
        (["--option", "halflife=3"], "half_life"),
        (["--resource", "gpu"], "gpus"),
    ],
)
def test_usage_errors(swf, capsys, arguments, words):
    assert main(["simulate", swf, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_reproduce_without_data(monkeypatch, tmp_path, capsys, swf):
    monkeypatch.setenv("TRACEKIT_DATA", str(tmp_path))
    assert main(["reproduce", "rlscheduler"]) == 1
    assert "--trace" in capsys.readouterr().err
    assert main(["reproduce", "rlscheduler", "--trace", swf]) == 1
    assert "only 200" in capsys.readouterr().err
    assert main(["reproduce", "rlshedule"]) == 2


def test_reproduce_on_another_trace(capsys, tmp_path):
    trace = tracekit.sample()
    path = tmp_path / "sample.swf"
    tracekit.write(trace, path)
    found = answer(capsys, "reproduce", "rlscheduler", "--trace", str(path))
    assert found["windows"][0] == 1981
    assert len(found["cells"]) == 10
    assert all(cell["published"] is None for cell in found["cells"])


def test_policies(capsys):
    found = answer(capsys, "policies")
    assert [row["name"] for row in found["policies"]] == list(POLICIES)
    assert all(row["formula"] and row["meaning"] for row in found["policies"])
    assert main(["policies"]) == 0
