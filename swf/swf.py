"""SWF, the Standard Workload Format of the Parallel Workloads Archive, version 2.2.

| # | SWF field | our column | unit, remark |
|---|---|---|---|
| 1 | job number | job_id | |
| 2 | submit time | submit_time | seconds since UnixStartTime (machine.epoch) |
| 3 | wait time | wait_time | seconds |
| 4 | run time | run_time | seconds |
| 5 | allocated processors | alloc_procs | |
| 6 | average CPU time used | cpu_time | seconds per processor |
| 7 | used memory | used_mem | KB per processor |
| 8 | requested processors | req_procs | |
| 9 | requested time | req_time | seconds |
| 10 | requested memory | req_mem | KB per processor |
| 11 | status | status, x_status | 0 failed, 1 completed, 2–4 partial, 5 cancelled, others unknown |
| 12–16 | user, group, executable, queue, partition | user, group, app, queue, partition | labels |
| 17 | preceding job | prev_job | |
| 18 | think time | think_time | seconds |
| 19… | not in the standard | x_field19 … | kept as they are |

−1 means unknown and becomes NaN or NA; every other value is kept, even if it is implausible. Lost on writing: nodes and
GPUs beside processors, project, gpu_type, and columns of other formats (x_…). Labels that are not numbers are numbered.
Format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html; Chapin et al., JSSPP 1999.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf import header
from swf._written import minus_ones
from swf.base import Blocks, Unsteady, head_lines, is_number, whole_lines
from tracekit import limits
from tracekit.errors import FormatError
from tracekit.files import opened, text_of
from tracekit.schema import BY_NAME, COLUMNS, STATUSES, counts, is_whole, number_labels, status_codes, to_numeric
from tracekit.trace import Trace

FIELDS = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "alloc_procs",
    "cpu_time",
    "used_mem",
    "req_procs",
    "req_time",
    "req_mem",
    "status",
    "user",
    "group",
    "app",
    "queue",
    "partition",
    "prev_job",
    "think_time",
)
MIN_FIELDS = 5  # up to the processors; with fewer fields a job has no size
STATUS_OF_CODE = {0: "failed", 1: "completed", 2: "partial", 3: "partial", 4: "partial", 5: "cancelled"}
CODE_OF_STATUS = {"completed": 1, "failed": 0, "cancelled": 5, "timeout": 0, "partial": 2, "unknown": -1}
BLOCK_BYTES = 1024 * 1024  # small enough for the columns of a block to stay in cache


class SWF:
    """Reader and writer of the Standard Workload Format."""

    name: ClassVar[str] = "swf"
    title: ClassVar[str] = "Standard Workload Format 2.2 (Parallel Workloads Archive)"
    suffixes: ClassVar[tuple[str, ...]] = (".swf",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept ``; Key: value`` headers whatever follows, or, without one, rows of at least ten numbers."""
        lines = [line.strip() for line in head_lines(head)]
        rows = [line.split() for line in lines if line and not line.startswith(";")][:50]
        if any(header.key_value(line) for line in lines if line.startswith(";")):
            return True
        good = sum(len(row) >= 10 and all(map(is_number, row[: len(FIELDS)])) for row in rows)
        return good > len(rows) // 2

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read an SWF file, plain or compressed. ``on_error="skip"`` leaves damaged lines out and counts them."""
        table = _Table(path, skip=on_error == "skip")
        with opened(path) as source:
            for block in whole_lines(source, BLOCK_BYTES, path):
                table.add(block)
        table.finish()
        machine = header.parse(table.header)
        if timezone:
            machine = machine.replace(timezone=timezone)
        return Trace(_jobs(table), machine, (*header.history(table.header), *table.remarks()))

    def chunks(self, source: Blocks, /, *, on_error: str = "stop", timezone: str | None = None) -> Iterator[Trace]:
        """Read a file of any size, a block at a time."""
        header_lines: list[str] = []
        lines, usual = 0, None
        for block in source:
            table = _Table(source.path, skip=on_error == "skip", header=header_lines, n_lines=lines)
            for piece in whole_lines(io.BytesIO(block), BLOCK_BYTES, source.path):
                table.add(piece)
            lines = table.n_lines
            if not table.n_rows and not table.damaged:
                continue  # comments only
            table.finish()
            if usual not in (None, table.usual):
                raise Unsteady("rows of different lengths")
            usual = table.usual
            machine = header.parse(header_lines)
            if timezone:
                machine = machine.replace(timezone=timezone)
            steps = (*header.history(header_lines), *table.remarks())
            yield Trace(_jobs(table), machine, steps)
        if usual is None:
            raise FormatError(source.path, "contains no jobs, only a header" if header_lines else "contains no jobs")

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write header and jobs; return what SWF cannot hold."""
        import pyarrow as pa
        import pyarrow.csv

        numbered: list[str] = []
        columns = {name: _to_field(trace, name, numbered) for name in FIELDS}
        extras = [name for name in trace.jobs.columns if name.startswith("x_field")]
        for name in extras:
            text = trace.jobs[name].astype(object)
            columns[name] = text.where(text.notna(), "-1").astype(str).to_numpy(dtype=object)
        for line in [*header.render(trace), *_label_names(trace, numbered)]:
            out.write(line.encode("utf-8", "surrogateescape") + b"\n")
        style = pa.csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        pa.csv.write_csv(pa.table(columns), out, style)
        return _lost(trace, numbered, extras)


@dataclass
class _Table:
    """The rows of a file as they come in, block by block."""

    path: Path
    skip: bool
    header: list[str] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)  # (line, what is wrong)
    columns: list[list[NDArray[np.float64]]] = field(default_factory=lambda: [[] for _ in FIELDS])
    widths: list[NDArray[np.int64]] = field(default_factory=list)
    lines: list[NDArray[np.int64]] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)  # the text beyond field 18, one per row if any row has some
    n_lines: int = 0
    n_rows: int = 0
    keep: NDArray[np.bool_] | None = None
    usual: int = 0  # how many fields most rows have

    def add(self, block: bytes) -> None:
        """Scan one block of whole lines."""
        from swf import _scan

        text = np.frombuffer(block, dtype=np.uint8)
        n = int(np.count_nonzero(text == ord("\n")))
        fields = np.empty((len(FIELDS), n))
        kinds, starts = np.empty(n, np.uint8), np.empty(n + 1, np.int64)
        row_line, widths, tails = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        rows = _scan.scan(text, fields, kinds, starts, row_line, widths, tails)
        row_line, widths, tails = row_line[:rows], widths[:rows], tails[:rows]
        if rows:
            widest = int(widths.argmax())
            at = int(row_line[widest]) + self.n_lines + 1
            limits.check("fields", int(widths[widest]), self.path, f"{widths[widest]:,} fields", line=at)

        def line_text(line: Any) -> bytes:
            return block[starts[line] : starts[line + 1]].rstrip(b"\r\n")

        for line in np.flatnonzero(kinds == _scan.COMMENT):
            self.header.append(line_text(line).decode("utf-8", "surrogateescape"))
        good = np.ones(rows, dtype=bool)
        for row in np.flatnonzero(kinds[row_line] == _scan.ODD):
            problem = _parse_odd(line_text(row_line[row]), fields[:, row])
            if problem:
                self._damage(int(row_line[row]) + self.n_lines + 1, problem)
                good[row] = False
        if (tails >= 0).any() or self.extras:
            self.extras += [""] * (self.n_rows - len(self.extras))
            ends = starts[row_line + 1]
            self.extras += [
                text_of(block[a:b]) if a >= 0 else "" for a, b, ok in zip(tails, ends, good, strict=True) if ok
            ]
        kept: Any = slice(None) if good.all() else good
        for k, column in enumerate(self.columns):
            column.append(fields[k, :rows][kept].copy())  # so that each column can be freed separately
        self.widths.append(widths[kept])
        self.lines.append(row_line[kept] + (self.n_lines + 1))
        self.n_lines += n
        self.n_rows += int(good.sum())

    def finish(self) -> None:
        """Find rows that are shorter or longer than the others: lines that were truncated or joined."""
        if not self.n_rows:
            if self.damaged:
                line, problem = self.damaged[0]
                raise FormatError(self.path, f"{problem}; none of the lines could be read as SWF", line=line)
            raise FormatError(self.path, "contains no jobs, only a header" if self.header else "contains no jobs")
        widths = np.concatenate(self.widths)
        self.usual = usual = int(np.bincount(widths).argmax())
        if usual < MIN_FIELDS:
            raise FormatError(self.path, f"its lines have {usual} fields, SWF has {len(FIELDS)}")
        full = len(FIELDS)
        odd = widths != usual if usual <= full else widths < full
        lines = np.concatenate(self.lines)
        for row in np.flatnonzero(odd):
            self._damage(int(lines[row]), f"{widths[row]} fields, the other lines have {usual}")
        if odd.any():
            self.keep = ~odd
        self.n_rows -= int(odd.sum())

    def column(self, k: int) -> NDArray[np.float64]:
        """Return one field of all rows, and free its parts."""
        values = np.concatenate(self.columns[k])
        self.columns[k] = []
        return values if self.keep is None else values[self.keep]

    def line_of(self, row: int) -> int:
        """Return the line number (from 1) of a row, for messages."""
        lines = np.concatenate(self.lines)
        return int((lines if self.keep is None else lines[self.keep])[row])

    def remarks(self) -> list[str]:
        """Return a note on the damaged lines that were left out."""
        if not self.damaged:
            return []
        damaged = sorted(self.damaged)
        first = "; ".join(f"line {line}: {problem}" for line, problem in damaged[:3])
        return [
            f"skipped {len(damaged)} damaged line{'s' * (len(damaged) > 1)} ({first}{' …' if len(damaged) > 3 else ''})"
        ]

    def _damage(self, line: int, problem: str) -> None:
        if not self.skip:
            raise FormatError(self.path, problem, line=line, hint="convert --on-error skip leaves such lines out")
        self.damaged.append((line, problem))


def _parse_odd(line: bytes, row: NDArray[np.float64]) -> str:
    """Parse a line that the scanner marked as odd (1e5, very long numbers); return what is wrong with it."""
    words = re.split(rb"\s;", line, maxsplit=1)[0].split()[: len(FIELDS)]
    for k, word in enumerate(words):
        try:
            row[k] = float(word) if b"_" not in word else float("nan")
        except ValueError:
            row[k] = float("nan")
        if not np.isfinite(row[k]):
            shown = "".join(c if c.isprintable() else "?" for c in word.decode("utf-8", "replace")[:40])
            return f"'{shown}' is not a number (field {k + 1}, {FIELDS[k]})"
    return ""


def _jobs(table: _Table) -> pd.DataFrame:
    """Translate the file's numbers into our columns: the one place where −1 becomes unknown."""
    jobs: dict[str, Any] = {}
    for k, name in enumerate(FIELDS):
        values = table.column(k)
        kind = BY_NAME[name].kind
        if kind == "id":
            odd = (values != np.floor(values)) | (np.abs(values) >= 2.0**53)
            if odd.any():
                row = int(np.flatnonzero(odd)[0])
                problem = "not whole" if values[row] % 1 else "too large (2^53 or more)"
                raise FormatError(table.path, f"job number {values[row]:g} is {problem}", line=table.line_of(row))
            jobs[name] = values.astype(np.int64)
            continue
        unknown = values == -1
        if kind == "status":
            known = np.isin(values, list(STATUS_OF_CODE))
            lookup = np.array([STATUSES.index(STATUS_OF_CODE[code]) for code in range(len(STATUS_OF_CODE))])
            jobs[name] = status_codes(
                np.where(known, lookup[np.where(known, values, 0).astype(int)], STATUSES.index("unknown"))
            )
        values[unknown] = np.nan
        if kind == "status":
            jobs["x_status"] = counts(values)
        elif kind == "label":
            jobs[name] = number_labels(values)
        else:
            jobs[name] = counts(values) if kind == "count" else values
    if table.extras:
        jobs |= _extra_columns(table)
    order = [c.name for c in COLUMNS if c.name in jobs]
    return pd.DataFrame({name: jobs[name] for name in [*order, *(n for n in jobs if n not in order)]}, copy=False)


def _extra_columns(table: _Table) -> dict[str, Any]:
    """Split the text after field 18 into columns; a column is numeric if all its values are numbers."""
    table.extras += [""] * (len(table.lines) and sum(map(len, table.lines)) - len(table.extras))
    texts = pd.Series(table.extras, dtype=object)
    if table.keep is not None:
        texts = texts[table.keep].reset_index(drop=True)
    split = texts.str.split(r"\s;", n=1, regex=True).str[0].str.split(expand=True)
    columns = {}
    for k in range(split.shape[1]):
        values = split[k]
        numbers = to_numeric(values)
        whole = bool((numbers.notna() == values.notna()).all()) and is_whole(numbers.to_numpy(dtype=np.float64))
        columns[f"x_field{len(FIELDS) + 1 + k}"] = numbers.astype("Int64") if whole else values
    return columns


def _to_field(trace: Trace, name: str, numbered: list[str]) -> NDArray[Any]:
    """Return one field as SWF writes it: whole numbers as integers, unknown as −1."""
    kind = BY_NAME[name].kind
    if kind == "id":
        return trace.jobs[name].to_numpy()
    if kind == "status":
        return _status_field(trace)
    if kind == "label":
        return _label_field(trace, name, numbered)
    values = trace.column(_unit_column(trace, name))
    return _as_written(np.where(np.isnan(values), -1.0, values))


def _as_written(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers, so that they are written without a decimal point."""
    return values.astype(np.int64) if is_whole(values.astype(np.float64)) else values


def _unit_column(trace: Trace, name: str) -> str:
    """Return the column written as processors: nodes or GPUs if the trace has no processors."""
    if name in ("req_procs", "alloc_procs") and not (trace.has("req_procs") or trace.has("alloc_procs")):
        for unit in dict.fromkeys((trace.machine.unit, "nodes", "gpus")):
            if trace.has(f"req_{unit}") or trace.has(f"alloc_{unit}"):
                return name.replace("procs", unit)
    return name


def _status_field(trace: Trace) -> NDArray[Any]:
    """Return status codes: the file's own where it still agrees with the status, otherwise the standard one."""
    if "status" not in trace.jobs.columns:
        return np.full(len(trace), -1)
    status = trace.column("status")
    codes = np.array([CODE_OF_STATUS[name] for name in STATUSES])[status]
    if "x_status" in trace.jobs.columns and pd.api.types.is_numeric_dtype(trace.jobs["x_status"].dtype):
        own = trace.jobs["x_status"].to_numpy(dtype=np.float64, na_value=np.nan)
        own = np.where(np.isnan(own), -1.0, own)
        meant = pd.Series(own).map(STATUS_OF_CODE).fillna("unknown")
        codes = np.where(meant.to_numpy() == np.array(STATUSES)[status], own, codes)
    return _as_written(codes)


def _label_field(trace: Trace, name: str, numbered: list[str]) -> NDArray[Any]:
    """Return labels as numbers; if any is not one, all of the column are numbered in order of their names."""
    codes = trace.column(name)
    if name not in trace.jobs.columns:
        return codes
    labels = list(trace.jobs[name].cat.categories)
    if all(map(is_number, labels)) and "-1" not in labels:
        numbers = np.array([*map(float, labels)])
        if list(number_labels(numbers)) == labels:  # as the file will be read back
            return _as_written(np.append(numbers, -1.0)[codes])
    numbered.append(name)
    return np.array([*range(1, len(labels) + 1), -1])[codes]


def _label_names(trace: Trace, numbered: list[str]) -> list[str]:
    """List the names of queues and partitions in the header; users, groups and programs stay numbers."""
    keys = {"queue": "Queue", "partition": "Partition"}
    return [
        f"; {keys[name]}: {number} {label}"
        for name in numbered
        if name in keys
        for number, label in enumerate(trace.jobs[name].cat.categories, 1)
    ]


def _has_blanks(labels: Iterable[str]) -> Iterator[bool]:
    """Return for each label whether it would be lost in a line of the header."""
    return (" ".join(label.split()) != label for label in labels)


def _lost(trace: Trace, numbered: list[str], extras: list[str]) -> list[str]:
    written = {*(_unit_column(trace, name) for name in FIELDS), "x_status", *extras}
    lost = [f"column {name}" for name in trace.jobs.columns if name not in written and trace.jobs[name].notna().any()]
    lost += [f"names of {name}s (numbered from 1)" for name in numbered if name not in ("queue", "partition")]
    lost += [f"blanks in names of {name}s" for name in numbered if any(_has_blanks(trace.jobs[name].cat.categories))]
    lost += minus_ones(trace, (name for name in FIELDS if BY_NAME[name].kind in ("seconds", "kilobytes", "count")))
    statuses = Counter(trace.jobs["status"]) if "status" in trace.jobs.columns else Counter()
    if statuses["timeout"]:
        lost.append("the difference between timeout and failed")
    return lost
