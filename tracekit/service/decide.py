"""An agent and the state of a machine in, the waiting jobs in order out.

The state is written into one lane of the arrays that environments run on, so an agent sees here what it saw when it
was trained (`tracekit.sim.tasks.pick_job.features`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.registry import imported
from tracekit.service.protocol import VERSION, Refused, Request, parse
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.distributions import Choice
from tracekit.sim.agents.inference import room, score
from tracekit.sim.engine.processors import ProcessorPool
from tracekit.sim.engine.state import BACKFILL_CODES, FILLING
from tracekit.sim.predict.predictor import Predictor
from tracekit.sim.snapshot import Labels, RunningJobs, Snapshot, WaitingJobs
from tracekit.sim.tasks.base import TaskDefaults, task_from_dict
from tracekit.sim.tasks.episodes import Episode
from tracekit.sim.tasks.pick_job.columns import JobColumns, fixed_of, visible_orders
from tracekit.sim.tasks.pick_job.features import Facts
from tracekit.sim.tasks.pick_job.lane_arrays import LaneArrays, allocate, load_episode, rules_of
from tracekit.sim.tasks.pick_job.lanes import ask, step_lanes
from tracekit.sim.tasks.pick_job.task import PickJob

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALLEST = b"""{"version": 1, "kind": "pick-job", "now": 0, "reserved": 2,
"cluster": {"procs": 2, "running": [{"procs": 1, "ends": 9}]},
"jobs": [{"id": 1, "submit_time": 0, "procs": 1, "req_time": 5}, {"id": 2, "submit_time": 0, "procs": 2}]}"""


def load_decider(name: str) -> Any:
    """Return the decider for an agent's folder, or a packaged agent by name; its task names the class."""
    agent = Agent.load(name)
    if agent.task.get("predict"):
        return imported("tracekit.service.informed:InformedDecider")(agent, name)
    return imported(task_from_dict(agent.task).server)(agent, name)


class RowDecider:
    """Answers for any task that says which `Question` a request asks (`Task.question`)."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent, self.name, self.task = agent, name, task_from_dict(agent.task)
        if getattr(type(self.task), "question", None) in (None, TaskDefaults.question):  # now, not at every request
            raise UsageError(f"task {self.task.name} cannot be served: it has no method question(request)")
        self._actor, self._lock = agent.actor(), threading.Lock()

    def prepare(self) -> None:
        """Do nothing: this agent runs without compiled code."""

    def about(self) -> dict[str, Any]:
        """Return the agent's name and the task that it was trained for."""
        return _about(self.agent, self.task, self.name)

    def answer(self, request: Request) -> dict[str, Any]:
        """Return what can be chosen, best first, with scores."""
        check_kind(request, self.task)
        try:
            question = self.task.question(request)
        except TracekitError as error:
            raise Refused(422, str(error)) from None
        with self._lock:
            found = self._actor.distribution(np.ascontiguousarray(question.rows, np.float32), False)
            scores = np.array(found.scores if isinstance(found, Choice) else found.best(), dtype=np.float64)
        if not np.isfinite(scores).all():
            raise Refused(422, "the agent's score is not finite; check times and sizes in the request")
        best = np.argsort(-scores, kind="stable")
        order = [{"id": question.labels[i], "score": float(scores[i])} for i in best.tolist()]
        notes = list(question.notes)
        return {"version": VERSION, "kind": self.task.name, "agent": self.name, "order": order, "notes": notes}


def _about(agent: Agent, task: Any, name: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "kind": task.name,
        "agent": name,
        "network": agent.network,
        "features": list(agent.features),
        "slots": task.slots,
        "objective": task.objective,
        "backfill": task.backfill,
    }


def check_kind(request: Request, task: Any) -> None:
    """Refuse a request for another task."""
    if request.kind != task.name:
        raise Refused(422, f"kind: this agent supports {task.name}, not {request.kind}")


class Decider:
    """Answers requests of pick-job, one at a time: an answer takes well under a millisecond, so threads only queue."""

    _predictor: Predictor | None = None  # of run times, for agents that go by predictions

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent, self.name = agent, name
        self.task = PickJob.from_dict(agent.task)
        if self.task.cluster is not None:
            raise UsageError(
                f"{name} was trained on a cluster of hosts, and requests do not describe hosts: serve an agent of a "
                "counter of processors"
            )
        rules = rules_of(self.task)
        self._rules = rules._replace(engine=rules.engine._replace(arrivals_first=False))  # there is one moment only
        self._machine = ProcessorPool()
        self._net, self._scratch = agent.net(), room(agent.net(), self.task.slots + 1)
        self._lanes = self._allocate(256)
        self._lock = threading.Lock()

    def _allocate(self, size: int) -> LaneArrays:
        return allocate(self.task, self._machine, 1, jobs=size, units=size, predictor=self._predictor)

    @classmethod
    def load(cls, name: str) -> Decider:
        """Load an agent's folder, or a packaged agent by name."""
        return cls(Agent.load(name), name)

    def prepare(self) -> None:
        """Answer a small request, so that all code is compiled, or loaded, before the first caller waits for it."""
        self.answer(parse(_SMALLEST))

    def about(self) -> dict[str, Any]:
        """Return the agent's name and the task that it was trained for."""
        return _about(self.agent, self.task, self.name)

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the jobs of a request in order."""
        return self._ordered(request, None)

    def _ordered(self, request: Request, seen: Any) -> dict[str, Any]:
        """Return the jobs, best first, with their scores; ``seen`` is what `_inform` needs beside the request.

        Jobs beyond those that the agent is shown follow by submit time, and jobs that could never run come last;
        both without a score.
        """
        check_kind(request, self.task)
        jobs = request.jobs
        possible = jobs.procs <= request.procs
        if request.reserved is not None and not possible[request.reserved]:
            raise Refused(422, "reserved: this job is larger than the machine")
        rows = np.flatnonzero(possible)
        shown, scores = self._scores(request, rows, seen) if len(rows) else (rows, np.empty(0))
        best = np.argsort(-scores, kind="stable")
        unseen = np.setdiff1d(rows, shown, assume_unique=True) if len(shown) < len(rows) else rows[:0]
        unseen = unseen[np.argsort(jobs.submit_time[unseen], kind="stable")]
        too_large = np.flatnonzero(~possible)
        starts_now = (jobs.procs <= request.procs - request.running_procs.sum()).tolist()
        order: list[dict[str, Any]] = [
            {"id": jobs.id[i], "score": value, "starts_now": starts_now[i]}
            for i, value in zip(shown[best].tolist(), scores[best].tolist(), strict=True)
        ]
        order += [
            {"id": jobs.id[i], "score": None, "starts_now": starts_now[i]}
            for i in [*unseen.tolist(), *too_large.tolist()]
        ]
        notes = []
        if request.hosts:
            notes.append("hosts were sent; this agent only counts processors")
        if len(unseen):
            why = f"more wait than the agent is shown ({self.task.slots})"
            why = why if request.reserved is None else "cannot be backfilled, or are more than the agent is shown"
            notes.append(f"{len(unseen)} jobs {why}: by submit time")
        if len(too_large):
            notes.append(f"{len(too_large)} jobs are larger than the machine and can never start; they come last")
        if unlimited := int(np.isnan(jobs.req_time[rows]).sum()):
            notes.append(f"{unlimited} jobs without req_time count as if they had asked for a day")
        return {"version": VERSION, "kind": "pick-job", "agent": self.name, "order": order, "notes": notes}

    def _scores(self, request: Request, rows: Ints, seen: Any) -> tuple[Ints, Floats]:
        """Return which of the jobs ``rows`` were shown and their scores, larger is better."""
        episode, place = _episode(request, rows, self.task)
        with self._lock:
            if (size := len(place)) > self._lanes.jobs.submit.shape[1]:
                self._lanes = self._allocate(2 * size)
            lanes = self._lanes
            load_episode(lanes, self._machine, 0, episode)
            self._inform(request, place, seen)
            ask(lanes, self._rules)
            if request.reserved is not None:
                self._reserve(int(np.flatnonzero(place == request.reserved)[0]), request.now)
            count = int(lanes.count[0])
            if count:
                score(self._net, lanes.features[0], count, False, self._scratch)
            scores = self._scratch.score[:count].astype(np.float64)
            shown = place[lanes.visible[0, :count]]
        if not np.isfinite(scores).all():
            raise Refused(422, "the agent's scores are not finite; check times and sizes of the jobs")
        return shown, scores

    def _inform(self, request: Request, place: Ints, seen: Any) -> None:
        """Write into the lane what agents know beside the request: nothing."""

    def _reserve(self, job: int, now: float) -> None:
        """Give a job of the window the reservation; what may be backfilled is then shown."""
        lanes = self._lanes
        lanes.visible[0, 0], lanes.count[0] = job, 1
        engine = self._rules.engine._replace(backfill=BACKFILL_CODES["easy"], commit=False)
        step_lanes(lanes, self._rules._replace(engine=engine, ask_forced=True), np.zeros(1, np.int64), 0, 1)
        filling = lanes.state["phase"][0] == FILLING and lanes.state["now"][0] == now
        if filling and lanes.state["blocked"][0] == job:
            return
        if not np.isnan(lanes.jobs.start[0, job]) and lanes.jobs.start[0, job] == now:
            raise Refused(422, "reserved: this job fits now; only one that cannot start has the reservation")
        lanes.count[0] = 0


def _snapshot(request: Request, rows: Ints, features: tuple[str, ...]) -> Snapshot:
    """Return the machine as a request describes it, with some of its waiting jobs and what ``features`` need of them.

    The start times of the running jobs are unknown.
    """
    jobs, running = request.jobs, len(request.running_procs)
    places = rows.tolist()

    def some(name: str) -> list[Any] | None:
        labels = getattr(jobs, name) if {name, f"link-{name}"} & set(features) else None
        return None if labels is None else [labels[i] for i in places]

    return Snapshot(
        request.now,
        request.procs,
        RunningJobs(
            range(running),
            np.full(running, np.nan),
            np.maximum(request.running_ends - request.now, 0.0),
            request.running_procs,
        ),
        WaitingJobs(
            places,
            jobs.submit_time[rows],
            jobs.req_time[rows],
            jobs.procs[rows],
            jobs.req_mem[rows] if "memory" in features else None,
            some("user"),
            some("group"),
            some("app"),
        ),
    )


def _episode(request: Request, rows: Ints, task: PickJob) -> tuple[Episode, Ints]:
    """Write the machine's state as a window that opens now: running jobs have started, waiting jobs have not.

    Also returns, for every row of the window, the number of the waiting job; −1: it runs.
    """
    snapshot = _snapshot(request, rows, task.feature_names)
    ready, begun = snapshot.prepared()
    count, others = len(begun), len(snapshot.running)
    unknown = np.full(count, np.nan)
    memory, user, group, app = (
        np.concatenate([numbers(snapshot.waiting), unknown[:others]]) if name in task.feature_names else unknown
        for name, numbers in _FACTS.items()
    )
    facts = Facts(
        memory,
        user,
        group,
        app,
        project=np.full(count, -1.0),  # requests do not contain projects
        origin=float(ready.table.submit.min(initial=request.now)),
    )
    users = np.zeros(count, np.int64)  # users matter only for their history, which requests do not contain
    columns = JobColumns(fixed_of(task, ready, facts), visible_orders(ready, task), users)
    place = np.concatenate([rows, np.full(others, -1)])[ready.table.position]
    return Episode((0, count), ready, begun, request.now, columns), place


def _label_numbers(labels: Labels | None, count: int) -> Floats:
    """Return labels as numbers; one that is not a number is unknown, since the agent never saw its list."""
    if labels is None or all(label is None for label in labels):
        return np.full(count, np.nan)
    known = {label: _number(label) for label in set(labels)}
    return np.array([known[label] for label in labels])


def _number(label: str | int | None) -> float:
    text = "" if label is None else str(label)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else np.nan


#: Features that only some agents look at, and how they are read; in the order of `Facts`.
_FACTS: dict[str, Callable[[WaitingJobs], Floats]] = {
    "memory": lambda jobs: np.full(len(jobs), np.nan) if jobs.req_mem is None else jobs.req_mem,
    "user": lambda jobs: _label_numbers(jobs.user, len(jobs)),
    "group": lambda jobs: _label_numbers(jobs.group, len(jobs)),
    "app": lambda jobs: _label_numbers(jobs.app, len(jobs)),
}
