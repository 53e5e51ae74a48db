"""A table of texts read column by column; invalid rows are collected for the report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf._notation import Damage, Mask, Numbers, on_unique, shown, stamps
from tracekit import limits
from tracekit.errors import FormatError, SchemaError
from tracekit.machine import Machine
from tracekit.trace import Trace

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def check_text(source: str | bytes, content: Any, path: Path) -> None:
    """Raise FormatError for values of a JSON text with lone surrogates, which no file can hold."""
    if _HALF.search(source if isinstance(source, str) else source.decode("latin-1")):
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise FormatError(
                path, "contains text that is not valid Unicode (a lone surrogate such as \\ud800)"
            ) from None


def table_of(rows: Sequence[dict[str, Any]], path: Path) -> pd.DataFrame:
    """Return records of keys and values as a table; more keys than the limit ``fields`` are a `FormatError`."""
    keys = {key for row in rows for key in row}
    limits.check("fields", len(keys), path, f"{len(keys):,} different keys in its records")
    return pd.DataFrame(rows, dtype=object)


class Columns:
    """Reads columns of texts; ``lines`` holds the file's line of each row."""

    def __init__(self, table: pd.DataFrame, lines: Sequence[int] | NDArray[np.int64]) -> None:
        self.table, self.lines = table, lines
        self.wrong: list[tuple[str, Mask]] = []
        self.remarks: list[str] = []

    def note(self, name: str, wrong: Mask) -> None:
        """Record which rows of a column are invalid."""
        if wrong.any():
            self.wrong.append((name, wrong))

    def stamps(self, name: str, timezone: str | None) -> Numbers | None:
        """Return Unix seconds, or None if the column is missing."""
        if name not in self.table:
            return None
        values, wrong, remarks = stamps(self.table[name], timezone)
        self.note(name, wrong)
        self.remarks += [f"column {name}: {remark}" for remark in remarks]
        return values

    def first(self, *choices: tuple[str, Callable[[str], float]], default: Numbers | None = None) -> Numbers | None:
        """Return the first column that is known in each row, then ``default``; None if all columns are missing."""
        found: Numbers | None = None
        for name, parse in choices:
            if name in self.table:
                values, wrong = on_unique(self.table[name], parse)
                self.note(name, wrong)
                found = values if found is None else np.where(np.isnan(found), values, found)
        if found is None or default is None:
            return default if found is None else found
        return np.where(np.isnan(found), default, found)

    def numbers(self, *choices: tuple[str, Callable[[str], float]]) -> Numbers:
        """Return what `first` returns, but all unknown if all columns are missing."""
        found = self.first(*choices)
        return np.full(len(self.table), np.nan) if found is None else found

    def bad(self, damage: Damage) -> Mask:
        """Report every invalid row, and return which rows are invalid."""
        bad = np.zeros(len(self.table), dtype=bool)
        for name, wrong in self.wrong:
            for row in np.flatnonzero(wrong & ~bad).tolist():
                damage.add(int(self.lines[row]), f"'{shown(self.table[name].iloc[row])}' in {name} is not valid")
            bad |= wrong
        return bad


def known(*choices: Numbers) -> Numbers:
    """Return the first value that is known in each row."""
    found = choices[0]
    for values in choices[1:]:
        found = np.where(np.isnan(found), values, found)
    return found


def without_unknown(jobs: dict[str, Any]) -> dict[str, Any]:
    """Drop columns that are unknown in every row, except those that every trace has."""
    needed = ("submit_time", "run_time", "req_procs")
    return {name: values for name, values in jobs.items() if name in needed or not bool(np.all(pd.isna(values)))}


def number_jobs(jobs: dict[str, Any], numbers: Sequence[int], parts: Sequence[str]) -> None:
    """Keep the jobs' own numbers unless some are array tasks; otherwise count from 1 and keep x_jobid.

    ``parts`` is what follows the number of a task of an array (``[3]``, ``.3``), or empty.
    """
    if any(parts):
        jobs["job_id"] = np.arange(1, len(numbers) + 1)
        jobs["x_jobid"] = np.array([f"{job}{part}" for job, part in zip(numbers, parts, strict=True)], dtype=object)
    else:
        jobs["job_id"] = np.array(numbers, dtype=np.int64)


def made_trace(jobs: dict[str, Any], columns: Columns, damage: Damage, machine: Machine) -> Trace:
    """Return the trace of the rows that could be read; damaged rows are reported."""
    bad = columns.bad(damage)
    frame = pd.DataFrame(without_unknown(jobs))[~bad]
    if not len(frame):
        raise FormatError(damage.path, "none of its records could be read")
    try:
        return Trace(frame, machine, (*damage.remarks(), *columns.remarks))
    except SchemaError as error:
        raise FormatError(damage.path, str(error)) from None
