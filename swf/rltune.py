"""rltune: the header-less tables that the RLTune scheduler reads, SWF's order with GPUs and a virtual cluster.

| field (from 0) | our column | unit, remark |
|---|---|---|
| 0 | job_id, or x_job_id | names are kept as x_job_id and the jobs numbered from 1 |
| 1, 2, 3 | submit_time, wait_time, run_time | seconds |
| 4 | alloc_gpus | GPUs |
| 5 | cpu_time | seconds |
| 6, 9 | x_used_memory, x_request_memory | no unit is given (GB in the rows made from Alibaba's trace) |
| 7, 8 | req_procs, req_time | CPUs; seconds |
| 10 | status, x_status | as SWF: 1 completed, 0 failed, 5 cancelled; others unknown |
| 11–14 | user, group, app, queue | labels |
| 15 | x_partition | the partition's number; our partition is the virtual cluster |
| 16 | prev_job | |
| 17, 18 of 19 fields | partition (virtual cluster), gpu_type | as in the owners' README |
| 17, 18, 19 of 20 fields | think_time, partition (virtual cluster), gpu_type | as their code reads Helios and Philly |

−1 means unknown. GPU types are numbers (the README: 0 T4, 1 MISC, 2 P100, 3 V100 16 GB, 4 V100 32 GB). There is no
calendar unless ``--epoch`` gives the date of second 0. Written with 20 fields; lost on writing: the calendar, the
machine, nodes, memory, projects and names that are not numbers (they are numbered).
Owners: https://github.com/dshruti20/RLTune (GPU_Traces/README.md); SoCC 2025.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf import _common, _table
from swf._times import instant
from swf._written import altered_words, minus_ones
from swf.base import head_lines, is_number
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.schema import BY_NAME, to_numeric
from tracekit.trace import Trace

SHARED = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "alloc_gpus",
    "cpu_time",
    "x_used_memory",
    "req_procs",
    "req_time",
    "x_request_memory",
    "x_status",
    "user",
    "group",
    "app",
    "queue",
    "x_partition",
    "prev_job",
)
LAYOUTS = {19: (*SHARED, "partition", "gpu_type"), 20: (*SHARED, "think_time", "partition", "gpu_type")}
LABELS = ("user", "group", "app", "queue", "partition", "gpu_type")
STATUS_OF_CODE = {"1": "completed", "0": "failed", "5": "cancelled"}
CODE_OF_STATUS = {"completed": 1, "failed": 0, "cancelled": 5, "timeout": 0, "partial": 0, "unknown": -1}


class RLTune:
    """Reader and writer of RLTune's tables."""

    name: ClassVar[str] = "rltune"
    title: ClassVar[str] = "RLTune's GPU traces: 19 or 20 comma-separated fields without a header"
    suffixes: ClassVar[tuple[str, ...]] = (".rltune",)
    options: ClassVar[frozenset[str]] = frozenset({"epoch", "on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept rows of 19 or 20 fields of which the ten after the first are numbers."""
        rows = [line.split(",") for line in head_lines(head, limit=50) if line.strip()]
        good = sum(len(row) in LAYOUTS and all(map(is_number, row[1:11])) for row in rows)
        return good > len(rows) // 2

    def read(
        self, path: Path, /, *, epoch: str | float | None = None, on_error: str = "stop", timezone: str | None = None
    ) -> Trace:
        """Read a table of either width; ``epoch`` (a date or Unix seconds) gives it a calendar."""
        names = LAYOUTS.get(_usual_width(path))
        if names is None:
            raise FormatError(path, "expected 19 or 20 comma-separated fields per line")
        frame, remarks = _table.read_delimited(path, on_error=on_error, names=names)
        if not _table.is_numeric(frame["job_id"]):
            frame = frame.rename(columns={"job_id": "x_job_id"})
        machine = Machine(unit="gpus", epoch=None if epoch is None else instant(epoch, timezone))
        return _table.to_trace(
            _without_minus_one(frame),
            path,
            machine=machine,
            timezone=timezone,
            on_error=on_error,
            remarks=remarks,
            dates=False,
        )

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write 20 fields; −1 for unknown, GPUs, or else the scheduled unit, as field 4."""
        unit = "gpus" if trace.has("req_gpus") or trace.has("alloc_gpus") else trace.machine.unit
        sizes = trace.sizes(unit, "allocated")
        names: list[str] = []
        status = _common.text_labels(trace, "status", "unknown")
        table: dict[str, Any] = {
            "job_id": _names(trace) if "x_job_id" in trace.jobs.columns else trace.jobs["job_id"],
            "alloc_gpus": _common.plain(sizes, -1),
            "x_status": pd.Series(status).map(CODE_OF_STATUS),
            **{label: _numbers_of(trace, label, names) for label in LABELS},
        }
        for name in LAYOUTS[20]:
            if name not in table:
                known = name in trace.jobs.columns and not name.startswith("x_")
                table[name] = _common.plain(trace.column(name), -1) if known else np.full(len(trace), -1)
        pd.DataFrame(table, columns=list(LAYOUTS[20])).to_csv(out, index=False, header=False)
        held = {*SHARED, *LAYOUTS[20], "status", "x_job_id", f"req_{unit}", f"alloc_{unit}"}
        held -= {"x_used_memory", "x_request_memory", "x_partition"}
        lost = minus_ones(trace, [name for name in LAYOUTS[20] if name in BY_NAME and name not in LABELS])
        lost += [*altered_words(trace, LABELS), *_common.lost(trace, held, calendar=False)]
        return [*lost, *(f"names of {name}s (numbered from 1)" for name in names)]


def _usual_width(path: Path) -> int:
    rows = [line.split(",") for line in head_lines(head_of(path)) if line.strip()]
    widths = [len(row) for row in rows]
    return max(set(widths), key=widths.count) if widths else 0


def _without_minus_one(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn every −1 into unknown, add the status, and leave out columns of other formats that are all unknown."""
    known: dict[str, Any] = {}
    for name in frame.columns:
        values = frame[name]
        if name in ("x_job_id", "job_id"):
            known[name] = values
        elif _table.is_numeric(values):
            known[name] = values.mask(values == -1)
        else:  # `to_trace` reports texts among numbers; labels may be texts
            known[name] = values.mask(values == "-1") if name in LABELS else values
    known["status"] = _common.statuses_of(known["x_status"], STATUS_OF_CODE)
    known["x_status"] = _common.numbered(to_numeric(known["x_status"]))
    empty = [name for name in known if name.startswith("x_") and not pd.notna(known[name]).any()]
    return pd.DataFrame({name: values for name, values in known.items() if name not in empty}, index=frame.index)


def _names(trace: Trace) -> Any:
    return trace.jobs["x_job_id"].map(str).str.replace(",", ";", regex=False)


def _numbers_of(trace: Trace, name: str, renumbered: list[str]) -> Any:
    """Return labels as numbers; if any is not one, all of the column are numbered in order of their names."""
    codes = trace.column(name)
    if name not in trace.jobs.columns:
        return codes
    labels = [str(label) for label in trace.jobs[name].cat.categories]
    if all(label.isdecimal() and len(label) < 18 for label in labels):
        return np.array([*map(int, labels), -1])[codes]
    renumbered.append(name)
    return np.array([*range(1, len(labels) + 1), -1])[codes]
