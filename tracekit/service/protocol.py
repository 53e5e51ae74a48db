"""What is asked and answered: JSON of version 1, checked field by field. The text of a refusal names the field.

A request::

    {"version": 1, "kind": "pick-job", "now": 5000,
     "cluster": {"procs": 64, "running": [{"procs": 40, "ends": 5600}]},
     "jobs": [{"id": "a", "submit_time": 4000, "procs": 32, "req_time": 3600, "user": "u1"}]}

``now``, ``submit_time`` and ``ends`` (by the running jobs' limits) are seconds on one clock of the caller's choice;
``req_time`` is in seconds, ``req_mem`` in KB per processor. Labels are opaque. ``hosts`` may be sent: a list, which
agents that only count processors ignore, with an entry in ``notes``. ``reserved`` may be the id of the waiting job that
has the reservation: the jobs that can start without delaying it then come first in the answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.tasks.base import TASKS

VERSION = 1
#: Limits of one request. The first is of the body, in bytes.
MOST_BYTES, MOST_JOBS, MOST_RUNNING = 8 * 1024 * 1024, 20_000, 100_000
Floats = NDArray[np.float64]
_LARGEST = 1e15  # seconds, processors, KB: what is larger is a mistake, and float64 is exact below it


class Refused(Exception):
    """A request that cannot be answered, with the HTTP status that says whose fault it is."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)

    def body(self) -> dict[str, Any]:
        """Return the answer that the caller gets."""
        return {"version": VERSION, "error": self.reason, "status": self.status}


@dataclass(frozen=True, eq=False)
class Jobs:
    """The waiting jobs, column by column, (jobs,) each; NaN or None = unknown."""

    id: list[str | int]
    submit_time: Floats
    procs: Floats
    req_time: Floats
    req_mem: Floats
    user: list[str | int | None]
    group: list[str | int | None]
    app: list[str | int | None]

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False)
class Request:
    """A machine at one moment."""

    now: float
    procs: int
    running_procs: Floats  # (running,)
    running_ends: Floats  # (running,) by limit
    jobs: Jobs
    hosts: bool = False  # were any sent?
    kind: str = "pick-job"  # the task that is asked for
    reserved: int | None = None  # position of the waiting job that has the reservation: what may be backfilled?


def parse(body: bytes) -> Request:
    """Read a request; `Refused` with 400 if it is not a JSON object, 422 if a field is missing or wrong."""
    if len(body) > MOST_BYTES:
        raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
    try:
        data = json.loads(body.decode())
    except UnicodeDecodeError:
        raise Refused(400, "the request is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Refused(400, f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (RecursionError, ValueError):  # brackets without end; numbers of thousands of digits
        raise Refused(400, "the JSON is nested too deeply or has invalid numbers") from None
    if not isinstance(data, dict):
        raise Refused(400, "the request must be a JSON object")
    if data.get("version") != VERSION or isinstance(data.get("version"), bool):
        raise Refused(
            422, f"version: this service supports version {VERSION}, the request has {_show(data, 'version')}"
        )
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in TASKS:
        raise Refused(422, f"kind: must be {' or '.join(TASKS)}, not {_show(data, 'kind')}")
    now = float(numbers([data], "now", "now")[0])
    cluster = data.get("cluster")
    if not isinstance(cluster, dict):
        raise Refused(422, "cluster: must be an object with procs and, if jobs run, running")
    procs = whole_numbers([cluster], "procs", "cluster.procs")[0]
    running = objects(cluster.get("running", []), "cluster.running", MOST_RUNNING)
    used = whole_numbers(running, "procs", "cluster.running[{}].procs")
    if used.sum() > procs:
        raise Refused(422, f"cluster.running: uses {used.sum():,.0f} processors of {procs:,.0f}")
    ends = numbers(running, "ends", "cluster.running[{}].ends")
    hosts = data.get("hosts")
    if hosts is not None and not isinstance(hosts, list):
        raise Refused(422, "hosts: must be a list")
    jobs = _jobs(data.get("jobs"), now)
    return Request(
        now, int(procs), used, ends, jobs, hosts=bool(hosts), kind=kind, reserved=_reserved(data.get("reserved"), jobs)
    )


def _reserved(value: Any, jobs: Jobs) -> int | None:
    """Return the position of the job that has the reservation; None = none has."""
    if value is None:
        return None
    if type(value) not in (str, int) or value not in jobs.id:
        raise Refused(422, "reserved: must be the id of one of the jobs")
    return jobs.id.index(value)


def _jobs(value: Any, now: float) -> Jobs:
    jobs = objects(value, "jobs", MOST_JOBS)
    names = ids(jobs, "jobs")
    if len(set(names)) < len(names):
        raise Refused(422, "jobs: two jobs have the same id")
    submit = numbers(jobs, "submit_time", "jobs[{}].submit_time")
    if len(jobs) and submit.max() > now:
        late = int(submit.argmax())
        raise Refused(422, f"jobs[{late}].submit_time: {submit[late]:g} is after now ({now:g})")
    return Jobs(
        names,
        submit,
        whole_numbers(jobs, "procs", "jobs[{}].procs"),
        numbers(jobs, "req_time", "jobs[{}].req_time", optional=True),
        numbers(jobs, "req_mem", "jobs[{}].req_mem", optional=True),
        labels(jobs, "user"),
        labels(jobs, "group"),
        labels(jobs, "app"),
    )


def objects(value: Any, place: str, most: int) -> list[dict[str, Any]]:
    """Return a field that is a list of objects."""
    if not isinstance(value, list) or not set(map(type, value)) <= {dict}:
        raise Refused(422, f"{place}: must be a list of objects")
    if len(value) > most:
        raise Refused(413, f"{place}: {len(value):,} entries; at most {most:,} are allowed")
    return value


# Fields are checked a column at a time, which is ten times faster than one by one; the faulty row is searched for
# afterwards.


def numbers(rows: Sequence[dict[str, Any]], key: str, place: str, *, optional: bool = False) -> Floats:
    """Return a field of all rows; an optional one may be missing (NaN) and must not be negative."""
    values = [row.get(key) for row in rows]
    allowed = {int, float, type(None)} if optional else {int, float}
    if not set(map(type, values)) <= allowed:  # JSON's true is a bool, which is refused as well
        i = next(i for i, value in enumerate(values) if type(value) not in allowed)
        raise Refused(422, f"{place.format(i)}: must be a number, not {_show(rows[i], key)}")
    try:
        found = np.array(values, dtype=np.float64)
    except OverflowError:  # a whole number that no float can hold
        found = np.array([np.inf if value is not None and abs(value) > _LARGEST else value for value in values], float)
    known = (
        np.array([value is not None for value in values], dtype=bool) if optional else np.ones(len(values), dtype=bool)
    )
    bad = known & ~((np.abs(found) <= _LARGEST) & ((found >= 0) | (not optional)))
    if bad.any():
        i = int(bad.argmax())
        what = "zero or more; leave it out if it is unknown" if optional else "a finite number"
        raise Refused(422, f"{place.format(i)}: must be {what} (up to {_LARGEST:g}), not {_show(rows[i], key)}")
    return found


def whole_numbers(rows: Sequence[dict[str, Any]], key: str, place: str) -> Floats:
    """Return a field of all rows that is a whole number of at least 1."""
    found = numbers(rows, key, place)
    bad = (found < 1) | (found != np.floor(found))
    if bad.any():
        raise Refused(422, f"{place.format(int(bad.argmax()))}: must be a whole number of at least 1")
    return found


def labels(rows: Sequence[dict[str, Any]], key: str, place: str = "jobs") -> list[str | int | None]:
    """Return a label of all rows; None where it is missing."""
    found = [row.get(key) for row in rows]
    if not set(map(type, found)) <= {str, int, type(None)}:
        i = next(i for i, value in enumerate(found) if type(value) not in (str, int, type(None)))
        raise Refused(422, f"{place}[{i}].{key}: must be a string or a whole number")
    return found


def ids(rows: Sequence[dict[str, Any]], place: str) -> list[str | int]:
    """Return the ids of all rows."""
    found = labels(rows, "id", place)
    if None in found:
        raise Refused(422, f"{place}[{found.index(None)}].id: must be a string or a whole number")
    return [name for name in found if name is not None]


def _show(data: dict[str, Any], key: str) -> str:
    """Return a field as it was sent, cut short."""
    if key not in data:
        return "missing"
    text = repr(data[key])
    return text if len(text) <= 40 else text[:40] + "…"
