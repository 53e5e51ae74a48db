"""An agent of task pick-host as an allocator of the simulator: ``--allocate agent:DIR``.

It sees the same rows as in its environment, computed by the same compiled code from the simulation's own arrays. Jobs
of several tasks, and jobs that spread over hosts, are placed by first fit, as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.agents.agent import Agent
from tracekit.sim.compile import jit
from tracekit.sim.engine.heap import ENTRY
from tracekit.sim.hosts.allocators import Snapshot
from tracekit.sim.tasks.base import task_from_dict
from tracekit.sim.tasks.pick_host.arrays import HostLanes, Rules, allocate
from tracekit.sim.tasks.pick_host.batch import rules_of
from tracekit.sim.tasks.pick_host.features import CODES, constants_of, facts_of, largest_host, scales_of
from tracekit.sim.tasks.pick_host.rows import observe
from tracekit.sim.tasks.pick_host.task import PickHost

Ints = NDArray[np.int64]


class AgentAllocator:
    """The allocator ``agent:DIR``."""

    def __init__(self, folder: str) -> None:
        self.name = f"agent:{folder}"
        self.agent = Agent.load(folder)
        if self.agent.task["name"] != PickHost.name:
            raise UsageError(
                f"{self.name} is for task {self.agent.task['name']} and cannot choose hosts; use it as --policy"
            )
        self.task: PickHost = task_from_dict(self.agent.task)
        self._actor, self._rules = self.agent.actor(), rules_of(self.task)
        self._session: Any = None
        self._lanes: HostLanes | None = None

    def watch(self, model: Any, session: Any) -> None:
        """Prepare for a simulation whose jobs will be placed."""
        table = session.ready.table
        constants = constants_of(table) | dict(self.task.constants) | largest_host(model.demand)
        codes = np.array([CODES[name] for name in self.task.feature_names])
        capacity, scales = session.room, scales_of(constants, model.demand)
        facts = facts_of(model.total, model.fixed[:, 2], scales)
        self._session = session
        self._lanes = allocate(capacity.data[None], capacity.real[None], 1, facts, codes, scales, None)

    def choose(self, hosts: Snapshot, /) -> Any:
        """Return the host of a job, or the hosts of its tasks."""
        if self._session is None or self._lanes is None:
            raise UsageError(f"{self.name} can only place the jobs of a simulation")
        if hosts.pieces > 1:
            return first_hosts(hosts)
        rows = np.flatnonzero(hosts.fits)
        if len(rows) == 1:
            return int(rows[0])
        shown = self._observed(hosts.job, rows)
        return int(rows[self._best(shown)])

    def _best(self, shown: NDArray[np.float32]) -> int:
        found = self._actor.distribution(shown, False).best()
        return int(np.argmax(found)) if self.task.actions == "priorities" else int(found)

    def _observed(self, job: int, rows: Ints) -> NDArray[np.float32]:
        """Return the rows of features of the hosts with room."""
        assert self._lanes is not None
        sim, jobs = self._session.sim, self._session.sim.jobs
        now = float(sim.state["now"][0])
        queue = sim.queue.job[: sim.queue.length[0]]
        start = jobs.start[queue]
        cycle = queue[np.isnan(start) | (start == now)]  # the jobs that waited when this cycle began
        running = sim.running.limits["job"][: sim.running.tally["running"][0]]
        lanes = self._lanes._replace(
            submit=jobs.submit[None],
            run=jobs.run[None],
            estimate=jobs.estimate[None],
            start=jobs.start[None],
            queue=np.array([[job]]),
            heap=_heap_of(running),
        )
        need = self._session.ready.table.demand.need[cycle]
        state, left = lanes.state[0], int(np.isnan(jobs.start[cycle]).sum())
        state["now"], state["running"], state["surveyed"] = now, len(running), False
        state["batch"], state["batch_cores"], state["batch_memory"] = len(cycle), need[:, 0].sum(), need[:, 1].sum()
        state["place"], state["kept"] = 0, left - len(cycle)
        lanes.rows[0, : len(rows)] = rows
        lanes.count[0] = len(rows)
        observe_once(lanes, self._rules)
        return lanes.features[0, : len(rows)]


def _heap_of(running: Ints) -> NDArray[Any]:
    """Return running jobs as the environment keeps them; only which they are is needed here."""
    made = np.zeros((1, len(running)), ENTRY)
    made["item"] = running
    return made


@jit
def observe_once(lanes: HostLanes, rules: Rules) -> None:
    """Write the rows of the only lane."""
    observe(lanes, rules, 0)


def first_hosts(hosts: Snapshot) -> list[int]:
    """Return the hosts of a job of several pieces by first fit, within one pool."""
    best: list[int] = []
    for pool in np.unique(hosts.pool[hosts.fits > 0]):
        inside = np.flatnonzero((hosts.pool == pool) & (hosts.fits > 0))
        if hosts.fits[inside].sum() < hosts.pieces:
            continue
        if not hosts.spreads:  # the tasks fill the first hosts
            return [int(h) for h in np.repeat(inside, hosts.fits[inside])[: hosts.pieces]]
        order = inside[np.argsort(-hosts.fits[inside], kind="stable")]
        needed = int(np.searchsorted(np.cumsum(hosts.fits[order]), hosts.pieces)) + 1
        if not best or needed < len(best):
            best = order[:needed].tolist()
    return best
