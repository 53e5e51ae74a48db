"""Tables with a header row: reading them strictly, and turning their columns into ours (csv, gpw, parquet)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf._times import seconds_of
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


def read_delimited(
    path: Path,
    *,
    on_error: str = "stop",
    names: Sequence[str] | None = None,
    text: Collection[str] = (),
    only: Collection[str] = (),
) -> tuple[pd.DataFrame, list[str]]:
    """Read a delimited file; a row with too few or too many fields is damaged, never filled up.

    ``names`` are those of a file without a header row. Columns in ``text`` are labels, whatever they look like, and
    ``only`` picks columns. Returns the table, whose index counts lines from 1 (blank ones left out), and, with
    ``on_error="skip"``, remarks on the rows that were left out.
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
    label = pa.dictionary(pa.int32(), pa.string())
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True,
        null_values=["", "NA", "NaN", "nan", "NULL", "null", "None"],
        column_types=dict.fromkeys(text, label),
        include_columns=list(only),
    )
    for encoding in ("utf8", "latin1"):
        damaged.clear()
        try:
            with opened(path) as source:
                options = pa.csv.ReadOptions(
                    use_threads=False, encoding=encoding, column_names=list(names) if names else None
                )
                found = pa.csv.read_csv(source, options, parse, convert)
        except pa.ArrowKeyError as error:
            raise FormatError(path, f"not the table it should be: {str(error).strip(chr(39))}") from None
        except pa.ArrowInvalid as error:
            if encoding == "utf8" and "UTF8" in str(error):  # a label column that is no UTF-8
                continue
            raise FormatError(path, f"not a readable table: {str(error).splitlines()[0]}") from None
        if not any(pa.types.is_binary(kind) for kind in found.schema.types):  # text that is no UTF-8 comes as bytes
            break
    if damaged and on_error != "skip":
        line, problem = damaged[0]
        raise FormatError(path, problem, line=line or None, hint="--on-error skip leaves such lines out")
    if not found.num_rows:
        raise FormatError(path, "holds no jobs" if names else "holds no jobs, only a header")
    remarks = [_skipped(len(damaged), f"line {damaged[0][0]}, {damaged[0][1]}")] if damaged else []
    frame: pd.DataFrame = found.to_pandas()
    first = 1 if names else 2
    lines_read = np.arange(first, first + len(frame) + len(damaged))
    if damaged:
        lines_read = np.setdiff1d(lines_read, [line for line, _ in damaged])[: len(frame)]
    frame.index = pd.Index(lines_read, name="line")
    return frame, remarks


def _skipped(count: int, first: str) -> str:
    return f"skipped {count} damaged line{'s' * (count > 1)}" + (f" (first: {first})" if first else "")


def _line(path: Path, frame: pd.DataFrame, row: int) -> int | None:
    """Return the line of the file that a row of a table from `read_delimited` stands on, blank lines counted."""
    if frame.index.name != "line":
        return None
    counted, seen = int(frame.index[row]), 0
    with opened(path) as source:
        for number, line in enumerate(source, 1):
            seen += bool(line.strip(b"\r\n"))
            if seen == counted:
                return number
    return counted


def numeric(
    frame: pd.DataFrame, path: Path, names: Sequence[str], *, on_error: str = "stop"
) -> tuple[pd.DataFrame, list[str]]:
    """Make columns float64; a row with a text that is no number is an error by line, or left out and counted."""
    bad = np.zeros(len(frame), dtype=bool)
    made = {}
    for name in names:
        made[name], wrong, _, _ = _numbers(frame[name], None, dates=False)
        if wrong.any() and on_error != "skip":
            row = int(np.flatnonzero(wrong)[0])
            problem = f"'{frame[name].iloc[row]}' in column {name} is no number"
            hint = "--on-error skip leaves such lines out"
            raise FormatError(path, problem, line=_line(path, frame, row), hint=hint)
        bad |= wrong
    frame = frame.assign(**made)
    if not bad.any():
        return frame, []
    first = _line(path, frame, int(np.flatnonzero(bad)[0]))
    return frame[~bad], [f"{path.name}: " + _skipped(int(bad.sum()), f"line {first}")]


def is_numeric(values: pd.Series) -> bool:
    """Tell whether a column came out of the file as numbers."""
    return bool(pd.api.types.is_numeric_dtype(values.dtype))


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
    dates: bool = True,
) -> Trace:
    """Turn any table into a Trace: columns by our names or by ``mapping``, the rest kept with the prefix ``x_``.

    Times may be numbers of seconds or dates; dates become seconds since 1970 with the zone ``timezone`` (default UTC).
    ``start_time`` and ``end_time`` give wait_time and run_time where those are not there themselves. ``dates=False``
    takes numbers only.
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
    dated = False
    for name in frame.columns:
        ours = str(name)
        if ours in STAMPS or (ours in BY_NAME and BY_NAME[ours].kind not in ("label", "status")):
            numbers, wrong, is_date, notes = _numbers(frame[name], timezone, dates=dates)
            remarks += [f"column {mapping.get(ours, ours)}: {note}" for note in notes]
            if wrong.any() and on_error != "skip":
                row = int(np.flatnonzero(wrong)[0])
                raise FormatError(
                    path,
                    f"'{frame[name].iloc[row]}' in column {mapping.get(ours, ours)} is no number"
                    + " and no date" * dates,
                    line=_line(path, frame, row),
                    hint="--on-error skip leaves such lines out",
                )
            jobs[ours], bad, dated = numbers, bad | wrong, dated or is_date
        elif ours in BY_NAME:
            jobs[ours] = frame[name]
        else:
            jobs[ours if ours.startswith("x_") else "x_" + re.sub(r"\W+", "_", ours.strip())] = frame[name]
    if bad.any():
        first = _line(path, frame, int(np.flatnonzero(bad)[0]))
        remarks.append(_skipped(int(bad.sum()), f"line {first}" if first else ""))
    _from_stamps(jobs)
    _check_enough(jobs, path, frame)
    if "job_id" not in jobs or not is_whole(np.asarray(jobs["job_id"])) or np.isnan(jobs["job_id"]).any():
        if "job_id" in jobs:
            jobs["x_job_id"] = jobs.pop("job_id")
        jobs["job_id"] = np.arange(1, len(frame) + 1)
    known = machine or Machine()
    if dated and known.epoch is None:
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


def _numbers(
    values: pd.Series, timezone: str | None, *, dates: bool = True
) -> tuple[NDArray[Any], NDArray[np.bool_], bool, list[str]]:
    """Return seconds or plain numbers, which rows are neither, whether the column held dates, and remarks on those."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(values), bool), False, []
    known = values.notna().to_numpy()
    if pd.api.types.is_datetime64_any_dtype(values.dtype) and dates:
        seconds, remarks = seconds_of(values, timezone)
        return seconds, known & np.isnan(seconds), True, remarks
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        values = values.astype(str)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if not dates or not (known & np.isnan(numbers)).any():
        return numbers, known & np.isnan(numbers), False, []
    seconds, remarks = seconds_of(values, timezone)
    if (~np.isnan(numbers)).sum() >= (~np.isnan(seconds)).sum():
        return numbers, known & np.isnan(numbers), False, []
    return seconds, known & np.isnan(seconds), True, remarks


def _from_stamps(jobs: dict[str, Any]) -> None:
    """Compute wait and run time from start and end, where they are not given themselves."""
    start, end = jobs.pop("start_time", None), jobs.pop("end_time", None)
    if start is not None and "submit_time" in jobs:
        jobs["wait_time"] = _filled(jobs.get("wait_time"), start - jobs["submit_time"])
    if start is not None and end is not None:
        jobs["run_time"] = _filled(jobs.get("run_time"), end - start)


def _filled(given: Any, computed: NDArray[np.float64]) -> NDArray[np.float64]:
    return computed if given is None else np.where(np.isnan(given), computed, given)


def _check_enough(jobs: dict[str, Any], path: Path, frame: pd.DataFrame) -> None:
    missing = [name for name in ("submit_time", "run_time") if name not in jobs]
    if not any(name in jobs for name in SIZE_COLUMNS):
        missing.append("req_procs")
    if missing:
        has = ", ".join(str(name) for name in frame.columns[:12]) + (" …" if frame.shape[1] > 12 else "")
        wanted = ",".join(f"{name}=THEIRS" for name in missing)
        raise FormatError(path, f"no column for {', '.join(missing)}; it has: {has}", hint=f"name them: --map {wanted}")
