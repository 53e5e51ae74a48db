"""slurm-json: what ``sacct --json`` and ``squeue --json`` print.

The names are those of Slurm's REST interface, and change between versions: numbers may be plain (22.05) or objects
``{"set": …, "infinite": …, "number": …}`` (from 23.02 on), states texts or lists of texts, and fields move. Each column
is taken from the first place that has it; a value of a kind that is not known is left out, counted and named.

| sacct --json | squeue --json | our column | unit, remark |
|---|---|---|---|
| job_id | job_id | job_id | |
| array.job_id, array.task_id | array_job_id, array_task_id | x_jobid | ``123_4`` for a task of an array |
| time.submission | submit_time | submit_time | Unix seconds |
| time.start | start_time | wait_time | seconds; unknown for jobs that have not started |
| time.elapsed | end_time − start_time | run_time | seconds; unknown for jobs that have not ended |
| time.limit | time_limit | req_time | minutes there |
| required.CPUs | cpus | req_procs | else tres.requested |
| tres.allocated, allocation_nodes | tres_alloc_str, node_count | alloc_procs, alloc_nodes, alloc_gpus | |
| tres.requested | tres_req_str | req_nodes, req_gpus, gpu_type, req_mem | KB per processor |
| steps: time.total | | cpu_time | seconds, mean per allocated processor |
| steps: tres.requested.max mem × tasks.count | | used_mem | KB per processor, of the largest step |
| steps: statistics.energy.consumed | | mean_watts | J of the largest step ÷ run_time |
| state.current | job_state | status, x_status | as sacct |
| user, group, account, partition, name | user_name, group_name … | user, group, project, partition, app | labels |
| cluster | cluster | the machine's name | kept as x_cluster where there are several |
| qos, nodes | qos, nodes | x_qos, x_nodelist | kept as text |
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf import _slurm_jobs
from swf._notation import Damage
from swf._slurm import OPEN_STATES, state_word
from tracekit.errors import FormatError
from tracekit.files import opened, text_of
from tracekit.trace import Trace

#: Sacct's name of a column, and where it is found: paths of keys, the first one that is there counts.
_NUMBERS = {
    "jobid": ("job_id",),
    "submit": ("time.submission", "submit_time"),
    "start": ("time.start", "start_time"),
    "end": ("time.end", "end_time"),
    "elapsedraw": ("time.elapsed",),
    "timelimitraw": ("time.limit", "time_limit"),
    "reqcpus": ("required.CPUs", "cpus"),
    "nnodes": ("allocation_nodes", "node_count"),
    "array": ("array.job_id", "array_job_id"),
    "task": ("array.task_id", "array_task_id"),
}
_TEXTS = {
    "state": ("state.current", "job_state"),
    "user": ("user", "association.user", "user_name"),
    "group": ("group", "group_name"),
    "account": ("account",),
    "partition": ("partition",),
    "jobname": ("name",),
    "cluster": ("cluster",),
    "qos": ("qos",),
    "nodelist": ("nodes",),
    "reqtres": ("tres.requested", "tres_req_str"),
    "alloctres": ("tres.allocated", "tres_alloc_str"),
}
_ABSENT = object()
_MOST_DIGITS = 300


class SlurmJson:
    """Reader of the JSON of Slurm's commands."""

    name: ClassVar[str] = "slurm-json"
    title: ClassVar[str] = "Slurm's JSON: the output of sacct --json or squeue --json"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept an object with a list of jobs, and Slurm's names of a job or of itself."""
        text = text_of(head)
        if not text.lstrip("\ufeff \t\r\n").startswith("{") or not re.search(r'"jobs"\s*:\s*\[', text):
            return False
        names = ('"job_state"', '"allocation_nodes"', '"association"')
        of_job = '"job_id"' in text and any(name in text for name in names)
        return of_job or re.search(r'"slurm"\s*:\s*\{', text, re.IGNORECASE) is not None

    def read(self, path: Path, /, *, on_error: str = "stop") -> Trace:
        """Read the jobs."""
        with opened(path) as source:
            data = source.read().removeprefix(b"\xef\xbb\xbf")
        return read_jobs(data, path, on_error)


def read_jobs(data: bytes, path: Path, on_error: str) -> Trace:
    """Read the text of a listing."""
    try:
        listed = json.loads(text_of(data), parse_int=_whole)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"not JSON: {error.msg}", line=error.lineno) from None
    except RecursionError:
        raise FormatError(path, "the JSON is nested too deeply") from None
    jobs = listed.get("jobs") if isinstance(listed, dict) else None
    if not isinstance(jobs, list):
        raise FormatError(path, "is JSON without a list of jobs; 'sacct --json' and 'squeue --json' write one")
    if not jobs:
        raise FormatError(path, "contains no jobs")
    damage, strange, skipped = Damage(path, on_error), Counter[str](), 0
    rows, places = [], []
    for place, job in enumerate(jobs, 1):
        row = _row(job, strange) if isinstance(job, dict) else {}
        if not row.get("jobid", "").isdecimal() or not row.get("submit"):
            if on_error != "skip":
                problem = f"job {place} of the list has no job_id or no submit time"
                raise FormatError(path, problem, hint="convert --on-error skip leaves such jobs out")
            skipped += 1
        else:
            rows.append(row)
            places.append(place)
    if not rows:
        raise FormatError(path, "none of its jobs could be read")
    table = pd.DataFrame(rows, dtype=object)
    table["job_id"] = table["jobid"].map(int).to_numpy(dtype=np.int64)
    for name in ("used_kb", "joules"):
        if name in table:
            table[name] = table[name].astype(np.float64)
    clusters = {name for name in table.get("cluster", []) if isinstance(name, str) and name}
    if len(clusters) > 1:
        table["x_cluster"] = table["cluster"]
    cluster = clusters.pop() if len(clusters) == 1 else ""
    trace = _slurm_jobs.to_trace(table, np.array(places, np.int64), damage, timezone=None, cluster=cluster)
    if skipped:
        trace = trace.replace(step=f"skipped {skipped:,} jobs without job_id or submit time")
    for what, count in strange.items():
        trace = trace.replace(step=f"{what}: not understood in {count:,} jobs, left out")
    return trace


def _row(job: dict[str, Any], strange: Counter[str]) -> dict[str, Any]:
    """Return one job as texts by sacct's names."""
    row: dict[str, Any] = {}
    for name, places in (*_NUMBERS.items(), *_TEXTS.items()):
        value = next((found for place in places if (found := _at(job, place)) is not _ABSENT), None)
        try:
            row[name] = _number(value) if name in _NUMBERS else _text(value)
        except ValueError:
            strange[next(place for place in places if _at(job, place) is not _ABSENT)] += 1
            row[name] = ""
    array, task = row.pop("array"), row.pop("task")
    if task and array not in ("", "0"):
        row["x_jobid"] = f"{array}_{task}"
    if row["timelimitraw"] == "0":
        row["timelimitraw"] = ""
    still_open = state_word(row["state"]) in OPEN_STATES
    if row["start"] == "0" or (still_open and state_word(row["state"]) == "PENDING"):
        row["start"] = row["alloctres"] = ""  # a start to come is a forecast
    if still_open or row["end"] == "0":
        row["end"] = ""
    if not row["elapsedraw"] and row["start"] and row["end"]:
        row["elapsedraw"] = f"{max(float(row['end']) - float(row['start']), 0.0):g}"
    return row | _steps(job.get("steps"), strange)


def _steps(steps: Any, strange: Counter[str]) -> dict[str, Any]:
    """Return what the steps of a job used: processor time of all, memory and energy of the largest."""
    if not isinstance(steps, list) or not steps:
        return {}
    cpu, memory, energy, found = 0.0, np.nan, np.nan, {}
    try:
        for step in steps:
            spent = _at(step, "time.total")
            if isinstance(spent, dict):
                cpu += float(_number(spent.get("seconds")) or 0) + float(_number(spent.get("microseconds")) or 0) / 1e6
            tasks = float(_number(_of(step, "tasks.count")) or 1)
            for one in _of(step, "tres.requested.max") or []:
                if one.get("type") == "mem" and (count := float(_number(one.get("count")) or 0)) > 0:
                    memory = np.fmax(memory, count * tasks / 1024)
            joules = float(_number(_of(step, "statistics.energy.consumed")) or 0)
            energy = np.fmax(energy, joules if 0 < joules < 2.0**63 else np.nan)
    except (ValueError, TypeError, AttributeError):
        strange["steps"] += 1
        return {}
    found["totalcpu"] = f"{cpu:.6f}" if cpu > 0 else ""
    return found | {"used_kb": memory, "joules": energy}


def _whole(digits: str) -> int | float:
    """Return a whole number; one that no computer counts to as a float, which may be infinite."""
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _at(job: Any, place: str) -> Any:
    """Return what is at a path of keys, or `_ABSENT`."""
    for key in place.split("."):
        if not isinstance(job, dict) or key not in job:
            return _ABSENT
        job = job[key]
    return job


def _of(job: Any, place: str) -> Any:
    found = _at(job, place)
    return None if found is _ABSENT else found


def _number(value: Any) -> str:
    """Return a number as text, '' if it is not set; ValueError if it is something else.

    >>> _number(5), _number({"set": True, "infinite": False, "number": 7}), _number({"set": False, "number": 0})
    ('5', '7', '')
    """
    if isinstance(value, dict):
        if "number" not in value:
            raise ValueError(value)
        value = value["number"] if value.get("set", True) and not value.get("infinite") else None
    if value is None or (isinstance(value, str) and not value):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)
    number = float(value)
    if not np.isfinite(number) or number < 0:
        raise ValueError(value)
    return f"{number:.15g}"


def _text(value: Any) -> str:
    """Return a text; the first of a list of states; a list of resources as ``cpu=8,node=1``.

    >>> _text("x"), _text(["COMPLETED"]), _text([{"type": "gres", "name": "gpu:a100", "count": 2}]), _text(None)
    ('x', 'COMPLETED', 'gres/gpu:a100=2', '')
    """
    if isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return value[0] if value else ""
        return ",".join(_resource(one) for one in value)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _resource(one: Any) -> str:
    if not isinstance(one, dict) or not isinstance(one.get("type"), str):
        raise ValueError(one)
    name = f"{one['type']}/{one['name']}" if one.get("name") else one["type"]
    return f"{name}={_number(one.get('count')) or 0}" + ("M" if one["type"] == "mem" else "")
