"""An agent behind the service sees what it sees in its environment, and its answer is complete."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_data import ROOT
from test_protocol import body, request

import tracekit
from tracekit.service.decide import Decider
from tracekit.service.http import Service
from tracekit.service.protocol import parse
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.inference import weights_in
from tracekit.sim.engine.state import PICKING
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

SIZES = (16, 32, 16, 8, 1)


def agent_of(task: PickJob) -> Agent:
    """Return an agent whose weights are drawn: it is untrained, but its scores differ between jobs."""
    count = weights_in("kernel", np.array(SIZES))
    flat = np.random.default_rng(5).normal(0, 0.5, count).astype(np.float32)
    return Agent("kernel", SIZES, flat, task.feature_names, task.to_dict())


@pytest.fixture(scope="module")
def batch() -> Batch:
    made = Batch(tracekit.sample().head(3000), PickJob(), lanes=6)
    made.reset(range(6), [(i * 400, 400) for i in range(6)])
    return made


@pytest.fixture(scope="module")
def decider(batch: Batch) -> Decider:
    return Decider(agent_of(batch.task), "toy")


def state_of(batch: Batch, lane: int) -> dict[str, Any]:
    """Write the state of an environment as a request."""
    arrays, jobs, now = batch.arrays, batch.arrays.jobs, float(batch.arrays.state["now"][lane])
    running = arrays.running.ends["item"][lane, : arrays.running.tally["running"][lane, 0]]
    waiting = arrays.queue.job[lane, : arrays.queue.length[lane, 0]]
    return request(
        now=now,
        cluster={
            "procs": int(arrays.units[lane]),
            "running": [
                {"procs": int(jobs.size[lane, job]), "ends": jobs.start[lane, job] + jobs.estimate[lane, job]}
                for job in running
            ],
        },
        jobs=[
            {
                "id": int(job),
                "submit_time": jobs.submit[lane, job],
                "procs": int(jobs.size[lane, job]),
                "req_time": jobs.estimate[lane, job],
            }
            for job in waiting
        ],
    )


def test_the_agent_sees_what_its_environment_shows(batch: Batch, decider: Decider) -> None:
    compared = 0
    for _ in range(60):
        for lane in range(batch.lanes):
            picking = batch.arrays.state["phase"][lane] == PICKING and batch.count[lane] > 1
            if not batch.done[lane] and picking:
                decider.answer(parse(json.dumps(state_of(batch, lane)).encode()))
                count = int(batch.count[lane])
                np.testing.assert_allclose(decider._lanes.features[0, :count], batch.features[lane, :count], atol=1e-6)
                compared += 1
        batch.step(np.zeros(batch.lanes, np.int64))
    assert compared > 20


def test_every_job_comes_back_once_best_first(decider: Decider) -> None:
    answer = decider.answer(parse(body()))
    assert {entry["id"] for entry in answer["order"]} == {"a", 7}
    scores = [entry["score"] for entry in answer["order"]]
    assert scores == sorted(scores, reverse=True)
    assert {entry["id"]: entry["starts_now"] for entry in answer["order"]} == {"a": False, 7: True}
    assert answer["notes"] == ["1 jobs without req_time count as if they had asked for a day"]


def test_an_order_is_given_also_when_nobody_fits(decider: Decider) -> None:
    full = {"procs": 64, "running": [{"procs": 64, "ends": 9000}]}
    answer = decider.answer(parse(body(cluster=full)))
    assert [entry["starts_now"] for entry in answer["order"]] == [False, False]
    assert all(entry["score"] is not None for entry in answer["order"])


def test_jobs_beyond_the_slots_and_beyond_the_machine_stand_last(decider: Decider) -> None:
    jobs = [{"id": i, "submit_time": 4000 - i, "procs": 1, "req_time": 60 + i} for i in range(300)]
    jobs.insert(0, {"id": "huge", "submit_time": 0, "procs": 65, "req_time": 60})
    answer = decider.answer(parse(body(jobs=jobs, hosts=["n1"])))
    order = answer["order"]
    assert len(order) == 301
    assert [entry["score"] is None for entry in order] == [False] * 128 + [True] * 173
    assert order[-1]["id"] == "huge"
    assert {entry["id"] for entry in order[:128]} == set(range(172, 300))  # first come, first shown
    assert [entry["id"] for entry in order[128:300]] == list(range(171, -1, -1))
    assert len(answer["notes"]) == 3


def test_no_jobs_no_order(decider: Decider) -> None:
    assert decider.answer(parse(body(jobs=[])))["order"] == []


def test_many_threads_get_their_own_answers(decider: Decider) -> None:
    bodies = [
        json.dumps(
            request(jobs=[{"id": f"{k}-{i}", "submit_time": i, "procs": 1 + i % 9} for i in range(5 + k)])
        ).encode()
        for k in range(8)
    ]
    alone = [decider.answer(parse(one)) for one in bodies]
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(100) if decider.answer(parse(bodies[k])) != alone[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_examples_of_the_docs_run(batch: Batch, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    agent_of(batch.task).save(folder)
    examples = ROOT / "docs" / "examples"
    listing = (
        "11|R|40|2026-01-31T08:00:00|1-00:00:00|ann|2026-01-31T12:10:00\n"
        "12|PD|32|2026-01-31T11:00:00|UNLIMITED|bob|N/A\n"
        "13|PD|8|2026-01-31T11:30:00|10:00|cy|N/A\n"
    )
    with Service(Decider.load(str(folder))) as service:
        threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        asked = subprocess.run(
            [sys.executable, examples / "ask_agent.py", service.url], capture_output=True, text=True, check=True
        )
        options = ["--procs", "64", "--url", service.url, "--now", "2026-01-31T12:00:00"]
        ordered = subprocess.run(
            [sys.executable, examples / "squeue_order.py", *options],
            input=listing,
            capture_output=True,
            text=True,
            check=True,
        )
        service.shutdown()
    assert {line.split()[0] for line in asked.stdout.splitlines()} == {"long", "short"}
    assert sorted(ordered.stdout.splitlines()) == listing.splitlines()[1:]


def test_command_refuses_what_cannot_work(run: Any, tmp_path: Path) -> None:
    code, _, said = run("serve", tmp_path / "nobody")
    assert code == 1
    assert "no such agent" in said
    code, _, said = run("serve", "default", "--host", "0.0.0.0")
    assert code == 2
    assert "--token-file" in said
    (tmp_path / "token").write_text("")
    code, _, said = run("serve", "default", "--token-file", tmp_path / "token")
    assert code == 1
    assert "is empty" in said
