"""Chunks of jobs kept on disk until their common types are known, then written as one Parquet file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from swf.base import Unsteady
from tracekit.machine import Machine
from tracekit.schema import COLUMNS, STATUSES, sorted_labels
from tracekit.trace import Trace

#: Jobs that are written at a time.
ROW_GROUP = 250_000
_COUNTED = re.compile(r"(skipped |left out |column \w+: )(\d+)( damaged lines?)?(.*)")


def dictionary_limit(types: Iterable[Any]) -> int:
    """Return how large a Parquet dictionary may grow: labels keep their order only while one holds them all."""
    labels = (dtype.categories for dtype in types if isinstance(dtype, pd.CategoricalDtype))
    largest = max((sum(len(str(name).encode()) + 4 for name in names) for names in labels), default=0)
    return max(2**20, 2 * largest)


class Spill:
    """Takes the chunks one after the other, and writes them with one type for each column."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self.jobs = 0
        self.labels: dict[str, set[str]] = {}
        self.types: dict[str, set[str]] = {}
        self.columns: list[str] = []
        self.history: dict[str, tuple[str, int | None]] = {}  # key of equal steps -> text with # for the count
        self.machine = Machine()

    def add(self, trace: Trace) -> None:
        """Keep one chunk; the machine of the last one is the file's."""
        import pyarrow as pa
        import pyarrow.feather

        table = pa.Table.from_pandas(trace.jobs, preserve_index=False)
        for name in trace.jobs.columns:
            values = trace.jobs[name]
            if isinstance(values.dtype, pd.CategoricalDtype):
                self.types.setdefault(name, set()).add("category")
                self.labels.setdefault(name, set()).update(values.cat.categories)
            else:
                kind = str(table.schema.field(name).type) if values.dtype == object else str(values.dtype)
                self.types.setdefault(name, set()).add(kind)
        if self.files and set(self.columns) != set(trace.jobs.columns):
            self.columns += [name for name in trace.jobs.columns if name not in self.columns]
        self.columns = self.columns or list(trace.jobs.columns)
        file = self.folder / f"{len(self.files):06}.feather"
        pa.feather.write_feather(table, file, compression="lz4")
        self.files.append(file)
        self.jobs += len(trace)
        for step in trace.history:
            self._note(step)
        self.machine = trace.machine

    def steps(self) -> list[str]:
        """Return the history, with the counts of all chunks put together."""
        return [
            step if total is None else step.replace("#", str(total), 1).replace("damaged line(s)", _lines(total))
            for step, total in self.history.values()
        ]

    def _note(self, step: str) -> None:
        """Add a step to the history; counts are added to those of the same step in earlier chunks."""
        match = _COUNTED.fullmatch(step)
        if match is None:
            self.history.setdefault(step, (step, None))
            return
        before, count, lines, after = match[1], int(match[2]), match[3], match[4]
        key = before + (" damaged line" if lines else after)
        pattern, total = self.history.get(key, (f"{before}#{' damaged line(s)' if lines else ''}{after}", 0))
        self.history[key] = (pattern, (total or 0) + count)

    def write(self, out: IO[bytes], metadata: dict[bytes, bytes]) -> None:
        """Write one file; every row group holds all labels, so that they keep their order."""
        import pyarrow.parquet

        made = self._made()
        writer = None
        try:
            for table in self._tables(made, ROW_GROUP, keep_labels=True):
                if writer is None:
                    schema = table.schema.with_metadata({**table.schema.metadata, **metadata})
                    limit = dictionary_limit(made.values())
                    writer = pyarrow.parquet.ParquetWriter(
                        out, schema, compression="zstd", dictionary_pagesize_limit=limit
                    )
                writer.write_table(table.replace_schema_metadata(schema.metadata))
        finally:
            if writer is not None:
                writer.close()

    def write_parts(
        self, folder: Path, jobs: int, name: Callable[[int], str], metadata: Callable[[int], dict[bytes, bytes]]
    ) -> None:
        """Write files of ``jobs`` jobs each; row groups hold the labels that they use, or labels would outgrow jobs."""
        import pyarrow.parquet

        writer, number, rows = None, 0, 0
        try:
            for table in self._tables(self._made(), min(jobs, ROW_GROUP), keep_labels=False, within=jobs):
                if writer is None:
                    schema = table.schema.with_metadata({**table.schema.metadata, **metadata(number)})
                    place = folder / name(number)
                    writer = pyarrow.parquet.ParquetWriter(place, schema, compression="zstd")
                writer.write_table(table.replace_schema_metadata(schema.metadata))
                rows += len(table)
                if rows == jobs:
                    writer.close()
                    writer, number, rows = None, number + 1, 0
        finally:
            if writer is not None:
                writer.close()

    def _made(self) -> dict[str, Any]:
        """Return the types of the columns, in the order of the schema."""
        made = {name: self._dtype(name, kinds) for name, kinds in self.types.items()}
        order = [column.name for column in COLUMNS if column.name in made]
        return {name: made[name] for name in [*order, *(name for name in self.columns if name not in order)]}

    def _tables(self, made: dict[str, Any], rows: int, *, keep_labels: bool, within: int = 0) -> Iterator[Any]:
        """Yield all jobs as Arrow tables of ``rows`` rows; one also ends at each multiple of ``within``."""
        waiting: list[pd.DataFrame] = []
        ready, done = 0, 0
        for frame in self._frames(made):
            while len(frame):
                room = min(rows, (within - done % within) if within else rows) - ready
                waiting.append(frame.iloc[:room])
                ready += len(waiting[-1])
                frame = frame.iloc[room:]
                if len(waiting[-1]) == room:
                    yield _table(waiting, made, keep_labels)
                    done, ready, waiting = done + ready, 0, []
        if ready:
            yield _table(waiting, made, keep_labels)

    def _frames(self, made: dict[str, Any]) -> Iterator[pd.DataFrame]:
        """Yield the chunks with their common types, and remove each from the disk."""
        import pyarrow.feather

        for file in self.files:
            frame = pyarrow.feather.read_table(file, memory_map=False).to_pandas()
            file.unlink()
            yield _cast(frame, list(made), made)

    def _dtype(self, name: str, kinds: set[str]) -> Any:
        """Return the type that the column would have if the file were read whole."""
        if name == "status":
            return pd.CategoricalDtype(pd.Index(STATUSES, dtype=object))
        if kinds == {"category"}:
            return pd.CategoricalDtype(pd.Index(sorted_labels(self.labels[name]), dtype=object))
        if len(kinds) == 1:
            (kind,) = kinds
            return object if kind in ("string", "null", "bool") and kind != "bool" else _plain(kind)
        if kinds <= {"string", "null"}:
            return object
        if kinds <= {"Int64", "float64"} or kinds <= {"int64", "float64"}:
            return np.dtype("float64")
        raise Unsteady(f"column {name} has different types in different parts of the file: {', '.join(sorted(kinds))}")


def _lines(count: int) -> str:
    return f"damaged line{'s' * (count > 1)}"


def _plain(kind: str) -> Any:
    return object if kind in ("bool", "date32[day]", "time32[s]") else pd.api.types.pandas_dtype(kind)


def _field(field: Any, dtype: Any) -> Any:
    """Return the field of the whole file: a chunk that holds only missing texts is still a column of texts."""
    import pyarrow as pa

    if pa.types.is_null(field.type) and dtype is object:
        return pa.field(field.name, pa.string())
    if pa.types.is_dictionary(field.type):
        return pa.field(field.name, pa.dictionary(pa.int32(), field.type.value_type))
    return field


def _table(frames: Sequence[pd.DataFrame], made: dict[str, Any], keep_labels: bool) -> Any:
    """Return an Arrow table with the types of the whole file; without ``keep_labels`` only with labels that occur."""
    import pyarrow as pa

    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0].reset_index(drop=True)
    labelled = {name: dtype for name, dtype in made.items() if isinstance(dtype, pd.CategoricalDtype)}
    for name, dtype in labelled.items():
        frame[name] = _labels(frame[name].to_numpy(), dtype, all_=keep_labels or name == "status")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    schema = pa.schema([_field(table.schema.field(name), made[name]) for name in made], metadata=table.schema.metadata)
    return table.cast(schema.remove_metadata()).replace_schema_metadata(schema.metadata)


def _labels(codes: Any, dtype: Any, *, all_: bool) -> Any:
    """Return codes of the whole file's labels as a column that has all of these, or only those that occur."""
    if all_:
        return pd.Categorical.from_codes(codes, dtype=dtype)
    used = np.unique(codes[codes >= 0])
    return pd.Categorical.from_codes(
        np.where(codes < 0, -1, np.searchsorted(used, codes)), categories=dtype.categories[used]
    )


def _cast(frame: pd.DataFrame, order: Sequence[str], made: dict[str, Any]) -> pd.DataFrame:
    """Convert one chunk to the columns and types of the whole file; labels are codes, of which there may be many."""
    columns: dict[str, Any] = {}
    for name in order:
        dtype = made[name]
        if isinstance(dtype, pd.CategoricalDtype):
            columns[name] = _codes(frame, name, dtype)
        elif name not in frame.columns:
            missing: Iterable[Any] = np.full(len(frame), None, dtype=object)
            columns[name] = pd.Series(missing, dtype=object if dtype is object else dtype)
        elif dtype == np.float64:
            columns[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            columns[name] = frame[name]
    return pd.DataFrame(columns)


def _codes(frame: pd.DataFrame, name: str, dtype: Any) -> Any:
    """Return which of the whole file's labels each job has; −1 = none."""
    if name not in frame.columns:
        return np.full(len(frame), -1, dtype=np.int32)
    place = dtype.categories.get_indexer(frame[name].cat.categories)
    return np.append(place, -1)[frame[name].cat.codes.to_numpy()].astype(np.int32)
