"""Snapshots as text: JSON of our own, and what Slurm's squeue says of a machine.

Two kinds of squeue output are read::

    squeue --all --json
    squeue --all --noheader --format='%i|%t|%C|%V|%l|%u|%e'

The columns of the second are job, state, processors, submit time, limit, user and expected end. Sizes are processors.
Jobs that hold processors run, also while they are set up or cleaned away; a limit or end that Slurm does not name is
unknown. JSON also says which pending jobs may not start yet (held, waiting for another job or for their time): they are
left out and counted. A pending job array is one entry in squeue's listing, and one job here.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np

from tracekit.errors import FormatError, TracekitError
from tracekit.machine import UNITS
from tracekit.sim.snapshot import RunningJobs, Snapshot, WaitingJobs

VERSION = 1

# ---- JSON ------------------------------------------------------------------------------------------------------------

_LABELS: dict[str, tuple[type, ...]] = {
    "id": (str, int),
    "where": (str, type(None)),
    **dict.fromkeys(("user", "group", "app", "project"), (str, int, type(None))),
}


def _plain(columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns as JSON holds them: null = unknown."""
    floats = {name: v.tolist() for name, v in columns.items() if isinstance(v, np.ndarray)}
    others = {name: None if v is None else list(v) for name, v in columns.items() if name not in floats}
    return others | {name: [None if math.isnan(v) else v for v in values] for name, values in floats.items()}


def write_json(snapshot: Snapshot) -> str:
    """Return a snapshot as one JSON object, column by column."""
    parts = {name: _plain(dataclasses.asdict(getattr(snapshot, name))) for name in ("running", "waiting")}
    facts = {"version": VERSION, "clock": snapshot.clock, "total": snapshot.total, "unit": snapshot.unit}
    return json.dumps(facts | parts | {"notes": dict(snapshot.notes)}, allow_nan=False)


def read_json(text: str) -> Snapshot:
    """Read what `write_json` wrote; `FormatError` names the field that is missing or wrong."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError("snapshot", f"not JSON: {error.msg}", line=error.lineno) from None
    except (RecursionError, ValueError, TypeError):
        raise FormatError("snapshot", "the JSON is nested too deeply or has invalid numbers") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise FormatError("snapshot", f"is not a JSON object of version {VERSION} as written by Snapshot.to_json")
    clock: Any = data.get("clock")
    total, notes = data.get("total"), data.get("notes", {})
    if type(clock) not in (int, float) or not math.isfinite(clock):
        raise FormatError("snapshot", f"clock: must be a number of seconds, not {clock!r}")
    if type(total) is not int or total < 1:
        raise FormatError("snapshot", f"total: must be a whole number from 1, not {total!r}")
    if data.get("unit") not in UNITS:
        raise FormatError("snapshot", f"unit: must be {' or '.join(UNITS)}, not {data.get('unit')!r}")
    if not isinstance(notes, dict) or not all(type(count) is int for count in notes.values()):
        raise FormatError("snapshot", "notes: must be an object of counts")
    running = RunningJobs(**_part(data, "running", RunningJobs, float(clock)))
    waiting = WaitingJobs(**_part(data, "waiting", WaitingJobs, float(clock)))
    return Snapshot(float(clock), total, running, waiting, data["unit"], notes)


def _part(data: dict[str, Any], part: str, kind: type, clock: float) -> dict[str, Any]:
    """Return the columns of the running or of the waiting jobs, checked."""
    columns = data.get(part)
    if not isinstance(columns, dict) or not isinstance(columns.get("id"), list):
        raise FormatError("snapshot", f"{part}: must be an object of lists, with ids")
    found: dict[str, Any] = {}
    for column in dataclasses.fields(kind):
        name, place = column.name, f"{part}.{column.name}"
        values = columns.get(name)
        if values is None and column.default is None:
            continue
        if not isinstance(values, list) or len(values) != len(columns["id"]):
            raise FormatError("snapshot", f"{place}: must be a list of {len(columns['id'])} values, one per job")
        allowed = _LABELS.get(name, (int, float, type(None)))
        for i, value in enumerate(values):
            if type(value) not in allowed or (name in ("size", "submit") and value is None):
                raise FormatError("snapshot", f"{place}[{i}]: cannot be {value!r}")
        found[name] = values if name in _LABELS else np.array(values, dtype=np.float64)
    for name, values in found.items():
        if name not in _LABELS:
            latest = clock if name in ("start", "submit") else np.inf
            least = -np.inf if name in ("start", "submit") else 0.0
            wrong = np.isinf(values) | (values < least) | (values > latest) | ((name == "size") & (values == 0))
            if wrong.any():
                i = int(wrong.argmax())
                raise FormatError("snapshot", f"{part}.{name}[{i}]: cannot be {values[i]:g} (at {clock:g} s)")
    return found


# ---- squeue ----------------------------------------------------------------------------------------------------------

#: States in which a job holds its processors; suspended jobs have given them back.
_HOLDING = {"RUNNING", "CONFIGURING", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"}
_SHORT = {"R": "RUNNING", "CF": "CONFIGURING", "CG": "COMPLETING", "SI": "SIGNALING", "SO": "STAGE_OUT"}
_SHORT |= {"ST": "STOPPED", "RS": "RESIZING", "PD": "PENDING", "S": "SUSPENDED"}


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One job of the listing; times in Unix seconds, NaN or None = unknown."""

    id: str | int
    state: str
    size: float
    submit: float
    limit: float
    start: float = math.nan
    end: float = math.nan
    where: str | None = None
    req_mem: float = math.nan  # KB per processor
    user: str | None = None
    group: str | None = None
    app: str | None = None
    eligible: float = -math.inf  # may start from then on
    tasks: int = 1  # of a pending array


def read_squeue(text: str, procs: int, now: float | None = None) -> Snapshot:
    """Read the output of squeue, either kind, for a machine with ``procs`` processors.

    ``now`` is the time of the listing in Unix seconds. Without it JSON counts as made at the latest moment it
    mentions, and a table as made this moment. Times of a table are on this computer's clock.
    """
    if procs < 1:
        raise TracekitError(f"a machine needs at least one processor, not {procs}")
    if text.lstrip()[:1] in ("{", "["):
        entries, latest = _from_json(text)
        clock = latest if now is None else now
    else:
        entries = [_entry(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        clock = time.time() if now is None else now
    clock = float(clock)
    running = [entry for entry in entries if entry.state in _HOLDING]
    pending = [entry for entry in entries if entry.state == "PENDING"]
    waiting = [entry for entry in pending if entry.eligible <= clock]
    notes = Counter(entry.state.lower() for entry in entries if entry.state not in (*_HOLDING, "PENDING"))
    notes["pending, but may not start yet"] = len(pending) - len(waiting)
    notes["more tasks of pending arrays"] = sum(entry.tasks - 1 for entry in waiting)
    held = sum(entry.size for entry in running)
    if held > procs:
        raise TracekitError(f"squeue: running jobs use {held:,.0f} of {procs:,} processors; check the machine's size")
    times = np.array([_start_and_estimate(entry, clock) for entry in running], np.float64).reshape(-1, 2)
    waiting.sort(key=lambda entry: entry.submit)
    return Snapshot(
        clock,
        int(procs),
        RunningJobs(
            [entry.id for entry in running],
            times[:, 0],
            times[:, 1],
            _column(running, "size"),
            [entry.where for entry in running],
        ),
        WaitingJobs(
            [entry.id for entry in waiting],
            np.minimum(_column(waiting, "submit"), clock),
            _column(waiting, "limit"),
            _column(waiting, "size"),
            _column(waiting, "req_mem"),
            [entry.user for entry in waiting],
            [entry.group for entry in waiting],
            [entry.app for entry in waiting],
        ),
        notes={reason: count for reason, count in notes.items() if count},
    )


def _start_and_estimate(entry: _Entry, clock: float) -> tuple[float, float]:
    """Return when a job started, and how long it runs by its limit: from then, or from now if that is unknown."""
    start = min(entry.start, clock) if entry.start > 0 else math.nan
    begin = clock if math.isnan(start) else start
    if entry.state == "COMPLETING":
        return start, clock - begin
    return start, max(entry.end - clock, 0.0) if math.isnan(start) and entry.end > 0 else entry.limit


def _column(entries: list[_Entry], name: str) -> Any:
    return np.array([getattr(entry, name) for entry in entries], dtype=np.float64)


def limit_seconds(text: str) -> float:
    """Read Slurm's [days-][[hours:]minutes:]seconds; UNLIMITED, INVALID and similar words are unknown.

    >>> limit_seconds("1-00:00:00"), limit_seconds("10:00"), limit_seconds("UNLIMITED")
    (86400.0, 600.0, nan)
    """
    found = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", text.strip())
    if not found:
        return math.nan
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return 86400.0 * days + 3600 * hours + 60 * minutes + rest


def _entry(line: str, number: int) -> _Entry:
    """Read a line of the table."""
    words = [word.strip() for word in line.split("|")]
    if len(words) != 7:
        problem = f"has {len(words)} columns, not the 7 of --format='%i|%t|%C|%V|%l|%u|%e'"
        raise FormatError("squeue", problem, line=number)
    job, state, size, submit, limit, user, end = words
    try:
        asked, ends = limit_seconds(limit), _moment(end)
        return _Entry(
            id=int(job) if job.isascii() and job.isdigit() else job,
            state=_SHORT.get(state, state),
            size=_size(size),
            submit=datetime.fromisoformat(submit).timestamp(),
            limit=asked,
            start=ends - asked if _SHORT.get(state) in _HOLDING else math.nan,
            end=ends,
            user=user or None,
            tasks=_tasks(job.partition("_[")[2].rstrip("]")),
        )
    except ValueError as error:
        raise FormatError("squeue", str(error), line=number) from None


def _size(text: Any) -> float:
    """Read a number of processors."""
    size = float(text)
    if not (math.isfinite(size) and size >= 1):
        raise ValueError(f"a job needs at least one processor, not {text}")
    return size


def _moment(text: str) -> float:
    return math.nan if text in ("N/A", "NONE", "Unknown", "") else datetime.fromisoformat(text).timestamp()


def _tasks(text: str) -> int:
    """Return how many tasks a text such as ``3-7,9%2`` or ``0-8:4`` means; 1 if it is cut short or empty."""
    count = 0
    for part in text.partition("%")[0].split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if not found:
            return max(count, 1)
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        count += len(range(first, last + 1, max(step, 1)))
    return max(count, 1)


def _from_json(text: str) -> tuple[list[_Entry], float]:
    """Read the jobs, and the latest moment that is mentioned."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError("squeue", f"not JSON: {error.msg}", line=error.lineno) from None
    jobs = data.get("jobs") if isinstance(data, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise FormatError("squeue", "is JSON without a list of jobs; 'squeue --json' writes one")
    past = [number for job in jobs for number in _past(job)]
    stated = _number(data.get("last_update"))
    latest = stated if stated > 0 else max(past, default=0.0)
    found = []
    for i, job in enumerate(jobs):
        try:
            found.append(_job(job))
        except (KeyError, TypeError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise FormatError("squeue", f"job {job.get('job_id', i)}: {what}") from None
    return found, latest


def _past(job: dict[str, Any]) -> list[float]:
    """Return the moments of a job that have been: those of a pending job's plan have not."""
    state = _state(job)
    names = ["submit_time", "last_sched_evaluation"] + (["start_time"] if state != "PENDING" else [])
    names += ["end_time"] if state not in _HOLDING and state not in ("PENDING", "SUSPENDED") else []
    return [number for name in names if (number := _number(job.get(name))) > 0]


def _number(value: Any) -> float:
    """Return a number of Slurm's, which newer versions write as {set, infinite, number}; NaN = none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _state(job: dict[str, Any]) -> str:
    """Return the state in one word; newer versions write a list, COMPLETING beside what became of the job."""
    states = job["job_state"] if isinstance(job.get("job_state"), list) else [job.get("job_state")]
    return "COMPLETING" if "COMPLETING" in states else str(states[0] if states else None)


def _job(job: dict[str, Any]) -> _Entry:
    """Read one job of the JSON; limits are in minutes there, memory in MB."""
    size, state = _size(_number(job["cpus"])), _state(job)
    nodes, eligible = _number(job.get("node_count")), _number(job.get("eligible_time"))
    memory = _number(job.get("memory_per_cpu")), _number(job.get("memory_per_node")) * nodes / size
    submit, limit = _number(job["submit_time"]), _number(job.get("time_limit")) * 60.0
    if not submit > 0:
        raise ValueError("has no submit time")
    return _Entry(
        id=job["job_id"],
        state=state,
        size=size,
        submit=submit,
        limit=limit if limit > 0 else math.nan,
        start=_number(job.get("start_time")),
        end=_number(job.get("end_time")),
        where=str(job.get("nodes") or "") or None,
        req_mem=1024 * next((value for value in memory if value > 0), math.nan),
        user=job.get("user_name") or None,
        group=job.get("group_name") or None,
        app=job.get("name") or None,
        eligible=eligible if eligible > 0 else math.inf if eligible == 0 else -math.inf,  # 0: unknown
        tasks=_tasks(job.get("array_task_string") or ""),
    )
