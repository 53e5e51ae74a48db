"""One name, one version, pins for every Python, lanes for tests, and packages of our names by other people."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import tracekit
from tracekit import _guard, errors

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13")
HEAVY = ("torch", "sdv", "ray", "gymnasium", "realtabformer", "stable_baselines3", "sb3_contrib", "opendp", "duckdb")


def python(code: str, *path: Path, cwd: Path = ROOT, words: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run code in a new process with these folders first on Python's path."""
    setting = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, *(("-c", code) if code else words)]
    return subprocess.run(command, cwd=cwd, env=setting, capture_output=True, text=True, check=False)


def test_the_version_has_one_source() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "tracekit/__init__.py"
    assert f"\nversion: {tracekit.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_distributions_name_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["name"] == errors.DISTRIBUTION
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras["all"] == [f"{errors.DISTRIBUTION}[synth,rl,ray,sb3,dp,events]"]
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tracekit").rglob("*.py")]:
        assert not re.search(r"pip install '?tracekit(\[|'|\s|$)", path.read_text()), path


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_has_its_pins(version: str) -> None:
    assert f"Programming Language :: Python :: {version}" in PROJECT["project"]["classifiers"]
    lines = (ROOT / "constraints" / f"py{version.replace('.', '')}.txt").read_text().splitlines()
    pins = {re.split("[=<]=", line)[0].lower().replace("_", "-") for line in lines if not line.startswith("#")}
    assert "torch==2.13.0" in lines
    for group in (PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()):
        for need in group:
            name = re.split(r"[\[<>=~ ]", need)[0].lower().replace("_", "-")
            assert name in pins or name == errors.DISTRIBUTION, need


def test_pandas_2_is_wanted_by_the_extra_that_needs_it_only() -> None:
    assert "pandas<3" in PROJECT["project"]["optional-dependencies"]["synth"]
    assert "pandas>=2.2" in PROJECT["project"]["dependencies"]


def test_importing_is_light() -> None:
    code = "import sys, tracekit; print(*(name for name in ('numpy', 'pandas', 'typer') if name in sys.modules))"
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip()


def test_commands_that_draw_nothing_import_nothing_to_draw_with(tmp_path: Path) -> None:
    code = """
import sys
from tracekit.cli import main
for line in ("sample s.swf", "info s.swf", "validate s.swf", "convert s.swf s.parquet", "simulate s.swf --policy fcfs"):
    assert main(line.split()) in (0, 1), line
print(*(name for name in ("seaborn", "matplotlib") if name in sys.modules), file=sys.stderr)
"""
    done = python(code, ROOT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seaborn" not in done.stderr
    assert "matplotlib" not in done.stderr


def test_the_quick_lane_installs_no_heavy_package() -> None:
    needs = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=~ ]", need)[0].replace("-", "_") for need in needs}
    assert not names & set(HEAVY)
    assert "-e '.[dev]'" in re.search(r"\n\.venv-quick/%.*?\n\n", (ROOT / "Makefile").read_text(), re.S)[0]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder as pip would leave it: our packages, without what else lies in the source tree."""
    place = tmp_path / "site-packages"
    for name in ("tracekit", *_guard.PACKAGES):
        skip = shutil.ignore_patterns("__pycache__", "data") if name == "tracekit" else _only_init
        shutil.copytree(ROOT / name, place / name, ignore=skip)
    return place


def alone(*words: str, path: Iterable[Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python without any installed package (-S), but with these folders on its path."""
    return python("", *path, cwd=cwd, words=("-S", *words))


def _only_init(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name != "__init__.py"}


def test_every_package_carries_the_mark() -> None:
    for name in _guard.PACKAGES:
        assert _guard.MARK in (ROOT / name / "__init__.py").read_text()
        assert _guard.problem_with(name) == ""


@pytest.mark.parametrize("name", _guard.PACKAGES)
@pytest.mark.parametrize("shape", ["package", "module"])
def test_another_package_earlier_on_the_path(copy: Path, tmp_path: Path, name: str, shape: str) -> None:
    other = tmp_path / "other" / (f"{name}/__init__.py" if shape == "package" else f"{name}.py")
    other.parent.mkdir(parents=True)
    other.write_text("raise SystemExit('run by mistake')\n")
    done = alone("-c", "import tracekit", path=(tmp_path / "other", copy), cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: tracekit needs its own package '{name}'")
    assert str(other.parent if shape == "package" else other) in last


@pytest.mark.parametrize("name", _guard.PACKAGES)
def test_another_package_installed_over_ours(copy: Path, tmp_path: Path, name: str) -> None:
    (copy / name / "__init__.py").write_text("raise SystemExit('run by mistake')\n")
    facts = copy / f"{name}_of_others-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-of-others\nVersion: 1.0\n")
    (facts / "top_level.txt").write_text(f"{name}\n")
    done = alone("-c", "import tracekit", path=(copy,), cwd=tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(copy / name / "__init__.py") in last
    assert f"pip uninstall {name}-of-others" in last
    assert "--force-reinstall" in last


def test_our_package_without_its_first_file(copy: Path, tmp_path: Path) -> None:
    """As pip leaves it when it removes a package that had been installed over ours."""
    (copy / "evaluation" / "__init__.py").unlink()
    done = alone("-c", "import tracekit", path=(copy,), cwd=tmp_path)
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: tracekit needs its own package 'evaluation'")
    assert "--force-reinstall" in done.stderr


def test_the_command_prints_one_line(copy: Path, tmp_path: Path) -> None:
    (copy / "generators" / "__init__.py").write_text("")
    (tmp_path / "tracekit").write_text("from tracekit.cli import run\nrun()\n")  # as pip writes it into bin/
    for words in (("-m", "tracekit", "--help"), (str(tmp_path / "tracekit"), "--help")):
        done = alone(*words, path=(copy,), cwd=tmp_path.parent)
        assert done.returncode == 1
        assert done.stderr.startswith("error: tracekit needs its own package 'generators'")
        assert done.stderr.count("\n") == 1


def matrix(tmp_path: Path, **setting: str) -> subprocess.CompletedProcess[str]:
    """Run the script of make matrix with a make that only says what it was asked for."""
    tool = tmp_path / "make"
    tool.write_text('#!/bin/sh\necho "asked: $*"\ncase "$*" in *bad*) exit 2;; esac\n')
    tool.chmod(0o755)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MAKE": str(tool), **setting}
    command = ["bash", str(ROOT / ".ci" / "matrix")]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=False)


def link(path: Path) -> str:
    """Return a command that runs this Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_the_matrix_runs_every_python_that_is_named(tmp_path: Path) -> None:
    good, bad = link(tmp_path / "good"), link(tmp_path / "bad")
    done = matrix(tmp_path, MATRIX=f"{good} python9.9")
    assert done.returncode == 0
    assert f"quicktests PYTHON={good}" in done.stdout
    assert f"{good}: passed" in done.stdout
    assert "python9.9: not found" in done.stdout
    done = matrix(tmp_path, MATRIX=f"{bad} {good}")
    assert done.returncode == 1
    assert f"{bad}: FAILED" in done.stdout
    assert f"{good}: passed" in done.stdout
    assert matrix(tmp_path, MATRIX="python9.9").returncode == 1


def test_the_matrix_finds_pythons_on_the_path_and_of_pyenv(tmp_path: Path) -> None:
    link(tmp_path / "bin" / "python3.11")
    shim = tmp_path / "bin" / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")  # as pyenv's shims of versions that are not active
    shim.chmod(0o755)
    other = link(tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin" / "python")
    done = matrix(tmp_path, PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    assert done.returncode == 0
    assert f"Python 3.11: passed ({tmp_path}/bin/python3.11)" in done.stdout
    assert f"Python 3.12: passed ({other})" in done.stdout
