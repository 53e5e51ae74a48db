"""The card of an agent: complete, the same for the same agent, and completed by evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import tracekit
from tracekit.cli import main
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.card import CARD, card_text


def test_an_agent_is_saved_with_its_card(tmp_path: Path) -> None:
    agent = Agent.load("default")
    agent.save(tmp_path / "a")
    text = (tmp_path / "a" / CARD).read_text()
    assert text == card_text(json.loads((tmp_path / "a" / "agent.json").read_text()))
    assert agent.facts["trace"]["file"] in text
    for part in ("## Trained on", "## Validated", "## Judged by"):
        assert part in text
    assert {path.suffix for path in (tmp_path / "a").iterdir()} == {".json", ".md", ".safetensors"}  # no code


def test_evaluate_completes_the_card(tmp_path: Path) -> None:
    Agent.load("default").save(tmp_path / "a")
    tracekit.sample().head(300).save(tmp_path / "t.swf")
    given = [
        "evaluate",
        str(tmp_path / "a"),
        str(tmp_path / "t.swf"),
        "--windows",
        "2",
        "--jobs",
        "60",
        "--update-card",
    ]
    assert main([*given, "--policy", "sjf,fcfs"]) == 0
    first = (tmp_path / "a" / CARD).read_text()
    assert "t.swf" in first
    assert str(tmp_path) not in first
    assert "| sjf |" in first
    assert main([*given, "--policy", "sjf,fcfs"]) == 0
    assert (tmp_path / "a" / CARD).read_text() == first, "the same evaluation is there once"
    assert len(Agent.load(tmp_path / "a").facts["judged"]) == 1
    assert main([*given, "--policy", "sjf", "--seed", "9"]) == 0
    assert len(Agent.load(tmp_path / "a").facts["judged"]) == 2
    assert (
        main(["evaluate", "default", str(tmp_path / "t.swf"), "--windows", "1", "--jobs", "60", "--update-card"]) == 2
    )


def test_a_card_of_an_agent_without_facts() -> None:
    assert "Not recorded" in card_text({"network": "kernel", "sizes": [1, 1], "features": ["wait"], "task": {}})
