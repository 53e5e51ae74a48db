"""Tables of events, read with duckdb in bounded memory: their files, their rows, and what is damaged in them.

Every value is read as text and converted here, so that one rule says what is damaged whatever the file's kind: JSON
lines, CSV with or without a header, or Parquet. Files reach duckdb as links in a temporary folder whose names say what
their content is.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from swf.base import head_lines
from swf.parquet import foreign_columns
from tracekit import limits
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.files import head_of, opened
from tracekit.progress import report
from tracekit.registry import imported

#: What duckdb may use of the memory; more is kept in temporary files.
MEMORY = "1GB"
#: Times beyond the trace are moved here, so that keys made of them fit 64 bits.
FAR = 1 << 58
#: Two numbers, the first the more important, as one of 128 bits: the least pair is then the least number.
PAIR = "(({0})::HUGEINT * 18446744073709551616 + ({1}))"
SECOND_OF_PAIR = "(({0}) % 18446744073709551616)::BIGINT"

Outage = tuple[float, float, float]


@runtime_checkable
class CapacityFormat(Protocol):
    """A format whose files tell how much of the machine was in service, and when."""

    def outages(self, path: Path, /, **options: Any) -> list[Outage]:
        """Return what was missing of the machine that `read` describes: (from, to, processors), in seconds."""
        ...


@dataclass(frozen=True)
class Column:
    """A column of a table of events. Its values are texts until a query converts them with ``kind``."""

    name: str
    kind: str = "BIGINT"  # of duckdb
    required: bool = False
    places: tuple[str, ...] = ()  # other names of it, in files; a dot leads into a nested value

    @property
    def names(self) -> tuple[str, ...]:
        """The names to look for, in order."""
        return (self.name, *self.places)


@dataclass
class Table:
    """The files of one table, with the columns that are of use; without a header the order is that of ``columns``."""

    name: str
    columns: tuple[Column, ...]
    files: list[Path] = field(default_factory=list)
    headless: bool = False
    impossible: str = ""  # which values are, in words

    def required(self) -> list[str]:
        """Return the names without which a row means nothing."""
        return [column.name for column in self.columns if column.required]


# ---- files -----------------------------------------------------------------------------------------------------------


def files_of(folder: Path, table: str) -> list[Path]:
    """Return the files of a table in a folder, in order: ``table*.json.gz`` and so on, or all files of ``table/``."""
    pattern = re.compile(rf"{table}(?![A-Za-z]).*(?<!\.tar)(?<!\.tar\.gz)(?<!\.md)", re.DOTALL)
    found: list[Path] = []
    try:
        for entry in sorted(folder.iterdir()):
            if entry.is_file() and pattern.fullmatch(entry.name):
                found.append(entry)
            elif entry.is_dir() and entry.name == table:
                found += [file for file in sorted(entry.iterdir()) if file.is_file() and file.name[:1] not in "._"]
    except OSError:
        return []
    return found


def file_kind(head: bytes) -> str:
    """Return json, csv or parquet, by the first bytes."""
    if head.startswith(b"PAR1"):
        return "parquet"
    return "json" if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")) else "csv"


def names_in(head: bytes, path: Path) -> frozenset[str]:
    """Return the names of a table's columns as the beginning of a file shows them; nested ones with a dot too."""
    kind = file_kind(head)
    if kind == "parquet":
        return foreign_columns(head, path)
    lines = head_lines(head)
    if kind == "csv":
        return frozenset(cell.strip().strip('"') for cell in (lines[0].split(",") if lines else ()))
    return frozenset(name for line in lines for name in re.findall(r'"(\w+)"\s*:', line))


def check_files(table: Table) -> None:
    """Raise FormatError for a file that is empty, or whose columns are those of another table."""
    for path in table.files:
        head = head_of(path)
        if not head.strip():
            raise FormatError(path, "the file is empty")
        if table.headless:
            continue
        names = names_in(head, path)
        if not names and file_kind(head) == "parquet":
            raise FormatError(path, "not a readable Parquet file, or one that tracekit wrote")
        absent = [c.name for c in table.columns if c.required and not set(c.names) & names]
        if absent:
            raise FormatError(path, f"missing column {', '.join(absent)}; table {table.name} needs {_listed(table)}")


def _listed(table: Table) -> str:
    return ", ".join(table.required())


def option_number(name: str, text: Any, default: float, *, most: float = 1e6) -> float:
    """Return the value of an option that is a number above 0."""
    if text is None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 < value <= most:
        raise UsageError(f"option {name}={text}: write a number above 0, at most {most:,.0f}")
    return value


# ---- the session -----------------------------------------------------------------------------------------------------


@contextmanager
def session(path: Path, memory: str | None = None) -> Iterator[Session]:
    """Open duckdb with a memory limit and a temporary folder; everything it says becomes an error of ours."""
    limit = memory or MEMORY
    if not re.fullmatch(r"[1-9]\d{0,6}\s*[KMG]i?B", limit, re.IGNORECASE):
        raise UsageError(f"option memory={limit}: write a number with a unit, such as memory=2GB")
    connect = imported("duckdb:connect")
    failures = imported("duckdb:Error"), imported("duckdb:OutOfMemoryException")
    with tempfile.TemporaryDirectory(prefix="tracekit-events-") as folder:
        settings = {
            "memory_limit": limit,
            "temp_directory": str(Path(folder) / "spill"),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "enable_progress_bar": "true",  # what `query_progress` reports; nothing is printed
            "enable_progress_bar_print": "false",
        }
        connection = connect(str(Path(folder) / "tables.duckdb"))
        made = Session(path, connection, Path(folder), limit)
        try:
            for name, value in settings.items():
                connection.execute(f"SET {name} = '{value}'")
            yield made
        except failures[1] as error:
            words = str(error).splitlines()[0]
            raise TracekitError(
                f"{path}: the tables need more than {limit} of memory, or more room in {tempfile.gettempdir()} "
                f"({words[:160]}); give more with --read memory=4GB, or another folder with TMPDIR"
            ) from error
        except failures[0] as error:
            raise made.explained(str(error)) from error
        finally:
            connection.close()


class Session:
    """A connection to duckdb, and the names of the files that it was given."""

    def __init__(self, path: Path, connection: Any, folder: Path, limit: str) -> None:
        self.path, self.connection, self.folder, self.limit = path, connection, folder, limit
        self.links: dict[str, Path] = {}
        self.final = 0  # the last time in the tables
        self.job = "job_name"  # the expression of a job's number, or of its name
        self._reject: tuple[str, int, str] | None = None

    def run(self, query: str, what: str) -> None:
        """Run a query; see `_watched`."""
        self._watched(lambda: self.connection.execute(query).fetchall(), what)

    def one(self, query: str, what: str = "") -> Any:
        """Return the first row of a query."""
        return self._watched(lambda: self.connection.execute(query).fetchall()[0], what)

    def frame(self, query: str, what: str, labels: Sequence[str] = ()) -> pd.DataFrame:
        """Return a query's rows as a table: whole numbers as Int64 where some are missing, ``labels`` as categories."""
        arrow = self._watched(lambda: self.connection.sql(query).to_arrow_table(), what)
        made: dict[str, Any] = {}
        for name in arrow.column_names:
            made[name] = _values(arrow.column(name), name in labels)
            arrow = arrow.drop_columns([name])
        return pd.DataFrame(made)

    def _watched(self, work: Callable[[], Any], what: str) -> Any:
        """Do some work of duckdb in a thread, report its progress, and stop it where the user does."""
        found: list[Any] = []
        failed: list[BaseException] = []

        def body() -> None:
            try:
                found.append(work())
            except BaseException as error:  # raised again below
                failed.append(error)

        worker = threading.Thread(target=body, daemon=True)
        worker.start()
        try:
            worker.join(0.05)
            while worker.is_alive():
                report(what, max(0.0, self.connection.query_progress()) / 100)
                worker.join(0.2)
        except BaseException:
            self.connection.interrupt()
            worker.join()
            raise
        if failed:
            raise failed[0]
        return found[0]

    def add(self, table: Table, *, on_error: str = "stop") -> None:
        """Offer a table's files as the view ``raw_<name>``, all of whose columns are texts."""
        check_files(table)
        kinds: dict[str, list[Path]] = {}
        for path in table.files:
            kinds.setdefault("csv" if table.headless else file_kind(head_of(path)), []).append(path)
        parts = [self._read(table, kind, paths, on_error) for kind, paths in kinds.items()]
        self.connection.execute(f"CREATE OR REPLACE VIEW raw_{table.name} AS " + " UNION ALL ".join(parts))

    def typed(self, table: Table, values: Mapping[str, str], *, valid: str = "true", on_error: str, what: str) -> int:
        """Make the table ``<name>`` of converted values: those that queries need, and whether a row is damaged.

        ``values`` are expressions over the converted columns. Damaged are rows that lack a required value, that hold
        a text in place of a number, or that are not ``valid``. They are an error, or left out and counted.
        """
        cast = {c.name: c.name if c.kind == "VARCHAR" else f"TRY_CAST({c.name} AS {c.kind})" for c in table.columns}
        wrong = [f"({name} IS NOT NULL AND {text} IS NULL)" for name, text in cast.items() if text != name]
        wrong += [f"{name} IS NULL" for name in table.required()]
        inner = ", ".join(f"{text} AS {name}" for name, text in cast.items())
        given = f"SELECT {inner}, ({' OR '.join(wrong)}) AS damaged FROM raw_{table.name}"
        outer = ", ".join(f"{text} AS {name}" for name, text in values.items())
        rows = f"SELECT {outer}, (damaged OR NOT coalesce({valid}, false)) AS damaged FROM ({given})"
        self.run(f"CREATE OR REPLACE TABLE {table.name} AS {rows}", what)
        count = int(self.one(f"SELECT count(*) FILTER (damaged) FROM {table.name}")[0])
        count += self._rejected()
        if count and on_error != "skip":
            raise self._first_damage(table, cast)
        if count:
            self.connection.execute(f"DELETE FROM {table.name} WHERE damaged")
        return count

    def explained(self, message: str) -> FormatError:
        """Turn what duckdb says into one line about the user's file."""
        path, line = self.path, re.search(r"in line (\d+)|\bLine: (\d+)", message)
        for link, original in self.links.items():
            if link in message:
                path = original
        words = re.split(r"\n|\. Try |Possible|, at byte", message)[0]
        words = re.sub(r"^[A-Za-z ]*Error: | in file \"[^\"]*\"|, in line \d+", "", words)
        for link, original in self.links.items():
            words = words.replace(f'"{link}"', "the file").replace(link, str(original))
        if "GZIP" in message or "gzip" in message:
            words = "the compressed data is damaged or truncated"
        number = int(next(filter(None, line.groups()))) if line else None
        if number and "Malformed JSON" in message:  # some versions of duckdb count from the line after it
            number = next(k for k in (number - 1, number) if k == number or not _is_json(path, k))
        return FormatError(path, f"cannot be read: {words[:200]}" if "damaged" not in words else words, line=number)

    # ---- reading ----

    def _read(self, table: Table, kind: str, paths: list[Path], on_error: str) -> str:
        links = [self._link(path, kind) for path in paths]
        listed = "[" + ", ".join(f"'{link}'" for link in links) + "]"
        longest = int(min(limits.limit("line"), 2**31 - 1))
        if kind == "parquet":
            has = {name for path in paths for name in _parquet_names(path)}
            picks = [_pick(column, has, nested=True) for column in table.columns]
            return f"SELECT {', '.join(picks)} FROM read_parquet({listed}, union_by_name=true)"
        if kind == "json":
            return self._read_json(table, listed, longest, on_error)
        style = f"all_varchar=true, auto_detect=false, delim=',', quote='\"', escape='\"', max_line_size={longest}"
        style += ", store_rejects=true, rejects_limit=0"
        parts = []
        for link, path in zip(links, paths, strict=True):
            cells = [cell.strip().strip('"') for cell in (head_lines(head_of(path), limit=1) or [""])[0].split(",")]
            header = [column.name for column in table.columns] if table.headless else cells
            headed = str(not table.headless or cells == header).lower()
            if len(set(header)) < len(header):
                raise FormatError(path, "two of its columns have the same name")
            types = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for name in header)
            picks = [_pick(column, set(header)) for column in table.columns]
            parts.append(
                f"SELECT {', '.join(picks)} FROM read_csv('{link}', header={headed}, columns={{{types}}}, {style})"
            )
        return " UNION ALL ".join(parts)

    def _read_json(self, table: Table, listed: str, longest: int, on_error: str) -> str:
        names = [name for column in table.columns for name in column.names]
        types: dict[str, str] = {}
        for name in names:
            outer, dot, _ = name.partition(".")
            inner = dict.fromkeys(n.partition(".")[2] for n in names if n.startswith(outer + "."))
            types[outer] = f"STRUCT({', '.join(f'{n} VARCHAR' for n in inner)})" if dot else "VARCHAR"
        picks = [_pick(column, set(names), nested=True) for column in table.columns]
        wanted = ", ".join(f"'{name}': '{kind}'" for name, kind in types.items())
        return (
            f"SELECT {', '.join(picks)} FROM read_json({listed}, format='newline_delimited', columns={{{wanted}}}, "
            f"maximum_object_size={longest}, ignore_errors={str(on_error == 'skip').lower()})"
        )

    def _link(self, path: Path, kind: str) -> str:
        """Return the name under which duckdb finds a file: plain letters, and an ending that tells its content."""
        with path.open("rb") as raw:
            start = raw.read(6)
        packed = kind != "parquet" and start.startswith(b"\x1f\x8b")
        place = self.folder / f"{len(self.links)}.{kind}{'.gz' if packed else ''}"
        if kind != "parquet" and start.startswith((b"BZh", b"\xfd7zXZ\x00")):
            with opened(path) as source, place.open("wb") as plain:
                shutil.copyfileobj(source, plain, 1 << 20)
        else:
            place.symlink_to(path.resolve())
        self.links[str(place)] = path
        return str(place)

    def _rejected(self) -> int:
        """Return how many lines of CSV files were not rows, and forget them."""
        try:
            found = self.connection.execute("SELECT count(DISTINCT (file_id, line)) FROM reject_errors").fetchall()[0][
                0
            ]
            if found:
                first = self.connection.execute(
                    "SELECT s.file_path, e.line, e.error_message FROM reject_errors e JOIN reject_scans s "
                    "USING (scan_id, file_id) ORDER BY s.file_path, e.line LIMIT 1"
                ).fetchall()[0]
                self._reject = first
            self.connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
        except imported("duckdb:CatalogException"):
            return 0  # no CSV file was read
        return int(found)

    def _first_damage(self, table: Table, cast: Mapping[str, str]) -> FormatError:
        """Return the error about the first damaged row, as far as it can be told which that is."""
        hint = "--on-error skip leaves such lines out"
        if self._reject:
            link, line, words = self._reject
            return FormatError(self.links.get(link, self.path), words.splitlines()[0][:160], line=line, hint=hint)
        path = table.files[0] if len(table.files) == 1 else self.path
        for name, text in cast.items():
            if text == name:
                continue
            query = (
                f"SELECT {name} FROM raw_{table.name} WHERE {name} IS NOT NULL AND {text} IS NULL ORDER BY 1 LIMIT 1"
            )
            found = next(iter(self.connection.execute(query).fetchall()), None)
            if found:
                problem = f"{str(found[0])[:40]!r} in column {name} of table {table.name} is not a number"
                return FormatError(path, problem, hint=hint)
        for name in table.required():
            count = self.one(f"SELECT count(*) FROM raw_{table.name} WHERE {name} IS NULL")[0]
            if count:
                problem = f"{count:,} lines of table {table.name} have no {name}, or are not of that table"
                return FormatError(path, problem, hint=hint)
        count = self.one(f"SELECT count(*) FILTER (damaged) FROM {table.name}")[0]
        problem = f"{count:,} lines of table {table.name} hold impossible values: {table.impossible}"
        return FormatError(path, problem, hint=hint)


def _is_json(path: Path, line: int) -> bool:
    """Return whether a line of a file is JSON."""
    with opened(path) as source:
        text = next(itertools.islice(source, line - 1, None), b"") if line > 0 else b"{}"
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _values(column: Any, label: bool) -> Any:
    """Return a column of Arrow as one of pandas."""
    import pyarrow as pa
    import pyarrow.compute

    if label:
        coded = pa.compute.dictionary_encode(column.cast(pa.string())).unify_dictionaries()
        names = coded.chunk(0).dictionary.to_pylist() if coded.num_chunks else []
        codes = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in coded.chunks]
        return pd.Categorical.from_codes(
            np.concatenate(codes) if codes else np.empty(0, np.int32), categories=pd.Index(names, dtype=object)
        )
    if pa.types.is_integer(column.type) and column.null_count:
        missing = column.is_null().to_numpy()
        return pd.arrays.IntegerArray(column.fill_null(0).to_numpy().astype(np.int64), missing)
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(np.int64)
    if pa.types.is_floating(column.type):
        return column.to_numpy()  # missing values become NaN
    return column.to_pandas().astype(object).to_numpy()


def _parquet_names(path: Path) -> set[str]:
    """Return the columns of a Parquet file, those of nested values as ``outer.inner``."""
    import pyarrow as pa
    import pyarrow.parquet

    found = set()
    for item in pa.parquet.read_schema(path):
        found.add(item.name)
        if pa.types.is_struct(item.type):
            found |= {f"{item.name}.{item.type.field(k).name}" for k in range(item.type.num_fields)}
    return found


def _pick(column: Column, has: set[str], *, nested: bool = False) -> str:
    """Return the SQL of a column as text, from the first of its names that there is."""
    found = []
    for name in column.names:
        if name in has:
            parts = name.split(".") if nested else [name]
            found.append("CAST(" + ".".join('"' + part.replace('"', '""') + '"' for part in parts) + " AS VARCHAR)")
    text = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})" if found else "NULL::VARCHAR"
    return f"nullif({text}, '') AS {column.name}"
