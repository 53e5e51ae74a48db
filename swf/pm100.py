"""pm100: the job table of PM100, CINECA's Marconi100 (Parquet), after its published list of columns.

| their column | our column | unit, remark |
|---|---|---|
| job_id, user_id, group_id | job_id, user, group | |
| submit_time | submit_time | timestamp; Unix seconds |
| start_time | wait_time | start_time − submit_time |
| run_time | run_time | seconds |
| time_limit | req_time | MINUTES in the owners' description; INFINITE is unknown |
| num_cores_req, num_cores_alloc | req_procs, alloc_procs | |
| num_nodes_req, num_nodes_alloc | req_nodes, alloc_nodes | |
| num_gpus_req, num_gpus_alloc | req_gpus, alloc_gpus | |
| job_state | status, x_status | Slurm's words |
| partition | partition | |
| mem_req, mem_alloc | x_mem_req, x_mem_alloc | kept as they are: the description gives no unit |
| node_power_consumption, else power_consumption | mean_watts | list of watts of the whole job, one every 20 s; W |
| the same | x_peak_watts, x_energy | the largest sample (W); sum of the samples × 20 s (J) |
| cpu_power_consumption, mem_power_consumption | x_cpu_mean_watts, x_cpu_peak_watts, x_cpu_energy … | as above |
| qos, priority, shared, cores_per_task, num_tasks and any other | x_<name> | kept |

Lost: other columns that hold lists (nodes …), and the samples themselves. NOT verified beyond the names of the columns:
no file of the archive was available. Timestamps are UTC unless they have an offset or ``--timezone`` is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from swf import _table
from swf._common import statuses_of
from swf._notation import Numbers
from swf._slurm import STATUS_OF_STATE, state_word
from swf.parquet import FOREIGN, foreign_columns, list_batches, list_columns, read_flat
from tracekit.trace import Trace

COLUMNS = {
    "job_id": "job_id",
    "user": "user_id",
    "group": "group_id",
    "req_time": "time_limit",
    "req_procs": "num_cores_req",
    "alloc_procs": "num_cores_alloc",
    "req_nodes": "num_nodes_req",
    "alloc_nodes": "num_nodes_alloc",
    "req_gpus": "num_gpus_req",
    "alloc_gpus": "num_gpus_alloc",
    "x_status": "job_state",
    "x_req_nodes_list": "req_nodes",
}
#: Seconds between two samples of power.
SAMPLE_SECONDS = 20.0


class PM100:
    """Reader of the job table."""

    name: ClassVar[str] = "pm100"
    title: ClassVar[str] = "job table of PM100 (Marconi100, Parquet), by its column names"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a Parquet file with PM100's columns."""
        return foreign_columns(head, path) >= FOREIGN["pm100"]

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the table; of columns that hold lists only the power is kept, as its mean, peak and energy."""
        frame = read_flat(path, FOREIGN["pm100"]).assign(**_power(path))
        frame = frame.drop(columns=["end_time"], errors="ignore")
        if not pd.api.types.is_numeric_dtype(frame["time_limit"]):
            words = frame["time_limit"].astype(str).str.upper()
            frame["time_limit"] = frame["time_limit"].where(~words.isin(["INFINITE", "UNLIMITED"]))
        mapping = {ours: theirs for ours, theirs in COLUMNS.items() if theirs in frame.columns}
        trace = _table.to_trace(frame, path, mapping=mapping, timezone=timezone, on_error=on_error)
        words = trace.jobs["x_status"].astype(str).map(state_word, na_action="ignore")
        limit = trace.column("req_time")
        changed = {"req_time": np.where(limit > 0, limit * 60, np.nan), "status": statuses_of(words, STATUS_OF_STATE)}
        return trace.assign(changed)


def _power(path: Path) -> dict[str, Numbers]:
    """Return mean, peak and energy of every column of power samples; NaN for jobs without samples."""
    found: dict[str, Numbers] = {}
    for name in list_columns(path):
        part, is_power, _ = name.partition("power_consumption")
        if not is_power:
            continue
        prefix = "x_" + part.removeprefix("node_")
        mean, peak, total = _of_samples(path, name)
        own = {f"{prefix}mean_watts": mean, f"{prefix}peak_watts": peak, f"{prefix}energy": total * SAMPLE_SECONDS}
        found |= own if part == "node_" else {key: own[key] for key in own if key not in found}
    if "x_mean_watts" in found:
        found["mean_watts"] = found.pop("x_mean_watts")
    return found


def _of_samples(path: Path, name: str) -> tuple[Numbers, Numbers, Numbers]:
    """Return mean, largest and sum of the samples of each job, a part of the file at a time."""
    parts: list[tuple[Numbers, Numbers, Numbers]] = [(np.empty(0), np.empty(0), np.empty(0))]
    for lists in list_batches(path, name):
        job = np.repeat(np.arange(len(lists)), lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        sample = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        known = np.isfinite(sample)
        job, sample = job[known], sample[known]
        count, total = (
            np.bincount(job, minlength=len(lists)),
            np.bincount(job, sample, minlength=len(lists)).astype(np.float64),
        )
        peak = np.full(len(lists), -np.inf)
        np.maximum.at(peak, job, sample)
        some = np.where(count > 0, count, np.nan)
        parts.append((total / some, np.where(count > 0, peak, np.nan), np.where(count > 0, total, np.nan)))
    means, peaks, totals = zip(*parts, strict=True)
    return np.concatenate(means), np.concatenate(peaks), np.concatenate(totals)
