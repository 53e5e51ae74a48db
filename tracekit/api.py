"""The public functions `tracekit.read`, `tracekit.write`, `tracekit.sample`; formats are chosen by name or content."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tracekit import limits
from tracekit.environment import memory
from tracekit.errors import FormatError, TracekitError, UsageError, reading
from tracekit.files import as_path, check_writable, head_of, is_stream, plain_suffix, read_toml, writing
from tracekit.large.source import gigabytes
from tracekit.machine import Machine
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace
from tracekit.transform.splitting import check_count
from tracekit.units import Tally, checked, with_unit

if TYPE_CHECKING:
    from swf.base import Blocks, Format
    from swf.parts import Parts
    from tracekit.large.cutting import Cut
    from tracekit.large.source import Source

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
            if found.name == "parquet":
                _check_memory(real, columns)
            with reading(path, f"a file of the format {found.name}"):
                trace = found.read(real, **options)
        except FormatError as error:
            if is_stream(path):
                raise FormatError("standard input", error.problem, line=error.line, hint=error.hint) from None
            raise
        stated = _states_unit(found, real)
    trace = with_unit(trace, resource or _unit_in(machine), stated=stated)
    return trace.replace(machine=_described(trace.machine, path, machine, procs)), found.name


def capacity(path: str | Path, format: str | None = None, **options: Any) -> list[tuple[float, float, float]]:
    """Return what was missing of a trace's machine: (from, to, processors), in seconds of the trace."""
    from swf import FORMATS
    from swf._events import CapacityFormat

    with reading(path, "a trace"):
        found: Any = _reader(Path(path), format, options)
    name = str(found.name)
    if not isinstance(found, CapacityFormat):
        able = ", ".join(name for name in FORMATS if hasattr(FORMATS.get(name), "outages"))
        raise UsageError(f"format {name} does not tell when parts of the machine were missing; {able} does")
    with reading(path, f"a file of the format {name}"):
        made: list[tuple[float, float, float]] = found.outages(Path(path), **options)
        return made


def read_requests(path: str | Path, format: str | None = None) -> Trace:
    """Read a trace, or a list of openb pods that need not say when they came and went."""
    from swf.alibaba import PODS, requests
    from swf.base import head_lines

    if format in (None, "alibaba-openb") and str(path) != "-" and Path(path).is_file():
        first = head_lines(head_of(path), limit=1)
        if first and set(PODS) <= {cell.strip() for cell in first[0].split(",")}:
            return requests(Path(path))
    return read(path, format)


#: A Parquet trace is read in batches where reading it whole would take more than this share of the free memory.
SHARE = 0.5


def free_memory() -> float:
    """Return how many bytes reading a trace may take: the limit ``memory``, or what is free; infinity if unknown."""
    known = memory()
    return limits.limit("memory") or (float("inf") if known is None else known[1])


def _check_memory(path: Path, columns: Collection[str] | None = None) -> None:
    """Raise TracekitError before a Parquet trace is read that does not fit into memory."""
    from swf.parts import readable_parts

    parts = readable_parts(path)
    needed = 0 if parts is None else parts.bytes_whole(columns)
    if parts is not None and needed > free_memory():
        raise TracekitError(
            f"{path}: {parts.jobs:,} jobs take about {gigabytes(needed)} of memory to read whole, and "
            f"{gigabytes(free_memory())} may be used; --parts of info, validate, clean, slice, scale, split, "
            "convert, score and plot reads such a trace in parts, and slice makes one that fits "
            "(--limit memory=none tries it anyway)"
        )


def open_parts(
    path: str | Path,
    *,
    machine: Machine | str | Path | None = None,
    procs: int | None = None,
    resource: str | None = None,
    timezone: str | None = None,
) -> Parts:
    """Open a Parquet trace, a file or a folder of parts, to be read in batches; the other arguments as in `read`."""
    from swf.parts import Parts

    with reading(path, "a Parquet trace"):
        parts = Parts(path)
    if timezone:
        parts.machine = parts.machine.replace(timezone=timezone)
    tally, asked = Tally(), resource or _unit_in(machine)
    if asked is None:
        for batch in parts.batches(SIZE_COLUMNS):
            tally.add(batch)
            if tally.covered[tally.read]:
                break  # the unit that the file states is kept where any job has one
    unit, steps = (checked(asked), []) if asked is not None else tally.decide(None, stated=True)
    parts.machine = _described(parts.machine.replace(unit=unit), path, machine, procs)
    parts.history = (*parts.history, *steps)
    return parts


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
    part_jobs: int | None = None,
    **options: Any,
) -> tuple[int, str, list[str]] | None:
    """Convert a file of any size to our Parquet file in parts, so that memory does not grow with it.

    With ``part_jobs`` the target is a folder of Parquet files with so many jobs each.

    Returns the number of jobs, the format that was read and the history; or None where the format, or this file, can
    only be read whole. ``progress`` is called with the share of the file that has been read, once for each pass.
    """
    from swf.base import Blocks, StreamingFormat, Unsteady

    options = {name: value for name, value in options.items() if value is not None}
    if part_jobs is None:
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

    try:
        jobs, history = write_chunks(
            tally.over(_chunks(found, blocks, options)), target, part_jobs=part_jobs, force=force, machine=described
        )
    except Unsteady:
        return None
    return jobs, found.name, history


def write_chunks(
    chunks: Iterable[Trace],
    target: str | Path,
    *,
    part_jobs: int | None = None,
    force: bool = False,
    machine: Callable[[Machine], tuple[Machine, list[str]]] = lambda known: (known, []),
) -> tuple[int, list[str]]:
    """Write chunks of jobs as one Parquet file, or as a folder of files with ``part_jobs`` jobs each, all or nothing.

    ``machine`` turns the machine of the last chunk into the one to keep, with notes for the history.
    """
    from swf.parquet import Parquet
    from swf.parts import write_parts

    if part_jobs is not None:
        return write_parts(chunks, target, part_jobs=part_jobs, force=force, machine=machine)
    place = Path(target).resolve()
    with (
        writing(target, force=force) as out,
        TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as folder,
    ):
        return Parquet().write_chunks(chunks, out, folder=Path(folder), machine=machine)


def write_split(
    source: Source, cut: Cut, target: str | Path, place: Callable[[list[str]], list[str]], *, force: bool = False
) -> list[tuple[str, int, Path]]:
    """Split a trace that is read in batches into Parquet files of a folder, all or none.

    ``place`` turns the names of the parts into file names. Returns name, jobs and file of every part.
    """
    from swf._native import metadata
    from swf._spill import Spill
    from tracekit.folders import writing_folder

    parts: dict[str, Spill] = {}
    with writing_folder(target, force=force) as folder, TemporaryDirectory(prefix=".waiting", dir=folder) as waiting:
        for name, piece in cut.pieces(source):
            if name not in parts:
                check_count(len(parts) + 1, "part")
                parts[name] = Spill(Path(waiting) / str(len(parts)))
                parts[name].folder.mkdir()
            parts[name].add(piece)
        names = sorted(parts, key=cut.key)
        for name, file in zip(names, place(names), strict=True):
            with (folder / file).open("wb") as out:
                history = [*source.history, cut.step(name)]
                parts[name].write(out, metadata(source.machine, history))
    return [(name, parts[name].jobs, Path(target) / file) for name, file in zip(names, place(names), strict=True)]


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
