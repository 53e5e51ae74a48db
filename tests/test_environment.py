"""`tracekit env`: what is there is said, and what is missing is said with the line that installs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit import __version__, environment

Run = Callable[..., tuple[int, str, str]]


def lacking(monkeypatch: pytest.MonkeyPatch, *names: str, **versions: str) -> None:
    real = environment._version

    def version(name: str) -> str | None:
        return None if name in names else versions.get(name, real(name) or "999")

    monkeypatch.setattr(environment, "_version", version)


def test_json_says_what_is_here(run: Run) -> None:
    code, out, _ = run("env", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["tracekit"] == __version__
    assert facts["cores"] >= 1
    assert facts["missing"] == []
    assert facts["packages"]["numpy"]
    assert {"synth", "rl", "ray"} <= set(facts["extras"])
    assert {"ctgan", "diffusion"} <= set(facts["extras"]["synth"]["models"])
    assert "lublin" not in facts["extras"]["synth"]["models"]
    assert {folder["use"] for folder in facts["folders"]} == {"downloads", "compiled simulator", "temporary files"}


def test_a_missing_extra_is_named_with_its_pip_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "gymnasium")
    code, out, _ = run("env", "--json")
    extras = json.loads(out)["extras"]
    assert code == 0
    assert extras["rl"]["installed"] is False
    assert extras["rl"]["missing"][0].startswith("gymnasium>=")
    assert "train" in extras["rl"]["needed_for"]
    assert not any(name.startswith("gymnasium") for name in extras["synth"]["missing"])
    assert "pip install 'tracekit-hpc[rl]'" in " ".join(run("env")[1].split())


def test_a_package_that_is_too_old_counts_as_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, numpy="1.26.4")
    assert json.loads(run("env", "--json")[1])["missing"] == ["numpy>=2.0"]
    assert "missing or too old" in run("env")[1]


def test_folders_that_do_not_exist_yet_are_judged_by_the_one_above(tmp_path: Path) -> None:
    folder = environment.Folder("downloads", tmp_path / "not" / "yet")
    assert folder.writable
    assert folder.free > 0
    assert not folder.path.exists()


def test_memory_is_bytes_and_free_is_no_more_than_all() -> None:
    memory = environment.memory()
    if memory is not None:
        assert 2**26 < memory[1] <= memory[0]
