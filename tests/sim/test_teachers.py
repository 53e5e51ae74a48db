"""Policies written in Python as teachers of agents: their choices, their schedules, interrupted lessons."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from tracekit.clusters import completed
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.agents import Config, imitation, train
from tracekit.sim.agents.agent import FACTS, LOG, WEIGHTS
from tracekit.sim.agents.checkpoint import LESSONS, read_log
from tracekit.sim.agents.imitation import lessons
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.played import joined

from .test_agents_training import TINY, busy

WINDOWS = [(0, 40), (100, 40), (300, 60)]


class Shortest:
    """Shortest job first, in Python."""

    name = "shortest"

    def priority(self, queue: Any, state: Any) -> Any:
        return state.estimate[queue]


@pytest.mark.parametrize("task", [PickJob(), PickJob(backfill="none", slots=5), PickJob(commit=True)])
def test_a_policy_in_python_teaches_what_its_formula_does(task: PickJob) -> None:
    batch = Batch(busy(), task, lanes=2)
    formula, policy = (lessons(batch, WINDOWS, name) for name in ("sjf", f"{__name__}:Shortest"))
    for name in ("rows", "first", "count", "chosen", "window", "time", "score", "last"):
        assert np.array_equal(getattr(formula, name), getattr(policy, name)), name
    one_by_one = joined([lessons(batch, [window], "sjf") for window in WINDOWS])
    for name in ("rows", "first", "count", "chosen", "window", "time", "score", "last", "left"):
        assert np.array_equal(getattr(formula, name), getattr(one_by_one, name)), name


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("hosts", [False, True])
def test_a_teacher_makes_the_schedule_of_its_simulation(backfill: str, hosts: bool) -> None:
    cluster = completed(Machine(name="c", groups=(HostGroup(4, cores=4, name="n"),)), "c") if hosts else None
    batch = Batch(busy(), PickJob(backfill=backfill, cluster=cluster), lanes=2)
    for name in ("best-forecast", "best-forecast:objective=wait"):
        played = lessons(batch, WINDOWS, name)
        for window, start in zip(WINDOWS, played.starts, strict=True):
            assert start.tolist() == batch.source.schedule(window, name).tolist()
    played = lessons(batch, WINDOWS, "search:evaluations=30")
    assert np.array_equal(played.chosen, lessons(batch, WINDOWS, "search:evaluations=30").chosen)
    assert played.score.mean() < 1.1 * batch.source.policy_costs(WINDOWS, ["fcfs"]).mean()


def test_interrupted_lessons_go_on_and_the_bytes_are_the_same(tmp_path: Any, monkeypatch: Any) -> None:
    config: Config = TINY.replace(steps=100)
    asked = {"seed": 3, "init": "imitate:search:evaluations=20"}
    said: list[str] = []
    train(busy(), PickJob(), config, out=tmp_path / "whole", say=said.append, **asked)
    assert any("has played 6 of 6" in text for text in said)
    assert 0 < read_log(tmp_path / "whole")[0]["imitation_agreement"] <= 1
    write, written = imitation._write, []

    def stopping(path: Any, played: Any) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, played)

    monkeypatch.setattr(imitation, "_write", stopping)
    with pytest.raises(KeyboardInterrupt):
        train(busy(), PickJob(), config, out=tmp_path / "cut", **asked)
    assert len(list((tmp_path / "cut" / LESSONS).glob("*.npz"))) == 3
    with pytest.raises(UsageError, match="seed"):
        train(busy(), PickJob(), config, out=tmp_path / "cut", resume=True, **(asked | {"seed": 4}))
    written.clear()
    train(busy(), PickJob(), config, out=tmp_path / "cut", resume=True, **asked)
    assert len(written) == 3
    for name in (WEIGHTS, FACTS, LOG):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "cut" / LESSONS).exists()
    assert json.loads((tmp_path / "cut" / FACTS).read_text())["init"] == asked["init"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("search:evaluation=5", "evaluations"),
        ("searchh", "did you mean"),
        ("multifactor", "heuristic to imitate"),
        ("nowhere:Class", "nowhere"),
        ("agent:default", "--init agent:default"),
    ],
)
def test_what_cannot_be_imitated_is_named(name: str, told: str) -> None:
    with pytest.raises(TracekitError, match=told):
        lessons(Batch(busy(), PickJob(), lanes=1), WINDOWS[:1], name)
