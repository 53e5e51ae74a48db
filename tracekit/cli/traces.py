"""Commands about one trace: convert, info, validate, formats, sample, version; and how every command reads one."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, Settings, app, console, print_json, say, table, tell
from tracekit.cli.large import InParts, PartJobs, check_parts, is_parquet, opened, save_batches
from tracekit.cli.parts import convert_in_parts, shown_progress
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from tracekit.trace import Trace

In = Annotated[
    str, typer.Argument(metavar="IN", help="Trace to read: any known format, plain or compressed; - is stdin.")
]
Out = Annotated[str, typer.Argument(metavar="OUT", help="File to write; its suffix selects the format; - is stdout.")]
From = Annotated[str | None, typer.Option("--from", help="Format of the input (default: detected from content).")]
To = Annotated[str | None, typer.Option("--to", help="Format of the output (default: by its suffix).")]
Procs = Annotated[
    int | None,
    typer.Option("--procs", help="Size of the machine in the scheduled unit, if the file does not contain it."),
]
MachineFile = Annotated[str | None, typer.Option("--machine", help="TOML file that describes the machine.")]
TimeZone = Annotated[str | None, typer.Option("--timezone", help="Time zone of the machine and of local dates.")]
OnError = Annotated[str, typer.Option("--on-error", help="Damaged lines: stop, or skip and count them.")]
Map = Annotated[str | None, typer.Option("--map", help="Columns of a table: OURS=THEIRS,OURS=THEIRS …")]
Epoch = Annotated[str | None, typer.Option("--epoch", help="Date of second 0, for formats without dates (gpw).")]
Read = Annotated[
    list[str] | None,
    typer.Option("--read", help="An option of the input's format, such as cell=a or job=instance; may be repeated."),
]


def load(
    path: str,
    *,
    format: str | None = None,
    procs: int | None = None,
    machine: str | None = None,
    resource: str | None = None,
    timezone: str | None = None,
    on_error: str = "stop",
    map_: str | None = None,
    epoch: str | None = None,
    read: list[str] | None = None,
    columns: Collection[str] | None = None,
) -> tuple[Trace, str]:
    """Read a trace with the given flags; print on stderr what was left out and which unit was chosen.

    ``columns``: the only ones that the command looks at; None: all.
    """
    from tracekit.api import read_as
    from tracekit.units import note

    options = read_options(timezone=timezone, on_error=on_error, map_=map_, epoch=epoch, read=read)
    known: dict[str, Any] = {"procs": procs, "machine": machine, "resource": resource}
    with shown_progress(path):
        trace, found = read_as(path, format, columns=columns, **known, **options)
    tell(path, trace.history)
    missing = note(trace)
    if missing:
        say(f"{path}: {missing}")
    return trace, found


def read_options(
    *, timezone: str | None, on_error: str, map_: str | None, epoch: str | None, read: list[str] | None = None
) -> dict[str, Any]:
    """Check the reading flags, and return them as options of the formats."""
    if on_error not in ("stop", "skip"):
        raise UsageError(f"--on-error must be stop or skip, not '{on_error}'")
    if timezone:
        _check_zone(timezone)
    options: dict[str, Any] = {"timezone": timezone, "epoch": epoch}
    if on_error == "skip":
        options["on_error"] = "skip"
    if map_:
        from swf._table import parse_map

        options["map"] = parse_map(map_)
    return options | own_options(read)


def own_options(texts: list[str] | None) -> dict[str, str]:
    """Return the values of --read: options that only some formats have."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError(f"--read needs NAME=VALUE such as cell=a; got '{text}'")
        if name in ("timezone", "on_error", "map", "epoch"):
            raise UsageError(f"--read {name}: there is a flag for this, --{name.replace('_', '-')}")
        found[name] = value
    return found


def keep_map(path: str, format: str, map_: str | None, timezone: str | None) -> None:
    """Save a column map that worked beside its table."""
    if map_ and format == "csv" and path != "-":
        from swf._table import parse_map
        from swf.csv import remember

        place = remember(Path(path), parse_map(map_), timezone)
        if place:
            say(f"column map saved in {place}")


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo, available_timezones

    from tracekit.errors import UnknownName

    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise UnknownName("time zone", name, available_timezones()) from None


def save(
    trace: Trace,
    path: str,
    *,
    format: str | None = None,
    force: bool = False,
    named: str | None = None,
    part_jobs: int | None = None,
) -> None:
    """Write a trace and print what its format cannot hold; ``named`` is the name to print if ``path`` is temporary.

    With ``part_jobs`` it becomes a folder of Parquet files with so many jobs each.
    """
    from swf._written import writable
    from swf.parts import in_chunks
    from tracekit.api import write

    if not len(trace):
        raise TracekitError("no job is left to write")
    if part_jobs is not None:
        sound, changed = writable(trace, text=False)
        save_batches(in_chunks(sound), path, part_jobs=part_jobs, force=force)
        for phrase in changed:
            say(f"not kept in this format: {phrase}")
        return
    for phrase in write(trace, path, format, force=force):
        say(f"not kept in this format: {phrase}")
    if path != "-":
        say(f"{named or path}: {len(trace):,} jobs")


def prepare(
    source: str, target: str, *, format: str | None = None, force: bool = False, part_jobs: int | None = None
) -> str:
    """Raise OutputError before any work if the output cannot be written; return its format."""
    from tracekit.api import format_for
    from tracekit.files import check_distinct, check_writable

    if part_jobs is not None:
        check_parts(source, target, format=format, force=force)
        return "parquet"
    check_distinct(source, target)
    check_writable(target, force=force)
    return format_for(target, format)


@app.command()
def convert(
    source: In,
    target: Out,
    from_: From = None,
    to: To = None,
    timezone: TimeZone = None,
    map_: Map = None,
    on_error: OnError = "stop",
    epoch: Epoch = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    read: Read = None,
    parts: Annotated[
        bool | None,
        typer.Option(
            "--parts/--whole",
            help="Convert to Parquet in parts, with little memory (default: for text above 200 MB, and for a Parquet "
            "trace that would take half of the free memory).",
        ),
    ] = None,
    part_jobs: PartJobs = None,
    force: Force = False,
) -> None:
    """Convert a trace to another format.

    Example: `tracekit convert KTH-SP2.swf.gz kth.parquet`
    """
    from swf.parts import readable_parts
    from tracekit.api import is_large

    chosen = prepare(source, target, format=to, force=force, part_jobs=part_jobs)
    given: dict[str, Any] = {"procs": procs, "machine": machine, "resource": resource}
    if chosen == "parquet" and is_parquet(source):
        native = readable_parts(Path(source)) is not None  # tables of other programs are read whole
        wanted = parts if native else False
        batches = opened(source, wanted, format=from_, timezone=timezone, map_=map_, epoch=epoch, **given)
        if batches is not None:
            save_batches(
                batches.batches(), target, part_jobs=part_jobs, finish=lambda m: (m, [*batches.history]), force=force
            )
            return
    elif chosen == "parquet" and (is_large(source) if parts is None else parts):
        options = read_options(timezone=timezone, on_error=on_error, map_=map_, epoch=epoch, read=read)
        found = convert_in_parts(source, target, from_, part_jobs=part_jobs, force=force, options=options, **given)
        if found:
            keep_map(source, found, map_, timezone)
            return
    reading: dict[str, Any] = {"timezone": timezone, "on_error": on_error, "map_": map_, "epoch": epoch, "read": read}
    trace, found = load(source, format=from_, **reading, **given)
    save(trace, target, format=chosen, force=force, part_jobs=part_jobs)
    keep_map(source, found, map_, timezone)


@app.command()
def info(
    file: In,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    timezone: TimeZone = None,
    on_error: OnError = "stop",
    map_: Map = None,
    epoch: Epoch = None,
    read: Read = None,
    parts: InParts = None,
    json: Json = False,
) -> None:
    """Describe a trace: machine, load, and the distributions of run times, sizes, waits and arrivals.

    Example: `tracekit info sample.swf`
    """
    from tracekit.large.summary import summary as summary_of

    given: dict[str, Any] = {"procs": procs, "machine": machine, "resource": resource, "timezone": timezone}
    source = opened(file, parts, format=from_, map_=map_, epoch=epoch, **given)
    if source is not None:
        summary = {"format": "parquet", **summary_of(source)}
    else:
        trace, found = load(file, format=from_, on_error=on_error, map_=map_, epoch=epoch, read=read, **given)
        summary = {"format": found, **trace.summary()}
    if json:
        print_json(summary)
        return
    _print_info(file, summary)


def _hosts(groups: list[dict[str, Any]], most: int = 4) -> str:
    """Return the largest groups of hosts in words: number, cores, memory, GPUs, pool."""
    parts = []
    for group in sorted(groups, key=lambda group: -group["count"])[:most]:
        has = [f"{group['cores']:,} cores"] if group.get("cores") else []
        has += [f"{group['memory'] / 1024**2:,.4g} GB"] if group.get("memory") else []
        has += [f"{group['gpus']} × {group.get('gpu_type') or 'GPU'}"] if group.get("gpus") else []
        has += [f"pool {group['pool']}"] if group.get("pool") else []
        parts.append(f"{group['count']:,} with {', '.join(has)}" if has else f"{group['count']:,}")
    more = len(groups) - most
    return "; ".join(parts) + (f"; and {more:,} more group{'s' * (more > 1)}" if more > 0 else "")


def _print_info(file: str, summary: dict[str, Any]) -> None:
    out = console()
    machine = summary["machine"]
    sizes = ", ".join(f"{machine[unit]:,} {unit}" for unit in ("procs", "nodes", "gpus") if machine[unit])
    out.print(f"{file}  ({summary['format']})", style="bold")
    facts = {
        "machine": " · ".join(part for part in (machine["name"], sizes) if part)
        or "unknown; see --procs and --machine",
        "jobs": f"{summary['jobs']:,}" + (f" by {summary['users']:,} users" if summary["users"] else ", users unknown"),
        "submitted": f"{summary['first_submit']} to {summary['last_submit']}"
        if summary["first_submit"]
        else "no calendar",
        "span": human(summary["span_s"]),
        "offered load": _share(summary["offered_load"])
        if summary["offered_load"] is not None
        else f"unknown machine; on average {summary['mean_demand'] or 0:,.1f} {machine['unit']} in demand",
        "utilisation": _share(summary["utilization"]),
        "counted in": machine["unit"]
        + (f"; {summary['left_out']:,} jobs have none and are left out" if summary["left_out"] else ""),
        "status": ", ".join(f"{word} {count:,}" for word, count in summary["status"].items()) or "unknown",
    }
    if machine.get("groups"):
        facts = {"machine": facts.pop("machine"), "hosts": _hosts(machine["groups"]), **facts}
    for name, value in facts.items():
        out.print(f"  {name:<13} {value}")
    rows = table(
        "", "mean", "p50", "p90", "p99", "max", "unknown", right=("mean", "p50", "p90", "p99", "max", "unknown")
    )
    missing = summary["missing"]
    for name, label, column in (
        ("run_time", "run time, s", "run_time"),
        ("req_time", "limit, s", "req_time"),
        ("wait_time", "wait, s", "wait_time"),
        ("procs", f"size, {machine['unit']}", None),
        ("interarrival", "inter-arrival, s", None),
        *([("mean_watts", "mean power, W", "mean_watts")] if summary["mean_watts"] else []),
    ):
        found = summary[name]
        cells = (
            [f"{found[key]:,.0f}" if found[key] >= 100 else f"{found[key]:.3g}" for key in found]
            if found
            else ["–"] * 5
        )
        rows.add_row(label, *cells, f"{missing[column]:.1%}" if column and missing[column] else "")
    out.print(rows)
    for step in summary["history"]:
        out.print(f"  · {step}")


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def human(seconds: float | None) -> str:
    """Return a span in days or hours."""
    if seconds is None:
        return "unknown"
    days = seconds / 86400
    return f"{days:,.1f} days" if days >= 1 else f"{seconds / 3600:.1f} hours"


@app.command()
def validate(
    file: In,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    on_error: OnError = "stop",
    map_: Map = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if any problem is found.")] = False,
    parts: InParts = None,
    json: Json = False,
) -> None:
    """List the problems of a trace: counts, first rows, and the cleaning rule that fixes each.

    Example: `tracekit validate sample.swf`
    """
    from tracekit.large.problems import Findings
    from tracekit.large.problems import validate as find_problems
    from tracekit.validation import schedulable

    source = opened(file, parts, format=from_, procs=procs, machine=machine, resource=resource, map_=map_)
    if source is not None:
        found = find_problems(source)
    else:
        trace, _ = load(
            file, format=from_, procs=procs, machine=machine, resource=resource, on_error=on_error, map_=map_
        )
        found = Findings(len(trace), int(schedulable(trace).sum()), trace.validate())
    problems, fine, sound = found.problems, found.usable, found.schedulable
    if json:
        print_json(
            {
                "usable": fine,
                "jobs": found.jobs,
                "schedulable_jobs": sound,
                "problems": [problem.to_dict() for problem in problems],
            }
        )
    else:
        out = console()
        if problems:
            rows = table("problem", "rows", "first rows", "fixed by", right=("rows",))
            for problem in problems:
                first = ", ".join(map(str, problem.first_rows[:3])) + (" …" if problem.count > 3 else "")
                rows.add_row(problem.rule, f"{problem.count:,}", first, problem.fix)
            out.print(rows)
        verdict = "usable" if fine else "not usable: fewer than half of the jobs could be scheduled"
        out.print(f"{file}: {found.jobs:,} jobs, {sound:,} can be scheduled as they are; {verdict}")
    if strict and problems:
        raise typer.Exit(1)


def second(trace: Trace, text: str | None, default: float) -> float:
    """Turn a date or a number of seconds into seconds since the trace's epoch."""
    from swf._times import instant
    from tracekit.readings import compact_date

    if text is None:
        return default
    day, epoch = compact_date(text), trace.machine.epoch
    if day is not None and epoch is not None:
        moment = instant(day.isoformat(), trace.machine.timezone) - epoch
        submit = trace.column("submit_time")
        if len(submit) and submit.min() <= moment <= submit.max():
            raise UsageError(
                f"'{text}' can be read as the date {day.date()} or as second {text} of the trace; "
                f"write {day.date()} or {text}.0"
            )
    try:
        return float(text)
    except ValueError:
        if trace.machine.epoch is None:
            raise TracekitError(f"the trace has no calendar, so '{text}' cannot be used; give seconds") from None
        return instant(text, trace.machine.timezone) - trace.machine.epoch


@app.command()
def formats(json: Json = False) -> None:
    """List the trace formats, which of them can be written, and the options each takes.

    Example: `tracekit formats`
    """
    from swf import FORMATS
    from swf.base import WritableFormat

    known = [FORMATS.get(name) for name in FORMATS]
    if json:
        print_json(
            {
                "formats": [
                    {
                        "name": made.name,
                        "title": made.title,
                        "suffixes": list(made.suffixes),
                        "options": sorted(made.options),
                        "writes": issubclass(made, WritableFormat),
                    }
                    for made in known
                ]
            }
        )
        return
    rows = table("format", "writes", "endings", "what it is")
    for made in known:
        rows.add_row(made.name, "yes" if issubclass(made, WritableFormat) else "", " ".join(made.suffixes), made.title)
    console().print(rows)


@app.command()
def sample(target: Out, to: To = None, force: Force = False) -> None:
    """Write the embedded sample: 10,000 jobs MADE by a seeded script, not recorded anywhere.

    Example: `tracekit sample sample.swf`
    """
    from tracekit.api import sample as embedded

    chosen = prepare("-", target, format=to, force=force)
    save(embedded(), target, format=chosen, force=force)


@app.command()
def version() -> None:
    """Print the version.

    Example: `tracekit version`
    """
    from tracekit import __version__

    console().print(__version__)


@app.command()
def demo(
    folder: Annotated[str, typer.Option("--out", "-o", help="Folder for the files and the report.")] = "demo",
    force: Force = False,
) -> None:
    """Run the main steps on the embedded sample, print every command, and write a report.

    Example: `tracekit demo`
    """
    from tracekit import demo as tour
    from tracekit.cli import main

    quiet = Settings.quiet
    try:
        page = tour.run(Path(folder), main, force=force)
    except KeyboardInterrupt:
        say(f"run 'tracekit demo -o {folder} --force' to continue")
        raise SystemExit(130) from None  # the step has reported the interruption
    Settings.quiet = quiet  # the tour runs commands with their own flags
    say(f"\n{tour.outcome(page)}")
    say(f"open {page}; the commands above also work with your own file instead of sample.swf")
