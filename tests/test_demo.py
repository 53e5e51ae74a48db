"""The tour: its commands are real, it shows them, it stops where one fails, it keeps what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.experiment.grid import load
from tracekit import demo
from tracekit.cli.app import app
from tracekit.errors import TracekitError


def test_every_step_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[list[str]] = []
    page = demo.run(tmp_path / "tour", lambda command: called.append(command) or 0)
    assert page == tmp_path / "tour" / "report.html"
    assert called == [command for _, command in demo.STEPS]
    names = {(one.name or one.callback.__name__).replace("_", "-") for one in app.registered_commands if one.callback}
    assert {command[0] for command in called} <= names
    shown = capsys.readouterr().err
    assert all(f"$ tracekit {' '.join(command)}" in shown for command in called)


def test_its_plan_is_one_that_experiments_take(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(demo.plan())
    plan = load(str(tmp_path / "plan.toml"))
    assert len(plan.models.names) == 3
    assert "sessions" in plan.models.names
    assert plan.agents.learner[0] == "predict-run-time"  # it has learning curves, and decides


def test_the_tour_ends_with_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "verdict.json").write_text('{"headline": "sessions is good enough."}')
    assert demo.outcome(tmp_path / "report.html") == "sessions is good enough."


def test_a_step_that_fails_ends_the_tour(tmp_path: Path) -> None:
    with pytest.raises(TracekitError, match="exit code 1"):
        demo.run(tmp_path, lambda command: int(command[0] == "info"))


def test_an_interruption_ends_the_tour_as_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path, lambda command: 130 * (command[0] == "plot"))


def test_files_are_replaced_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(TracekitError, match="exists already"):
        demo.run(tmp_path, lambda command: 0)
    assert (tmp_path / "report.html").read_text() == "mine"
    called: list[list[str]] = []
    demo.run(tmp_path, lambda command: called.append(command) or 0, force=True)
    forced = {command[0] for command in called if command[-1] == "--force"}
    assert forced == {"sample", "plot", "experiment", "report"}
