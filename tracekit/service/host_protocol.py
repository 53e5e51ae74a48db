"""Requests about hosts: one job or a cycle of jobs, and the vectors of the LSF plugin.

A request (``POST /select_host``, or ``/v1/decide`` with version 1 and kind pick-host)::

    {"hosts": [{"name": "h1", "total_cores": 64, "free_cores": 10, "total_memory": 268435456, "free_memory": 1048576,
                "total_gpus": 0, "free_gpus": 0, "running": [{"cores": 54, "ends": 900}]}],
     "jobs": [{"id": "a", "cores": 4, "memory": 1048576, "gpus": 0, "estimate": 600, "wait": 30}], "now": 100}

``job`` in place of ``jobs`` asks for one. Memory is in KB, times in seconds. Totals default to what is free, memory to
"not limited", GPUs to 0, and what a job does not state to 0 (estimate and wait: unknown).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from tracekit.service.host_choice import Decision, Floats, HostJobs, HostTable
from tracekit.service.protocol import MOST_BYTES, VERSION, Refused, objects

#: Limits of one request, and of the scores that are computed for it.
MOST_HOSTS, MOST_CYCLE, MOST_SCORES = 50_000, 20_000, 20_000_000
_LARGEST = 1e15
_HOST_KEYS = ("total_cores", "free_cores", "total_memory", "free_memory", "total_gpus", "free_gpus")
_JOB_KEYS = ("cores", "memory", "gpus", "estimate", "wait")
_all_of_host, _all_of_job = itemgetter(*_HOST_KEYS), itemgetter(*_JOB_KEYS)
_NUMBERS = {int, float}


def read_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object; `Refused` with 400 if it is not one."""
    if len(body) > MOST_BYTES:
        raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
    try:
        data = json.loads(body.decode())
    except UnicodeDecodeError:
        raise Refused(400, "the request is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Refused(400, f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (RecursionError, ValueError):
        raise Refused(400, "the JSON is nested too deeply or has invalid numbers") from None
    if not isinstance(data, dict):
        raise Refused(400, "the request must be a JSON object")
    return data


def read_hosts(value: Any) -> HostTable:
    """Read the hosts of a request; `Refused` with 422 names the field that is missing or wrong."""
    rows = objects(value, "hosts", MOST_HOSTS)
    if not rows:
        raise Refused(422, "hosts: there must be at least one")
    names: list[Any] = [row.get("name") for row in rows]
    if set(map(type, names)) != {str}:
        wrong = next(i for i, name in enumerate(names) if type(name) is not str)
        raise Refused(422, f"hosts[{wrong}].name: must be a string")
    if len(set(names)) < len(names):
        raise Refused(422, "hosts: two hosts have the same name")
    table = _numbers(rows, "hosts", _HOST_KEYS, _all_of_host, _host_defaults)
    total, free = table[:, ::2].copy(), table[:, 1::2].copy()
    if (over := free > total).any():
        raise Refused(422, f"hosts[{int(over.any(axis=1).argmax())}]: more is free than there is")
    return HostTable(names, free, total, _running(rows))


def _host_defaults(row: dict[str, Any]) -> dict[str, Any]:
    free_memory, free_gpus = row.get("free_memory"), row.get("free_gpus", row.get("total_gpus"))
    known = {
        "free_cores": row.get("free_cores", row.get("total_cores")),
        "free_memory": math.inf if free_memory is None else free_memory,
        "free_gpus": 0 if free_gpus is None else free_gpus,
    }
    totals = {f"total_{key[5:]}": value for key, value in known.items()}
    return totals | known | {key: value for key, value in row.items() if value is not None}


def _running(rows: Sequence[dict[str, Any]]) -> Sequence[Any]:
    """Return the running jobs of each host; empty if none are sent."""
    if not any("running" in row for row in rows):
        return ()
    running = [row.get("running", ()) for row in rows]
    for i, jobs in enumerate(running):
        good = isinstance(jobs, list | tuple) and all(isinstance(job, dict) for job in jobs)
        if not good:
            raise Refused(422, f"hosts[{i}].running: must be a list of objects")
        for key in ("cores", "ends"):
            for job in jobs:
                value = job.get(key)
                if type(value) not in _NUMBERS or not abs(value) <= _LARGEST:
                    raise Refused(422, f"hosts[{i}].running: {key} must be a number")
    return running


def read_jobs(data: dict[str, Any]) -> HostJobs:
    """Read ``job`` or ``jobs`` of a request."""
    if ("job" in data) == ("jobs" in data):
        raise Refused(422, "give either job (an object) or jobs (a list of objects)")
    one = "job" in data
    rows = objects([data["job"]] if one else data["jobs"], "job" if one else "jobs", MOST_CYCLE)
    ids = [row.get("id") for row in rows]
    if not set(map(type, ids)) <= {str, int, type(None)}:
        raise Refused(422, "jobs: an id must be a string or a whole number")
    named = [job for job in ids if job is not None]
    if len(set(named)) < len(named):
        raise Refused(422, "jobs: two jobs have the same id")
    table = _numbers(rows, "jobs", _JOB_KEYS, _all_of_job, _job_defaults)
    return HostJobs(ids, table[:, :3].copy(), table[:, 3], table[:, 4])


def _job_defaults(row: dict[str, Any]) -> dict[str, Any]:
    defaults = {"cores": row.get("cores"), "memory": 0, "gpus": 0, "estimate": math.nan, "wait": math.nan}
    return defaults | {key: value for key, value in row.items() if value is not None}


def _numbers(rows: Sequence[dict[str, Any]], place: str, keys: tuple[str, ...], fast: Any, complete: Any) -> Floats:
    """Return the numbers of all rows, (rows, keys); rows with all keys are read at once, others are completed."""
    if not rows:
        return np.empty((0, len(keys)))
    try:
        values, stated = list(map(fast, rows)), True
    except KeyError:
        values, stated = [fast(complete(row)) for row in rows], False
    if not set(map(type, chain.from_iterable(values))) <= _NUMBERS:
        values, stated = [fast(complete(row)) for row in rows], False
        for i, row in enumerate(values):
            for key, value in zip(keys, row, strict=True):
                if type(value) not in _NUMBERS:
                    raise Refused(422, f"{place}[{i}].{key}: must be a number, not {_show(value)}")
    try:
        table = np.fromiter(chain.from_iterable(values), np.float64, len(keys) * len(rows)).reshape(-1, len(keys))
    except OverflowError:
        raise Refused(422, f"{place}: a number is larger than {_LARGEST:g}") from None
    good = (table >= 0) & (table <= _LARGEST)
    if not good.all():
        _check_values(rows, table, good, place, keys, stated)
    return table


def _check_values(
    rows: Sequence[dict[str, Any]], table: Floats, good: Any, place: str, keys: tuple[str, ...], stated: bool
) -> None:
    """Refuse numbers that are negative, too large or not finite; defaults of fields that were not sent are allowed."""
    for i, k in np.argwhere(~good).tolist():
        sent = stated or rows[i].get(keys[k]) is not None
        if sent:
            raise Refused(422, f"{place}[{i}].{keys[k]}: must be a number from 0 to {_LARGEST:g}, not {table[i, k]:g}")


def _show(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def read_now(data: dict[str, Any]) -> float:
    """Read the time of a request; 0 if it is not sent."""
    now = data.get("now", 0)
    if type(now) not in _NUMBERS or not abs(now) <= _LARGEST:
        raise Refused(422, f"now: must be a number, not {_show(now)}")
    return float(now)


def write_decisions(
    data: dict[str, Any], table: HostTable, jobs: HostJobs, found: Sequence[Decision], name: str
) -> dict[str, Any]:
    """Return the answer: for one job its host, for a cycle one entry per job; scores are in the order of the hosts."""
    one = "job" in data
    scored = data.get("scores", one) is True
    entries = []
    for job, decision in zip(jobs.id, found, strict=True):
        entry: dict[str, Any] = {} if job is None else {"id": job}
        entry["host"] = table.names[decision.host] if decision.host >= 0 else None
        if scored:
            values: list[float | None] = [None] * len(table)
            for row, score in zip(decision.rows.tolist(), decision.scores.tolist(), strict=True):
                values[row] = score
            entry["scores"] = values
        entries.append(entry)
    deferred = sum(decision.host < 0 for decision in found)
    notes = [f"{deferred} jobs fit no host now"] if deferred else []
    head = {"version": VERSION, "kind": "pick-host", "agent": name}
    return head | (entries[0] if one else {"decisions": entries}) | {"notes": notes}


# ---- the vectors of the LSF plugin -----------------------------------------------------------------------------------

#: Layouts: 4h2 has (core use, memory use, cores, memory) per host and (cores, memory) of the job; 2h8 has (free cores,
#: free memory) per host, (cores, memory, duration, deferred) of the job, and four numbers of the queue.
LAYOUTS = ("2h8", "4h2")


def read_vector(value: Any, layout: str | None = None) -> tuple[str, HostTable, HostJobs]:
    """Read ``input_vector``: the layout, hosts and job in shares of the largest.

    A length of 4H+2 is also one of 2H'+8: without ``layout`` it is read as 2h8, which the plugin's last version sends.
    """
    if not isinstance(value, list) or not set(map(type, value)) <= _NUMBERS:
        raise Refused(422, "input_vector: must be a list of numbers")
    if len(value) > 4 * MOST_HOSTS + 2:
        raise Refused(413, f"input_vector: {len(value):,} numbers; at most {4 * MOST_HOSTS + 2:,} are allowed")
    size = len(value)
    possible = [
        name for name in LAYOUTS if (size >= 10 and size % 2 == 0 if name == "2h8" else size >= 6 and size % 4 == 2)
    ]
    chosen = layout or (possible[0] if possible else None)
    if chosen is None or chosen not in possible:
        form = {"2h8": "2H+8", "4h2": "4H+2"}
        wanted = " or ".join(form[name] for name in ([layout] if layout else LAYOUTS))
        raise Refused(422, f"input_vector: has {size} numbers, not {wanted} for H hosts")
    try:
        numbers = np.array(value, np.float64)
    except OverflowError:
        numbers = np.array([math.inf])
    if not (np.abs(numbers) <= _LARGEST).all():
        raise Refused(422, "input_vector: every number must be finite")
    if chosen == "4h2":
        hosts = numbers[:-2].reshape(-1, 4)
        total = np.column_stack([hosts[:, 2:], np.zeros(len(hosts))])
        free, need = total * np.column_stack([1 - hosts[:, :2], np.ones(len(hosts))]), numbers[-2:]
    else:
        hosts = numbers[:-8].reshape(-1, 2)
        free = np.column_stack([hosts, np.zeros(len(hosts))])
        total, need = np.maximum(free, 1.0), numbers[-8:-6]
    job = HostJobs([None], np.append(need, 0.0)[None, :], np.full(1, np.nan), np.full(1, np.nan))
    return chosen, HostTable([str(h) for h in range(len(hosts))], free, total), job


def write_vector(table: HostTable, decision: Decision) -> dict[str, Any]:
    """Return priorities of all hosts from 0 to 1; 0 = no room. The best host comes first when walked down."""
    scores = np.zeros(len(table))
    if len(decision.rows):
        level = np.unique(decision.scores, return_inverse=True)[1]
        scores[decision.rows] = (level + 1) / (level.max() + 1)
    return {"scores": [round(score, 6) for score in scores.tolist()]}
