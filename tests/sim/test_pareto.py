"""Energy against wait: the front, the common window, the command."""

import json

import numpy as np
import pytest

import tracekit
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.sim.analysis.pareto import mark_front, pareto_front, parse_list, settings_of
from tracekit.sim.switches import Switches

from .helpers import trace_of

JOBS = [(0, 100, 100, 2), (0, 100, 100, 2), (10, 50, 50, 1), (20, 200, 300, 3), (400, 10, 10, 1)]


@pytest.fixture
def files(tmp_path):
    trace = trace_of(*JOBS, procs=4)
    tracekit.write(trace, tmp_path / "jobs.swf")
    (tmp_path / "power.toml").write_text("idle_watts = 50\ncore_watts = 100\n")
    return tmp_path


def test_the_front_agrees_with_every_pair_compared():
    rng = np.random.default_rng(3)
    for _ in range(50):
        points = rng.integers(0, 8, (rng.integers(1, 20), 2)).astype(float)
        distinct, places = np.unique(points, axis=0, return_index=True)
        best = {
            tuple(p)
            for p in distinct.tolist()
            if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in distinct.tolist())
        }
        found = pareto_front(points)
        assert {tuple(p) for p in points[found].tolist()} == best
        assert set(np.flatnonzero(found)) <= set(places.tolist())  # of equals the first


def test_settings_that_reject_jobs_are_not_on_the_front():
    rows = [
        {"jobs": 5, "delay_s": 10.0, "energy_kwh": 5.0, "carbon_kg": None},
        {"jobs": 4, "delay_s": 1.0, "energy_kwh": 1.0, "carbon_kg": None},
    ]
    assert [row["front"] for row in mark_front(rows, "energy")] == [False, True]
    with pytest.raises(UsageError, match="--against carbon needs a series: give --carbon"):
        mark_front(rows, "carbon")


def test_combinations():
    made = settings_of(["fcfs", "sjf"], ["easy"], Switches(), {"power_cap": [None, 2.0], "frequency": [1.0, 0.5]})
    assert len(made) == 8
    assert made[3].label == "fcfs + easy, cap 2 kW, frequency 0.5"
    with pytest.raises(UsageError, match="more than the limit of 500"):
        settings_of(["fcfs"] * 600, ["easy"], Switches(), {})
    assert parse_list("none, 3", "--power-cap") == [None, 3.0]
    with pytest.raises(UsageError, match="--power-cap a: write numbers"):
        parse_list("a", "--power-cap")


def test_the_command_writes_table_and_picture(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    words = "pareto jobs.swf --power power.toml --policy fcfs --power-cap none,0.5 --frequency 1,0.8 --threads 1 -o out"
    assert main([*words.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(row["power_cap"], row["frequency"]): row for row in found["settings"]}
    assert len(rows) == 4
    # the same work at the same frequency, in the same window, takes the same energy under any cap
    for frequency in (1.0, 0.8):
        assert rows[None, frequency]["energy_kwh"] == pytest.approx(rows[0.5, frequency]["energy_kwh"], rel=1e-12)
        assert rows[0.5, frequency]["peak_kw"] <= 0.5 + 1e-12
    assert rows[None, 1.0]["front"]
    assert not rows[0.5, 1.0]["front"]
    assert rows[None, 0.8]["energy_kwh"] < rows[None, 1.0]["energy_kwh"]
    assert rows[None, 0.8]["delay_s"] > rows[None, 0.8]["mean_wait_s"]
    assert (files / "out" / "pareto.png").stat().st_size > 5000
    assert len((files / "out" / "pareto.csv").read_text().splitlines()) == 5


def test_without_a_power_model_it_says_what_to_give(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["pareto", "jobs.swf", "--threads", "1", "-o", "out"]) != 0
    assert "energy needs a power model: give --power" in capsys.readouterr().err
