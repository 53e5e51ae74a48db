"""The flags of traces larger than memory, and how a command decides to read one in parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.app import say, tell
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from swf.parts import Parts
    from tracekit.machine import Machine
    from tracekit.trace import Trace

InParts = Annotated[
    bool | None,
    typer.Option(
        "--parts/--whole",
        help="Read a Parquet trace in parts, with little memory (default: if it would take half of the free memory).",
    ),
]
PartJobs = Annotated[
    int | None,
    typer.Option(
        "--part-jobs", min=1, help="Write OUT as a folder of Parquet files with so many jobs each; see docs/large.md."
    ),
]


def opened(
    path: str,
    parts: bool | None,
    *,
    format: str | None = None,
    procs: int | None = None,
    machine: str | None = None,
    resource: str | None = None,
    timezone: str | None = None,
    map_: str | None = None,
    epoch: str | None = None,
) -> Parts | None:
    """Return a trace to be read in batches, or None where it is to be read whole."""
    from swf.parts import readable_parts
    from tracekit.api import SHARE, free_memory, open_parts
    from tracekit.files import is_stream

    if parts is False:
        return None
    parquet = is_parquet(path)
    other = format not in (None, "parquet") or map_ is not None
    if parts is None:
        known = readable_parts(Path(path)) if parquet and not other else None
        if known is None or known.bytes_whole() <= SHARE * free_memory():
            return None
    elif other or not parquet:
        if not is_stream(path) and not Path(path).exists():
            return None  # reading it reports what is wrong
        raise UsageError(f"--parts reads Parquet traces of tracekit: first run  tracekit convert {path} OUT.parquet")
    if epoch is not None:
        raise UsageError("format parquet does not support the option epoch: give it in a machine file (--machine)")
    found = open_parts(path, machine=machine, procs=procs, resource=resource, timezone=timezone)
    tell(path, found.history)
    return found


def is_parquet(path: str) -> bool:
    """Return whether a path is a Parquet file, or a folder of such files."""
    from swf.parts import is_folder_of_parts

    place = Path(path)
    if place.is_dir():
        return is_folder_of_parts(place)
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False  # reading it reports what is wrong


def check_parts(source: str, target: str, *, format: str | None, force: bool) -> None:
    """Raise an error before any work if a folder of parts cannot be written."""
    from swf.parts import check_target

    if format not in (None, "parquet") or target == "-":
        raise UsageError("--part-jobs writes a folder of Parquet files: give the name of a folder, and no other --to")
    if Path(target).is_dir() and Path(source).exists() and Path(source).samefile(target):
        raise UsageError(f"{target}: input and output are the same folder; choose another name for the output")
    check_target(target, force=force)


def save_batches(
    batches: Iterable[Trace],
    target: str,
    *,
    format: str = "parquet",
    part_jobs: int | None,
    force: bool,
    finish: Callable[[Machine], tuple[Machine, list[str]]] = lambda known: (known, []),
    named: str | None = None,
    how: str = "",
) -> tuple[int, list[str]]:
    """Write batches as one Parquet file or as a folder of parts; return the number of jobs and the history."""
    from swf.base import Unsteady
    from tracekit.api import write_chunks

    if format != "parquet" or target == "-":
        raise UsageError(f"a trace that is read in parts is written as Parquet: choose OUT.parquet, not {target}")
    try:
        jobs, history = write_chunks(batches, target, part_jobs=part_jobs, force=force, machine=finish)
    except Unsteady as reason:
        raise TracekitError(f"no job is left to write: {reason}") from None
    say(f"{named or target}: {jobs:,} jobs{how}")
    return jobs, history
