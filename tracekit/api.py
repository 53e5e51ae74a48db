"""The public functions `tracekit.read`, `tracekit.write`, `tracekit.sample`; formats are chosen by name or content."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tracekit.errors import FormatError, UsageError, reading
from tracekit.files import as_path, check_writable, head_of, is_stream, plain_suffix, read_toml, writing
from tracekit.machine import Machine
from tracekit.trace import Trace
from tracekit.units import Tally, with_unit

if TYPE_CHECKING:
    from swf.base import Blocks, Format

#: Files with more text than this are converted to Parquet in parts.
LARGE_BYTES = 200 * 1024 * 1024


def read(
    path: str | Path,
    format: str | None = None,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    resource: str | None = None,
    **options: Any,
) -> Trace:
    """Read a trace. ``path`` may be compressed or ``-``; the format is detected from content unless it is given.

    ``machine`` (a `Machine` or the path of a TOML file) and ``procs``, the machine's size in the scheduled unit, add
    what the file lacks. ``resource`` (procs, nodes or gpus) names that unit; without it the rule of
    `tracekit.units` chooses one. Other options go to the format, for instance ``on_error="skip"``,
    ``timezone="Europe/Berlin"`` or ``map={"run_time": "Duration"}``.
    """
    return read_as(path, format, machine=machine, procs=procs, resource=resource, **options)[0]


def read_as(
    path: str | Path,
    format: str | None = None,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    resource: str | None = None,
    columns: Collection[str] | None = None,
    **options: Any,
) -> tuple[Trace, str]:
    """Read a trace as `read` does; return it and the name of its format.

    ``columns`` are the only ones that the caller looks at: formats that can, leave others out.
    """
    options = {name: value for name, value in options.items() if value is not None}
    with as_path(path) as real:
        try:
            with reading(path, "a trace"):
                found = _reader(real, format, options)
            if columns is not None and getattr(found, "by_column", False):
                options["columns"] = columns
            with reading(path, f"a file of the format {found.name}"):
                trace = found.read(real, **options)
        except FormatError as error:
            if is_stream(path):
                raise FormatError("standard input", error.problem, line=error.line, hint=error.hint) from None
            raise
        stated = _states_unit(found, real)
    trace = with_unit(trace, resource or _unit_in(machine), stated=stated)
    return trace.replace(machine=_described(trace.machine, path, machine, procs)), found.name


def _states_unit(format: Format, path: Path) -> bool:
    """Return whether a file states the scheduled unit, as our Parquet files do."""
    states = getattr(format, "states_unit", None)
    return states is not None and bool(states(path))


def _unit_in(machine: Machine | str | Path | None) -> str | None:
    """Return the scheduled unit in the caller's description of the machine, or None."""
    if machine is None or isinstance(machine, Machine):
        return None if machine is None or machine.unit == "procs" else machine.unit
    unit = read_toml(machine).get("unit")
    return None if unit is None else str(unit)


def _reader(path: Path, format: str | None, options: dict[str, Any]) -> Format:
    """Return the format of a file, given or detected; raise UsageError for options that it does not have."""
    from swf import FORMATS
    from swf.base import detect

    if format is None and "map" in options:  # only tables have a column map
        format = "parquet" if head_of(path).startswith(b"PAR1") else "csv"
    found = FORMATS.get(format)() if format else detect(path, FORMATS)
    unknown = sorted(set(options) - found.options)
    if unknown:
        raise UsageError(
            f"format {found.name} does not support the option {unknown[0]}; supported: "
            f"{', '.join(sorted(found.options)) or 'none'}"
        )
    return found


def is_large(path: str | Path) -> bool:
    """Return whether a file is so large (some 200 MB of text) that it is better converted in parts."""
    if is_stream(path) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as raw:
        compressed = raw.read(6).startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"))
    return Path(path).stat().st_size * (5 if compressed else 1) > LARGE_BYTES


def to_parquet(
    source: str | Path,
    target: str | Path,
    format: str | None = None,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    resource: str | None = None,
    force: bool = False,
    progress: Callable[[float], None] | None = None,
    part_bytes: int = 16 * 1024 * 1024,
    **options: Any,
) -> tuple[int, str, list[str]] | None:
    """Convert a file of any size to our Parquet file in parts, so that memory does not grow with it.

    Returns the number of jobs, the format that was read and the history; or None where the format, or this file, can
    only be read whole. ``progress`` is called with the share of the file that has been read, once for each pass.
    """
    from swf.base import Blocks, StreamingFormat, Unsteady
    from swf.parquet import Parquet

    options = {name: value for name, value in options.items() if value is not None}
    check_writable(target, force=force)
    path = Path(source)
    if is_stream(source) or is_stream(target) or not path.is_file():
        return None
    with reading(path, "a trace"):
        found = _reader(path, format, options)
    if not isinstance(found, StreamingFormat):
        return None
    blocks, tally = Blocks(path, size=part_bytes, progress=progress), Tally()

    def described(known: Machine) -> tuple[Machine, list[str]]:
        unit, steps = tally.decide(resource or _unit_in(machine))
        return _described(known.replace(unit=unit), source, machine, procs), steps

    place = Path(target).resolve()
    try:
        with (
            writing(target, force=force) as out,
            TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as folder,
        ):
            jobs, history = Parquet().write_chunks(
                tally.over(_chunks(found, blocks, options)), out, folder=Path(folder), machine=described
            )
    except Unsteady:
        return None
    return jobs, found.name, history


def _chunks(found: Any, blocks: Blocks, options: dict[str, Any]) -> Iterator[Trace]:
    """Yield the parts of a file; what goes wrong in one is a `FormatError`."""
    from swf.base import Unsteady

    parts = found.chunks(blocks, **options)
    while True:
        with reading(blocks.path, f"a file of the format {found.name}", Unsteady):
            part = next(parts, None)
        if part is None:
            return
        yield part


def _described(known: Machine, path: str | Path, machine: Machine | str | Path | None, procs: int | None) -> Machine:
    """Return the machine in a file, updated with the caller's description."""
    if machine is not None:
        given = machine if isinstance(machine, Machine) else Machine.from_toml(machine)
        known = _merged(known, given)
    if procs is not None:
        if procs < 1:
            raise UsageError(f"--procs must be at least 1, not {procs}")
        known = known.replace(**{known.unit: procs})
    if not known.source:
        known = known.replace(source="standard input" if is_stream(path) else Path(path).name)
    return known


def _merged(known: Machine, given: Machine) -> Machine:
    """Return ``known`` with every field that ``given`` states."""
    blank = Machine().to_dict()
    stated = {name: getattr(given, name) for name, value in given.to_dict().items() if value != blank[name]}
    return known.replace(**stated)


def format_for(path: str | Path, format: str | None = None) -> str:
    """Return the name of the format to write: the one given, or that of the suffix."""
    from swf import FORMATS
    from swf.base import WritableFormat

    if format is None:
        if is_stream(path):
            return "swf"
        suffix = plain_suffix(path)
        format = next((name for name in FORMATS if suffix in FORMATS.get(name).suffixes), None)
        if format is None:
            raise UsageError(f"{path}: no format has the suffix '{suffix}'; choose one with --to, such as --to swf")
    if not issubclass(FORMATS.get(format), WritableFormat):
        raise UsageError(f"format {format} can be read but not written; choose another with --to, such as --to swf")
    return format


def write(trace: Trace, path: str | Path, format: str | None = None, *, force: bool = False) -> list[str]:
    """Write a trace whole or not at all; return what the format could not hold, one short phrase each."""
    from swf import FORMATS
    from swf._written import writable

    chosen: Any = FORMATS.get(format_for(path, format))()
    check_writable(path, force=force)
    trace, changed = writable(trace, text=chosen.name != "parquet")
    with writing(path, force=force) as out:
        lost: list[str] = chosen.write(trace, out)
    return [*changed, *lost]


def sample() -> Trace:
    """Return the embedded sample: 10,000 jobs MADE by a seeded script of this package, not recorded anywhere."""
    with as_file(files("tracekit") / "data" / "sample.swf.gz") as path:
        return read(path, "swf")
