"""Tables with a header row: reading them strictly, and turning their columns into ours (csv, gpw, parquet)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf._delimited import header_cells, line_of, read_delimited, shown, skipped
from swf._times import elapsed, seconds_of
from tracekit.errors import FormatError, SchemaError, UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.schema import BY_NAME, SIZE_COLUMNS, is_whole, to_numeric
from tracekit.trace import Trace

__all__ = ["header_cells", "numeric", "parse_map", "read_delimited", "to_trace"]

#: Columns that a map may contain besides ours; wait and run time are computed from them.
STAMPS = ("start_time", "end_time")


def _line(path: Path, frame: pd.DataFrame, row: int) -> int | None:
    """Return the line of the file that a row of a table from `read_delimited` comes from."""
    return line_of(path, int(frame.index[row])) if frame.index.name == "line" else None


def numeric(
    frame: pd.DataFrame, path: Path, names: Sequence[str], *, on_error: str = "stop"
) -> tuple[pd.DataFrame, list[str]]:
    """Convert columns to float64; a row with a text that is not a number is an error, or left out and counted."""
    bad = np.zeros(len(frame), dtype=bool)
    made = {}
    for name in names:
        made[name], wrong, _, _ = _numbers(frame[name], None, dates=False)
        if wrong.any() and on_error != "skip":
            row = int(np.flatnonzero(wrong)[0])
            problem = f"{shown(frame[name].iloc[row])} in column {name} is not a number"
            hint = "convert --on-error skip leaves such lines out"
            raise FormatError(path, problem, line=_line(path, frame, row), hint=hint)
        bad |= wrong
    frame = frame.assign(**made)
    if not bad.any():
        return frame, []
    first = _line(path, frame, int(np.flatnonzero(bad)[0]))
    return frame[~bad], [f"{path.name}: " + skipped(int(bad.sum()), f"line {first}")]


def is_numeric(values: pd.Series) -> bool:
    """Return whether a column was read as numbers."""
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
            raise UsageError(f"--map needs pairs OURS=THEIRS such as run_time=Duration,user=owner; got '{pair}'")
        mapping[ours] = theirs
    check_map(mapping)
    return mapping


def check_map(mapping: Mapping[str, str]) -> None:
    """Raise UnknownName for names on our side that are not columns of a Trace."""
    for ours in mapping:
        if ours not in BY_NAME and ours not in STAMPS and not ours.startswith("x_"):
            raise UnknownName("column", ours, [*BY_NAME, *STAMPS])
    theirs = list(mapping.values())
    twice = next((name for name in theirs if theirs.count(name) > 1), None)
    if twice:
        raise UsageError(f"the column map uses '{twice}' twice; a source column can be mapped only once")


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
    ``start_time`` and ``end_time`` give wait_time and run_time where those are missing. ``dates=False``
    takes numbers only. Jobs whose ids are names are numbered from 1; the names are kept as ``x_job_id``.
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
            datable = dates and ours in ("submit_time", *STAMPS)  # a duration is not a date
            numbers, wrong, is_date, notes = _numbers(frame[name], timezone, dates=datable)
            if ours == "job_id" and wrong.mean() > 0.5:  # names, not damaged numbers: jobs are numbered from 1
                jobs[_free_name(ours, jobs)] = frame[name]
                continue
            remarks += [f"column {mapping.get(ours, ours)}: {note}" for note in notes]
            if wrong.any() and on_error != "skip":
                row = int(np.flatnonzero(wrong)[0])
                raise FormatError(
                    path,
                    f"{shown(frame[name].iloc[row])} in column {mapping.get(ours, ours)} is not a number"
                    + " or a date" * datable,
                    line=_line(path, frame, row),
                    hint="convert --on-error skip leaves such lines out",
                )
            jobs[ours], bad, dated = numbers, bad | wrong, dated or is_date
        elif ours in BY_NAME:
            jobs[ours] = frame[name]
        else:
            jobs[_free_name(ours, jobs)] = frame[name]
    if bad.any():
        first = _line(path, frame, int(np.flatnonzero(bad)[0]))
        remarks.append(skipped(int(bad.sum()), f"line {first}" if first else ""))
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


def _free_name(theirs: str, taken: Mapping[str, Any]) -> str:
    """Return the name under which a source column is kept: x_, letters and digits, and a number if needed."""
    base = theirs if theirs.startswith("x_") else "x_" + re.sub(r"\W+", "_", theirs.strip())
    return next(name for k in itertools.count(1) if (name := base if k == 1 else f"{base}_{k}") not in taken)


def _numbers(
    values: pd.Series, timezone: str | None, *, dates: bool = True
) -> tuple[NDArray[Any], NDArray[np.bool_], bool, list[str]]:
    """Return seconds or plain numbers, which rows are neither, whether the column held dates, and notes on them."""
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
    numbers = to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    if not dates or not (known & np.isnan(numbers)).any():
        return numbers, known & np.isnan(numbers), False, []
    seconds, remarks = seconds_of(values, timezone)
    if (~np.isnan(numbers)).sum() >= (~np.isnan(seconds)).sum():
        return numbers, known & np.isnan(numbers), False, []
    return seconds, known & np.isnan(seconds), True, remarks


def _from_stamps(jobs: dict[str, Any]) -> None:
    """Compute wait and run time from start and end, where they are not given."""
    start, end = jobs.pop("start_time", None), jobs.pop("end_time", None)
    if start is not None and "submit_time" in jobs:
        jobs["wait_time"] = _filled(jobs.get("wait_time"), elapsed(jobs["submit_time"], start))
    if start is not None and end is not None:
        jobs["run_time"] = _filled(jobs.get("run_time"), elapsed(start, end))


def _filled(given: Any, computed: NDArray[np.float64]) -> NDArray[np.float64]:
    return computed if given is None else np.where(np.isnan(given), computed, given)


def _check_enough(jobs: dict[str, Any], path: Path, frame: pd.DataFrame) -> None:
    missing = [name for name in ("submit_time", "run_time") if name not in jobs]
    if not any(name in jobs for name in SIZE_COLUMNS):
        missing.append("req_procs")
    if missing:
        has = ", ".join(str(name) for name in frame.columns[:12]) + (" …" if frame.shape[1] > 12 else "")
        wanted = ",".join(f"{name}=THEIRS" for name in missing)
        raise FormatError(path, f"no column for {', '.join(missing)}; it has: {has}", hint=f"map them: --map {wanted}")
