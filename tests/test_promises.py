"""docs/contract.md promises only what is there: each name, flag, key and column of its TOML lists is looked for."""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from shared_data import ROOT

import tracekit
from tracekit import errors
from tracekit.cli.app import app
from tracekit.registry import imported

Run = Callable[..., tuple[int, str, str]]
PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
CONTRACT: dict[str, Any] = tomllib.loads("\n".join(re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)))
#: Where the names to choose from are registered.
NAMES = {
    "formats": "swf:FORMATS",
    "models": "generators:MODELS",
    "policies": "tracekit.sim.policies.builtin:POLICIES",
    "networks": "tracekit.sim.agents.config:NETWORKS",
    "tasks": "tracekit.sim.tasks.base:TASKS",
    "estimates": "tracekit.sim.switches:ESTIMATES",
    "objectives": "tracekit.sim.tasks.objectives:OBJECTIVES",
}
#: Commands whose JSON is looked at; {trace}, {other} and {schedule} are made by `files`.
JSON = {
    "info": "info {trace}",
    "validate": "validate {trace}",
    "simulate": "simulate {trace} --policy fcfs --windows 2 --jobs 40",
    "score": "score {trace} {other} --quick --families marginal,time,load",
    "evaluate": "evaluate default {trace} --windows 2 --jobs 40 --policy fcfs,sjf",
    "verdict": "verdict {trace} {other} --learner pick-heuristic",
    "check-schedule": "check-schedule {schedule} {trace}",
    "explore": "explore {trace} {schedule} -o {folder}/page.html --force",
    "energy": "energy {trace} --schedule {schedule} --power cpu-node",
    "pareto": "pareto {trace} --power cpu-node --window 0:60 -o {folder}/front",
    "order": "order {trace} --window 0:8 --evaluations 20",
    "formats": "formats",
    "models": "models",
    "policies": "policies",
}


@cache
def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    found = dict(group.commands)
    for name, one in group.commands.items():
        if hasattr(one, "commands"):  # a group: its commands have names of two words
            found |= {f"{name} {inner}": command for inner, command in found.pop(name).commands.items()}
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A trace with one problem, another trace, and a schedule of the first with a summary over windows."""
    folder = tmp_path_factory.mktemp("contract")
    trace = tracekit.sample().head(1500)
    run = trace.column("run_time").copy()
    run[3] = float("nan")
    tracekit.write(trace.assign({"run_time": run}), folder / "trace.swf")
    tracekit.write(tracekit.synth(trace, "resample", seed=1), folder / "other.swf")
    return {"trace": f"{folder}/trace.swf", "other": f"{folder}/other.swf", "folder": str(folder)}


@pytest.fixture(scope="module")
def schedules(files: dict[str, str]) -> Path:
    from tracekit.cli import main

    out = Path(files["folder"]) / "out"
    assert main(["-q", "simulate", files["trace"], "--policy", "fcfs", "--out", f"{out}/whole", "--no-figures"]) == 0
    windows = ["--windows", "2", "--jobs", "40", "--out", f"{out}/windows", "--no-figures"]
    assert main(["-q", "simulate", files["trace"], "--policy", "fcfs", *windows]) == 0
    return out


def values(data: Any, steps: list[str]) -> Iterator[Any]:
    """Yield what a path of the page leads to; a missing key is an error."""
    if not steps:
        yield data
        return
    first, *rest = steps
    if first == "*":
        assert isinstance(data, dict)
        assert data, "an empty object shows nothing"
        for value in data.values():
            yield from values(value, rest)
    elif first.endswith("[]"):
        assert isinstance(data[first[:-2]], list)
        for value in data[first[:-2]]:
            yield from values(value, rest)
    else:
        yield from values(data[first], rest)


@pytest.mark.parametrize("name", CONTRACT["commands"])
def test_flags_are_there(name: str) -> None:
    known = {flag for option in commands()[name].params for flag in (*option.opts, *option.secondary_opts)}
    assert set(CONTRACT["commands"][name]) <= known


def test_every_command_is_on_the_page() -> None:
    assert set(commands()) == set(CONTRACT["commands"]), "a new command needs a line in docs/contract.md"


@pytest.mark.parametrize("command", CONTRACT["json"])
def test_keys_of_json_are_there(command: str, files: dict[str, str], schedules: Path, run: Run) -> None:
    words = JSON[command].format(**files, schedule=schedules / "whole" / "fcfs__easy" / "schedule.csv").split()
    code, out, error = run(*words, "--json")
    assert code == 0, error
    data = json.loads(out)
    for path in CONTRACT["json"][command]:
        assert list(values(data, path.split("."))), path


@pytest.mark.parametrize("place", CONTRACT["python"])
def test_python_names_are_there(place: str) -> None:
    module, _, attribute = place.partition(":")
    found: Any
    if attribute:
        found = imported(place)
    elif place == "tracekit.Trace":
        found = tracekit.Trace
    else:
        found = importlib.import_module(module)
    missing = [name for name in CONTRACT["python"][place] if not hasattr(found, name)]
    assert not missing


@pytest.mark.parametrize("function", CONTRACT["parameters"])
def test_parameters_are_there(function: str) -> None:
    assert set(CONTRACT["parameters"][function]) <= set(inspect.signature(imported(function)).parameters)


@pytest.mark.parametrize("kind", [*NAMES, "backfills"])
def test_names_to_choose_from_are_there(kind: str) -> None:
    from tracekit.sim.switches import BACKFILLS, COMBINATIONS

    known = {*BACKFILLS, *COMBINATIONS} if kind == "backfills" else set(imported(NAMES[kind]))
    assert set(CONTRACT["names"][kind]) <= known


def test_entry_points_are_those_of_the_registries() -> None:
    from tracekit.registry import Registry

    folders = ("tracekit", "swf", "generators", "evaluation")
    sources = "\n".join(path.read_text(encoding="utf-8") for name in folders for path in (ROOT / name).rglob("*.py"))
    for place, group in CONTRACT["entry_points"].items():
        assert isinstance(imported(place), Registry)
        assert f'group="{group}"' in sources, group


def test_exit_codes() -> None:
    for name, code in CONTRACT["exit_codes"].items():
        assert name == "success" or getattr(errors, name).exit_code == code


def test_columns_and_names_of_files(schedules: Path) -> None:
    for path, kind in (
        (schedules / "whole" / "fcfs__easy" / "schedule.csv", "schedule_csv"),
        (schedules / "windows" / "summary.csv", "summary_csv"),
    ):
        with path.open(newline="") as file:
            columns = next(csv.reader(file))
        assert set(CONTRACT["files"][kind]) <= set(columns), kind
    summary = json.loads((schedules / "windows" / "summary.json").read_text())
    for window in summary["windows"]:
        assert (schedules / "windows" / f"fcfs__easy__w{window['start']}" / "schedule.csv").is_file()


def test_every_list_of_the_page_is_checked() -> None:
    looked_at = {"commands", "json", "python", "parameters", "names", "entry_points", "exit_codes", "files"}
    assert set(CONTRACT) == looked_at
    assert set(CONTRACT["names"]) == {*NAMES, "backfills"}
    assert set(CONTRACT["json"]) == set(JSON)
