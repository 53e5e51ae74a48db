"""The wheel, installed into an empty environment: its commands work; packages of our names are reported in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the extra dev is not installed")
pytest.importorskip("pip")

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def call(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the source tree on Python's path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; what tracekit needs is borrowed from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    steps = [
        (sys.executable, "-c", build, folder),
        (sys.executable, "-m", "venv", "--without-pip", folder / "env"),
    ]
    for step in steps:
        done = call(*step, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("tracekit_hpc-*.whl")
    pip = (sys.executable, "-m", "pip", "--python", folder / "env" / "bin" / "python", "install", "--quiet")
    done = call(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site(folder) / "borrowed.pth").write_text("\n".join(borrowed))  # the .pth files in there are not followed
    return folder


def site(folder: Path) -> Path:
    return next((folder / "env" / "lib").glob("python3*")) / "site-packages"


def test_its_commands_work_away_from_the_sources(home: Path, tmp_path: Path) -> None:
    command = home / "env" / "bin" / "tracekit"
    where = call(home / "env" / "bin" / "python", "-c", "import tracekit; print(tracekit.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(home), where.stderr
    for words in (
        ("--help",),
        ("sample", "s.swf"),
        ("info", "s.swf"),
        ("simulate", "s.swf", "--policy", "fcfs,sjf"),
        ("explore", "s.swf", "-o", "page.html"),
        ("env",),
    ):
        done = call(command, *words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    assert (tmp_path / "s.swf").is_file()


@pytest.mark.parametrize("name", ["generators", "evaluation", "swf"])
def test_a_package_of_our_name_installed_over_ours(home: Path, tmp_path: Path, name: str) -> None:
    ours = site(home) / name / "__init__.py"
    before = ours.read_text()
    try:
        ours.write_text('"""Somebody else\'s."""\n')
        overwritten = call(home / "env" / "bin" / "tracekit", "info", "s.swf", cwd=tmp_path)
        ours.unlink()
        removed = call(home / "env" / "bin" / "python", "-m", "tracekit", "info", "s.swf", cwd=tmp_path)
    finally:
        ours.write_text(before)
    for done in (overwritten, removed):
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert str(ours) in done.stderr
        assert "--force-reinstall" in done.stderr
