"""An agent that goes by predicted run times, served: it sees what it sees in its environment."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_decide import state_of
from test_predict_service import random_trace
from test_protocol import body

from tracekit.cli import main
from tracekit.service.decide import load_decider
from tracekit.service.http import posts_of, serve_lines
from tracekit.service.informed import InformedDecider
from tracekit.service.protocol import Refused, parse
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.inference import weights_in
from tracekit.sim.engine.state import PICKING
from tracekit.sim.predict.training import TreeSettings, train
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.trace import Machine, Trace


def crowded() -> Trace:
    """A trace without a calendar, on a machine on which its jobs wait."""
    made = random_trace(250, seed=3, zone=None)
    jobs = made.jobs.assign(run_time=made.jobs["run_time"].clip(lower=1.0), wait_time=0.0)
    return made.replace(jobs=jobs.assign(req_time=jobs["req_time"].fillna(5000.0)), machine=Machine(procs=40))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained agent with a small predictor."""
    place = tmp_path_factory.mktemp("informed")
    train(crowded(), TreeSettings(trees=10, leaves=6, leaf_jobs=10, learning_rate=0.3), seed=1).save(place / "p")
    task = Batch(crowded(), PickJob(predict=str(place / "p"), observer="informed"), lanes=1).task
    sizes = (len(task.feature_names), 8, 1)
    flat = np.random.default_rng(5).normal(0, 0.5, weights_in("kernel", np.array(sizes))).astype(np.float32)
    Agent("kernel", sizes, flat, task.feature_names, task.to_dict()).save(place / "agent")
    return place / "agent"


@pytest.fixture
def decider(folder: Path) -> InformedDecider:
    return InformedDecider(Agent.load(folder), "toy")


def happened(batch: Batch, trace: Trace, told: set[tuple[int, str]]) -> list[dict[str, Any]]:
    """Return the events of a lane that have happened and were not told before, in the order of the simulator."""
    now, jobs, found = float(batch.arrays.state["now"][0]), batch.arrays.jobs, []
    run, user = trace.column("run_time"), trace.jobs["user"].astype(object)
    queue = trace.jobs["queue"].astype(object)
    for job in range(len(trace)):
        start = jobs.start[0, job]
        facts = {"procs": int(jobs.size[0, job]), "req_time": jobs.estimate[0, job]}
        facts |= {key: label[job] for key, label in (("user", user), ("queue", queue)) if isinstance(label[job], str)}
        times = {"end": start + run[job], "submit": jobs.submit[0, job], "start": start}
        for rank, (event, time) in enumerate(times.items()):
            if time <= now and (job, event) not in told:
                told.add((job, event))
                extra = facts if event == "submit" else {}
                found.append((time, rank, job, {"event": event, "time": float(time), "id": job, **extra}))
    return [event for *_, event in sorted(found, key=lambda row: row[:3])]


def test_the_agent_sees_what_its_environment_shows(folder: Path, decider: InformedDecider) -> None:
    trace, compared = crowded(), 0
    batch = Batch(trace, PickJob.from_dict(Agent.load(folder).task), lanes=1)
    batch.reset([0], [(0, len(trace))])
    told: set[tuple[int, str]] = set()
    posts = posts_of(decider)
    while not batch.done[0]:
        if batch.arrays.state["phase"][0] == PICKING and batch.count[0] > 1:
            events = happened(batch, trace, told)
            posts["/v1/events"](json.dumps({"version": 1, "events": events}).encode())
            answer = posts["/v1/decide"](json.dumps(state_of(batch, 0)).encode())
            assert not answer["notes"]
            count = int(batch.count[0])
            np.testing.assert_allclose(decider._lanes.features[0, :count], batch.features[0, :count], atol=1e-6)
            compared += 1
        batch.step([0])
    assert compared > 20
    known = decider.about()["history"]
    assert known["ended"] > 100
    assert len(decider._history._kept) == known["waiting"] + known["running"]


def test_jobs_that_were_never_reported_are_predicted_from_what_is_known(folder: Path, decider: InformedDecider) -> None:
    answer = decider.answer(parse(body()))
    assert {entry["id"] for entry in answer["order"]} == {"a", 7}
    assert any("2 jobs were not reported" in note for note in answer["notes"])
    assert decider.about()["history"]["waiting"] == 0
    assert decider.answer(parse(body(jobs=[])))["order"] == []
    informed = InformedDecider(Agent.load(folder), "toy", past=crowded())
    informed.prepare()
    assert informed.about()["history"]["ended"] == 250


def test_lines_of_every_kind(decider: InformedDecider) -> None:
    events = [{"event": "submit", "time": 4000, "id": "a", "procs": 4, "req_time": 60}]
    asked = {"version": 1, "kind": "predict-run-time", "jobs": [{"id": "x", "submit_time": 4100, "procs": 1}]}
    lines = [json.dumps({"version": 1, "events": events}).encode(), json.dumps(asked).encode(), body(), b"[]"]
    out = io.BytesIO()
    serve_lines(decider, io.BytesIO(b"\n".join(line.replace(b"\n", b" ") for line in lines) + b"\n"), out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [key for answer in answers for key in ("predictions", "order", "error") if key in answer] == [
        "predictions",
        "predictions",
        "order",
        "error",
    ]
    with pytest.raises(Refused):
        decider.answer(parse(body().replace(b"pick-job", b"pick-host")))


def test_what_cannot_be_served(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(folder), "--stdio", "--timezone", "Nowhere/City"]) == 2
    assert "--timezone" in capsys.readouterr().err
    assert main(["serve", "default", "--stdio", "--history", "x.swf"]) == 2
    assert "--history" in capsys.readouterr().err


def test_the_class_follows_from_the_agent(folder: Path) -> None:
    assert isinstance(load_decider(str(folder)), InformedDecider)
