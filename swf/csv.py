"""Any table of jobs with a header row: our column names by default, other names with a column map.

| their column | our column | remark |
|---|---|---|
| one of our names | the same | seconds, KB, counts, labels as in `tracekit.schema` |
| a name in the map | as mapped | ``--map run_time=Duration,user=owner`` |
| start_time, end_time (mapped or so named) | wait_time, run_time | numbers of seconds or ISO dates |
| any other | x_<name> | kept |

Dates become seconds since 1970 (``--timezone`` for those without an offset). A map that was used once is saved
beside the file as ``<file>.columns.toml``. Lost on writing: the machine, and the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, ClassVar

import numpy as np

from swf import _table
from swf._chunks import Parts
from swf._written import altered_words
from swf.base import Blocks, Unsteady
from tracekit.errors import FormatError
from tracekit.files import read_toml, write_text
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace


class CSV:
    """Reader and writer of tables with named columns."""

    name: ClassVar[str] = "csv"
    title: ClassVar[str] = "a table with a header row; other column names with --map"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    options: ClassVar[frozenset[str]] = frozenset({"map", "on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with our own names, or a file with a saved column map beside it."""
        if memory_of(path).is_file():
            return True
        cells = set(_table.header_cells(head))
        return {"submit_time", "run_time"} <= cells and bool(cells & set(SIZE_COLUMNS))

    def read(
        self, path: Path, /, *, map: dict[str, str] | None = None, on_error: str = "stop", timezone: str | None = None
    ) -> Trace:
        """Read a table; without ``map``, the saved map is used."""
        if map is None and memory_of(path).is_file():
            map, timezone = recall(path, timezone)
        frame, remarks = _table.read_delimited(path, on_error=on_error)
        return _table.to_trace(frame, path, mapping=map, timezone=timezone, on_error=on_error, remarks=remarks)

    def chunks(
        self,
        source: Blocks,
        /,
        *,
        map: dict[str, str] | None = None,
        on_error: str = "stop",
        timezone: str | None = None,
    ) -> Iterator[Trace]:
        """Read a table of any size in two passes: the types of its columns, then the jobs."""
        if map is None and memory_of(source.path).is_file():
            map, timezone = recall(source.path, timezone)
        done, known = 0, None
        for frame, remarks, part in Parts(source, on_error):
            with part.placed():
                trace = _table.to_trace(frame, part.file, mapping=map, timezone=timezone, on_error=on_error)
            has_ids = "job_id" in (map or {}) or "job_id" in frame
            numbered = not has_ids or "x_job_id" in trace.jobs
            if known not in (None, (numbered, trace.machine)):
                raise Unsteady("the parts of the file differ in job ids or dates")
            known = (numbered, trace.machine)
            if numbered:
                trace = trace.assign({"job_id": np.arange(done + 1, done + 1 + len(trace))})
            done += len(trace)
            steps = [*remarks, *(part.moved(step) for step in trace.history)]
            yield Trace(trace.jobs, trace.machine, tuple(steps))

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write all columns under our names; numbers with all their digits."""
        trace.jobs.to_csv(out, index=False)
        lost = [*altered_words(trace), "the machine (keep it in a TOML file for --machine)"]
        return [*lost, *(["the history"] if trace.history else [])]


def memory_of(path: Path) -> Path:
    """Return the path of the saved column map of a table."""
    return path.with_name(path.name + ".columns.toml")


def remember(path: Path, mapping: dict[str, str], timezone: str | None = None) -> Path | None:
    """Save the map beside the table, so that it need not be given again; None if that is not possible."""
    quoted = {ours: theirs.replace("\\", "\\\\").replace('"', '\\"') for ours, theirs in mapping.items()}
    lines = [f"# How tracekit reads {path.name}: our column = theirs. Delete this file to remove the map."]
    if timezone:
        lines.append(f'timezone = "{timezone}"')
    lines += ["[columns]", *(f'{ours} = "{theirs}"' for ours, theirs in quoted.items()), ""]
    place = memory_of(path)
    try:
        write_text(place, "\n".join(lines), force=True)
    except Exception:  # a read-only folder: the map is only a convenience
        return None
    return place


def recall(path: Path, timezone: str | None) -> tuple[dict[str, str], str | None]:
    """Read a saved map; a time zone given now overrides the saved one."""
    place = memory_of(path)
    data = read_toml(place)
    columns = data.get("columns")
    if not isinstance(columns, dict) or not all(isinstance(theirs, str) for theirs in columns.values()):
        raise FormatError(place, 'a column map needs a table [columns] with lines such as run_time = "Duration"')
    _table.check_map(columns)
    zone = data.get("timezone")
    return columns, timezone or (str(zone) if zone else None)
