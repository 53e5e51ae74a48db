"""Copy this file to add a format: rename it, fill in the table, register the class in ``swf/__init__.py``.

| their column | our column | unit, remark |
|---|---|---|
| id | job_id | |
| queued | submit_time | seconds |
| duration | run_time | seconds; they write −1 for unknown |
| cores | req_procs | |
| owner | user | label |

State here what is lost, what is not verified, and where the format is described.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from swf import _common, _table
from tracekit.trace import Trace

#: Their names for our columns.
COLUMNS = {"job_id": "id", "submit_time": "queued", "run_time": "duration", "req_procs": "cores", "user": "owner"}


class Template:
    """Reader of the example format."""

    name: ClassVar[str] = "template"
    title: ClassVar[str] = "an example to copy"
    suffixes: ClassVar[tuple[str, ...]] = ()  # only formats that can be written have endings of their own
    options: ClassVar[frozenset[str]] = frozenset({"on_error"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept what no other format has; here a header row with all of their names."""
        return set(COLUMNS.values()) <= set(_table.header_cells(head))

    def read(self, path: Path, /, *, on_error: str = "stop") -> Trace:
        """Translate names and the marker for unknown; leave everything else as it is."""
        frame, remarks = _table.read_delimited(path, on_error=on_error)
        _common.require(path, frame, COLUMNS.values(), self.name)
        trace = _table.to_trace(frame, path, mapping=COLUMNS, on_error=on_error, remarks=remarks)
        run = trace.column("run_time")
        return trace.assign({"run_time": np.where(run == -1, np.nan, run)})
