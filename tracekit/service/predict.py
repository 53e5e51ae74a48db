"""Answers with predicted run times: of jobs that are asked for, and of jobs as they are submitted, event by event."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.service.predict_protocol import read_asked, read_events, read_request
from tracekit.service.protocol import VERSION, Floats, Refused
from tracekit.sim.predict import TASK
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.history import FEATURES
from tracekit.sim.predict.ongoing import Events, Ongoing
from tracekit.sim.predict.predictor import OUTPUTS, Predictor
from tracekit.trace import Trace

#: What is answered beside the seconds for backfilling and for orders.
_SHOWN = ("q50", "q75", "q90", "expected", "weight")
#: How many jobs that a prediction rests on have ended.
_KNOWN = ("user_ended", "shape_ended")

_WARMUP = b"""{"version": 1, "jobs": [{"id": 1, "submit_time": 9, "procs": 1}], "history": []}"""


class PredictDecider:
    """Answers requests about run times, one at a time; it keeps the history that its callers report."""

    def __init__(
        self, predictor: Predictor, name: str, *, past: Trace | None = None, timezone: str | None = None
    ) -> None:
        self.predictor, self.name = predictor, name
        zone = timezone or (past.machine.timezone if past is not None else None)
        self._past, self._zone = past, zone or "UTC"
        self._ongoing = Ongoing(self._zone)
        self._lock = threading.Lock()

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Any]]:
        """The paths that take requests."""
        return {"/v1/predict": self.predict, "/v1/events": self.events}

    def prepare(self) -> None:
        """Read the history and predict once, so that all code is compiled or loaded."""
        if self._past is not None:
            self._ongoing, self._past = Ongoing.of(self._past, self._zone), None
        self.predict(_WARMUP)

    def about(self) -> dict[str, Any]:
        """Return what predicts, and what is known so far."""
        order, backfill = self.predictor.use
        with self._lock:
            state, now = self._ongoing.counts, self._ongoing.now
        return {
            "version": VERSION,
            "kind": TASK,
            "agent": self.name,
            "features": list(FEATURES),
            "outputs": list(OUTPUTS),
            "use": {"order": order, "backfill": backfill},
            "trace": self.predictor.facts.get("trace", {}),
            "timezone": self._zone,
            "history": {"time": now if math.isfinite(now) else None, **state},
        }

    def line(self, body: bytes) -> dict[str, Any]:
        """Answer a line: events, or jobs to predict."""
        data = read_request(body)
        return self._events(data) if "events" in data else self._predict(data)

    def predict(self, body: bytes) -> dict[str, Any]:
        """Return the predictions for jobs, by the history of the request or of the service, which does not change."""
        return self._predict(read_request(body))

    def events(self, body: bytes) -> dict[str, Any]:
        """Add events to the history; return the predictions for the jobs that are submitted."""
        return self._events(read_request(body))

    def _predict(self, data: dict[str, Any]) -> dict[str, Any]:
        asked = read_asked(data, self._zone)
        if asked.history is not None:
            past = len(asked.history) - len(asked.id)
            return self._answer(asked.id, features_of(asked.history)[past:], asked.jobs.limit)
        with self._lock:
            try:
                found = self._ongoing.ask(asked.jobs)
            except TracekitError as error:
                raise Refused(422, str(error)) from None
        return self._answer(asked.id, found, asked.jobs.limit)

    def _events(self, data: dict[str, Any]) -> dict[str, Any]:
        events, names = read_events(data)
        with self._lock:
            try:
                found = self._ongoing.apply(events)
            except TracekitError as error:
                raise Refused(422, str(error)) from None
            self.note(events, names, found)
        return self._answer(names, found, events.submits.limit)

    def note(self, events: Events, names: Sequence[str | int], found: Floats) -> None:
        """Do nothing with events that have happened, and with the features of the jobs that were submitted."""

    def _answer(self, names: Sequence[str | int], seen: Floats, limit: Floats) -> dict[str, Any]:
        made = self.predictor.outputs(seen, limit)
        of = [self.predictor.output(name) for name in (self.predictor.backfill, self.predictor.order, *_SHOWN)]
        known = seen[:, [FEATURES.index(name) for name in _KNOWN]].astype(np.int64)
        keys = ("id", "backfill", "order", *_SHOWN, *_KNOWN)
        predictions = [
            dict(zip(keys, (name, *seconds, *counts), strict=True))
            for name, seconds, counts in zip(names, made[:, of].tolist(), known.tolist(), strict=True)
        ]
        return {"version": VERSION, "kind": TASK, "agent": self.name, "predictions": predictions}
