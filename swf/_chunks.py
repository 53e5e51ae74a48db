"""Delimited text in parts: each part of a large file is read as a small file, with the types of the whole."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from swf import _delimited
from swf.base import Blocks, Unsteady
from tracekit.errors import FormatError
from tracekit.trace import Trace


def traces(
    source: Blocks, on_error: str, text: Collection[str], make: Callable[[pd.DataFrame, Path], tuple[Trace, Any]]
) -> Iterator[Trace]:
    """Yield ``make`` of each part; its second result, the machine and the columns must not change between parts."""
    known = None
    for frame, remarks, part in Parts(source, on_error, text):
        with part.placed():
            trace, rule = make(frame, part.file)
        shape = (rule, trace.machine, tuple(trace.jobs.columns))
        if known not in (None, shape):
            raise Unsteady("the parts of the file differ in job ids, columns or the scheduled unit")
        known = shape
        steps = [*remarks, *(part.moved(step) for step in trace.history)]
        yield Trace(trace.jobs, trace.machine, tuple(steps))


class Parts:
    """The parts of a delimited file with a header row. Iterate as often as needed; types are found in a first pass."""

    def __init__(self, source: Blocks, on_error: str, text: Collection[str] = ()) -> None:
        self.source, self.on_error, self.text = source, on_error, text
        self.types: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[tuple[pd.DataFrame, list[str], Part]]:
        if self.types is None:
            self.types = self._find_types()
        for part in self._parts():
            with part.placed():
                frame, remarks = _delimited.read_delimited(
                    part.file, on_error=self.on_error, types=self.types, text=self.text
                )
            yield frame, [part.moved(remark) for remark in remarks], part

    def _parts(self) -> Iterator[Part]:
        header, line = b"", 1
        with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
            file = Path(folder) / "part"
            for raw in self.source:
                block = self.source.utf8(raw)
                lines = block.count(b"\n")
                if not header:
                    header = block[: block.find(b"\n") + 1]
                    file.write_bytes(block)
                    yield Part(self.source.path, file, 0)
                elif block.strip():
                    file.write_bytes(header + block)
                    yield Part(self.source.path, file, line - 2)
                line += lines

    def _find_types(self) -> dict[str, Any]:
        """Read the file once and return the narrowest types that fit every part."""
        import pyarrow as pa

        found: dict[str, Any] = {}
        for part in self._parts():
            with part.file.open(encoding="utf-8") as file:
                delimiter = _delimited.delimiter_of(file.readline())
            try:
                schema = _delimited.parsed(part.file, "utf8", delimiter, handler=lambda row: "skip").schema
            except pa.ArrowInvalid as error:
                problem = f"not a readable table: {_delimited.shown(error, 120)}"
                raise FormatError(self.source.path, problem) from None
            for name, kind in zip(schema.names, schema.types, strict=True):
                found[name] = wider(found[name], kind) if name in found else kind
        return found


class Part:
    """One part as a file of its own; ``offset`` turns its line numbers into those of the whole file."""

    def __init__(self, path: Path, file: Path, offset: int) -> None:
        self.path, self.file, self.offset = path, file, offset

    def moved(self, remark: str) -> str:
        """Return a note with the line numbers of the whole file."""
        return re.sub(r"\bline (\d+)", lambda match: f"line {int(match[1]) + self.offset}", remark)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Make errors name the whole file and its line."""
        try:
            yield
        except FormatError as error:
            if error.problem.startswith("contains no jobs"):  # every line of this part was left out
                raise Unsteady(error.problem) from None
            line = None if error.line is None else error.line + self.offset
            raise FormatError(self.path, error.problem, line=line, hint=error.hint) from None


def wider(one: Any, other: Any) -> Any:
    """Return the type of a column whose parts have the types ``one`` and ``other``."""
    import pyarrow as pa

    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kinds = {one, other}
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.bool_() in kinds and kinds != {pa.bool_(), pa.string()}:
        raise Unsteady("a column holds 0 and 1 in one part of the file and words in another")
    if kinds <= {pa.date32(), pa.timestamp("s"), pa.timestamp("ns")}:
        return pa.timestamp("ns") if pa.timestamp("ns") in kinds else pa.timestamp("s")
    return pa.string()
