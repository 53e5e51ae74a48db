"""Delimited text, read strictly: short rows are not padded, and every damaged row is reported with its line number."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from swf.base import head_lines
from tracekit import limits
from tracekit.errors import FormatError
from tracekit.files import head_of, opened

DELIMITERS = ",;\t|"
UNKNOWN = ["", "NA", "NaN", "nan", "NULL", "null", "None"]


def header_cells(head: bytes) -> list[str]:
    """Return the names in the first line of a table, or an empty list; for `Format.sniff`."""
    lines = head_lines(head, limit=1)
    return [cell.strip().strip('"') for cell in lines[0].split(delimiter_of(lines[0]))] if lines else []


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
    types: Mapping[str, Any] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Read a delimited file; a row with too few or too many fields is damaged and is not padded.

    ``names`` are the columns of a comma-separated file without a header row. Columns in ``text`` are read as labels
    whatever they contain, ``only`` selects columns, and ``types`` gives Arrow types that are otherwise inferred.
    Returns the table, whose index counts lines from 1 (without blank lines), and, with ``on_error="skip"``, notes on
    the rows that were left out.
    """
    import pyarrow as pa

    head = head_of(path)
    if b"\0" in head:
        raise FormatError(path, "contains binary data, expected a text table")
    lines = head_lines(head, limit=1)
    if not lines:
        raise FormatError(path, "the first line is too long for a table" if head else "the file is empty", line=1)
    width = 1 + lines[0].count("," if names else delimiter_of(lines[0]))
    limits.check("fields", width, path, f"{width:,} columns", line=1)
    damaged: list[tuple[int, str]] = []

    def note(row: Any) -> str:
        where = "expected" if names else "the header has"
        problem = f"{row.actual_columns} fields, {where} {row.expected_columns}"
        damaged.append((row.number or 0, "a quotation mark is not closed" if row.text == _CUT else problem))
        return "skip"

    def attempt(encoding: str, handler: Callable[[Any], str] | None = None) -> Any:
        damaged.clear()
        delimiter = "," if names else delimiter_of(lines[0])
        found = parsed(path, encoding, delimiter, names, text, only, handler, types)
        found.column_names  # noqa: B018  (raises if a name is not UTF-8)
        return found

    try:
        try:
            found = attempt("utf8")
        except (pa.ArrowInvalid, UnicodeDecodeError):  # a row is damaged, or the text is not UTF-8
            found = attempt("utf8" if _is_utf8(path) else "latin1", note)
        if any(pa.types.is_binary(kind) for kind in found.schema.types):  # text that is not UTF-8 is returned as bytes
            found = attempt("latin1", note)
    except pa.ArrowKeyError as error:
        raise FormatError(path, f"the table does not have the expected layout: {shown(error, 80)}") from None
    except pa.ArrowInvalid as error:
        raise FormatError(path, f"the table cannot be read: {shown(error, 120)}") from None
    if damaged and on_error != "skip":
        line, problem = damaged[0]
        raise FormatError(path, problem, line=line_of(path, line), hint="convert --on-error skip leaves such lines out")
    if not found.num_rows:
        raise FormatError(path, "contains no jobs" if names else "contains no jobs, only a header")
    remarks = [skipped(len(damaged), f"line {line_of(path, damaged[0][0])}, {damaged[0][1]}")] if damaged else []
    frame: pd.DataFrame = found.to_pandas()
    first = 1 if names else 2
    counted = np.arange(first, first + len(frame) + len(damaged))
    if damaged:
        counted = np.setdiff1d(counted, [line for line, _ in damaged])[: len(frame)]
    frame.index = pd.Index(counted, name="line")
    return frame, remarks


def parsed(
    path: Path,
    encoding: str,
    delimiter: str,
    names: Sequence[str] | None = None,
    text: Collection[str] = (),
    only: Collection[str] = (),
    handler: Callable[[Any], str] | None = None,
    types: Mapping[str, Any] | None = None,
) -> Any:
    """Return a delimited file as an Arrow table; ``handler`` is asked about damaged rows, which else are errors."""
    import pyarrow as pa
    import pyarrow.csv

    options = pa.csv.ReadOptions(use_threads=False, encoding=encoding, column_names=list(names) if names else None)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=False, invalid_row_handler=handler)
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True,
        null_values=UNKNOWN,
        column_types={**(types or {}), **dict.fromkeys(text, pa.dictionary(pa.int32(), pa.string()))},
        include_columns=list(only),
    )
    with opened(path) as source:
        return pa.csv.read_csv(_quotes_closed(source, delimiter) if handler else source, options, parse, convert)


#: Stands for a line whose quotation marks are not closed: one field, which no table of jobs has.
_CUT = "?"


def _quotes_closed(source: IO[bytes], delimiter: str) -> IO[bytes]:
    """Return the text with cut quotations marked, each of which would else take the next lines for its own."""
    opens = re.compile(rb'(?:^|%s)"' % re.escape(delimiter.encode()))
    lines = source.read().split(b"\n")
    cut = [line.count(b'"') % 2 == 1 and opens.search(line) is not None for line in lines]
    return io.BytesIO(b"\n".join(_CUT.encode() if bad else line for line, bad in zip(lines, cut, strict=True)))


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as source:
        try:
            while block := source.read(1024 * 1024):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def skipped(count: int, first: str) -> str:
    """Return a note with the number of lines left out, and the first of them."""
    return f"skipped {count} damaged line{'s' * (count > 1)}" + (f" (first: {first})" if first else "")


def shown(value: Any, limit: int = 40) -> str:
    """Return a value for a message: short, on one line, printable characters only."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return f"'{text[:limit]}{'…' * (len(text) > limit)}'"


def line_of(path: Path, counted: int) -> int | None:
    """Return the line number of the ``counted``-th line that is not blank; None if there is no such line."""
    seen = 0
    with opened(path) as source:
        for number, line in enumerate(source, 1):
            seen += bool(line.strip(b"\r\n"))
            if seen == counted:
                return number
    return None
