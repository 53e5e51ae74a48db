"""Commands that examine one trace: plot, doctor."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, app, console, print_json, say, table
from tracekit.cli.large import InParts, opened
from tracekit.cli.parts import counted
from tracekit.cli.traces import Epoch, From, In, MachineFile, Map, OnError, Procs, TimeZone, load
from tracekit.errors import OutputError, UsageError

if TYPE_CHECKING:
    from tracekit.doctor import Finding
    from tracekit.trace import Trace

Folder = Annotated[str, typer.Option("-o", "--out", help="Folder for the pictures; created if missing.")]


@app.command()
def plot(
    file: In,
    out: Folder,
    only: Annotated[str | None, typer.Option("--only", help="Pictures to draw, such as cdfs,usage.")] = None,
    format: Annotated[str, typer.Option("--format", help="png, svg, pdf, or several: png,pdf.")] = "png",
    window: Annotated[
        str | None,
        typer.Option("--window", help="START:COUNT, the jobs in the Gantt chart (default: 400 in the middle)."),
    ] = None,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    timezone: TimeZone = None,
    on_error: OnError = "stop",
    map_: Map = None,
    epoch: Epoch = None,
    parts: InParts = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw a trace: distributions, arrivals, usage and queue length, a Gantt chart, users, failures, waits, load.

    Pictures that the trace has no data for are skipped, and the reason is printed.

    Example: `tracekit plot sample.swf -o pictures`
    """
    from tracekit import plots
    from tracekit.folders import writing_folder
    from tracekit.plots.catalogue import chosen
    from tracekit.plots.streamed import IN_PARTS, check_pictures, draw_parts

    names = chosen(_listed(only) if only else None)
    formats = _formats(format)
    stretch = _window(window) if window else None
    pictures = [f"{name}.{ending}" for name in names for ending in formats]
    folder = _folder(out, pictures, force=force)
    known: Any = {"format": from_, "procs": procs, "machine": machine, "resource": resource, "timezone": timezone}
    batches = opened(file, parts, map_=map_, epoch=epoch, **known)
    if batches is not None and only is None:
        names = [name for name in names if name in IN_PARTS]
        say(f"{file}: read in parts, so without the pictures of all jobs at once; --only {','.join(IN_PARTS)}")
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        if batches is not None:
            check_pictures(batches, names)
            spill = Path(stack.enter_context(TemporaryDirectory(prefix="tracekit-", ignore_cleanup_errors=True)))
            pictured = draw_parts(batches, names, spill, tell=stack.enter_context(counted(file)))
        else:
            trace, _ = load(file, on_error=on_error, map_=map_, epoch=epoch, **known)
            pictured = plots.draw(trace, names, window=stretch)
        made = stack.enter_context(writing_folder(folder, ours=pictures, force=force))
        for drawn in pictured:
            files = []
            if drawn.figure is not None:
                for ending in formats:
                    plots.save(drawn.figure, made / f"{drawn.name}.{ending}")
                    files.append(str(folder / f"{drawn.name}.{ending}"))
                say(f"  {drawn.name}")
            rows.append({"name": drawn.name, "shows": drawn.shows, "files": files, "skipped": drawn.skipped or None})
    if json:
        print_json({"trace": file, "jobs": len(trace) if batches is None else batches.jobs, "pictures": rows})
        return
    shown = table("picture", "shows", "file")
    for row in rows:
        shown.add_row(row["name"], row["shows"], ", ".join(row["files"]) or f"skipped: {row['skipped']}")
    console().print(shown, soft_wrap=False)


@app.command()
def doctor(
    file: In,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Folder for a picture of each finding, the recipe and the report.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="Write the rules that fix the findings to this file.")
    ] = None,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    timezone: TimeZone = None,
    on_error: OnError = "stop",
    map_: Map = None,
    epoch: Epoch = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Examine a trace: overload, outages, clock errors, units, flurries, duplicates, contradictions with the header.

    Every finding comes with its evidence and the cleaning rule that fixes it. Nothing is changed: use `tracekit clean
    --recipe` to apply the rules you agree with.

    Example: `tracekit doctor sample.swf -o examined`
    """
    from json import dumps

    from tracekit import doctor as examination
    from tracekit.files import check_writable, write_text
    from tracekit.folders import writing_folder

    if recipe:
        check_writable(recipe, force=force)
    folder = _folder(out, ["recipe.toml", "report.json"], force=force) if out else None
    trace, format = load(
        file,
        format=from_,
        procs=procs,
        machine=machine,
        resource=resource,
        timezone=timezone,
        on_error=on_error,
        map_=map_,
        epoch=epoch,
    )
    report = examination.examine(
        trace, progress=lambda name: say(f"  checking: {name}") if len(trace) > 300_000 else None
    )
    rows = [finding.to_dict() for finding in report.findings]
    for row in rows:
        row["picture"] = None
    text = examination.recipe(report, source=Path(file).name)
    data = {"trace": file, "format": format, **report.to_dict(), "findings": rows}
    data["recipe"] = recipe or (str(folder / "recipe.toml") if folder else None)
    if folder:
        with writing_folder(folder, ours=_EXAMINED, force=force) as made:
            _draw_findings(trace, report.findings, rows, made, folder)
            write_text(made / "recipe.toml", text)
            write_text(made / "report.json", dumps(data, indent=2) + "\n")
    if recipe:
        write_text(recipe, text, force=force)
    if json:
        print_json(data)
        return
    _print_findings(file, data)


#: Files that an earlier run may have left in the folder: pictures are numbered, 01-flurry.png.
_EXAMINED = ("recipe.toml", "report.json", "[0-9][0-9]*-*.png")


def _draw_findings(trace: Trace, findings: list[Finding], rows: list[dict[str, Any]], made: Path, folder: Path) -> None:
    """Draw each finding that has a picture into ``made``, numbered as in the report, which names ``folder``."""
    from tracekit import plots

    for number, (finding, row) in enumerate(zip(findings, rows, strict=True), start=1):
        if finding.draw is None:
            continue
        name = f"{number:02d}-{finding.rule}.png"
        try:
            plots.save(finding.draw(trace), made / name)
        except plots.NothingToDraw:
            continue
        row["picture"] = str(folder / name)


def _print_findings(file: str, data: dict[str, Any]) -> None:
    from tracekit.doctor.finding import counted

    out = console()
    for number, row in enumerate(data["findings"], start=1):
        out.print(f"{number:3d}. {row['severity'].upper()}  {row['rule']}", style="bold")
        out.print(f"     {row['message']}", soft_wrap=False)
        if row["count"]:
            first = ", ".join(map(str, row["first_rows"])) + (" …" if row["count"] > len(row["first_rows"]) else "")
            out.print(f"     rows: {first} ({row['count']:,} in all)")
        for word, key in (("fixed by", "fix"), ("advice", "advice"), ("picture", "picture")):
            if row[key]:
                out.print(f"     {word}: {row[key]}")
    notes = len(data["findings"]) - data["alarms"]
    out.print(f"{file}: {counted(data['jobs'], 'job')}, {counted(data['alarms'], 'alarm')}, {counted(notes, 'note')}")
    if data["not_looked_for"]:
        reasons = "; ".join(f"{row['what']} ({row['reason']})" for row in data["not_looked_for"])
        out.print(f"not checked: {reasons}")
    if data["recipe"]:
        out.print(f"recipe: {data['recipe']}; apply it with  tracekit clean IN OUT --recipe {data['recipe']}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _formats(text: str) -> list[str]:
    from tracekit.errors import UnknownName
    from tracekit.plots.style import FORMATS

    wanted = _listed(text)
    for name in wanted:
        if name not in FORMATS:
            raise UnknownName("picture format", name, FORMATS)
    if not wanted:
        raise UsageError(f"--format needs one of {', '.join(FORMATS)}")
    return wanted


def _window(text: str) -> tuple[int, int]:
    start, colon, count = text.partition(":")
    if not colon or not start.strip().isdigit() or not count.strip().isdigit() or int(count) < 1:
        raise UsageError(f"--window is START:COUNT, such as 0:500, not '{text}'")
    return int(start), int(count)


def _folder(out: str, names: list[str], *, force: bool) -> Path:
    """Return the folder; raise OutputError if a picture of that name exists already."""
    from tracekit.folders import check_folder
    from tracekit.plots.style import FORMATS

    folder = Path(out)
    if folder.suffix[1:].lower() in FORMATS:
        raise OutputError(f"{folder}: pictures go into a folder, such as -o {folder.stem}; --only chooses among them")
    return check_folder(folder, names, force=force)
