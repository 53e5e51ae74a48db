"""Answers about hosts: by an agent of a task that chooses hosts, or by a baseline that needs no training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.service.host_choice import (
    BASELINES,
    Baseline,
    Decision,
    Floats,
    HostJobs,
    HostQuestion,
    HostTable,
    Scorer,
    decide,
)
from tracekit.service.host_protocol import (
    LAYOUTS,
    MOST_SCORES,
    read_hosts,
    read_jobs,
    read_now,
    read_object,
    read_vector,
    write_decisions,
    write_vector,
)
from tracekit.service.protocol import VERSION, Refused
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.distributions import Choice
from tracekit.sim.tasks.base import TaskDefaults, task_from_dict

KIND = "pick-host"


class AgentScorer:
    """Scores hosts by an agent whose task says which `Question` a `HostQuestion` is."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent, self.name, self.task = agent, name, task_from_dict(agent.task)
        if self.task.name != KIND:
            raise UsageError(f"{name}: this agent was trained for task {self.task.name}, not {KIND}")
        if getattr(type(self.task), "question", None) in (None, TaskDefaults.question):
            raise UsageError(f"task {self.task.name} cannot be served: it has no method question(request)")
        self._actor = agent.actor()

    def scores(self, question: HostQuestion, /) -> Floats:
        """Return the agent's score of each host that has room."""
        if len(question.rows) == 1:
            return np.zeros(1)
        try:
            rows = np.ascontiguousarray(self.task.question(question).rows, np.float32)
        except TracekitError as error:
            raise Refused(422, str(error)) from None
        return self._of_rows(rows)

    def of_vector(self, layout: str, vector: list[float]) -> Floats:
        """Return the agent's score of every host of a vector, for agents that were trained on its layout."""
        from tracekit.sim.tasks.pick_host.asked import vector_rows

        try:
            rows = vector_rows(layout, vector, str(self.task.observer))
        except TracekitError as error:
            raise Refused(422, str(error)) from None
        return self._of_rows(rows)

    def _of_rows(self, rows: Any) -> Floats:
        found = self._actor.distribution(rows, False)
        return np.array(found.scores if isinstance(found, Choice) else found.best(), dtype=np.float64)

    def placed(self, host: int, hosts: int, /) -> None:
        """Do nothing: agents keep no state between jobs."""


class HostDecider:
    """Answers requests about hosts, one at a time."""

    def __init__(self, agent: Agent | Scorer, name: str, *, layout: str | None = None) -> None:
        if layout is not None and layout not in LAYOUTS:
            raise UnknownName("layout of vectors", layout, LAYOUTS)
        self.scorer: Scorer = AgentScorer(agent, name) if isinstance(agent, Agent) else agent
        self.name, self.layout = name, layout
        self._lock = threading.Lock()

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Any]]:
        """The paths that take requests."""
        return {"/v1/decide": self.decide, "/select_host": self.select}

    def prepare(self) -> None:
        """Answer a small request, so that all code is compiled or loaded."""
        host = {"free_cores": 2, "total_cores": 4}
        self.answer({"hosts": [{"name": "a"} | host, {"name": "b"} | host], "job": {"cores": 1}})

    def about(self) -> dict[str, Any]:
        """Return who answers."""
        found = {"version": VERSION, "kind": KIND, "agent": self.name}
        if isinstance(self.scorer, AgentScorer):
            agent, task = self.scorer.agent, self.scorer.task
            return found | {"network": agent.network, "features": list(agent.features), "objective": task.objective}
        return found | {"rule": BASELINES.get(self.name, "")}

    def decide(self, body: bytes) -> dict[str, Any]:
        """Answer a request of version 1."""
        data = read_object(body)
        if data.get("version") != VERSION or isinstance(data.get("version"), bool):
            raise Refused(422, f"version: this service supports version {VERSION}")
        if data.get("kind") != KIND:
            raise Refused(422, f"kind: must be {KIND}")
        return self.answer(data)

    def select(self, body: bytes) -> dict[str, Any]:
        """Answer a request without version, or a vector of the LSF plugin."""
        data = read_object(body)
        if "input_vector" not in data:
            return self.answer(data)
        layout = data.get("layout", self.layout)
        if layout is not None and layout not in LAYOUTS:
            raise Refused(422, f"layout: must be {' or '.join(LAYOUTS)}")
        layout, table, jobs = read_vector(data["input_vector"], layout)
        with self._lock:
            if isinstance(self.scorer, AgentScorer):
                scores = self.scorer.of_vector(layout, data["input_vector"])
                return write_vector(table, Decision(0, np.arange(len(table)), scores))
            return write_vector(table, decide(table, jobs, self.scorer)[0])

    def answer(self, request: Any) -> dict[str, Any]:
        """Return a host for the job, or for each job of a cycle."""
        table, jobs, now = read_hosts(request.get("hosts")), read_jobs(request), read_now(request)
        self._check_amount(table, jobs)
        with self._lock:
            found = decide(table, jobs, self.scorer, now)
        return write_decisions(request, table, jobs, found, self.name)

    def _check_amount(self, table: HostTable, jobs: HostJobs) -> None:
        if len(table) * len(jobs) > MOST_SCORES:
            raise Refused(413, f"{len(jobs):,} jobs for {len(table):,} hosts are too many for one request; send fewer")


def scorer_of(policy: str | None, agent: str | None) -> tuple[Scorer, str]:
    """Return what scores hosts: a baseline by its name, or an agent's folder; exactly one is given."""
    if (policy is None) == (agent is None):
        raise UsageError("give either an agent or --policy NAME")
    if policy is not None and not policy.startswith("agent:"):
        return Baseline(policy), policy
    name = str(agent if policy is None else policy.removeprefix("agent:"))
    return AgentScorer(Agent.load(name), name), name
