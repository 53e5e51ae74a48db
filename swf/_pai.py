"""The tables of Alibaba's cluster-trace-gpu-v2020: how to recognise each, and how tasks are summed into jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf import _common, _table
from swf.base import head_lines
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.schema import counts

TABLES = {
    "job": ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    "task": (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
        "gpu_type",
    ),
    "instance": (
        "job_name",
        "task_name",
        "inst_name",
        "worker_name",
        "inst_id",
        "status",
        "start_time",
        "end_time",
        "machine",
    ),
}
WORDS = {"Terminated": "completed", "Failed": "failed"}
SPEC = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
TEXT = ("job_name", "inst_id", "user", "status", "task_name", "gpu_type", "machine")

_HEX, _NUMBER, _STATUS = "[0-9a-f]{6,}", r"(?:-?\d+(?:\.\d*)?)?", "(?:Running|Terminated|Failed|Waiting|Interrupted)"
_SHAPES = {
    "job": re.compile(f"{_HEX},{_HEX},[0-9a-z]*,{_STATUS},{_NUMBER},{_NUMBER}$"),
    "task": re.compile(f"{_HEX},[^,]*,{_NUMBER},{_STATUS}" + f",{_NUMBER}" * 5 + ",[^,]*$"),
    "instance": re.compile(f"{_HEX},[^,]*,{_HEX},[0-9a-z]*,[0-9a-z]*,{_STATUS},{_NUMBER},{_NUMBER},[^,]*$"),
}
_FLOATS = {
    "job": ["start_time", "end_time"],
    "task": ["inst_num", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu"],
}


def kind_of(head: bytes) -> str | None:
    """Return which of the tables a file is, by most of its first rows; some copies have a header row added."""
    lines = [line.strip() for line in head_lines(head, limit=50) if line.strip()]
    for kind, names in TABLES.items():
        rows = lines[1:] if lines and lines[0] == ",".join(names) else lines
        if sum(bool(_SHAPES[kind].match(row)) for row in rows) > len(rows) // 2:
            return kind
    return None


def places(path: Path, kind: str | None) -> dict[str, Path]:
    """Return the paths of the tables: the one given, and the others in the same folder under their published names."""
    found = {table: _common.beside(path, [f"pai_{table}_table.csv"]) for table in TABLES}
    if path.is_file():
        if kind is None:
            raise FormatError(path, "this is not the job, task or instance table of Alibaba PAI")
        found[kind] = path
    if found["task"] is None:
        raise FormatError(path, "pai_task_table.csv, which holds the job sizes, is missing from the folder")
    return {table: place for table, place in found.items() if place is not None}


def jobs(found: dict[str, Path], on_error: str) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per job with our column names, and notes."""
    tasks, remarks = _read(found["task"], "task", on_error)
    names = tasks["job_name"].cat
    if "job" in found:
        table, more = _read(found["job"], "job", on_error)
        remarks += more
        theirs = table["job_name"].cat
        rows = _first(theirs.codes.to_numpy(), np.arange(len(table)), len(theirs.categories))
        row_of_name = np.append(rows, -1)[theirs.categories.get_indexer(names.categories)]
    else:
        remarks.append("no job table: users are unknown, and a job's submit time is the start of its first task")
        table = pd.DataFrame({"job_name": pd.Categorical(names.categories, names.categories)})
        row_of_name = np.arange(len(table))
    owner = np.append(row_of_name, -1)[names.codes.to_numpy()]
    known = owner >= 0
    if not known.all():
        remarks.append(f"{int((~known).sum())} tasks whose job is not in the job table were left out")
        tasks, owner = tasks[known], owner[known]
    made = _added_up(table, tasks, owner)
    if "instance" in found:
        made["alloc_nodes"] = _machines(found["instance"], made["x_job_name"], on_error)
    return made, remarks


def _first(owner: NDArray[Any], values: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return the first value of each of ``n`` owners; −1 for an owner without values. Owners below 0 are ignored."""
    found = np.full(n + 1, -1, dtype=np.int64)
    found[owner[::-1]] = values[::-1]  # earlier values overwrite later ones; owners below 0 go to the end
    return found[:n]


def _read(place: Path, kind: str, on_error: str) -> tuple[pd.DataFrame, list[str]]:
    names = TABLES[kind]
    first = head_lines(head_of(place), limit=1)
    headed = bool(first) and first[0].strip() == ",".join(names)
    frame, remarks = _table.read_delimited(place, on_error=on_error, names=None if headed else names, text=TEXT)
    frame, more = _table.numeric(frame, place, _FLOATS[kind], on_error=on_error)
    return frame, [*remarks, *more]


def _labels(codes: Any, names: Any) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, names)


def _added_up(table: pd.DataFrame, tasks: pd.DataFrame, owner: NDArray[Any]) -> pd.DataFrame:
    n = len(table)

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        known = ~np.isnan(values)
        sums = np.bincount(owner[known], weights=values[known], minlength=n)
        return np.where(np.bincount(owner[known], minlength=n) > 0, sums, np.nan)

    def edge(name: str, how: str) -> NDArray[np.float64]:
        return np.asarray(tasks[name].groupby(owner, sort=False).agg(how).reindex(range(n)), dtype=np.float64)

    instances = tasks["inst_num"].to_numpy()
    procs = total(np.round(tasks["plan_cpu"].to_numpy() * instances, 6)) / 100
    gpus = total(np.round(tasks["plan_gpu"].to_numpy() * instances, 6)) / 100
    with np.errstate(divide="ignore", invalid="ignore"):
        memory = np.where(procs > 0, total(tasks["plan_mem"].to_numpy() * instances) * 1024**2 / procs, np.nan)
    begun, parts = edge("start_time", "min"), total(instances)
    if "start_time" in table.columns:
        submit, ended = table["start_time"].to_numpy(), table["end_time"].to_numpy()
        wait = begun - submit
        status = table["status"]
    else:
        submit, wait, ended = begun, np.full(n, np.nan), edge("end_time", "max")
        codes = _first(owner[::-1], tasks["status"].cat.codes.to_numpy()[::-1], n)
        status = pd.Series(_labels(codes, tasks["status"].cat.categories))
    kinds = tasks["gpu_type"].cat
    stated = kinds.codes.to_numpy() >= 0
    kind = _first(owner[stated], kinds.codes.to_numpy()[stated], n)
    made: dict[str, Any] = {
        "submit_time": submit,
        "wait_time": wait,
        "run_time": ended - begun,
        "req_procs": counts(procs),
        "req_gpus": counts(gpus),
        "req_mem": memory,
        "gpu_type": _labels(kind, kinds.categories),
        "tasks": counts(np.where(parts >= 1, np.round(parts), np.nan)),
        "x_status": status.array,
        "x_job_name": table["job_name"].astype(object).to_numpy(),
        "x_tasks": np.bincount(owner, minlength=n),
        "x_instances": counts(parts),
    }
    if "user" in table.columns:
        made |= {"user": table["user"].array, "x_inst_id": table["inst_id"].astype(object).to_numpy()}
    return pd.DataFrame(made)


def _machines(place: Path, names: pd.Series, on_error: str) -> NDArray[np.float64]:
    """Return the number of different machines that ran the instances of each job; NaN for jobs without instances."""
    table = TABLES["instance"]
    frame, _ = _table.read_delimited(
        place, on_error=on_error, names=table, text=("job_name", "machine"), only=("job_name", "machine")
    )
    pairs = frame.dropna().drop_duplicates()
    per_job = pairs["job_name"].astype(object).value_counts()
    return np.asarray(per_job.reindex(pd.Index(names)), dtype=np.float64)


def machine(path: Path) -> Machine:
    """Return the cluster as pai_machine_spec.csv beside the tables lists it."""
    known = Machine(name="Alibaba PAI", unit="gpus", notes=("dates are fictitious; hours and weekdays hold in UTC+8",))
    place = _common.beside(path, ["pai_machine_spec.csv"])
    if place is None:
        return known
    frame, _ = _table.read_delimited(place, names=SPEC, text=("machine", "gpu_type"))
    frame, _ = _table.numeric(frame, place, ["cap_cpu", "cap_mem", "cap_gpu"])
    named = {"gpu_type": frame["gpu_type"], "gpus": frame["cap_gpu"], "cores": frame["cap_cpu"]}
    groups = _common.host_groups(pd.DataFrame({**named, "memory": frame["cap_mem"] * 1024**2}))
    sizes = {"procs": int(frame["cap_cpu"].sum()), "gpus": int(frame["cap_gpu"].sum())}
    return known.replace(nodes=len(frame), groups=groups, **{unit: size or None for unit, size in sizes.items()})
