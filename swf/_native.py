"""What tracekit writes into its Parquet files beside the table: machine, history, and which part of a trace it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracekit import limits
from tracekit.errors import FormatError, TracekitError
from tracekit.machine import Machine

KEY = b"tracekit"
_VERSION = 1


def metadata(machine: Machine, history: Sequence[str], **more: Any) -> dict[bytes, bytes]:
    """Return what tracekit writes into a file about its jobs."""
    about = {"version": _VERSION, "machine": machine.to_dict(), "history": list(history), **more}
    return {KEY: json.dumps(about).encode()}


def about_of(schema: Any, path: Path) -> dict[str, Any] | None:
    """Return what tracekit wrote into a file about its jobs, or None for a file of another program."""
    stored = (schema.metadata or {}).get(KEY)
    return None if stored is None else _about(stored, path)


def is_native(path: Path) -> bool:
    """Return whether tracekit wrote a Parquet file."""
    import pyarrow.parquet

    with damage(path):
        return KEY in (pyarrow.parquet.read_schema(path).metadata or {})


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
