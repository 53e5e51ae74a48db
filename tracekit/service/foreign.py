"""The policy ``http://127.0.0.1:PORT``: a scheduler in another process, in any language, asked at every decision.

The simulation is that of the task pick-job, step by step, so an agent behind `tracekit serve` makes the schedule that
it makes as ``agent:DIR``. A request holds the machine and all waiting jobs (`tracekit.service.protocol`); the first
job of the answer that may start is taken. While a job has the reservation, ``reserved`` is its id, and only jobs that
do not delay it may start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.service.caller import Caller, address_of
from tracekit.service.protocol import MOST_JOBS, VERSION
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.policy import Whole, without_cuts
from tracekit.sim.agents.rollout import play
from tracekit.sim.engine.state import FILLING
from tracekit.sim.setup import Placed, Setup
from tracekit.sim.tasks.pick_job.features import CONSTANTS, Facts, facts_of
from tracekit.sim.tasks.pick_job.task import MOST_SLOTS, PickJob

Floats = NDArray[np.float64]


class ForeignPolicy:
    """A scheduler that is asked over HTTP; each simulation has its own connection."""

    def __init__(self, address: str) -> None:
        self.name = f"http:{address}"
        address_of(self.name)

    def priority(self, queue: Any, state: Any) -> Floats:
        """Not available: the scheduler is asked job by job, see `schedule`."""
        raise TracekitError(f"{self.name} chooses job by job and has no priority()")

    def schedule(self, setup: Setup, /) -> Placed:
        """Return the start of every job, and its hosts."""
        count = len(setup.ready.table)
        setup = without_cuts(setup)
        task = PickJob(
            slots=min(max(count, 1), MOST_SLOTS),
            observer="request",
            constants=dict.fromkeys(CONSTANTS, 1.0),  # scales of features, which are not sent
            cluster=setup.switches.cluster,
        ).adapted(setup)
        batch = task.batch(Whole(task, setup), lanes=1, threads=1)
        with Caller(self.name) as caller:
            question = _Question(setup, caller)
            play(batch, [(0, count)], Actor(None), teacher=[question.choose], keep=False)
        return Placed(batch.starts(0), batch.hosts(0))


class _Question:
    """Writes the state of an environment as a request, and reads the answer. Jobs are written once and kept."""

    def __init__(self, setup: Setup, caller: Caller) -> None:
        ready = setup.ready
        table, self.caller = ready.table, caller
        if np.any(table.procs % 1):
            raise TracekitError(f"{caller.url}: sizes of jobs must be whole numbers to be sent")
        ids = table.job_id if len(np.unique(table.job_id)) == len(table) else np.arange(len(table))
        self.ids: list[int] = ids.tolist()
        self.number = {job: i for i, job in enumerate(self.ids)}
        self.procs = table.procs.astype(np.int64).tolist()
        self.estimate = ready.estimate
        facts = None if table.trace is None else facts_of(table.trace)
        self.jobs = [
            _written(job, submit, procs, estimate, _labels(facts, row))
            for job, submit, procs, estimate, row in zip(
                self.ids,
                table.submit.tolist(),
                self.procs,
                ready.estimate.tolist(),
                table.position.tolist(),
                strict=True,
            )
        ]
        self.total = int(table.total)

    def choose(self, batch: Any, lane: int) -> int:
        """Return the slot of the job that the scheduler wants to start next."""
        arrays = batch.arrays
        state = arrays.state[lane]
        waiting = arrays.queue.job[lane, : arrays.queue.length[lane, 0]]
        shown = arrays.visible[lane, : arrays.count[lane]]
        reserved = int(state["blocked"]) if state["phase"] == FILLING else None
        sent = self._sent(waiting, shown, reserved)
        answer = self.caller.ask(self._body(arrays, lane, float(state["now"]), sent, reserved))
        order = read_order(answer, [self.ids[job] for job in sent], self.caller.url)
        slot = {self.ids[job]: i for i, job in enumerate(shown.tolist())}
        return next(slot[job] for job in order if job in slot)

    def _sent(self, waiting: Any, shown: Any, reserved: int | None) -> list[int]:
        """Return the jobs of a request: all that wait; where they are too many, those that may be chosen come first."""
        jobs: list[int] = waiting.tolist()
        if len(jobs) <= MOST_JOBS:
            return jobs
        first = dict.fromkeys([*([] if reserved is None else [reserved]), *shown.tolist(), *jobs])
        return sorted(list(first)[:MOST_JOBS])

    def _body(self, arrays: Any, lane: int, now: float, sent: Sequence[int], reserved: int | None) -> bytes:
        jobs = arrays.jobs
        busy = arrays.running.ends["item"][lane, : arrays.running.tally["running"][lane, 0]]
        ends = (jobs.start[lane, busy] + self.estimate[busy]).tolist()
        running = ",".join(
            f'{{"procs":{self.procs[job]},"ends":{end!r}}}' for job, end in zip(busy.tolist(), ends, strict=True)
        )
        held = "" if reserved is None else f'"reserved":{self.ids[reserved]},'
        return (
            f'{{"version":{VERSION},"kind":"pick-job","now":{now!r},{held}'
            f'"cluster":{{"procs":{self.total},"running":[{running}]}},'
            f'"jobs":[{",".join(self.jobs[job] for job in sent)}]}}'
        ).encode()


def _written(job: int, submit: float, procs: int, estimate: float, labels: dict[str, float]) -> str:
    """Return a job as JSON; labels that are unknown are left out."""
    values = {"id": job, "submit_time": submit, "procs": procs, "req_time": estimate}
    values |= {name: value if name == "req_mem" else int(value) for name, value in labels.items() if value >= 0}
    return json.dumps(values, separators=(",", ":"))


def _labels(facts: Facts | None, row: int) -> dict[str, float]:
    """Return memory, user, group and program of a job as the agents of pick-job see them; NaN = unknown."""
    if facts is None:
        return {}
    return {
        "req_mem": float(facts.memory[row]),
        "user": float(facts.user[row]),
        "group": float(facts.group[row]),
        "app": float(facts.app[row]),
    }


def read_order(answer: Any, asked: Sequence[int], url: str) -> list[int]:
    """Return the ids of an answer in order, after a check that it holds each job that was asked for once."""

    def wrong(what: str) -> TracekitError:
        return TracekitError(f"{url}: {what}")

    order = answer.get("order") if isinstance(answer, dict) else None
    if not isinstance(order, list):
        raise wrong("the answer has no list 'order'")
    if not all(isinstance(entry, dict) and type(entry.get("id")) is int for entry in order):
        raise wrong("order: every entry must be an object with the id of a job as it was sent")
    ids = [entry["id"] for entry in order]
    known = set(asked)
    strange = next((job for job in ids if job not in known), None)
    if strange is not None:
        raise wrong(f"order: there is no waiting job {str(strange)[:40]}")
    if len(set(ids)) < len(ids):
        raise wrong("order: a job occurs more than once")
    if len(ids) < len(known):
        raise wrong(f"order: has {len(ids):,} of the {len(known):,} jobs; each must occur once")
    return ids
