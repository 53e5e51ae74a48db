"""Requests about run times: jobs to predict, with or without their history, and events of a machine.

``POST /v1/predict``::

    {"version": 1, "kind": "predict-run-time",
     "jobs": [{"id": "a", "submit_time": 1700000000, "procs": 32, "req_time": 3600, "user": "u1", "queue": "batch"}],
     "history": [{"submit_time": 1699990000, "start_time": 1699990010, "end_time": 1699990600, "procs": 32,
                  "req_time": 3600, "user": "u1", "queue": "batch"}]}

``POST /v1/events``::

    {"version": 1, "kind": "predict-run-time",
     "events": [{"event": "submit", "time": 1700000000, "id": "a", "procs": 32, "req_time": 3600, "user": "u1"},
                {"event": "start", "time": 1700000050, "id": "a"}, {"event": "end", "time": 1700000650, "id": "a"}]}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tracekit.machine import Machine
from tracekit.service.host_protocol import read_object
from tracekit.service.protocol import MOST_JOBS, VERSION, Refused, ids, labels, numbers, objects, whole_numbers
from tracekit.sim.predict import TASK
from tracekit.sim.predict.features import SUBMIT
from tracekit.sim.predict.ongoing import EVENTS, Events, Submits
from tracekit.trace import Trace

#: Events, and jobs of a history, in one request.
MOST_EVENTS = 100_000


@dataclass(frozen=True, eq=False)
class Asked:
    """Jobs whose run times are asked for, and the history that was sent with them."""

    id: list[str | int]
    jobs: Submits
    history: Trace | None  # times are Unix seconds; None = that of the service


def read_request(body: bytes) -> dict[str, Any]:
    """Read a request of this kind; `Refused` says what is wrong."""
    data = read_object(body)
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        raise Refused(422, f"version: this service supports version {VERSION}")
    if data.get("kind", TASK) != TASK:
        raise Refused(422, f"kind: must be {TASK}")
    return data


def read_asked(data: dict[str, Any], timezone: str) -> Asked:
    """Read the jobs of a request, and the history if there is one."""
    rows = objects(data.get("jobs"), "jobs", MOST_JOBS)
    names = ids(rows, "jobs")
    if len(set(map(str, names))) < len(names):
        raise Refused(422, "jobs: two jobs have the same id")
    jobs = _submits(rows, "jobs", "submit_time", [True] * len(rows))
    if data.get("history") is None:
        return Asked(names, jobs, None)
    return Asked(names, jobs, _history(objects(data["history"], "history", MOST_EVENTS), jobs, timezone))


def _history(rows: list[dict[str, Any]], jobs: Submits, timezone: str) -> Trace:
    """Return a trace of the history and, after it, the jobs that are asked for, which never start."""
    past = _submits(rows, "history", "submit_time", [True] * len(rows))
    start = numbers(rows, "start_time", "history[{}].start_time", optional=True)
    end = numbers(rows, "end_time", "history[{}].end_time", optional=True)
    for field, bad in (
        ("start_time: is before submit_time", start < past.time),
        ("end_time: is before start_time", end < start),
        ("start_time: is missing, and the job has an end_time", np.isnan(start) & np.isfinite(end)),
    ):
        if bad.any():
            raise Refused(422, f"history[{int(bad.argmax())}].{field}")
    never = np.full(len(jobs.time), np.nan)

    def both(name: str) -> Any:
        return np.concatenate((getattr(past, name), getattr(jobs, name)))

    wait = np.concatenate((np.where(np.isnan(start), np.inf, start - past.time), never + np.inf))
    table = {
        "job_id": np.arange(1, len(wait) + 1),
        "submit_time": both("time"),
        "wait_time": np.where(np.isnan(wait), np.inf, wait),  # infinite: has not started
        "run_time": np.concatenate((end - start, never)),
        "req_time": both("limit"),
        "req_procs": both("size"),
        "user": pd.Categorical([*past.user, *jobs.user]),
        "queue": pd.Categorical([*past.queue, *jobs.queue]),
    }
    return Trace(pd.DataFrame(table), Machine(epoch=0.0, timezone=timezone))


def read_events(data: dict[str, Any]) -> tuple[Events, list[str | int]]:
    """Read events; also returns the ids of the jobs that are submitted, as they were sent."""
    rows = objects(data.get("events"), "events", MOST_EVENTS)
    kinds = [row.get("event") for row in rows]
    for i, kind in enumerate(kinds):
        if not isinstance(kind, str) or kind not in EVENTS:
            raise Refused(422, f"events[{i}].event: must be {', '.join(EVENTS)}")
    codes = np.array([EVENTS[str(kind)] for kind in kinds], np.int64)
    names = ids(rows, "events")
    submits = (codes == SUBMIT).tolist()
    events = Events(
        codes,
        numbers(rows, "time", "events[{}].time"),
        [str(name) for name in names],
        numbers(rows, "run_time", "events[{}].run_time", optional=True),
        _submits(rows, "events", "time", submits),
    )
    return events, [name for name, one in zip(names, submits, strict=True) if one]


def _submits(rows: Sequence[dict[str, Any]], place: str, time: str, chosen: Sequence[bool]) -> Submits:
    """Read the chosen rows as jobs that are submitted."""
    kept = np.array(chosen, bool)
    sizes = [row if use else {"procs": 1} for row, use in zip(rows, chosen, strict=True)]  # others need none
    columns = (
        numbers(rows, time, f"{place}[{{}}].{time}"),
        whole_numbers(sizes, "procs", f"{place}[{{}}].procs"),
        numbers(rows, "req_time", f"{place}[{{}}].req_time", optional=True),
    )
    names = [
        [
            None if label is None else str(label)
            for label, use in zip(labels(rows, key, place), chosen, strict=True)
            if use
        ]
        for key in ("user", "queue")
    ]
    return Submits(*(column[kept] for column in columns), *names)
