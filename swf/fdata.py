"""fdata: F-DATA, the jobs of Fugaku (Parquet), after its published list of columns.

| their column | our column | unit, remark |
|---|---|---|
| jid | job_id | numbered from 1, and kept as x_jid, where it is not a number |
| usr, jnam | user, app | hashed |
| adt | submit_time | timestamp of arrival; Unix seconds |
| sdt | wait_time | sdt − adt |
| edt | run_time | edt − sdt |
| elpl | req_time | seconds |
| cnumr, cnumat | req_procs, alloc_procs | cores |
| nnumr, nnuma | req_nodes, alloc_nodes | |
| ec | status, x_status | 0 completed, others failed |
| mszl, msza, mmszu | x_mszl, x_msza, x_mmszu | memory, kept as it is: the unit is not documented |
| avgpcon, else econ | mean_watts | W of the whole job; Wh ÷ (edt − sdt); see below |
| econ, uctmut, sctmut, minpcon, maxpcon, pri, freq_req and any other | x_<name> | kept |

That avgpcon is watts and econ watt-hours of all nodes of a job is what other readers of the archive take them for
(there they agree with each other). Lost: columns that hold lists (embedding). NOT verified beyond the names of the
columns: no file of the archive was available. Timestamps are UTC unless they have an offset or ``--timezone`` is given
(Fugaku's zone is Asia/Tokyo).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from swf import _table
from swf._common import watts_of
from swf.parquet import FOREIGN, foreign_columns, read_flat
from tracekit.schema import STATUSES, counts, status_codes, to_numeric
from tracekit.trace import Trace

COLUMNS = {
    "job_id": "jid",
    "user": "usr",
    "app": "jnam",
    "submit_time": "adt",
    "start_time": "sdt",
    "end_time": "edt",
    "req_time": "elpl",
    "req_procs": "cnumr",
    "alloc_procs": "cnumat",
    "req_nodes": "nnumr",
    "alloc_nodes": "nnuma",
    "x_status": "ec",
    "mean_watts": "avgpcon",
}


class FData:
    """Reader of F-DATA."""

    name: ClassVar[str] = "fdata"
    title: ClassVar[str] = "F-DATA, the jobs of Fugaku (Parquet), by its column names"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a Parquet file with F-DATA's columns."""
        return foreign_columns(head, path) >= FOREIGN["fdata"]

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the table; columns that hold lists are left out."""
        frame = read_flat(path, FOREIGN["fdata"])
        mapping = {ours: theirs for ours, theirs in COLUMNS.items() if theirs in frame.columns}
        if not _table.is_numeric(frame["jid"]):
            mapping["x_jid"] = mapping.pop("job_id")
        trace = _with_watts(_table.to_trace(frame, path, mapping=mapping, timezone=timezone, on_error=on_error))
        if "x_status" not in trace.jobs:
            return trace
        values = trace.jobs["x_status"]
        if not _table.is_numeric(values):
            return trace
        code = values.to_numpy(dtype=np.float64, na_value=np.nan)
        failed, completed, unknown = (STATUSES.index(word) for word in ("failed", "completed", "unknown"))
        word = np.where(np.isnan(code), unknown, np.where(code == 0, completed, failed))
        return trace.assign({"status": status_codes(word), "x_status": counts(code)})


def _with_watts(trace: Trace) -> Trace:
    """Return the trace with mean watts from the energy (Wh) where no power is given."""
    if "x_econ" not in trace.jobs.columns:
        return trace
    energy = to_numeric(trace.jobs["x_econ"]).to_numpy(dtype=np.float64, na_value=np.nan)
    given = trace.column("mean_watts")
    return trace.assign(
        {"mean_watts": np.where(np.isnan(given), watts_of(energy * 3600, trace.column("run_time")), given)}
    )
