"""The arrows between the rooms: who may import whom. Read from the source, so lazy imports count as well."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from shared_data import ROOT

ROOMS = ("tracekit", "swf", "generators", "evaluation")
CORE = {"trace", "machine", "schema", "errors", "registry", "files", "stats", "validation", "transform", "cleaning"}
#: Modules of tracekit that join the rooms; all others know nothing of formats, models and scores.
DOORS = ("tracekit/__init__.py", "tracekit/__main__.py", "tracekit/api.py", "tracekit/demo.py", "tracekit/cli/")
PICTURES = ("tracekit/plots/", "evaluation/figures/")
#: The experiment looks models up by name, and the processes that do its tasks fit them.
EXPERIMENTS = ("evaluation/experiment/study.py", "evaluation/experiment/steps.py")
LEARNING = ("tracekit/sim/env.py", "tracekit/sim/agents/", "generators/")


def sources() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


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
    rooms = {room for room in ROOMS for name in names if inside(name, room)}
    ours = {name for name in names if inside(name, "tracekit") and name != "tracekit"}
    if place.startswith("tracekit/") and not place.startswith(DOORS):
        outside = rooms - {"tracekit"}
        if place == "tracekit/trace.py":  # load and save go through `import tracekit`, the front door
            assert not outside
        assert not outside, f"{place} imports {outside}"
    if place.startswith("swf/"):
        assert rooms <= {"tracekit", "swf"}
        assert {name.split(".")[1] for name in ours} <= CORE
    if place.startswith("generators/"):
        assert rooms <= {"tracekit", "generators"}
        assert not any(inside(name, "tracekit.cli") for name in ours)
    if place.startswith("evaluation/"):
        assert "swf" not in rooms
        models = {name for name in names if inside(name, "generators")}
        assert all(inside(name, "generators.baseline") for name in models) or place in EXPERIMENTS
        assert not any(inside(name, "tracekit.cli") for name in ours)
    if not place.startswith(PICTURES):
        assert not any(inside(name, package) for name in names for package in ("matplotlib", "seaborn")), place
    if not place.startswith(LEARNING):
        assert not any(inside(name, package) for name in names for package in ("torch", "gymnasium")), place


def test_sdv_is_imported_by_its_adapter_only() -> None:
    for path in sources():
        if path.relative_to(ROOT).as_posix() != "generators/sdv.py":
            assert not any(inside(name, "sdv") for name in imports(path)), path


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
