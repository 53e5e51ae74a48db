"""Agents trained by PPO as an experiment's learner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracekit
from evaluation.experiment.heldout import Heldout, schedulable
from evaluation.experiment.learners import LEARNERS, NOTE
from tracekit.errors import SchemaError, UnknownName, UsageError

pytest.importorskip("torch")

TINY = {"steps": 200, "windows": 8, "jobs": 100, "validation_windows": 2, "init": "imitate:f1", "teacher_windows": 16}


def test_ppo_learns_plays_and_repeats(tmp_path: Path) -> None:
    trace = tracekit.sample().head(1500)
    learner = LEARNERS.get("ppo")()
    held = Heldout(schedulable(tracekit.sample().take(slice(2000, 2300))), [0, 150], 60, ["real", "1.1"], "easy")
    for name, seed in (("a", 1), ("b", 1)):
        learner.train(trace, tmp_path / name, config=TINY, backfill="easy", seed=seed, untrained=False)
    learner.train(trace, tmp_path / "none", config=TINY, backfill="easy", seed=1, untrained=True)
    one, two, none = (learner.play(tmp_path / name, held) for name in ("a", "b", "none"))
    assert one == two
    assert [(row["load"], row["window"]) for row in one] == [("real", 0), ("real", 1), ("1.1", 0), ("1.1", 1)]
    assert all(row["mean_bsld"] >= 1 for row in one + none)
    curve = learner.curve(tmp_path / "a")
    assert {name for _, name, _ in curve} == {"score", "heuristic"}
    assert curve[0][0] == 0
    assert curve[-1][0] >= 200
    assert learner.seconds(TINY) > 0


def test_a_trace_that_teaches_nothing_leaves_the_agent_as_it_was_born(tmp_path: Path) -> None:
    trace = tracekit.sample().head(1500)
    calm = trace.assign({"submit_time": np.arange(len(trace)) * 1e7})  # no job ever waits
    learner = LEARNERS.get("ppo")()
    for name, untrained in (("calm", False), ("born", True)):
        learner.train(calm, tmp_path / name, config=TINY, backfill="easy", seed=1, untrained=untrained)
    assert "nothing to learn" in (tmp_path / "calm" / NOTE).read_text()
    assert not (tmp_path / "born" / NOTE).exists()
    held = Heldout(schedulable(tracekit.sample().take(slice(2000, 2300))), [0, 150], 60, ["1.1"], "easy")
    assert learner.play(tmp_path / "calm", held) == learner.play(tmp_path / "born", held)
    assert learner.curve(tmp_path / "calm") == []


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"stesp": 3}, UnknownName),
        ({"task": 3}, SchemaError),
        ({"task": {"slto": 1}}, SchemaError),
        ({"steps": 0}, UsageError),
    ],
)
def test_wrong_settings_are_refused_at_once(config: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        LEARNERS.get("ppo")().check(config)
