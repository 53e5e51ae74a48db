"""batsim: workloads of the Batsim simulator (JSON), and its results ``jobs.csv`` as a schedule.

| workload JSON | our column | unit, remark |
|---|---|---|
| id | job_id | ``w0!1`` counts as 1; numbered from 1, and kept as x_job_id, where the numbers are not distinct |
| subtime | submit_time | seconds |
| walltime | req_time | seconds; −1 or absent is unknown |
| res | req_procs | |
| profile of type delay | run_time | its delay, seconds |
| any other profile | x_profile | its type; the run time is unknown, it depends on Batsim's platform |
| user, group, app, queue, partition, project | the same | labels that tracekit writes beside Batsim's own keys |
| any other key of a job | x_<key> | kept |
| nb_res | the machine's processors | |

| jobs.csv | our column | unit, remark |
|---|---|---|
| job_id, submission_time, requested_time, requested_number_of_resources | as above | |
| waiting_time, execution_time | wait_time, run_time | seconds |
| allocated_resources | alloc_procs | counted: ``0-3 7`` is 5 |
| final_state, else success | status, x_status | WALLTIME_REACHED timeout, KILLED and REJECTED cancelled |
| consumed_energy ÷ execution_time | mean_watts | J and s; −1 is unknown |
| profile, workload_name, starting_time, consumed_energy and any other | x_<name> | kept |

There is no calendar. Lost on writing: the calendar (submit times then count from the first job), waits, memory, status
and all else that is not named above; jobs of unknown run time, or of unknown or fractional size, are left out.
Format: https://batsim.readthedocs.io (input workload, output schedule).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf import _table
from swf._common import lost, statuses_of, watts_of
from swf._notation import as_labels, on_unique, shown
from swf._texts import check_text, table_of
from swf._written import not_positive
from tracekit.errors import FormatError, SchemaError, TracekitError
from tracekit.files import opened
from tracekit.machine import Machine
from tracekit.provenance import mark_in, synthetic_mark
from tracekit.schema import counts, to_numeric
from tracekit.trace import Trace

LABELS = ("user", "group", "app", "queue", "partition", "project")
STATES = {
    "COMPLETED_SUCCESSFULLY": "completed",
    "COMPLETED_FAILED": "failed",
    "COMPLETED_WALLTIME_REACHED": "timeout",
    "COMPLETED_KILLED": "cancelled",
    "REJECTED": "cancelled",
}
RESULT = {
    "submit_time": "submission_time",
    "req_time": "requested_time",
    "req_procs": "requested_number_of_resources",
    "wait_time": "waiting_time",
    "run_time": "execution_time",
}


class Batsim:
    """Reader and writer of workloads, reader of results."""

    name: ClassVar[str] = "batsim"
    title: ClassVar[str] = "Batsim workloads (JSON), and its results jobs.csv as a schedule"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a JSON object of jobs with Batsim's keys, or the header row of its results."""
        if head.lstrip()[:1] == b"{":
            keys = (b'"subtime"', b'"profile"') if b'"subtime"' in head else (b'"nb_res"', b'"profiles"')
            return b'"jobs"' in head and all(key in head for key in keys)
        return {"job_id", *RESULT.values()} <= set(_table.header_cells(head))

    def read(self, path: Path, /, *, on_error: str = "stop") -> Trace:
        """Read a workload or a schedule."""
        with opened(path) as source:
            data = source.read()
        return _schedule(path, on_error) if data.lstrip()[:1] != b"{" else _workload(data, path, on_error)

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write delay profiles, one for each run time."""
        submit, run, size = trace.column("submit_time"), trace.column("run_time"), trace.sizes()
        fits = np.isfinite(submit) & (run >= 0) & np.isfinite(run) & (size > 0) & (size == np.floor(size))
        limit, ids = trace.column("req_time"), trace.jobs["job_id"].to_numpy()
        dated = trace.machine.epoch is not None
        zero = float(submit[fits].min()) if fits.any() and (dated or submit[fits].min() < 0) else 0.0
        texts = {name: trace.jobs[name].astype(object) for name in LABELS if trace.has(name)}
        jobs = []
        for row in np.flatnonzero(fits).tolist():
            job: dict[str, Any] = {"id": str(ids[row]), "subtime": _short(round(submit[row] - zero, 6))}
            if limit[row] > 0:
                job["walltime"] = _short(limit[row])
            job |= {"res": int(size[row]), "profile": f"d{_short(run[row])}"}
            job |= {name: values[row] for name, values in texts.items() if isinstance(values[row], str)}
            jobs.append(job)
        delays = np.unique(run[fits])
        left = int((~fits).sum())
        held = {"job_id", "submit_time", "req_time", "run_time", "req_procs", "alloc_procs", *LABELS}
        gone = lost(trace, held, machine="all of the machine except its size", calendar=False)
        gone += not_positive(trace, ("req_time",))
        gone += [f"{left} jobs without a run time or a whole size"] if left else []
        if not fits.any():
            raise TracekitError("nothing to write for Batsim: no job has submit time, run time and a whole size")
        largest = int(size[fits].max())
        mark = synthetic_mark(trace)  # a synthetic trace must say so wherever a file can
        about = f"{trace.machine.name or 'trace'}, written by tracekit; not kept: {'; '.join(gone)}"
        workload = {
            "description": f"{mark}; {about}" if mark else about,
            "nb_res": trace.machine.size() or largest,
            "jobs": jobs,
            "profiles": {f"d{_short(delay)}": {"type": "delay", "delay": _short(delay)} for delay in delays.tolist()},
        }
        out.write(json.dumps(workload, indent=1, ensure_ascii=False).encode() + b"\n")
        return gone


def _short(value: float) -> int | float:
    """Return a whole number without its decimal point."""
    return int(value) if float(value).is_integer() else float(value)


def _workload(data: bytes, path: Path, on_error: str) -> Trace:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not valid JSON: {shown(error)}") from None
    check_text(data, content, path)
    jobs, profiles = (content.get(key) for key in ("jobs", "profiles"))
    if not isinstance(jobs, list) or not isinstance(profiles, dict):
        raise FormatError(path, 'a Batsim workload needs a list "jobs" and an object "profiles"')
    rows, bad = [], []
    for position, job in enumerate(jobs, 1):
        problem = _problem(job, profiles)
        if not problem:
            rows.append(job)
        elif on_error != "skip":
            raise FormatError(path, f"job {position}: {problem}", hint="convert --on-error skip leaves such jobs out")
        else:
            bad.append(f"job {position}: {problem}")
    if not rows:
        raise FormatError(path, "contains no jobs")
    table = table_of(rows, path)
    kinds = [profiles[str(name)] for name in table["profile"]]
    delay = [_number(kind.get("delay")) if kind.get("type") == "delay" else np.nan for kind in kinds]
    walltime = np.array([_number(job.get("walltime")) for job in rows])
    made: dict[str, Any] = {
        "submit_time": np.array([float(job["subtime"]) for job in rows]),
        "run_time": np.array(delay),
        "req_time": np.where(walltime >= 0, walltime, np.nan),
        "req_procs": counts(np.array([float(job["res"]) for job in rows])),
        **{name: as_labels(table[name]) for name in LABELS if name in table},
    }
    if np.isnan(delay).any():
        made["x_profile"] = [str(kind.get("type")) for kind in kinds]
    own = {"id", "subtime", "walltime", "res", "profile", *LABELS}
    for key in map(str, table.columns):
        if key not in own:
            made["x_" + re.sub(r"\W+", "_", key)] = [_plain(value) for value in table[key]]
    made |= _ids(table["id"])
    size = content.get("nb_res")
    procs = size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**63 else None
    remarks = [f"skipped {len(bad)} damaged jobs ({bad[0]})"] if bad else []
    mark = mark_in([str(content.get("description", ""))])
    try:
        return Trace(pd.DataFrame(made), Machine(procs=procs), (*([mark] if mark else []), *remarks))
    except SchemaError as error:
        raise FormatError(path, str(error)) from None


def _problem(job: Any, profiles: dict[str, Any]) -> str:
    """Return what is wrong with one job, or an empty text."""
    if not isinstance(job, dict):
        return "is not an object"
    for key in ("id", "subtime", "res", "profile"):
        if key not in job:
            return f'has no "{key}"'
    if not isinstance(profiles.get(str(job["profile"])), dict):
        return f"its profile '{shown(job['profile'])}' is not in \"profiles\""
    wrong = [key for key in ("subtime", "res") if np.isnan(_number(job[key]))]
    return f'its "{wrong[0]}" is not a number' if wrong else ""


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or value != value:
        return float("nan")
    return float(value)


def _plain(value: Any) -> Any:
    """Return a value that a column can hold; anything but texts and numbers as JSON."""
    if isinstance(value, int) and abs(value) >= 2**63:
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def _ids(values: pd.Series) -> dict[str, Any]:
    """Return job numbers: those of the file if they are distinct."""
    found, _ = on_unique(values.map(str), lambda text: float(int(text.rpartition("!")[2])))
    if np.isnan(found).any() or len(np.unique(found)) < len(found) or (np.abs(found) >= 2.0**53).any():
        return {"job_id": np.arange(1, len(values) + 1), "x_job_id": values.map(str)}
    return {"job_id": found.astype(np.int64)}


def _schedule(path: Path, on_error: str) -> Trace:
    frame, remarks = _table.read_delimited(path, on_error=on_error, text=["job_id", "allocated_resources"])
    absent = [name for name in ("job_id", *RESULT.values()) if name not in frame.columns]
    if absent:
        raise FormatError(path, f"missing column {', '.join(absent)}; this is not a jobs.csv of Batsim")
    numbers = _ids(frame.pop("job_id"))
    trace = _table.to_trace(frame, path, mapping=RESULT, on_error=on_error, remarks=remarks, dates=False)
    kept = trace.jobs.index if len(trace) == len(frame) else None
    changed: dict[str, Any] = numbers if kept is not None else {}
    if "x_allocated_resources" in trace.jobs:
        found, _ = on_unique(trace.jobs["x_allocated_resources"], _resources)
        changed["alloc_procs"] = counts(found)
    if "x_consumed_energy" in trace.jobs:
        energy = to_numeric(trace.jobs["x_consumed_energy"]).to_numpy(dtype=np.float64, na_value=np.nan)
        changed["mean_watts"] = watts_of(energy, trace.column("run_time"))
    limit = trace.column("req_time")
    changed["req_time"] = np.where(limit >= 0, limit, np.nan)
    if "x_final_state" in trace.jobs:
        changed["status"] = statuses_of(trace.jobs["x_final_state"], STATES)
        changed["x_status"] = trace.jobs["x_final_state"]
    elif "x_success" in trace.jobs:
        changed["status"] = statuses_of(trace.jobs["x_success"].astype(str), {"1": "completed", "0": "failed"})
    return trace.assign(changed)


def _resources(text: str) -> float:
    """Count ``0-3 7``; an empty text is unknown.

    >>> _resources("0-3 7")
    5.0
    """
    total = 0
    for part in re.split(r"[\s,]+", text.strip()):
        low, dash, high = part.partition("-")
        total += int(high) - int(low) + 1 if dash else bool(int(low) >= 0)
    return float(total) if total else float("nan")
