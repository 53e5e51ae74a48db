"""A trace in parts: a folder of our Parquet files that together are one trace, or one such file, read in batches.

Every part is a complete Parquet file of its own, so that duckdb, polars or Spark read a folder as one table. The parts
hold the jobs in the order of their names; each knows its number and how many there are, so that a missing one is
noticed before anything is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from swf import _native
from swf._spill import Spill
from swf.base import Unsteady
from tracekit.errors import FormatError, OutputError, TracekitError, UsageError
from tracekit.folders import check_folder, writing_folder
from tracekit.machine import Machine
from tracekit.schema import COLUMNS
from tracekit.trace import Trace

#: Jobs of a part where no number is given.
PART_JOBS = 5_000_000
#: Jobs that are read at a time.
BATCH_JOBS = 500_000
BATCH_VARIABLE = "TRACEKIT_BATCH_JOBS"
#: How many bytes reading a trace whole takes for each byte of its columns: Arrow's table and the Trace, at once.
WHOLE = 2.2
#: A file name of a part; parts of an earlier trace in the same folder are replaced with it.
PATTERN = "part-*.parquet"
_REQUIRED = tuple(column.name for column in COLUMNS if column.required)


def batch_jobs() -> int:
    """Return how many jobs are read at a time: those in TRACEKIT_BATCH_JOBS, or 500,000."""
    text = os.environ.get(BATCH_VARIABLE, "")
    if text and (not text.isdecimal() or not int(text)):
        raise UsageError(f"{BATCH_VARIABLE} must be a whole number from 1, not '{text}'")
    return int(text or BATCH_JOBS)


class Parts:
    """A Parquet trace that is read in batches of jobs, as often as needed. All its files are looked at first.

    Raises FormatError for a part that is missing, damaged, of another trace, or with other columns than the first.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.files = files_of(self.path)
        schema: Any = None
        self.jobs, abouts = 0, []
        for file in self.files:
            rows, found, about = _footer(file)
            if schema is not None and not found.equals(schema):
                raise FormatError(file, f"has other columns than {self.files[0].name}: {_difference(schema, found)}")
            schema = found
            self.jobs += rows
            abouts.append(about)
        self.schema: Any = schema
        _check_set(self.path, self.files, abouts)
        self.machine = Machine.from_dict(abouts[0]["machine"], origin=str(self.files[0]))
        self.history: tuple[str, ...] = tuple(abouts[0]["history"])
        self.columns: tuple[str, ...] = tuple(self.schema.names)

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield the jobs in their order, some at a time; with ``columns`` only those and the ones every trace has.

        The batches have no history of their own.
        """
        names = None if columns is None else self._with_required(columns)
        for file in self.files:
            with _native.damage(file):
                yield from self._read(file, names)

    def _read(self, file: Path, names: list[str] | None) -> Iterator[Trace]:
        import pyarrow as pa
        import pyarrow.parquet

        with pa.parquet.ParquetFile(file) as source:
            for batch in source.iter_batches(batch_size=batch_jobs(), columns=names, use_threads=False):
                yield Trace(pa.Table.from_batches([batch]).to_pandas(), self.machine)

    def _with_required(self, columns: Iterable[str]) -> list[str]:
        wanted = {*columns, *_REQUIRED}
        names = [name for name in self.columns if name in wanted]
        sizes = [name for name in self.columns if name.endswith(("_procs", "_nodes", "_gpus"))]
        return names if set(names) & set(sizes) else [*names, *sizes[:1]]

    def bytes_whole(self, columns: Iterable[str] | None = None) -> int:
        """Return about how much memory reading the trace whole takes, or these columns of it."""
        names = self.columns if columns is None else self._with_required(columns)
        return int(WHOLE * self.jobs * sum(_width(self.schema.field(name).type) for name in names))


def _width(kind: Any) -> float:
    """Return the bytes of a value in memory; texts are counted as 60 bytes."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return 4.0
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return 9.0
    return 60.0


def readable_parts(path: Path) -> Parts | None:
    """Return a Parquet trace of tracekit that can be read in batches; None for anything else or a damaged one."""
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                if file.read(4) != b"PAR1":
                    return None
        return Parts(path)
    except (OSError, TracekitError):
        return None


# ---- the set of files ------------------------------------------------------------------------------------------------


def is_folder_of_parts(folder: Path) -> bool:
    """Return whether a folder holds Parquet files and no other data; hidden files and those with _ first are passed."""
    try:
        names = [entry.name for entry in os.scandir(folder) if not entry.name.startswith((".", "_"))]
    except OSError:
        return False
    return bool(names) and all(name.lower().endswith((".parquet", ".pq")) for name in names)


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder of parts in the order of their names, or the one file."""
    if not path.is_dir():
        return [path]
    if not is_folder_of_parts(path):
        raise FormatError(path, "is not a folder of Parquet files (and of nothing else)")
    return sorted((entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))), key=lambda p: p.name)


def _footer(file: Path) -> tuple[int, Any, dict[str, Any]]:
    """Return the number of jobs of a file, its columns, and what tracekit wrote about them."""
    import pyarrow.parquet

    if not file.is_file():
        raise FormatError(file, "no such file")
    with _native.damage(file):
        facts = pyarrow.parquet.read_metadata(file)
        schema = facts.schema.to_arrow_schema()
        _native.check_size(file)
    about = _native.about_of(schema, file)
    if about is None:
        raise FormatError(
            file, "was not written by tracekit, so it cannot be read in parts", hint="use tracekit convert first"
        )
    return facts.num_rows, _plain(schema), about


def _plain(schema: Any) -> Any:
    """Return a schema without notes, and with labels of one kind however many there are."""
    import pyarrow as pa

    labels = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [pa.field(f.name, labels if pa.types.is_dictionary(f.type) else f.type) for f in schema], metadata=None
    )


def _difference(one: Any, other: Any) -> str:
    """Return the first column in which two schemas differ, in words."""
    for name in one.names:
        if name not in other.names:
            return f"{name} is missing"
        if one.field(name).type != other.field(name).type:
            return f"{name} is {other.field(name).type}, not {one.field(name).type}"
    more = [name for name in other.names if name not in one.names]
    return f"{more[0]} is new" if more else "they are in another order"


def _check_set(path: Path, files: Sequence[Path], abouts: Sequence[dict[str, Any]]) -> None:
    """Raise FormatError unless the files are all parts of one trace, in order; a single part is a trace, too."""
    if not path.is_dir():
        return
    known = [about.get("part") for about in abouts]
    if not any(known):
        for file, about in zip(files, abouts, strict=True):
            if about["machine"] != abouts[0]["machine"]:
                raise FormatError(
                    file, f"describes another machine than {files[0].name}", hint="tracekit merge joins such traces"
                )
        return
    first = next(part for part in known if part)
    for file, part in zip(files, known, strict=True):
        if not part or part["trace"] != first["trace"]:
            raise FormatError(file, f"belongs to another trace than {files[known.index(first)].name}")
    there = [int(part["number"]) for part in known if part]
    absent = sorted(set(range(int(first["of"]))) - set(there))
    if absent:
        raise FormatError(
            path / part_name(absent[0]), f"is missing: {len(absent):,} of {int(first['of']):,} parts are not there"
        )
    if there != list(range(len(there))):
        raise FormatError(path, "the names of the parts are not in the order of the jobs")


def part_name(number: int) -> str:
    """Return the file name of a part.

    >>> part_name(3)
    'part-00003.parquet'
    """
    return f"part-{number:05d}.parquet"


# ---- writing ---------------------------------------------------------------------------------------------------------


Finish = Callable[[Machine], tuple[Machine, list[str]]]


def check_target(target: str | Path, *, force: bool = False) -> None:
    """Raise OutputError before any work if a folder of parts cannot be written."""
    folder = check_folder(target)
    if not folder.absolute().parent.is_dir():
        raise OutputError(f"{folder}: the folder {folder.parent} does not exist")
    there = sorted(folder.glob(PATTERN)) if folder.is_dir() else []
    if there and not force:
        raise OutputError(f"{there[0]}: exists already; use --force to replace the parts in {folder}")


def write_parts(
    chunks: Iterable[Trace],
    target: str | Path,
    *,
    part_jobs: int = PART_JOBS,
    force: bool = False,
    machine: Finish = lambda known: (known, []),
) -> tuple[int, list[str]]:
    """Write chunks of jobs as a folder of parts, all or nothing; return the jobs and the history.

    The chunks wait on disk until all are seen, because their common types are known only then. The jobs, their types
    and labels do not depend on the sizes of chunks and parts.
    """
    if part_jobs < 1:
        raise UsageError(f"--part-jobs must be a whole number from 1, not {part_jobs}")
    check_target(target, force=force)
    with writing_folder(target, ours=(PATTERN,), force=force) as folder:
        waiting = folder / ".waiting"
        waiting.mkdir()
        spill = Spill(waiting)
        for chunk in chunks:
            spill.add(chunk)
        if not spill.jobs:
            raise Unsteady("no jobs")
        kept, remarks = machine(spill.machine)
        history = [*spill.steps(), *remarks]
        count = -(-spill.jobs // part_jobs)
        name = hashlib.sha256(repr((spill.jobs, kept, history)).encode("utf-8", "surrogateescape")).hexdigest()[:16]

        def about(number: int) -> dict[bytes, bytes]:
            return _native.metadata(kept, history, part={"number": number, "of": count, "trace": name})

        spill.write_parts(folder, part_jobs, part_name, about)
        waiting.rmdir()
    return spill.jobs, history


def in_chunks(trace: Trace, jobs: int = BATCH_JOBS) -> Iterator[Trace]:
    """Yield a trace that is in memory in chunks, for `write_parts`; they have its history only once."""
    for first in range(0, max(1, len(trace)), jobs):
        yield Trace(trace.jobs.iloc[first : first + jobs], trace.machine, () if first else trace.history)
