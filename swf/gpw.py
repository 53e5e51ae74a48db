"""gpw: the nine columns of the published study of synthetic job traces (Gen-Parallel-Workloads, JSSPP 2024).

| their column | our column | unit, remark |
|---|---|---|
| u_id | job_id | renumbered from 1, and kept as x_job_id, where it holds fractions |
| user | user | label |
| gpu_num, cpu_num, node_num | req_gpus, req_procs, req_nodes | counts; the synthetic files hold fractions |
| interval | submit_time | seconds since the previous job; the running sum |
| run_time | run_time | seconds |
| wall_time | req_time | seconds; a column that is 0 in every row means that the source had no limits |
| new_status | status, x_status | Pass completed, Failed failed, Killed cancelled |

The published synthetic files hold fractional counts, negative times and constant rows: they load as they are, and
`validate` counts them. There is no calendar unless ``--epoch`` gives the date of the first interval's start. Lost on
writing: the calendar, the machine, waits, memory, groups, queues and all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf import _table
from swf._chunks import Parts
from swf._times import instant
from swf._written import altered_words
from swf.base import Blocks, Unsteady
from tracekit.errors import FormatError
from tracekit.machine import Machine
from tracekit.schema import STATUSES, is_whole, status_codes
from tracekit.trace import Trace

COLUMNS = ("u_id", "user", "gpu_num", "cpu_num", "node_num", "interval", "run_time", "wall_time", "new_status")
OURS = {
    "job_id": "u_id",
    "req_gpus": "gpu_num",
    "req_procs": "cpu_num",
    "req_nodes": "node_num",
    "req_time": "wall_time",
    "x_status": "new_status",
}
STATUS_OF_WORD = {"Pass": "completed", "Failed": "failed", "Killed": "cancelled"}
WORD_OF_STATUS = {
    "completed": "Pass",
    "failed": "Failed",
    "cancelled": "Killed",
    "timeout": "Killed",
    "partial": "Failed",
    "unknown": "Failed",
}


STATUS_WORDS_BACK = {status: STATUS_OF_WORD[word] for status, word in WORD_OF_STATUS.items()}


class GPW:
    """Reader and writer of the study's interchange table."""

    name: ClassVar[str] = "gpw"
    title: ClassVar[str] = "nine-column table of the published study of synthetic traces (JSSPP 2024)"
    suffixes: ClassVar[tuple[str, ...]] = (".gpw",)
    options: ClassVar[frozenset[str]] = frozenset({"epoch", "on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row that holds all nine names."""
        return set(COLUMNS) <= set(_table.header_cells(head))

    def read(
        self, path: Path, /, *, epoch: str | float | None = None, on_error: str = "stop", timezone: str | None = None
    ) -> Trace:
        """Read the table; ``epoch`` (a date or Unix seconds) gives it a calendar."""
        frame, remarks = _table.read_delimited(path, on_error=on_error)
        trace = self._to_trace(frame, path, epoch=epoch, on_error=on_error, timezone=timezone, remarks=remarks)
        return _rounded(trace if trace.column("req_time").any() else _without_limits(trace))

    def chunks(
        self,
        source: Blocks,
        /,
        *,
        epoch: str | float | None = None,
        on_error: str = "stop",
        timezone: str | None = None,
    ) -> Iterator[Trace]:
        """Read a table of any size: the types of its columns, whether it has limits, then the jobs."""
        parts = Parts(source, on_error)
        limits = any(bool((frame.get("wall_time", pd.Series([0])) != 0).any()) for frame, _, _ in parts)
        done, reached, known = 0, 0.0, None
        for frame, remarks, part in parts:
            with part.placed():
                trace = self._to_trace(
                    frame, part.file, epoch=epoch, on_error=on_error, timezone=timezone, before=reached
                )
            numbered = "x_job_id" in trace.jobs
            if known not in (None, numbered):
                raise Unsteady("the parts of the file differ in job ids")
            known = numbered
            if numbered:
                trace = trace.assign({"job_id": np.arange(done + 1, done + 1 + len(trace))})
            done, reached = done + len(trace), float(trace.column("submit_time")[-1])
            steps = [*remarks, *(part.moved(step) for step in trace.history)]
            trace = Trace(trace.jobs, trace.machine, tuple(steps))
            yield _rounded(trace if limits else _without_limits(trace))

    def _to_trace(
        self,
        frame: pd.DataFrame,
        path: Path,
        *,
        epoch: str | float | None,
        on_error: str,
        timezone: str | None,
        remarks: list[str] | None = None,
        before: float = 0.0,
    ) -> Trace:
        """Translate the table; ``before`` is the sum that its first interval counts from. Nothing is rounded yet."""
        absent = [name for name in COLUMNS if name not in frame.columns]
        if absent:
            raise FormatError(path, f"missing column {', '.join(absent)}; format gpw needs {', '.join(COLUMNS)}")
        unnamed = [name for name in frame.columns if name in ("", "Unnamed: 0", "index")]  # pandas' own row numbers
        frame = frame.drop(columns=unnamed)
        trace = _table.to_trace(
            frame.rename(columns={"interval": "submit_time"}),
            path,
            mapping=OURS,
            on_error=on_error,
            remarks=remarks,
            machine=Machine(epoch=None if epoch is None else instant(epoch, timezone)),
            timezone=timezone,
        )
        intervals = trace.column("submit_time").copy()
        intervals[:1] += before
        changed: dict[str, Any] = {"submit_time": np.cumsum(intervals)}
        words = trace.jobs["x_status"].astype(str)
        known = words.map(STATUS_OF_WORD).fillna("unknown")
        changed["status"] = status_codes(known.map(STATUSES.index).to_numpy())
        return trace.assign(changed)

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write the nine columns; unknown counts, limits and users become 0."""
        submit = trace.column("submit_time")
        if trace.machine.epoch is not None and len(submit):
            submit = submit - submit[0]  # the first interval counts from the first job, not from the epoch
        status = (
            trace.jobs["status"].astype(str)
            if "status" in trace.jobs.columns
            else pd.Series("unknown", trace.jobs.index)
        )
        words = status.map(WORD_OF_STATUS)
        if "x_status" in trace.jobs.columns:
            own = trace.jobs["x_status"].astype(str)
            words = own.where(own.map(STATUS_OF_WORD) == status, words)
        table = {
            "u_id": trace.jobs["job_id"],
            "user": trace.jobs["user"].astype(object) if "user" in trace.jobs.columns else np.nan,
            "gpu_num": _whole(trace.sizes("gpus")),
            "cpu_num": _whole(trace.sizes("procs")),
            "node_num": _whole(trace.sizes("nodes")),
            "interval": _whole(np.round(np.diff(submit, prepend=0.0), 9)),  # 0.1, not 0.10000000000000009
            "run_time": _whole(trace.column("run_time")),
            "wall_time": _whole(trace.column("req_time")),
            "new_status": words,
        }
        frame = pd.DataFrame(table, columns=list(COLUMNS))
        frame["user"] = frame["user"].where(frame["user"].notna(), 0)
        frame.to_csv(out, index=False)
        held = {
            "job_id",
            "user",
            "req_gpus",
            "alloc_gpus",
            "req_procs",
            "alloc_procs",
            "req_nodes",
            "alloc_nodes",
            "submit_time",
            "run_time",
            "req_time",
            "status",
            "x_status",
        }
        lost = [f"column {name}" for name in trace.jobs.columns if name not in held and trace.has(name)]
        times = ((name, int(np.isnan(trace.column(name)).sum())) for name in ("run_time", "req_time"))
        lost += [f"{count} unknown values of column {name} (written as 0)" for name, count in times if count]
        lost += altered_words(trace, ["user"])
        if trace.has("req_time") and not np.nan_to_num(trace.column("req_time")).any():
            lost.append("limits of 0 in column req_time (read back as unknown)")
        if (status.map(STATUS_WORDS_BACK) != status).any():
            lost.append("statuses other than completed, failed and cancelled")
        return [*lost, "the machine", *(["the calendar"] if trace.machine.epoch is not None else [])]


def _rounded(trace: Trace) -> Trace:
    """Round submits, which are sums, to microseconds; sums are carried from part to part without rounding."""
    return trace.assign({"submit_time": np.round(trace.column("submit_time"), 6)})


def _without_limits(trace: Trace) -> Trace:
    return trace.assign({"req_time": np.full(len(trace), np.nan)})


def _whole(values: np.ndarray) -> np.ndarray:
    """Write unknown as 0, as the study does, and whole numbers without a decimal point."""
    values = np.where(np.isnan(values), 0.0, values)
    return values.astype(np.int64) if is_whole(values) else values
