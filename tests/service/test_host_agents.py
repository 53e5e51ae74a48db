"""Agents of task pick-host behind the service see what they see in their environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_decide import agent_of

from generators.eda import draw
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.service.decide import load_decider
from tracekit.service.host_choice import HostJobs, HostQuestion, HostTable
from tracekit.service.host_decide import AgentScorer, HostDecider
from tracekit.service.protocol import Refused
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.inference import weights_in
from tracekit.sim.hosts.demand import CORES, MEMORY
from tracekit.sim.hosts.state import CELLS, FREE, LOG, SPAN, TOTAL
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.features import OBSERVERS
from tracekit.sim.tasks.pick_host.task import PickHost
from tracekit.sim.tasks.pick_job.task import PickJob


@pytest.fixture(scope="module")
def batch() -> Batch:
    machine, trace = draw(5, jobs=250, hosts=6, load=1.3)
    task = PickHost(switches=Switches(cluster=machine), ask_forced=True, cycle=20.0)
    made: Batch = task.batch(EpisodeSource(trace, task), lanes=1)
    return made


def host_agent(task: PickHost) -> Agent:
    features = len(task.feature_names)
    sizes = (features, 32, 16, 8, 1)
    count = weights_in("kernel", np.array(sizes))
    flat = np.random.default_rng(2).normal(0, 0.5, count).astype(np.float32)
    return Agent("kernel", sizes, flat, task.feature_names, task.to_dict())


def asked_of(batch: Batch) -> HostQuestion:
    """Write the question of the environment's first lane as the service would get it."""
    lanes: Any = batch.arrays
    m, state = lanes.data[0], lanes.state[0]
    hosts = len(batch.model.names)
    cells = int(m[CELLS])
    free = np.zeros((hosts, 3))
    total = np.zeros((hosts, 3))
    for h in range(hosts):
        free[h, :2] = m[m[FREE] + h * cells : m[FREE] + h * cells + 2]
        total[h, :2] = m[m[TOTAL] + h * cells : m[TOTAL] + h * cells + 2]
    now, start, estimate = float(state["now"]), lanes.start[0], lanes.estimate[0]
    demand = batch.source.episode(batch.windows[0]).ready.table.demand
    running: list[list[dict[str, Any]]] = [[] for _ in range(hosts)]
    for job in lanes.heap["item"][0, : state["running"]].tolist():
        place = int(m[m[LOG] + 4 * m[m[SPAN] + 2 * job]])
        running[place].append({"cores": float(demand.need[job, CORES]), "ends": start[job] + estimate[job]})
    kept, place, size = int(state["kept"]), int(state["place"]), int(state["batch"])
    queue = lanes.queue[0]
    begun = [job for job in lanes.heap["item"][0, : state["running"]].tolist() if start[job] == now]
    jobs = [*begun, *queue[:kept].tolist(), *queue[place:size].tolist()]
    assert len(jobs) == size
    need = np.array([[demand.need[job, CORES], demand.need[job, MEMORY], 0] for job in jobs], float)
    table = HostTable(batch.model.names, free, total, running)
    submit = lanes.submit[0]
    given = HostJobs(jobs, need, estimate[jobs], now - submit[jobs])
    return HostQuestion(table, given, place, lanes.rows[0, : batch.count[0]].copy(), now, kept)


def test_the_features_of_a_request_are_those_of_the_environment(batch: Batch) -> None:
    batch.reset([0], [(0, 250)])
    compared = deferred = busy = 0
    while not batch.done[0]:
        asked = asked_of(batch)
        rows = batch.task.question(asked).rows
        np.testing.assert_allclose(rows, batch.features[0, : batch.count[0]], rtol=2e-5, atol=2e-6)
        compared, deferred, busy = compared + 1, deferred + (asked.deferred > 0), busy + len(asked.jobs.id)
        batch.step(np.array([compared % batch.count[0]]))
    assert compared > 200
    assert deferred > 20


def test_a_cycle_is_decided_as_in_the_environment(batch: Batch, tmp_path: Path) -> None:
    agent = host_agent(batch.task)
    scorer = AgentScorer(agent, "toy")
    batch.reset([0], [(0, 100)])
    actor = agent.actor()
    for _ in range(60):
        asked = asked_of(batch)
        own = actor.distribution(batch.features[0, : batch.count[0]], False).best()
        if len(asked.rows) > 1:
            assert int(scorer.scores(asked).argmax()) == own
        batch.step(np.array([own]))


def request(hosts: int = 5, **changes: Any) -> dict[str, Any]:
    rows = [
        {"name": f"h{i}", "total_cores": 64, "free_cores": 8 * i, "total_memory": 2**28, "free_memory": 2**27 - i}
        for i in range(hosts)
    ]
    return {"version": 1, "kind": "pick-host", "hosts": rows, "job": {"id": 1, "cores": 4, "estimate": 60}} | changes


def test_an_agents_folder_is_served(batch: Batch, tmp_path: Path) -> None:
    host_agent(batch.task).save(tmp_path / "agent")
    decider = load_decider(str(tmp_path / "agent"))
    assert isinstance(decider, HostDecider)
    decider.prepare()
    answer = decider.decide(json.dumps(request()).encode())
    assert answer["host"] in {"h1", "h2", "h3", "h4"}
    assert answer["scores"][0] is None
    running = request()
    running["hosts"][1]["running"] = [{"cores": 8, "ends": 100}]
    assert decider.decide(json.dumps(running).encode())["scores"] != answer["scores"]
    assert decider.about()["features"] == list(batch.task.feature_names)


@pytest.mark.parametrize("layout", ["4h2", "2h8"])
def test_vectors_of_the_plugin_for_an_agent_that_was_trained_on_them(batch: Batch, layout: str) -> None:
    task = PickHost(switches=batch.task.switches, observer=f"lsf-{layout}", constants=dict(batch.task.constants))
    decider = HostDecider(host_agent(task), "toy", layout=layout)
    width = {"4h2": 4 * 30 + 2, "2h8": 2 * 30 + 8}[layout]
    vector = np.random.default_rng(1).random(width).tolist()
    scores = decider.select(json.dumps({"input_vector": vector}).encode())["scores"]
    assert len(scores) == 30
    assert 0 < min(scores) <= max(scores) == 1
    other = {"4h2": "2h8", "2h8": "4h2"}[layout]
    with pytest.raises(Refused):
        decider.select(json.dumps({"input_vector": vector[:42], "layout": other}).encode())
    assert OBSERVERS[f"lsf-{layout}"] == task.feature_names


def test_an_agent_of_another_task_is_refused(tmp_path: Path) -> None:
    import tracekit
    from tracekit.sim.tasks.pick_job.batch import Batch as JobBatch

    agent_of(JobBatch(tracekit.sample().head(100), PickJob(), lanes=1).task).save(tmp_path / "jobs")
    with pytest.raises(UsageError):
        AgentScorer(Agent.load(str(tmp_path / "jobs")), "jobs")
    (tmp_path / "h.json").write_text('{"RECORDS": []}')
    given = ["--hosts", str(tmp_path / "h.json"), "--jobs", str(tmp_path / "h.json")]
    assert main(["lsf", "advise", "--agent", str(tmp_path / "jobs"), *given]) == 2
    assert main(["serve", str(tmp_path / "jobs"), "--protocol", "kubernetes"]) == 2
