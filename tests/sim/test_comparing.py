"""Shaken comparisons and load–wait curves: intervals, verdicts, and the commands."""

import json

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.plots.loads import load_curves
from tracekit.sim.analysis.compare import compare, mean_interval, ranking, shaken_metrics, verdict
from tracekit.sim.analysis.sweep import as_table, parse_loads, sweep
from tracekit.sim.switches import Switches
from tracekit.transform import scale_load, shake


@pytest.fixture
def swf(toy, tmp_path):
    path = tmp_path / "toy.swf"
    tracekit.write(toy, path)
    return str(path)


def answer(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_intervals_by_hand():
    """Values 1, 2, 3: s = 1, t(0.975, 2) = 4.3027, half width 4.3027 / √3 = 2.4841."""
    found = mean_interval([1.0, 2.0, 3.0])
    assert found["low"] == pytest.approx(2 - 2.4841, abs=1e-4)
    assert found["high"] == pytest.approx(2 + 2.4841, abs=1e-4)
    assert np.isnan(mean_interval([4.0])["low"])


def test_an_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(3)
    found = [mean_interval(rng.normal(5, 2, 6)) for _ in range(2000)]
    assert 0.935 < np.mean([f["low"] <= 5 <= f["high"] for f in found]) < 0.965


def test_verdicts():
    values = np.array([[10.0, 11.0, 12.0], [20.0, 21.0, 22.5], [9.0, 13.0, 11.0], [10.0, 11.0, 12.0]])
    rows = {(r["a"], r["b"]): r for r in compare(["a", "b", "c", "d"], {"mean_bsld": values})}
    assert rows["a", "b"]["verdict"] == "lower"
    assert rows["a", "b"]["difference"] == pytest.approx(-10.1667, abs=1e-3)
    assert rows["b", "c"]["verdict"] == "higher"
    assert rows["a", "c"]["verdict"] == "noise"
    assert rows["a", "d"]["verdict"] == "same"
    assert [name for name, _ in ranking(["a", "b", "c", "d"], values)] == ["a", "c", "d", "b"]
    assert ranking(["a", "b", "c", "d"], values)[-1] == ("b", "higher")
    assert verdict({"low": float("nan"), "high": float("nan")}) == "noise"  # nothing known is no effect


def test_all_see_the_same_shaken_inputs(toy):
    values = shaken_metrics(toy, Switches(seed=3), [("fcfs", "easy"), ("sjf", "none")], count=3)
    assert values["mean_bsld"].shape == (2, 3)
    by_hand = tracekit.simulate(shake(toy, 3, 2), "sjf", "none", seed=3)
    assert values["mean_bsld"][1, 2] == by_hand.metrics["mean_bsld"]


def test_simulate_shake(swf, capsys):
    words = ["simulate", swf, "--policy", "fcfs,sjf,fcfs", "--backfill", "easy,none", "--shake", "4", "--seed", "2"]
    found = answer(capsys, *words)
    assert found == answer(capsys, *words)
    shaken = found["shake"]
    assert (shaken["inputs"], shaken["seconds"], shaken["seed"]) == (4, 60, 2)
    assert len(shaken["comparisons"]) == 6 * 5  # pairs × metrics
    assert {row["verdict"] for row in shaken["comparisons"]} <= {"lower", "higher", "noise", "same"}
    for row in found["results"]:
        interval = row["shaken"]["mean_bsld"]
        assert interval["low"] <= interval["mean"] <= interval["high"]
    assert found["results"][0]["mean_bsld"] == answer(capsys, "simulate", swf)["results"][0]["mean_bsld"]
    assert main(["simulate", swf, "--policy", "fcfs,sjf", "--shake", "3"]) == 0
    assert "the next better" in capsys.readouterr().out


def test_a_policy_beside_itself_is_the_same_and_beside_chance_is_noise():
    """With nothing to decide, all policies agree; two seeds of nothing in particular differ by noise only."""
    trace = tracekit.sample().head(300)
    values = shaken_metrics(scale_load(trace, 0.01), Switches(), [("fcfs", "easy"), ("lcfs", "easy")], count=3)
    assert compare(["a", "b"], values)[0]["verdict"] == "same"


def test_simulate_takes_every_new_switch(swf, capsys, tmp_path):
    found = answer(
        capsys,
        *("simulate", swf, "--backfill", "easy,easy++", "--dependencies", "--outage", "1000:9000:20"),
        *(
            "--outage-mode",
            "requeue",
            "--outage-sudden",
            "--warmup",
            "5%",
            "--cooldown",
            "1h",
            "--out",
            str(tmp_path / "o"),
        ),
        "--no-figures",
    )
    switches = found["switches"]
    assert switches["dependencies"] is True
    assert switches["outages"] == [[1000, 9000, 20]]
    assert (switches["outage_mode"], switches["outages_announced"]) == ("requeue", False)
    assert (switches["warmup"], switches["cooldown"]) == ("5%", "1h")
    assert [row["backfill"] for row in found["results"]] == ["easy", "easy++"]
    assert found["results"][0]["measured_jobs"] < found["results"][0]["jobs"]
    made = json.loads((tmp_path / "o" / "fcfs__easy++" / "switches.json").read_text())
    assert made["backfill"] == "easy++"
    assert made["switches"]["predict"] == "last-two"
    schedule = str(tmp_path / "o" / "fcfs__easy" / "schedule.csv")
    assert main(["check-schedule", schedule, swf, "--dependencies", "--outage", "1000:9000:20"]) == 0
    table = pd.read_csv(schedule)
    late = table["start_time"] > 9000
    table.loc[late, ["start_time", "end_time"]] -= 3000
    table.to_csv(tmp_path / "bad.csv", index=False)
    capsys.readouterr()
    assert main(["check-schedule", str(tmp_path / "bad.csv"), swf, "--outage", "1000:9000:20"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shake", "1"], "at least 2"),
        (["--shake", "3", "--policy", "replay"], "replay"),
        (["--shake", "3", "--shake-seconds", "-1"], "seconds"),
        (["--outage", "5:3:1"], "outage"),
        (["--outage", "soon"], "FROM:TO:PROCS"),
        (["--outage", "1:2:3", "--outage-mode", "wait"], "drain"),
        (["--outage", "1:2:3", "--backfill", "rlscheduler"], "outages"),
        (["--warmup", "lots"], "share"),
        (["--warmup", "900d"], "--warmup/--cooldown"),
        (["--backfill", "easy+"], "did you mean easy"),
        (["--predict", "last-three"], "last-two"),
        (["--dependencies", "--compat", "rlscheduler"], "compat"),
    ],
)
def test_usage_errors(swf, capsys, arguments, words):
    assert main(["simulate", swf, *arguments]) == 2
    assert words in capsys.readouterr().err


# ---- sweep -----------------------------------------------------------------------------------------------------------


def test_loads():
    assert parse_loads("0.5:1.1") == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1]
    assert parse_loads("0.9:1:0.05") == [0.9, 0.95, 1.0]
    for wrong in ("", "1:0.5", "0:1", "a:b", "0.5:1:0", "0.5,1:2", "nan", "0.1:9:0.0001"):
        with pytest.raises(UsageError):
            parse_loads(wrong)


def test_waits_grow_with_the_load(toy):
    rows = sweep(toy, [0.4, 1.2], [("fcfs", "easy"), ("sjf", "easy")], Switches(), shakes=3)
    assert [(row["load"], row["policy"]) for row in rows] == [(0.4, "fcfs"), (0.4, "sjf"), (1.2, "fcfs"), (1.2, "sjf")]
    assert rows[2]["mean_wait_s"]["low"] > rows[0]["mean_wait_s"]["high"]
    lines = as_table(rows).splitlines()
    assert lines[0].startswith("load,policy,backfill,runs,mean_wait_s,mean_wait_s_low")
    assert len(lines) == 5
    figure = load_curves(rows, len(toy))
    assert [len(axis.lines) for axis in figure.axes] == [2, 2]
    by_window = sweep(toy, [0.9], [("fcfs", "easy")], Switches(), windows=[(0, 80), (100, 80)])
    assert by_window[0]["runs"] == 2


def test_the_sweep_command(swf, capsys, tmp_path):
    out = tmp_path / "curves"
    words = ["sweep", swf, "--load", "0.6,0.9", "--policy", "fcfs,sjf", "--shake", "2", "-o", str(out)]
    found = answer(capsys, *words)
    assert found["loads"] == [0.6, 0.9]
    assert len(found["points"]) == 4
    assert json.loads((out / "sweep.json").read_text()) == found
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "sweep.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in (out / "sweep.svg").read_bytes()
    assert len((out / "sweep.csv").read_text().splitlines()) == 5
    assert main(words) == 1  # exists
    assert main([*words, "--force"]) == 0
    assert "sjf+easy" in capsys.readouterr().out
    assert main(["sweep", swf, "--load", "2:1", "-o", str(out)]) == 2
    assert main(["sweep", swf, "--policy", "replay", "-o", str(tmp_path / "x")]) == 2
    assert not (tmp_path / "x").exists()
