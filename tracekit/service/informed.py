"""Decisions of agents that go by predicted run times: the service keeps the history that predictions are made from.

A scheduler reports submits, starts and ends (``POST /v1/events``); each job is predicted once, at its submit, as in a
simulation. ``POST /v1/decide`` then takes the same requests as for any other agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.service.decide import Decider, check_kind
from tracekit.service.host_protocol import read_object
from tracekit.service.predict import PredictDecider
from tracekit.service.protocol import Floats, Refused, Request, parse
from tracekit.sim.agents.agent import Agent
from tracekit.sim.predict import TASK
from tracekit.sim.predict.features import CANCEL, END, own_features
from tracekit.sim.predict.index import indices
from tracekit.sim.predict.ongoing import Events, Submits
from tracekit.sim.predict.predictor import IN_INDEX, OUTPUTS, Predictor
from tracekit.sim.predict.trees import evaluated
from tracekit.trace import Trace


class _Remembering(PredictDecider):
    """Keeps what was known of each job at its submit until the job has ended."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._kept: dict[str, Floats] = {}

    def note(self, events: Events, names: Sequence[str | int], found: Floats) -> None:
        """Keep the features of submitted jobs, drop those of jobs that are gone; called with the lock held."""
        self._kept |= {str(name): row.copy() for name, row in zip(names, found, strict=True)}
        for kind, name in zip(events.kind.tolist(), events.id, strict=True):
            if kind in (END, CANCEL):
                self._kept.pop(name, None)

    def known(self, names: Sequence[str | int], jobs: Submits) -> tuple[Floats, int]:
        """Return the features of jobs, (jobs, FEATURES), and how many were never reported as submitted.

        Those are predicted from what is known now.
        """
        with self._lock:
            rows = [self._kept.get(str(name)) for name in names]
            new = [i for i, row in enumerate(rows) if row is None]
            if new:
                time = np.maximum(jobs.time[new], self._ongoing.now)
                labels = ([column[i] for i in new] for column in (jobs.user, jobs.queue))
                found = self._ongoing.ask(Submits(time, jobs.size[new], jobs.limit[new], *labels))
                for i, row in zip(new, found, strict=True):
                    rows[i] = row
        return np.array(rows), len(new)


class InformedDecider(Decider):
    """Answers requests of pick-job with an agent that goes by predicted run times."""

    def __init__(self, agent: Agent, name: str, *, past: Trace | None = None, timezone: str | None = None) -> None:
        predictor = self._predictor = Predictor.load(agent.task["predict"])
        super().__init__(agent, name)
        engine = self._rules.engine._replace(predicts=0)  # predictions are written into the lane, not made in it
        self._rules = self._rules._replace(engine=engine)
        self._history = _Remembering(predictor, name, past=past, timezone=timezone)

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Any]]:
        """The paths that take requests."""
        return {"/v1/decide": lambda body: self.answer(parse(body)), **self._history.posts}

    def line(self, body: bytes) -> dict[str, Any]:
        """Answer a line: events, jobs to predict (of that kind), or jobs to order."""
        data = read_object(body)
        about_run_times = "events" in data or data.get("kind") == TASK
        return self._history.line(body) if about_run_times else self.answer(parse(body))

    def prepare(self) -> None:
        """Read the history, and answer once, so that all code is compiled or loaded."""
        self._history.prepare()
        super().prepare()

    def about(self) -> dict[str, Any]:
        """Return what decides, and what is known so far."""
        known = self._history.about()
        return super().about() | {name: known[name] for name in ("outputs", "timezone", "history")}

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the jobs, best first; a note counts those that were never reported as submitted."""
        check_kind(request, self.task)
        jobs = request.jobs
        users = [None if user is None else str(user) for user in jobs.user]
        asked = Submits(jobs.submit_time, jobs.procs, jobs.req_time, users, [None] * len(users))
        try:
            seen, new = self._history.known(jobs.id, asked) if len(users) else (np.zeros((0, 0)), 0)
        except TracekitError as error:
            raise Refused(422, str(error)) from None
        found = self._ordered(request, seen)
        if new:
            found["notes"].append(
                f"{new} jobs were not reported as submitted (/v1/events): predicted from what is known now"
            )
        return found

    def _inform(self, request: Request, place: Any, seen: Floats) -> None:
        """Write the predictions of the waiting jobs into the lane, as the simulator has them from a submit on."""
        lane, jobs = self._lanes.predicted, request.jobs
        rows = np.flatnonzero(place >= 0)
        which = place[rows]
        own = own_features(jobs.req_time[which], jobs.procs[which])
        shown, priority = predictions(self._history.predictor, seen[which], own)
        lane.own[0, rows, :2], lane.shown[0, rows], lane.priority[0, rows] = own[:, :2], shown, priority


def predictions(predictor: Predictor, seen: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return the outputs, (jobs, OUTPUTS) logarithms, and the values of policy predicted-index, (jobs,).

    As `tracekit.sim.engine.predictions.predicted` has them; ``own`` (jobs, OWN).
    """
    out, ln_limit = evaluated(predictor.forest, seen), own[:, 0]
    weight = OUTPUTS.index("weight")
    seconds = np.exp(np.where(np.isnan(ln_limit), np.nan, ln_limit))
    out[:, weight] = np.log(predictor.outputs(seen, seconds)[:, weight])
    return out, indices(out[:, [OUTPUTS.index(name) for name in IN_INDEX]], own, predictor.index)
