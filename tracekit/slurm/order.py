"""In which order a policy or an agent would start the waiting jobs of a machine."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.policies.builtin import find
from tracekit.sim.policies.protocol import BuiltIn, Floats, State
from tracekit.sim.setup import PerSimulation
from tracekit.sim.snapshot import RunningJobs, Snapshot, WaitingJobs


class Orders(Protocol):
    """Something that puts the waiting jobs of a machine in order."""

    name: str

    def order(self, machine: Snapshot) -> list[int]:
        """Return the numbers of the waiting jobs, best first."""
        ...


def orders_of(policy: str) -> Orders:
    """Return what orders jobs by a policy's name, ``module:Class`` or ``agent:DIR``."""
    if policy.startswith("agent:"):
        return AgentOrder(policy.removeprefix("agent:"))
    found = find(policy)
    if isinstance(found, BuiltIn) and found.name in ("replay", "random"):
        raise UsageError(f"policy {found.name} cannot steer a Slurm; choose another")
    return PolicyOrder(policy, found)


class PolicyOrder:
    """A policy that gives each job a value, smallest first; ties go to the earlier submit."""

    def __init__(self, name: str, policy: Any) -> None:
        self.name, self.policy = name, policy
        if not isinstance(policy, BuiltIn) and not hasattr(policy, "priority"):
            raise UsageError(f"policy {name} does not order a queue")

    def order(self, machine: Snapshot) -> list[int]:
        """Return the numbers of the waiting jobs, best first; those larger than the machine come last."""
        from tracekit.sim.engine import loop
        from tracekit.sim.engine.session import Session, answer_of, seen_by_policies
        from tracekit.sim.engine.state import empty_queue
        from tracekit.sim.policies.formulas import values_for

        if not len(machine.waiting):
            return []
        setup = machine.setup()
        session = Session(setup)
        ready, clock = setup.ready, machine.clock
        begun = np.full(len(ready.table), np.nan) if setup.begun is None else setup.begun
        waiting = np.flatnonzero(np.isnan(begun))
        session.sim = session.sim._replace(queue=empty_queue(len(ready.table)))
        sim = session.sim
        sim.state["now"] = clock
        if isinstance(self.policy, BuiltIn):
            code, given = values_for(self.policy.name, ready, setup.switches)
            session.prepare_policy(code)
            sim.queue.job[: len(waiting)] = waiting
            sim.queue.length[0] = len(waiting)
            loop.evaluate_from_python(sim, session.dynamics, code, sim.jobs.submit if given is None else given)
            values = sim.queue.value[: len(waiting)]
        else:
            policy = self.policy.started(setup) if isinstance(self.policy, PerSimulation) else self.policy
            values = answer_of(policy, waiting, seen_by_policies(ready, sim.jobs, sim.running, clock, sim.capacity))
        best = waiting[np.argsort(values, kind="stable")]
        ids = [int(machine.waiting.id[place]) for place in ready.table.position[best].tolist()]
        known = set(ids)
        return ids + [int(job) for job in machine.waiting.id if int(job) not in known]


class AgentOrder:
    """A trained agent of task pick-job, as `tracekit serve` asks it."""

    def __init__(self, folder: str) -> None:
        from tracekit.service.decide import load_decider

        self.name = f"agent:{folder}"
        self.decider = load_decider(folder)
        if getattr(self.decider.task, "name", "") != "pick-job":
            raise UsageError(f"{folder}: steering needs an agent of task pick-job, not {self.decider.task.name}")
        self.decider.prepare()

    def order(self, machine: Snapshot) -> list[int]:
        """Return the numbers of the waiting jobs, best first."""
        from tracekit.service.protocol import Refused, parse

        if not len(machine.waiting):
            return []
        try:
            answer = self.decider.answer(parse(json.dumps(request_of(machine)).encode()))
        except Refused as refused:
            raise TracekitError(f"{self.name}: {refused.reason}") from None
        return [int(job["id"]) for job in answer["order"]]


class AsPriorities:
    """A policy of the simulator: the order of the whole queue, as a driver makes priorities of it.

    An agent in `simulate` is asked for one job at a time; on Slurm its order becomes priorities, which Slurm then
    backfills by. This is what to compare a steered Slurm with.
    """

    def __init__(self, orders: Orders) -> None:
        self.name, self.orders = orders.name, orders

    def priority(self, queue: NDArray[np.intp], state: State, /) -> Floats:
        """Return the place of each waiting job in the order."""
        best = self.orders.order(seen(queue, state))
        place = dict(zip(best, range(len(best)), strict=True))
        return np.array([place[job] for job in queue.tolist()], dtype=np.float64)


def seen(queue: NDArray[np.intp], state: State) -> Snapshot:
    """Return what a driver would see at a moment of a simulation."""
    running = RunningJobs(
        state.running.tolist(), state.start[state.running], state.estimate[state.running], state.procs[state.running]
    )
    users = [None if user < 0 else str(user) for user in state.user[queue].tolist()]
    waiting = WaitingJobs(queue.tolist(), state.submit[queue], state.estimate[queue], state.procs[queue], user=users)
    return Snapshot(state.now, int(state.total), running, waiting)


def request_of(machine: Snapshot) -> dict[str, Any]:
    """Return a machine as a request to an agent (`tracekit.service.protocol`)."""
    jobs = machine.waiting
    users = jobs.user or [None] * len(jobs)
    waiting = [
        {"id": int(job), "submit_time": float(submit), "procs": int(size), "user": user}
        | ({} if limit != limit else {"req_time": float(limit)})
        for job, submit, size, limit, user in zip(jobs.id, jobs.submit, jobs.size, jobs.estimate, users, strict=True)
    ]
    ends = zip(machine.running.size.tolist(), machine.expected_end.tolist(), strict=True)
    running = [{"procs": int(size), "ends": end} for size, end in ends]
    return {
        "version": 1,
        "kind": "pick-job",
        "now": machine.clock,
        "cluster": {"procs": machine.total, "running": running},
        "jobs": waiting,
    }
