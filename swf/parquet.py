"""Parquet: tracekit's own lossless file. Machine and history travel in the file's metadata.

A Parquet table from elsewhere is read like a csv: by our column names or by a column map.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import pandas as pd

from swf import _table
from swf._native import KEY, about_of, check_size, damage, is_native, metadata
from swf._spill import Spill, dictionary_limit
from swf.base import Unsteady
from swf.parts import Parts, files_of, is_folder_of_parts
from tracekit.errors import FormatError
from tracekit.machine import Machine
from tracekit.schema import BY_NAME, sorted_labels
from tracekit.trace import Trace

#: Other Parquet tables that have their own reader, by the columns that identify them.
FOREIGN: dict[str, frozenset[str]] = {
    "pm100": frozenset({"job_id", "submit_time", "run_time", "time_limit", "num_cores_req", "job_state"}),
    "fdata": frozenset({"jid", "usr", "adt", "sdt", "edt", "elpl", "cnumr"}),
    "google-2019": frozenset({"time", "type", "collection_id"}),
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
        return head.startswith(b"PAR1") and not _has_reader(head, path)

    def sniff_folder(self, folder: Path) -> bool:
        """Accept a folder of Parquet files, the parts of a trace, unless the tables have their own reader."""
        return is_folder_of_parts(folder) and not any(_has_reader(b"PAR1", file) for file in files_of(folder))

    def states_unit(self, path: Path) -> bool:
        """Return whether the file states the scheduled unit: files written by tracekit do."""
        import pyarrow.parquet

        return KEY in (pyarrow.parquet.read_schema(files_of(path)[0]).metadata or {})

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
        """Read a native file or a folder of parts as written, or any Parquet table by its columns.

        ``columns``: of native files only these are read, and those that every trace has.
        """
        import pyarrow as pa
        import pyarrow.parquet

        files = files_of(path)
        if map is None and is_native(files[0]):
            return (_read_folder if path.is_dir() else _read_file)(path, timezone, columns)
        tables = []
        for file in files:
            with damage(file):
                check_size(file)
                tables.append(pa.parquet.read_table(file))
        with damage(path):
            table = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
            return _table.to_trace(table.to_pandas(), path, mapping=map, timezone=timezone, on_error=on_error)

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write everything; nothing is lost."""
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pandas(trace.jobs, preserve_index=False)
        facts = {**(table.schema.metadata or {}), **metadata(trace.machine, trace.history)}
        limit = dictionary_limit(trace.jobs.dtypes)
        table = table.replace_schema_metadata(facts)
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
        spill.write(out, metadata(kept, history))
        return spill.jobs, history


def _read_file(path: Path, timezone: str | None, columns: Collection[str] | None) -> Trace:
    """Read a native file into memory."""
    import pyarrow.parquet

    with damage(path):
        check_size(path)
        about = about_of(pyarrow.parquet.read_schema(path), path)
    assert about is not None
    frame = _read_by_column([path], columns, ordered="part" in about)
    machine = Machine.from_dict(about["machine"], origin=str(path))
    return Trace(frame, machine.replace(timezone=timezone) if timezone else machine, tuple(about["history"]))


def _read_folder(path: Path, timezone: str | None, columns: Collection[str] | None) -> Trace:
    """Read all parts of a folder into memory."""
    parts = Parts(path)
    frame = _read_by_column(parts.files, columns, parts.schema)
    machine = parts.machine.replace(timezone=timezone) if timezone else parts.machine
    return Trace(frame, machine, parts.history)


def _read_by_column(
    files: Sequence[Path], columns: Collection[str] | None, schema: Any = None, *, ordered: bool = True
) -> pd.DataFrame:
    """Read native files column by column, so that no more than one of them is in memory twice.

    ``schema``: the types of several files. ``ordered``: labels come in their usual order, as parts hold those that they
    use, in any order.
    """
    import pyarrow as pa
    import pyarrow.parquet

    with damage(files[0]):
        names = pa.parquet.read_schema(files[0]).names
    made: dict[str, pd.Series] = {}
    pool = pa.default_memory_pool()
    for name in names:
        required = name in BY_NAME and BY_NAME[name].required
        if columns is not None and name not in columns and not required:
            continue
        tables = []
        for file in files:
            with damage(file), pa.parquet.ParquetFile(file) as source:
                table = source.read(columns=[name])
                if schema is not None:
                    facts = table.schema.metadata
                    table = table.cast(pa.schema([schema.field(name)])).replace_schema_metadata(facts)
                tables.append(table)
        with damage(files[0]):
            values = pa.concat_tables(tables).to_pandas()[name]
        made[name] = _in_label_order(values) if ordered else values
        del table, tables
        pool.release_unused()
    return pd.DataFrame(made, copy=False)


def _in_label_order(values: pd.Series) -> pd.Series:
    """Return a column with its labels in their usual order."""
    if not isinstance(values.dtype, pd.CategoricalDtype) or values.name == "status":
        return values
    return values.cat.set_categories(pd.Index(sorted_labels(values.cat.categories), dtype=object))


def _has_reader(head: bytes, path: Path) -> bool:
    columns = foreign_columns(head, path)
    return any(columns >= theirs for theirs in FOREIGN.values())


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
    return frozenset() if KEY in (schema.metadata or {}) else frozenset(schema.names)


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
