"""Tables with a header row: reading them strictly, and turning their columns into ours (csv, gpw, parquet)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf.base import head_lines
from tracekit.errors import FormatError, SchemaError, UnknownName, UsageError
from tracekit.files import head_of, opened
from tracekit.machine import Machine
from tracekit.schema import BY_NAME, SIZE_COLUMNS, is_whole
from tracekit.trace import Trace

#: Columns that a map may name besides ours; wait and run time are computed from them.
STAMPS = ("start_time", "end_time")
DELIMITERS = ",;\t|"


def header_cells(head: bytes) -> list[str]:
    """Return the names in the first line of a table, or an empty list; for `Format.sniff`."""
    lines = head_lines(head, limit=1)
    return _cells(lines[0]) if lines else []


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(delimiter_of(line))]


def delimiter_of(line: str) -> str:
    """Return the separator that occurs most often in a header line."""
    return max(DELIMITERS, key=line.count)


def read_delimited(path: Path, *, on_error: str = "stop") -> tuple[pd.DataFrame, list[str]]:
    """Read a delimited file with a header row; a row with too few or too many fields is damaged, never filled up.

    Returns the table and, with ``on_error="skip"``, remarks on the rows that were left out.
    """
    import pyarrow as pa
    import pyarrow.csv

    head = head_of(path)
    if b"\0" in head:
        raise FormatError(path, "binary data, not a table")
    lines = head_lines(head, limit=1)
    if not lines:
        raise FormatError(path, "the file is empty")
    damaged: list[tuple[int, str]] = []

    def note(row: Any) -> str:
        damaged.append((row.number or 0, f"{row.actual_columns} fields where the header has {row.expected_columns}"))
        return "skip"

    parse = pa.csv.ParseOptions(delimiter=delimiter_of(lines[0]), newlines_in_values=False, invalid_row_handler=note)
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True, null_values=["", "NA", "NaN", "nan", "NULL", "null", "None"]
    )
    for encoding in ("utf8", "latin1"):
        damaged.clear()
        try:
            with opened(path) as source:
                options = pa.csv.ReadOptions(use_threads=False, encoding=encoding)
                found = pa.csv.read_csv(source, options, parse, convert)
        except pa.ArrowInvalid as error:
            raise FormatError(path, f"not a readable table: {str(error).splitlines()[0]}") from None
        if not any(pa.types.is_binary(kind) for kind in found.schema.types):  # text that is no UTF-8 comes as bytes
            break
    if damaged and on_error != "skip":
        line, problem = damaged[0]
        raise FormatError(path, problem, line=line or None, hint="--on-error skip leaves such lines out")
    if not found.num_rows:
        raise FormatError(path, "holds no jobs, only a header")
    remarks = (
        [f"skipped {len(damaged)} damaged lines (first: line {damaged[0][0]}, {damaged[0][1]})"] if damaged else []
    )
    frame: pd.DataFrame = found.to_pandas()
    return frame, remarks


def parse_map(text: str) -> dict[str, str]:
    """Read ``run_time=Duration,user=owner`` into {ours: theirs}; our names are checked.

    >>> parse_map("run_time=Duration,user=owner")
    {'run_time': 'Duration', 'user': 'owner'}
    """
    mapping: dict[str, str] = {}
    for pair in text.split(","):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (ours and equals and theirs):
            raise UsageError(f"--map wants our=theirs pairs such as run_time=Duration,user=owner; cannot read '{pair}'")
        mapping[ours] = theirs
    check_map(mapping)
    return mapping


def check_map(mapping: Mapping[str, str]) -> None:
    """Refuse names on our side that no column has."""
    for ours in mapping:
        if ours not in BY_NAME and ours not in STAMPS and not ours.startswith("x_"):
            raise UnknownName("column", ours, [*BY_NAME, *STAMPS])


def to_trace(
    frame: pd.DataFrame,
    path: Path,
    *,
    mapping: Mapping[str, str] | None = None,
    timezone: str | None = None,
    machine: Machine | None = None,
    on_error: str = "stop",
    remarks: list[str] | None = None,
) -> Trace:
    """Turn any table into a Trace: columns by our names or by ``mapping``, the rest kept with the prefix ``x_``.

    Times may be numbers of seconds or dates; dates become seconds since 1970 with the zone ``timezone`` (default UTC).
    ``start_time`` and ``end_time`` give wait_time and run_time where those are not there themselves.
    """
    mapping, remarks = dict(mapping or {}), list(remarks or [])
    if frame.columns.duplicated().any():
        raise FormatError(path, f"column {frame.columns[frame.columns.duplicated()][0]} appears twice")
    absent = [theirs for theirs in mapping.values() if theirs not in frame.columns]
    if absent:
        raise UnknownName(f"column in {path}", absent[0], [str(name) for name in frame.columns])
    frame = frame.rename(columns={theirs: ours for ours, theirs in mapping.items()})
    jobs: dict[str, Any] = {}
    bad = np.zeros(len(frame), dtype=bool)
    dates = False
    for name in frame.columns:
        ours = str(name)
        if ours in STAMPS or (ours in BY_NAME and BY_NAME[ours].kind not in ("label", "status")):
            numbers, wrong, is_date = _numbers(frame[name], timezone)
            if wrong.any() and on_error != "skip":
                row = int(np.flatnonzero(wrong)[0])
                raise FormatError(
                    path,
                    f"'{frame[name].iloc[row]}' in column {mapping.get(ours, ours)} is no number and no date",
                    line=row + 2,
                    hint="--on-error skip leaves such lines out",
                )
            jobs[ours], bad, dates = numbers, bad | wrong, dates or is_date
        elif ours in BY_NAME:
            jobs[ours] = frame[name]
        else:
            jobs[ours if ours.startswith("x_") else "x_" + re.sub(r"\W+", "_", ours.strip())] = frame[name]
    if bad.any():
        remarks.append(f"skipped {int(bad.sum())} damaged lines (first: line {int(np.flatnonzero(bad)[0]) + 2})")
    _from_stamps(jobs)
    _check_enough(jobs, path, frame)
    if "job_id" not in jobs or not is_whole(np.asarray(jobs["job_id"])) or np.isnan(jobs["job_id"]).any():
        if "job_id" in jobs:
            jobs["x_job_id"] = jobs.pop("job_id")
        jobs["job_id"] = np.arange(1, len(frame) + 1)
    known = machine or Machine()
    if dates and known.epoch is None:
        known = known.replace(epoch=0.0)
    if timezone:
        known = known.replace(timezone=timezone)
    if not any(f"{kind}_procs" in jobs for kind in ("req", "alloc")) and known.unit == "procs":
        known = known.replace(unit="gpus" if "req_gpus" in jobs or "alloc_gpus" in jobs else "nodes")
    table = pd.DataFrame(jobs)
    try:
        return Trace(table[~bad] if bad.any() else table, known, tuple(remarks))
    except SchemaError as error:
        raise FormatError(path, str(error)) from None


def _numbers(values: pd.Series, timezone: str | None) -> tuple[NDArray[Any], NDArray[np.bool_], bool]:
    """Return seconds or plain numbers, which rows are neither, and whether the column held dates."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(values), bool), False
    known = values.notna().to_numpy()
    stamps = pd.to_datetime(values, errors="coerce", utc=timezone is None, format="ISO8601")
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        numbers = pd.to_numeric(values, errors="coerce")
        if numbers.notna().sum() >= stamps.notna().sum():
            return numbers.to_numpy(dtype=np.float64, na_value=np.nan), known & numbers.isna().to_numpy(), False
    if timezone is not None and getattr(stamps.dt, "tz", None) is None:
        stamps = stamps.dt.tz_localize(timezone, ambiguous="NaT", nonexistent="shift_forward").dt.tz_convert("UTC")
    seconds = (stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy(dtype=np.float64)
    return seconds, known & np.isnan(seconds), True


def _from_stamps(jobs: dict[str, Any]) -> None:
    """Compute wait and run time from start and end, where only those are given."""
    start, end = jobs.pop("start_time", None), jobs.pop("end_time", None)
    if start is not None and "wait_time" not in jobs and "submit_time" in jobs:
        jobs["wait_time"] = start - jobs["submit_time"]
    if start is not None and end is not None and "run_time" not in jobs:
        jobs["run_time"] = end - start


def _check_enough(jobs: dict[str, Any], path: Path, frame: pd.DataFrame) -> None:
    missing = [name for name in ("submit_time", "run_time") if name not in jobs]
    if not any(name in jobs for name in SIZE_COLUMNS):
        missing.append("req_procs")
    if missing:
        has = ", ".join(str(name) for name in frame.columns[:12]) + (" …" if frame.shape[1] > 12 else "")
        wanted = ",".join(f"{name}=THEIRS" for name in missing)
        raise FormatError(path, f"no column for {', '.join(missing)}; it has: {has}", hint=f"name them: --map {wanted}")
