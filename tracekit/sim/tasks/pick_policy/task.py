"""The settings of the task pick-policy: which named policy orders the queue until the next question.

The agent is asked at every scheduling pass at which two or more jobs wait and one of them fits, or more rarely
(``cycle``, ``passes``), and chooses one of ``policies``; the engine makes that pass, with its backfilling, by the
policy's order. An agent that always chooses the same policy has that policy's schedule, start by start.

GAT-DRL (github.com/myandelaepu/graph-augmented-hpc-scheduler) chooses among the first four.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Self
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.sim.energy.sleeping import states_of
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies.builtin import find
from tracekit.sim.policies.formulas import NAMES
from tracekit.sim.policies.protocol import BuiltIn
from tracekit.sim.setup import Setup, Starts
from tracekit.sim.tasks.base import Question
from tracekit.sim.tasks.jobgraph import kinds_of, link_names
from tracekit.sim.tasks.pick_job.task import named_of, plain_cluster
from tracekit.sim.tasks.pick_policy.features import JobColumns, Observer, feature_names
from tracekit.sim.tasks.pick_policy.run import PolicyRun
from tracekit.sim.tasks.stepwise import Steps, StepwiseTask
from tracekit.sim.windows import Window
from tracekit.trace import Trace

#: The meta-policies of GAT-DRL, and those that have done best on other traces.
POLICIES = ("fcfs", "sjf", "capability-first", "adaptive", "saf", "wfp3", "unicep", "f1")
_NOT = ("replay", "random")


@dataclass(frozen=True)
class PickPolicy(StepwiseTask):
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and results."""

    name: ClassVar[str] = "pick-policy"
    heuristics: ClassVar[tuple[str, ...]] = (*NAMES, "capability-first", "adaptive")
    levers: ClassVar[tuple[str, ...]] = ("--frequency", "--power-cap", "--sleep-after")
    on_hosts: ClassVar[bool] = True  # a cluster is named by the switches

    policies: tuple[str, ...] = POLICIES
    edges: str = ""  # kinds of edges of the graph of jobs, "all" or "none"; "" = jobs are not shown
    jobs: int = 64  # jobs of the graph: the waiting ones that came first, then running ones
    cycle: float = 0.0  # seconds between two questions, at least
    passes: int = 1  # scheduling passes between two questions, at least
    watts: bool | None = None  # show what a power cap leaves; None = if there is one

    def __post_init__(self) -> None:
        if isinstance(self.policies, str):
            object.__setattr__(self, "policies", tuple(name.strip() for name in self.policies.split(",")))
        for name in self.policies:
            if not isinstance(find(name), BuiltIn) or name in _NOT:
                raise UsageError(f"task pick-policy: {name} is not a built-in policy with an order; leave it out")
        if len(self.policies) < 2 or len(set(self.policies)) < len(self.policies):
            raise UsageError(f"task pick-policy needs two or more different policies, not {', '.join(self.policies)}")
        if not 1 <= self.jobs <= 10_000:
            raise UsageError(f"jobs of the graph must be from 1 to 10,000, not {self.jobs}")
        if self.cycle < 0 or self.passes < 1:
            raise UsageError(f"cycle must be 0 s or more and passes at least 1, not {self.cycle:g} and {self.passes}")
        if self.edges:
            kinds_of(self.edges)
        if self.switches.cluster is not None:
            cluster = cluster_of(self.switches.cluster)
            object.__setattr__(self, "switches", dataclasses.replace(self.switches, cluster=cluster))
            if self.warm:
                raise UsageError("task pick-policy does not support a warm start (warm) on a cluster of hosts")
        if self.watts is None:
            object.__setattr__(self, "watts", self.switches.power_cap is not None)
        find(self.base)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a cluster is written whole, so that they do not depend on any file."""
        switches = self.switches
        plain = {field.name: getattr(switches, field.name) for field in dataclasses.fields(switches)}
        plain |= {"options": dict(switches.options), "queue_factors": dict(switches.queue_factors)}
        if switches.cluster is not None:
            plain |= {"cluster": plain_cluster(cluster_of(switches.cluster)), "allocate": named_of(switches.allocate)}
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"name": self.name, **own, "switches": plain, "constants": dict(self.constants)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; unknown names are errors."""
        switches = values.get("switches", {})
        if isinstance(switches, Mapping) and isinstance(switches.get("cluster"), Mapping):
            cluster = Machine.from_dict(switches["cluster"], origin="cluster")
            values = {**values, "switches": {**switches, "cluster": cluster}}
        return super().from_dict(values)

    @property
    def actions(self) -> int:
        """How many actions there are: the policies."""
        return len(self.policies)

    @property
    def slots(self) -> int:
        """The most rows that one question has: policies, and jobs where they are shown."""
        return len(self.policies) + (self.jobs if self.edges else 0)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What is seen of each row, in order."""
        links = link_names(self.edges, context=True) if self.edges else ()
        return feature_names(self.policies, links, watts=bool(self.watts))

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> _JobView:
        """Return what is shown of the jobs of a trace."""
        return _JobView(self, trace)

    def episode(self, setup: Setup, columns: JobColumns) -> Steps:
        """Ask for a policy, follow it to the next question, and return the starts."""
        run = PolicyRun(setup, self.policies)
        kinds, jobs = (kinds_of(self.edges), self.jobs) if self.edges else ((), 0)
        observer = Observer(run, columns, kinds, jobs, watts=bool(self.watts))
        more = run.begin()
        while more:
            now = run.now
            choice = yield Question(observer.rows(), labels=self.policies, now=now, options=len(self.policies))
            more = run.follow(choice, now + self.cycle, self.passes)
        hosts = run.machine.hosts(run.room)
        return run.jobs.start if hosts is None else Starts.of(run.jobs.start, hosts, states_of(run, hosts))

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> list[Any]:
        """Return what decides on each window: always the named policy, or the best one there."""
        if name == "best":
            chosen = batch.source.policy_costs(windows, self.policies).argmin(1)
        elif name in self.policies:
            chosen = np.full(len(windows), self.policies.index(name))
        else:
            raise UnknownName("policy to imitate", name, [*self.policies, "best"])
        return [lambda batch, lane, row=int(row): row for row in chosen]


class _JobView:
    """What a `PickPolicy` task shows of the jobs of one trace."""

    def __init__(self, task: PickPolicy, trace: Trace) -> None:
        self.task = task
        self._project: NDArray[np.int64] = trace.column("project" if trace.has("project") else "group")
        self._midnight = _midnight(trace)

    def columns(self, ready: Prepared, rows: slice | None) -> JobColumns:
        """Return what is shown of an episode's jobs."""
        return JobColumns(self._project[ready.table.position], self._midnight)


def _midnight(trace: Trace) -> float:
    """Return a submit time that is midnight on the machine's clock, as it was at submit time 0."""
    epoch = trace.machine.epoch
    if epoch is None:
        return 0.0
    zone = ZoneInfo(trace.machine.timezone) if trace.machine.timezone else UTC
    offset = datetime.fromtimestamp(epoch, zone).utcoffset()
    return -((epoch + (0.0 if offset is None else offset.total_seconds())) % 86400.0)
