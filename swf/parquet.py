"""Parquet: tracekit's own lossless file. Machine and history travel in the file's metadata.

A Parquet table from elsewhere is read like a csv: by our column names or by a column map.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import pandas as pd

from swf import _table
from swf._spill import Spill, dictionary_limit
from swf.base import Unsteady
from tracekit import limits
from tracekit.errors import FormatError, TracekitError
from tracekit.machine import Machine
from tracekit.schema import BY_NAME
from tracekit.trace import Trace

_KEY = b"tracekit"
_VERSION = 1
#: Other Parquet tables that have their own reader, by the columns that identify them.
FOREIGN: dict[str, frozenset[str]] = {
    "pm100": frozenset({"job_id", "submit_time", "run_time", "time_limit", "num_cores_req", "job_state"}),
    "fdata": frozenset({"jid", "usr", "adt", "sdt", "edt", "elpl", "cnumr"}),
}


class Parquet:
    """Reader and writer of the native file."""

    name: ClassVar[str] = "parquet"
    title: ClassVar[str] = "tracekit's own lossless file (Apache Parquet)"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    options: ClassVar[frozenset[str]] = frozenset({"map", "on_error", "timezone"})
    #: Whether `read` takes ``columns``, see `tracekit.api.read_as`.
    by_column: ClassVar[bool] = True

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept Parquet's magic number, unless the table has its own reader."""
        columns = foreign_columns(head, path)
        return head.startswith(b"PAR1") and not any(columns >= theirs for theirs in FOREIGN.values())

    def states_unit(self, path: Path) -> bool:
        """Return whether the file states the scheduled unit: files written by tracekit do."""
        import pyarrow.parquet

        return _KEY in (pyarrow.parquet.read_schema(path).metadata or {})

    def read(
        self,
        path: Path,
        /,
        *,
        map: dict[str, str] | None = None,
        on_error: str = "stop",
        timezone: str | None = None,
        columns: Collection[str] | None = None,
    ) -> Trace:
        """Read a native file as it was written, or any Parquet table by its columns.

        ``columns``: of a native file only these are read, and those that every trace has.
        """
        import pyarrow as pa
        import pyarrow.parquet

        with damage(path):
            check_size(path)
            stored = (pa.parquet.read_schema(path).metadata or {}).get(_KEY)
            if stored is None or map is not None:
                frame = pa.parquet.read_table(path).to_pandas()
                return _table.to_trace(frame, path, mapping=map, timezone=timezone, on_error=on_error)
            frame = _read_by_column(path, columns)
        about = _about(stored, path)
        machine = Machine.from_dict(about["machine"], origin=str(path))
        return Trace(frame, machine.replace(timezone=timezone) if timezone else machine, tuple(about["history"]))

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write everything; nothing is lost."""
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pandas(trace.jobs, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), **_metadata(trace.machine, trace.history)}
        limit = dictionary_limit(trace.jobs.dtypes)
        table = table.replace_schema_metadata(metadata)
        pa.parquet.write_table(table, out, compression="zstd", dictionary_pagesize_limit=limit)
        return []

    def write_chunks(
        self,
        chunks: Iterable[Trace],
        out: IO[bytes],
        /,
        *,
        folder: Path,
        machine: Callable[[Machine], tuple[Machine, list[str]]] = lambda known: (known, []),
    ) -> tuple[int, list[str]]:
        """Write chunks of one file, which are kept in ``folder`` until all are read; return the jobs and the history.

        ``machine`` turns the machine in the file into the one to keep, with notes for the history.
        """
        spill = Spill(folder)
        for chunk in chunks:
            spill.add(chunk)
        if not spill.jobs:
            raise Unsteady("no jobs")  # reading it whole gives the reason
        kept, remarks = machine(spill.machine)
        history = [*spill.steps(), *remarks]
        spill.write(out, _metadata(kept, history))
        return spill.jobs, history


def _read_by_column(path: Path, columns: Collection[str] | None) -> pd.DataFrame:
    """Read a native file column by column, so that no more than one of them is in memory twice."""
    import pyarrow as pa
    import pyarrow.parquet

    made: dict[str, pd.Series] = {}
    pool = pa.default_memory_pool()
    with pa.parquet.ParquetFile(path) as file:
        for name in file.schema_arrow.names:
            required = name in BY_NAME and BY_NAME[name].required
            if columns is None or name in columns or required:
                made[name] = file.read(columns=[name]).to_pandas()[name]
                pool.release_unused()
    return pd.DataFrame(made, copy=False)


def _metadata(machine: Machine, history: Sequence[str]) -> dict[bytes, bytes]:
    about = {"version": _VERSION, "machine": machine.to_dict(), "history": list(history)}
    return {_KEY: json.dumps(about).encode()}


def foreign_columns(head: bytes, path: Path) -> frozenset[str]:
    """Return the names of the columns of a Parquet file that tracekit did not write; none for any other file."""
    import pyarrow as pa
    import pyarrow.parquet

    if not head.startswith(b"PAR1"):
        return frozenset()
    try:
        schema = pa.parquet.read_schema(path)
    except Exception:  # reading the file reports what is wrong
        return frozenset()
    return frozenset() if _KEY in (schema.metadata or {}) else frozenset(schema.names)


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn what goes wrong in a damaged Parquet file or in its metadata into a `FormatError`."""
    try:
        yield
    except (TracekitError, MemoryError):
        raise
    except Exception as error:  # bytes and metadata of pandas can be wrong in many ways
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(path, f"not a readable Parquet file: {words[:200]}") from None


def check_size(path: Path) -> None:
    """Refuse a table that would take much more memory than its file is large (limits ``expansion`` and ``fields``)."""
    import pyarrow.parquet

    facts = pyarrow.parquet.read_metadata(path)
    limits.check("fields", facts.num_columns, path, f"{facts.num_columns:,} columns")
    size = 8 * facts.num_rows * facts.num_columns
    if size > 4 * limits.FREE_BYTES:
        times = size / max(1, path.stat().st_size)
        limits.check("expansion", times, path, f"{facts.num_rows:,} rows, {times:,.0f} times the size of the file")


def read_flat(path: Path, needed: frozenset[str]) -> pd.DataFrame:
    """Read the columns of a Parquet table that hold one value a row; those in ``needed`` must be among them."""
    import pyarrow as pa
    import pyarrow.parquet

    with damage(path):
        check_size(path)
        schema = pa.parquet.read_schema(path)
        flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
        absent = sorted(needed - set(flat))
        if absent:
            raise FormatError(path, f"missing column {', '.join(absent)}; the file has: {', '.join(flat[:12])}")
        frame: pd.DataFrame = pa.parquet.read_table(path, columns=flat).to_pandas()
    return frame.reset_index(drop=True)


def list_columns(path: Path) -> list[str]:
    """Return the names of the columns that hold a list of numbers a row."""
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.parquet.read_schema(path)
    lists = [field for field in schema if pa.types.is_list(field.type) or pa.types.is_large_list(field.type)]
    numbers = (pa.types.is_integer, pa.types.is_floating)
    return [field.name for field in lists if any(test(field.type.value_type) for test in numbers)]


def list_batches(path: Path, name: str) -> Iterator[Any]:
    """Yield one column of lists as Arrow arrays, some rows at a time: the lists may be larger than memory."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=8192, columns=[name]):
                yield batch.column(0)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(path, f"cannot be read as a Parquet file: {str(error).splitlines()[0]}") from None


def _about(stored: bytes, path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(stored)
        version, history, machine = about["version"], about["history"], about["machine"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise FormatError(path, "the tracekit metadata in the file is damaged") from None
    steps = isinstance(history, list) and all(isinstance(step, str) for step in history)
    if type(version) is not int or not steps or not isinstance(machine, dict):
        raise FormatError(path, "the tracekit metadata in the file is damaged")
    if version > _VERSION:
        raise FormatError(path, f"was written by a newer tracekit (file version {version}); upgrade tracekit")
    return about
