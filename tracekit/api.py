"""What users call: `tracekit.read`, `tracekit.write`, `tracekit.sample`. Formats are found by name or by content."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from tracekit.errors import FormatError, UsageError
from tracekit.files import as_path, check_writable, head_of, is_stream, plain_suffix, writing
from tracekit.machine import Machine
from tracekit.trace import Trace


def read(
    path: str | Path,
    format: str | None = None,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    **options: Any,
) -> Trace:
    """Read a trace. ``path`` may be compressed or ``-``; the format is found by content unless it is named.

    ``machine`` (a `Machine` or the path of a TOML file) and ``procs`` say what the file does not; other options go to
    the format, for instance ``on_error="skip"``, ``timezone="Europe/Berlin"`` or ``map={"run_time": "Duration"}``.
    """
    return read_as(path, format, machine=machine, procs=procs, **options)[0]


def read_as(
    path: str | Path,
    format: str | None = None,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    **options: Any,
) -> tuple[Trace, str]:
    """Do what `read` does, and return the name of the format that was found beside the trace."""
    from swf import FORMATS
    from swf.base import detect

    options = {name: value for name, value in options.items() if value is not None}
    with as_path(path) as real:
        try:
            if format is None and "map" in options:  # a map only makes sense for a table
                format = "parquet" if head_of(real).startswith(b"PAR1") else "csv"
            found = FORMATS.get(format)() if format else detect(real, FORMATS)
            unknown = sorted(set(options) - found.options)
            if unknown:
                raise UsageError(
                    f"the format {found.name} has no option {unknown[0]}; it takes: "
                    f"{', '.join(sorted(found.options)) or 'none'}"
                )
            trace = found.read(real, **options)
        except FormatError as error:
            if is_stream(path):
                raise FormatError("standard input", error.problem, line=error.line, hint=error.hint) from None
            raise
    known = trace.machine
    if machine is not None:
        given = machine if isinstance(machine, Machine) else Machine.from_toml(machine)
        known = _merged(known, given)
    if procs is not None:
        if procs < 1:
            raise UsageError(f"--procs must be at least 1, not {procs}")
        known = known.replace(procs=procs)
    if not known.source:
        known = known.replace(source="standard input" if is_stream(path) else Path(path).name)
    return trace.replace(machine=known), found.name


def _merged(known: Machine, given: Machine) -> Machine:
    """Return ``known`` with every field that ``given`` states."""
    blank = Machine().to_dict()
    stated = {name: getattr(given, name) for name, value in given.to_dict().items() if value != blank[name]}
    return known.replace(**stated)


def format_for(path: str | Path, format: str | None = None) -> str:
    """Return the name of the format to write: the one given, or the one of the name's ending."""
    from swf import FORMATS
    from swf.base import WritableFormat

    if format is None:
        if is_stream(path):
            return "swf"
        suffix = plain_suffix(path)
        format = next((name for name in FORMATS if suffix in FORMATS.get(name).suffixes), None)
        if format is None:
            raise UsageError(f"{path}: no format has the ending '{suffix}'; say which one with --to, such as --to swf")
    if not issubclass(FORMATS.get(format), WritableFormat):
        raise UsageError(f"the format {format} can be read but not written")
    return format


def write(trace: Trace, path: str | Path, format: str | None = None, *, force: bool = False) -> list[str]:
    """Write a trace whole or not at all; return what the format could not hold, one short phrase each."""
    from swf import FORMATS

    chosen: Any = FORMATS.get(format_for(path, format))()
    check_writable(path, force=force)
    with writing(path, force=force) as out:
        lost: list[str] = chosen.write(trace, out)
    return lost


def sample() -> Trace:
    """Return the embedded sample: 10,000 jobs MADE by a seeded script of this package, not recorded anywhere."""
    with as_file(files("tracekit") / "data" / "sample.swf.gz") as path:
        return read(path, "swf")
