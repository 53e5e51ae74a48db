"""Which package may import which. Read from the source, so lazy imports count as well."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from shared_data import ROOT

from tracekit.errors import MissingExtra
from tracekit.registry import imported

PACKAGES = ("tracekit", "swf", "generators", "evaluation")
CORE = {"trace", "machine", "schema", "errors", "registry", "files", "stats", "validation", "transform", "cleaning"}
CORE |= {"compiled", "folders", "limits", "progress", "provenance", "readings"}
#: Modules of tracekit that join the packages; all others do not use formats, models and scores.
DOORS = ("tracekit/__init__.py", "tracekit/__main__.py", "tracekit/api.py", "tracekit/demo.py", "tracekit/cli/")
PICTURES = ("tracekit/plots/", "evaluation/figures/")
#: The experiment looks models up by name, and the processes that do its tasks fit them.
EXPERIMENTS = ("evaluation/experiment/study.py", "evaluation/experiment/stages.py")
LEARNING = ("tracekit/sim/tasks/gym.py", "tracekit/sim/agents/", "generators/")
LEARNING += tuple(f"tracekit/sim/tasks/{task}/gym.py" for task in ("pick_host", "pick_policy"))
#: The order inside tracekit, lowest first: a module imports its own layer and lower ones only. An entry is a
#: module, or a package and all that is in it; where two entries fit, the longer one counts.
LAYERS = (
    ("errors", "limits", "progress", "terminal", "notebook", "_guard"),
    ("registry", "schema", "files", "catalog", "readings"),
    ("machine", "download", "folders", "compiled", "clusters"),
    ("trace",),
    ("units", "watts", "provenance"),
    ("stats", "validation", "anonymize", "intervals", "nodelists", "proposal"),
    ("recorded", "transform", "lanes"),
    ("doctor",),
    ("cleaning",),
    ("large",),
    ("sim", "sim.compile", "sim.metrics", "sim.switches", "sim.windows"),
    ("sim.energy.series",),
    ("sim.energy.model", "sim.energy.pue", "sim.energy.states"),
    ("sim.jobs", "sim.hosts.demand", "sim.hosts.rltune_demand"),
    ("sim.policies", "sim.predict"),
    ("sim.engine", "sim.setup", "sim.energy.shifting"),
    ("sim.hosts",),
    ("sim.energy",),
    ("sim.simulate",),
    ("sim.runs", "sim.snapshot"),
    ("sim.tasks",),
    ("sim.agents", "sim.orders", "sim.predict.evaluate"),
    ("sim.analysis", "sim.env", "sim.pickjob"),
    ("plots", "service", "environment", "explore"),
    ("api", "demo"),
    ("slurm", "plots.slurm"),
    ("cli", "__main__"),
)
#: Size limits of the simulator's packages.
MOST_MODULES, MOST_LINES, MOST_PARAMETERS, MOST_EXCEPTIONS = 12, 400, 8, 9
#: Place of an import, by importing and by imported module.
Arrows = dict[str, dict[str, str]]


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    names = imports(path)
    packages = {package for package in PACKAGES for name in names if inside(name, package)}
    ours = {name for name in names if inside(name, "tracekit") and name != "tracekit"}
    if place.startswith("tracekit/") and not place.startswith(DOORS):
        assert packages <= {"tracekit"}, f"{place} imports {packages - {'tracekit'}}"
    if place.startswith("swf/"):
        assert packages <= {"tracekit", "swf"}
        assert {name.split(".")[1] for name in ours} <= CORE
    if place.startswith("generators/"):
        assert packages <= {"tracekit", "generators"}
        assert not any(inside(name, "tracekit.cli") for name in ours)
    if place.startswith("evaluation/"):
        assert "swf" not in packages
        models = {name for name in names if inside(name, "generators")}
        assert all(inside(name, "generators.baseline") for name in models) or place in EXPERIMENTS
        assert not any(inside(name, "tracekit.cli") for name in ours)
    if not place.startswith(PICTURES):
        assert not any(inside(name, package) for name in names for package in ("matplotlib", "seaborn")), place
    if not place.startswith(LEARNING):
        assert not any(inside(name, package) for name in names for package in ("torch", "gymnasium")), place


# ---- no cycles, and layers inside tracekit ---------------------------------------------------------------------------


def modules(root: Path, packages: Sequence[str]) -> dict[str, Path]:
    """Return the files of all modules by dotted name; a package is its ``__init__.py``."""
    paths = sorted(path for package in packages for path in (root / package).rglob("*.py"))
    dotted = {path: ".".join(path.relative_to(root).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def targets(node: ast.stmt, package: str) -> list[tuple[str, ...]]:
    """Return for each name of an import what it may mean, as dotted names; the first one that is a module counts."""
    if isinstance(node, ast.Import):
        return [(alias.name,) for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        above = package.rsplit(".", node.level - 1)[0]
        base = f"{above}.{base}" if base else above
    return [(f"{base}.{alias.name}", base) for alias in node.names]


@cache
def arrows(root: Path = ROOT, packages: tuple[str, ...] = PACKAGES) -> Arrows:
    """Return which module imports which, lazily or for types alone as well.

    ``from package import module`` leads to the module. Imports from tracekit itself, which are lazy, are
    not arrows, and neither is a name that is looked up (`tracekit.registry`).
    """
    known = modules(root, packages)
    found: Arrows = {name: {} for name in known}
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text())):
            for options in targets(node, package) if isinstance(node, ast.stmt) else ():
                other = next((option for option in options if option in known), None)
                if other not in (None, "tracekit", name):
                    found[name].setdefault(str(other), f"{path.relative_to(root).as_posix()}:{node.lineno}")
    return found


def cycles(graph: Arrows) -> Iterator[list[str]]:
    """Yield cycles until every module that is part of one was named: the shortest way back for the first of each."""
    seen: set[str] = set()
    for start in sorted(graph):
        before = {start: ""}  # each module that the start leads to, and the one from which it is reached
        queue = [start] if start not in seen else []
        for name in queue:
            if start in graph[name]:
                way = [name]
                while way[-1] != start:
                    way.append(before[way[-1]])
                seen |= set(way)
                yield way[::-1]
                break
            new = [other for other in sorted(graph[name]) if other not in before]
            before |= dict.fromkeys(new, name)
            queue += new


def described(graph: Arrows, way: list[str]) -> str:
    steps = zip(way, [*way[1:], way[0]], strict=True)
    return "\n".join(f"  {name} imports {other}  ({graph[name][other]})" for name, other in steps)


def test_no_modules_import_each_other() -> None:
    graph = arrows()
    found = [described(graph, way) for way in cycles(graph)]
    assert not found, "import cycles:\n" + "\n\n".join(found)


def layer(name: str) -> int:
    """Return the layer of a module of tracekit, from 0."""
    places = {f"tracekit.{entry}": k for k, entries in enumerate(LAYERS) for entry in entries}
    fits = [entry for entry in places if inside(name, entry)]
    assert fits, f"{name} is in no layer"
    return places[max(fits, key=len)]


def test_layers_of_tracekit_import_downwards() -> None:
    wrong = [
        f"{name} imports {other}, which is above it  ({place})"
        for name, others in arrows().items()
        for other, place in others.items()
        if name.startswith("tracekit.") and other.startswith("tracekit.") and layer(other) > layer(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_of_tracekit_stands_in_a_layer_and_every_layer_is_there() -> None:
    ours = [name for name in arrows() if name.startswith("tracekit.")]
    assert all(layer(name) >= 0 for name in ours)
    for entry in (f"tracekit.{entry}" for entries in LAYERS for entry in entries):
        assert any(inside(name, entry) for name in ours), f"{entry} is not a module"


def test_the_rooms_of_the_simulator_stay_small() -> None:
    package = ROOT / "tracekit" / "sim"
    assert len(list(package.glob("*.py"))) <= MOST_MODULES
    long = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in package.rglob("*.py")}
    assert not {path: lines for path, lines in long.items() if lines > MOST_LINES}


def test_few_functions_take_many_parameters() -> None:
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not path.is_relative_to(ROOT / "tracekit" / "cli"):
                if node.name == "read" and path.parent.name == "swf":
                    continue  # each option of a format is a parameter (tests/contracts/test_formats.py)
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len(set(names) - {"self", "cls"}) > MOST_PARAMETERS:
                    found.append(f"{path.relative_to(ROOT).as_posix()}: {node.name}")
    assert len(found) <= MOST_EXCEPTIONS, found


def test_cycles_are_found(tmp_path: Path) -> None:
    texts = {
        "a/__init__.py": "",
        "a/top.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import C\n",
        "a/b/__init__.py": "from .c import C\n",
        "a/b/c.py": "def late():\n    from .. import top\n",
        "a/d.py": "import a\nfrom a import b, top\n",
    }
    for place, text in texts.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    graph = arrows(tmp_path, ("a",))
    assert set(graph["a.d"]) == {"a", "a.b", "a.top"}
    assert list(cycles(graph)) == [["a.b", "a.b.c", "a.top"]]
    assert "a.b.c imports a.top  (a/b/c.py:2)" in described(graph, ["a.b", "a.b.c", "a.top"])
    assert not list(cycles(graph | {"a.top": {}}))


def test_what_is_looked_up_by_name_is_there() -> None:
    found = 0
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                name = getattr(node.args[0], "value", None)
                if isinstance(name, str) and node.func.id in ("imported", "picture"):
                    found += 1
                    with contextlib.suppress(MissingExtra):
                        assert callable(imported(name if ":" in name else f"tracekit.plots.evidence:{name}")), path
    assert found


def test_sdv_is_imported_by_its_adapter_only() -> None:
    for path in sources():
        if path.relative_to(ROOT).as_posix() != "generators/sdv.py":
            assert not any(inside(name, "sdv") for name in imports(path)), path


def test_stable_baselines3_is_imported_by_its_adapter_only() -> None:
    for path in sources():
        if path.relative_to(ROOT).as_posix() != "tracekit/sim/tasks/sb3.py":
            assert not any(name.startswith(("stable_baselines3", "sb3_contrib")) for name in imports(path)), path


def test_nothing_prints_or_names_this_machine() -> None:
    for path in [*sources(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        assert str(ROOT.parent) + "/" not in path.read_text(), path


def test_a_folder_that_hides_ours_is_named(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "generators").mkdir()
    (tmp_path / "generators" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", "import tracekit"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs its own package 'generators'" in done.stderr
    assert str(tmp_path) in done.stderr
