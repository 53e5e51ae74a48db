"""The unit that a trace is scheduled in is chosen from what its columns hold, and jobs without it are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.api import to_parquet
from tracekit.errors import TracekitError, UnknownName
from tracekit.machine import Machine
from tracekit.trace import Trace
from tracekit.units import chosen_unit, left_out, note, scheduled_in

Run = Callable[..., tuple[int, str, str]]
JOBS = 300


def table(path: Path, gpus: object, procs: object, nodes: object) -> Path:
    rng = np.random.default_rng(0)
    frame = {
        "u_id": np.arange(JOBS),
        "user": rng.integers(1, 9, JOBS),
        "gpu_num": gpus,
        "cpu_num": procs,
        "node_num": nodes,
        "interval": rng.integers(0, 600, JOBS),
        "run_time": rng.integers(1, 9000, JOBS),
        "wall_time": 0,
        "new_status": "Pass",
    }
    pd.DataFrame(frame).to_csv(path, index=False)
    return path


@pytest.fixture
def philly(tmp_path: Path) -> Path:
    """GPUs and nodes in every row, processors in none."""
    sizes = np.random.default_rng(1).choice([1, 2, 8, 16], JOBS)
    return table(tmp_path / "philly.csv", sizes, 0, np.ceil(sizes / 8).astype(int))


@pytest.fixture
def waters(tmp_path: Path) -> Path:
    """Nodes in every row; a quarter of the rows count GPUs in place of processors."""
    nodes = np.random.default_rng(2).integers(1, 40, JOBS)
    hybrid = np.arange(JOBS) % 4 == 0
    return table(tmp_path / "waters.csv", np.where(hybrid, nodes, 0), np.where(hybrid, 0, 32 * nodes), nodes)


@pytest.mark.parametrize(
    ("procs", "nodes", "gpus", "stated", "unit"),
    [
        (100, 100, 100, None, "procs"),
        (0, 100, 100, None, "gpus"),
        (0, 100, 0, None, "nodes"),
        (77, 100, 23, None, "nodes"),
        (99, 100, 0, None, "procs"),  # one defect does not change the unit of a whole log
        (100, 100, 60, "gpus", "gpus"),
        (100, 100, 40, "gpus", "procs"),
        (0, 0, 0, "nodes", "nodes"),
        (0, 0, 0, None, "procs"),
    ],
)
def test_the_rule(procs: int, nodes: int, gpus: int, stated: str | None, unit: str) -> None:
    assert chosen_unit({"procs": procs, "nodes": nodes, "gpus": gpus}, 100, stated) == unit  # type: ignore[arg-type]


def test_gpu_traces_that_count_no_processors(philly: Path, tmp_path: Path, run: Run) -> None:
    facts = json.loads(run("info", philly, "--json")[1])
    assert facts["machine"]["unit"] == "gpus"
    assert facts["mean_demand"] > 1
    assert facts["left_out"] == 0
    code, out, err = run("info", philly)
    assert code == 0
    assert "gpus in demand" in out
    assert "--resource" in err
    made = tmp_path / "made.gpw"
    code, out, _ = run("synth", philly, "--model", "sessions", "--jobs", 100, "-o", made, "--json")
    assert code == 0
    assert json.loads(out)["unit"] == "gpus"
    scores = json.loads(run("score", philly, made, "--quick", "--families", "load", "--json")[1])
    assert scores["switches"]["unit"] == "gpus"


def test_procs_is_the_size_in_the_scheduled_unit(philly: Path, run: Run) -> None:
    facts = json.loads(run("info", philly, "--procs", 500, "--json")[1])
    assert facts["machine"]["gpus"] == 500
    assert facts["offered_load"] == pytest.approx(facts["mean_demand"] / 500)
    shown = json.loads(run("simulate", philly, "--procs", 500, "--json")[1])
    assert shown["switches"]["resource"] == "gpus"
    assert shown["results"][0]["rejected"] == 0


def test_a_trace_in_which_some_rows_count_no_processors(waters: Path, run: Run) -> None:
    trace = tracekit.read(waters)
    assert trace.machine.unit == "nodes"
    assert left_out(trace) == 0
    code, out, err = run("info", waters, "--resource", "procs", "--json")
    assert code == 0
    assert json.loads(out)["left_out"] == JOBS // 4
    assert f"{JOBS // 4} of {JOBS}" in err
    assert "--resource nodes" in err


def test_what_is_left_out_is_counted_by_every_command(waters: Path, tmp_path: Path, run: Run) -> None:
    made, asked = tmp_path / "made.gpw", ("--resource", "procs")
    _, out, err = run("synth", waters, "--model", "lublin", "-o", made, "--json", *asked)
    assert json.loads(out)["left_out"] == JOBS // 4
    assert f"{JOBS // 4} of {JOBS}" in err
    _, out, err = run("score", waters, made, "--quick", "--families", "load", "--json", *asked)
    assert json.loads(out)["real"]["left_out"] == JOBS // 4
    assert f"{JOBS // 4} of {JOBS}" in err
    _, out, err = run("simulate", waters, "--procs", 2000, "--json", *asked)
    assert json.loads(out)["results"][0]["rejected"] == JOBS // 4
    assert f"{JOBS // 4} of {JOBS}" in err


def test_our_own_files_keep_the_unit_that_was_asked_for(waters: Path, tmp_path: Path, run: Run) -> None:
    for unit in ("gpus", "procs", "nodes"):
        place = tmp_path / f"{unit}.parquet"
        assert run("convert", waters, place, "--resource", unit)[0] == 0
        assert tracekit.read(place).machine.unit == unit
    old = tmp_path / "old.parquet"
    tracekit.read(waters, resource="procs").take(np.arange(JOBS) % 4 == 0).save(old)  # no job has processors
    assert tracekit.read(old).machine.unit == "gpus"


def test_parts_of_a_large_file_decide_together(waters: Path, tmp_path: Path) -> None:
    whole = tracekit.read(waters)
    assert to_parquet(waters, tmp_path / "parts.parquet", part_bytes=2000) is not None
    parts = tracekit.read(tmp_path / "parts.parquet")
    assert parts.machine.unit == whole.machine.unit == "nodes"
    assert parts.history == whole.history


def test_a_machine_file_may_name_the_unit(waters: Path, tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    file.write_text('unit = "procs"\nprocs = 1280\n')
    assert tracekit.read(waters, machine=file).machine.unit == "procs"
    assert tracekit.read(waters, machine=Machine(unit="gpus", gpus=40)).machine.unit == "gpus"


def test_names_of_units_are_checked(waters: Path, run: Run) -> None:
    with pytest.raises(UnknownName):
        tracekit.read(waters, resource="cores")
    assert run("info", waters, "--resource", "cores")[0] == 2


def test_a_unit_that_no_job_has(toy: Trace) -> None:
    with pytest.raises(TracekitError, match="--resource"):
        tracekit.simulate(scheduled_in(toy, "gpus"), procs=8)
    assert f"{len(toy)} of {len(toy)}" in str(note(scheduled_in(toy, "gpus")))
    assert note(toy) is None
