"""cswa: the Chinese Supercomputers Workloads Archive, as an SWF dialect or as a table with the column names below.

| their column | our column | unit, remark |
|---|---|---|
| u_id | job_id | |
| user | user | label |
| cpu_num, node_num | req_procs, req_nodes | counts |
| gpu_num | req_gpus | where there is one |
| submit_time | submit_time | seconds or dates; dates are read as Asia/Shanghai unless ``--timezone`` is given |
| interval | submit_time | seconds since the previous job, where there is no submit_time: the running sum |
| wait_time, run_time | wait_time, run_time | seconds |
| wall_time | req_time | seconds |
| job_status | status, x_status | Pass, Killed, Failed; Slurm's words; SWF's 1, 0, 5; others unknown |

Not verified on a raw file: none was available. Known are the archive's address, that conversions of it to SWF exist and
are read with the ordinary SWF reader, and the column names above, from a published poster; units and types are inferred
from those names. ``--map`` gives other names (``--from cswa --map req_procs=cores``). A file in SWF is detected as swf;
``--from cswa`` reads it, too. There is no calendar for numbers unless ``--epoch`` gives the date of second 0. −1 is
unknown. Lost on writing: the machine, memory, groups, queues, partitions, projects.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf import _common, _table, gpw
from swf._times import instant, stamp_texts
from swf._written import altered_words, minus_ones
from swf.swf import SWF
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.trace import Trace

OURS = {
    "job_id": "u_id",
    "req_procs": "cpu_num",
    "req_nodes": "node_num",
    "req_gpus": "gpu_num",
    "req_time": "wall_time",
    "x_status": "job_status",
}
WORDS = {**_common.SLURM_WORDS, **gpw.STATUS_OF_WORD, "1": "completed", "0": "failed", "5": "cancelled"}
NEEDED = {"u_id", "user", "cpu_num", "run_time", "job_status"}
ZONE = "Asia/Shanghai"


class CSWA:
    """Reader and writer of CSWA tables; reader of its SWF files."""

    name: ClassVar[str] = "cswa"
    title: ClassVar[str] = "Chinese Supercomputers Workloads Archive: a table, or an SWF dialect (--from cswa)"
    suffixes: ClassVar[tuple[str, ...]] = (".cswa",)
    options: ClassVar[frozenset[str]] = frozenset({"epoch", "map", "on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with the archive's names, unless it is that of gpw, which has most of them."""
        cells = set(_table.header_cells(head))
        return cells >= NEEDED and bool(cells & {"submit_time", "interval"}) and not set(gpw.COLUMNS) <= cells

    def read(
        self,
        path: Path,
        /,
        *,
        epoch: str | float | None = None,
        map: dict[str, str] | None = None,
        on_error: str = "stop",
        timezone: str | None = None,
    ) -> Trace:
        """Read a table (``map`` adds to or replaces its column names) or an SWF file."""
        head = head_of(path)
        if map is None and not self.sniff(head, path) and SWF().sniff(head, path):
            return SWF().read(path, on_error=on_error, timezone=timezone)
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=("user",))
        mapping = {ours: theirs for ours, theirs in OURS.items() if theirs in frame.columns} | (map or {})
        summed = "submit_time" not in {*frame.columns, *mapping} and "interval" in frame.columns
        if summed:
            mapping["submit_time"] = "interval"
        if not (summed or "submit_time" in {*frame.columns, *mapping}):
            names = ", ".join([*OURS.values(), "submit_time or interval", "run_time"])
            raise FormatError(path, f"neither SWF nor a table with the columns {names}", hint="other names: use --map")
        trace = _table.to_trace(
            frame,
            path,
            mapping=mapping,
            timezone=timezone or ZONE,
            machine=Machine(epoch=None if epoch is None else instant(epoch, timezone or ZONE)),
            on_error=on_error,
            remarks=remarks,
        )
        return _common.unit_first_known(trace.assign(_unknown(trace, summed)), ("procs", "nodes", "gpus"))

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write the poster's columns; submit times as dates where the trace has a calendar, unknown empty."""
        submit = trace.column("submit_time")
        epoch = trace.machine.epoch
        gpus = trace.has("req_gpus") or trace.has("alloc_gpus")
        table = {
            "u_id": trace.jobs["job_id"],
            "user": _common.text_labels(trace, "user"),
            **({"gpu_num": _common.plain(trace.sizes("gpus"))} if gpus else {}),
            "cpu_num": _common.plain(trace.sizes("procs")),
            "node_num": _common.plain(trace.sizes("nodes")),
            "submit_time": _common.plain(submit) if epoch is None else stamp_texts(submit + epoch, ZONE),
            "wait_time": _common.plain(trace.column("wait_time")),
            "run_time": _common.plain(trace.column("run_time")),
            "wall_time": _common.plain(trace.column("req_time")),
            "job_status": _common.status_words(trace, gpw.WORD_OF_STATUS | {"unknown": ""}, gpw.STATUS_OF_WORD),
        }
        pd.DataFrame(table).to_csv(out, index=False)
        sizes = {f"{kind}_{unit}" for kind in ("req", "alloc") for unit in ("gpus", "procs", "nodes")}
        times = {"submit_time", "wait_time", "run_time", "req_time"}
        lost = _common.lost(trace, {"job_id", "user", "status", "x_status", *times, *sizes})
        return [*minus_ones(trace, [*times, *sizes]), *altered_words(trace, ["user"]), *lost]


def _unknown(trace: Trace, summed: bool) -> dict[str, Any]:
    """Turn −1 into unknown, intervals into times, and words into statuses."""
    changed: dict[str, Any] = {}
    for name in ("wait_time", "run_time", "req_time", "req_procs", "req_nodes", "req_gpus"):
        if name in trace.jobs.columns:
            values = trace.column(name)
            changed[name] = np.where(values == -1, np.nan, values)
    if summed:
        changed["submit_time"] = np.round(np.cumsum(trace.column("submit_time")), 6)
    if "x_status" in trace.jobs.columns:
        changed["status"] = _common.statuses_of(trace.jobs["x_status"], WORDS)
    return changed
