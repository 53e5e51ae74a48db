"""Commands that look at one trace closely: plot, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.app import Force, Json, app, console, print_json, say, table
from tracekit.cli.traces import Epoch, From, In, MachineFile, Map, OnError, Procs, TimeZone, load
from tracekit.errors import OutputError, UsageError

Folder = Annotated[str, typer.Option("-o", "--out", help="Folder for the pictures; made if it is not there.")]


@app.command()
def plot(
    file: In,
    out: Folder,
    only: Annotated[str | None, typer.Option("--only", help="Names of pictures, such as cdfs,usage.")] = None,
    format: Annotated[str, typer.Option("--format", help="png, svg or png,svg.")] = "png",
    window: Annotated[
        str | None,
        typer.Option("--window", help="START:COUNT: the jobs that gantt shows (default: 400 in the middle)."),
    ] = None,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    timezone: TimeZone = None,
    on_error: OnError = "stop",
    map_: Map = None,
    epoch: Epoch = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw a trace: distributions, arrivals, usage and queue, a Gantt chart, users, failures, waits, load.

    What the trace cannot show is left out, with the reason in the list.

    Example: `tracekit plot sample.swf -o pictures`
    """
    from tracekit import plots
    from tracekit.plots.catalogue import chosen

    names = chosen(_listed(only) if only else None)
    formats = _formats(format)
    stretch = _window(window) if window else None
    folder = _folder(out, [f"{name}.{ending}" for name in names for ending in formats], force=force)
    trace, _ = load(
        file, format=from_, procs=procs, machine=machine, timezone=timezone, on_error=on_error, map_=map_, epoch=epoch
    )
    rows: list[dict[str, Any]] = []
    for drawn in plots.draw(trace, names, window=stretch):
        files = []
        if drawn.figure is not None:
            for ending in formats:
                place = folder / f"{drawn.name}.{ending}"
                plots.save(drawn.figure, place, force=force)
                files.append(str(place))
            say(f"  {drawn.name}")
        rows.append({"name": drawn.name, "shows": drawn.shows, "files": files, "skipped": drawn.skipped or None})
    if json:
        print_json({"trace": file, "jobs": len(trace), "pictures": rows})
        return
    made = table("picture", "shows", "file")
    for row in rows:
        made.add_row(row["name"], row["shows"], ", ".join(row["files"]) or f"skipped: {row['skipped']}")
    console().print(made, soft_wrap=False)


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
    """Make the folder, and refuse early where a picture of that name is there already."""
    from tracekit.files import check_writable

    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file, not a folder")
    for name in names:
        if (folder / name).exists():
            check_writable(folder / name, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
