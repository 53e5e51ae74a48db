"""The command energy, and simulate --power: what they print and write, and what they refuse."""

import json
from pathlib import Path

import pandas as pd
import pytest
from shared_data import checked

import tracekit

KEYS = {"total_kwh", "parts_kwh", "idle_kwh", "jobs_kwh", "overhead_kwh", "peak_kw", "mean_pue", "carbon_kg", "cost"}
PARTS = {"compute", "gpu", "memory", "network", "losses", "cooling", "overhead"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tracekit.write(tracekit.sample().head(300), tmp_path / "t.swf")
    (tmp_path / "p.toml").write_text("idle_watts = 100\ncore_watts = 7\npue = 1.2\noverhead_watts = 50\n")
    (tmp_path / "c.csv").write_text("time,g_per_kwh\n0,300\n100000000,300\n")
    (tmp_path / "m.csv").write_text("time,eur_per_mwh\n0,80\n100000000,80\n")
    return tmp_path


def test_a_simulation_and_its_schedule_print_the_same_object(run, files: Path) -> None:
    power = ["--power", files / "p.toml", "--carbon", files / "c.csv", "--price", files / "m.csv"]
    code, out, error = run("simulate", files / "t.swf", *power, "-o", files / "out", "--json")
    assert code == 0, error
    simulated = json.loads(out)["results"][0]["energy"]
    assert set(simulated) >= KEYS
    assert set(simulated["parts_kwh"]) == PARTS
    folder = files / "out" / "fcfs__easy"
    assert {"power.png", "load-duration.png"} <= {path.name for path in folder.iterdir()}
    code, out, error = run("energy", files / "t.swf", "--schedule", folder / "schedule.csv", *power, "--json")
    assert code == 0, error
    found = json.loads(out)
    for key in KEYS - {"parts_kwh"}:
        assert found[key] == pytest.approx(simulated[key], rel=1e-9)
    assert found["carbon_kg"] == pytest.approx(found["total_kwh"] * 0.3, rel=1e-9)
    assert found["cost"] == pytest.approx(found["total_kwh"] * 0.08, rel=1e-9)
    written = pd.read_csv(folder / "schedule.csv")
    assert written["energy_kwh"].sum() == pytest.approx(found["jobs_kwh"], rel=1e-9)
    assert sum(user["energy_kwh"] for user in found["users"]) == pytest.approx(found["jobs_kwh"], rel=1e-9)


def test_windows_have_means_and_a_recorded_schedule_needs_no_file(run, files: Path) -> None:
    code, out, _ = run("simulate", files / "t.swf", "--power", files / "p.toml", "--windows", 2, "--jobs", 50, "--json")
    row = json.loads(out)["results"][0]
    each = [window["energy"]["total_kwh"] for window in row["windows"]]
    assert (code, row["energy"]["total_kwh"]) == (0, pytest.approx(sum(each) / 2))
    code, out, error = run("energy", files / "t.swf", "--power", files / "p.toml", "-o", files / "e")
    assert code == 0
    assert "energy.json" in error
    assert "idle" in out
    assert len(pd.read_csv(files / "e" / "users.csv")) > 1
    code, _, error = run("energy", files / "t.swf", "--power", files / "p.toml", "-o", files / "e")
    assert code == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--power", "nothing"], 2, "unknown power model"),
        (["--power", "{d}/bad.toml"], 1, "idle_watts"),
        ([], 1, "--power"),
        (["--power", "{d}/p.toml", "--carbon", "{d}/short.csv"], 1, "ends at second 7200"),
        (["--power", "{d}/p.toml", "--carbon", "{d}/gone.csv"], 1, "no such file"),
        (["--power", "{d}/p.toml", "--carbon", "{d}/nan.csv"], 1, "nan.csv, line 1: expected a time and a number"),
        (["--power", "{d}/p.toml", "--until", "soon"], 2, "soon"),
        (["--power", "gat-drl"], 2, "gat-drl:mira"),
        (["--cluster", "rltune-helios"], 1, "--power"),
    ],
)
def test_mistakes_are_one_line(run, files: Path, words: list[str], code: int, message: str) -> None:
    (files / "bad.toml").write_text("idle_watts = -5\n")
    (files / "short.csv").write_text("0,0.3\n3600,0.3\n")
    (files / "nan.csv").write_text("0,nan\n100000000,0.3\n")
    found, out, error = run("energy", files / "t.swf", *(word.format(d=files) for word in words))
    assert (found, out) == (code, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_the_size_of_the_machine_can_be_given(run, files: Path) -> None:
    power = ["--power", files / "p.toml", "--until", "5000000", "--json"]
    kwh = [json.loads(run("energy", files / "t.swf", *power, "--procs", n)[1])["total_kwh"] for n in (1000, 2000)]
    begin = json.loads(run("energy", files / "t.swf", *power)[1])["begin_s"]
    assert kwh[1] - kwh[0] == pytest.approx(1000 * 100 * 1.2 * (5e6 - begin) / 3.6e6)


def test_simulate_finds_mistakes_before_it_simulates(run, files: Path) -> None:
    (files / "bad.toml").write_text("pue = 0.5\nidle_watts = 1\n")
    code, _, error = run("simulate", files / "gone.swf", "--power", files / "bad.toml")
    assert (code, "pue" in error) == (1, True)
    code, _, error = run("simulate", files / "t.swf", "--energy-until", "5")
    assert (code, "--power" in error) == (2, True)


def test_a_series_without_a_power_model_has_no_effect_and_is_refused(run, files: Path) -> None:
    for flag, name in (("--carbon", "c.csv"), ("--price", "m.csv")):
        code, out, error = run("simulate", files / "t.swf", flag, files / name)
        assert (code, out, len(error.strip().splitlines())) == (2, "", 1)
        assert f"{flag} is about the energy of the schedule: add --power" in error


@pytest.mark.parametrize("where", ["cluster", "counter"])
@pytest.mark.parametrize("system", ["polaris", "mira", "cooley"])
def test_gat_drl_by_the_command_line_counts_cores_as_it_does(run, tmp_path: Path, system: str, where: str) -> None:
    """Its Polaris has 64 cores a node, which are threads; ours has 32 cores."""
    model = checked("energy.json")["seed_model"][system]
    procs = model["params"]["N"] * model["params"]["cpn"]
    for case in model["cases"]:
        if not case["jobs"]:
            continue
        rows = [f"{i} 0 0 3600 {c} -1 -1 {c} 3600 -1 1 1 1 -1 1 -1 -1 -1\n" for i, (_, c) in enumerate(case["jobs"], 1)]
        (tmp_path / "t.swf").write_text(f"; MaxProcs: {procs}\n" + "".join(rows))
        given = ["--cluster", system, "--power", "gat-drl"] if where == "cluster" else ["--power", f"gat-drl:{system}"]
        code, out, error = run("energy", tmp_path / "t.swf", *given, "--json")
        assert code == 0, error
        parts = json.loads(out)["parts_kwh"]
        assert 1000 * (parts["compute"] + parts["gpu"]) == pytest.approx(case["watts"]["compute"], rel=1e-9)
        for part in ("memory", "network", "cooling"):
            assert 1000 * parts[part] == pytest.approx(case["watts"][part], rel=1e-9)
