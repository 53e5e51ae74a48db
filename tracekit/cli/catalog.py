"""Commands about public traces: catalog, fetch. Only fetch touches the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.app import Force, Json, Settings, app, console, print_json, say, table

if TYPE_CHECKING:
    from tracekit.catalog import Entry
    from tracekit.download import Progress


@app.command()
def catalog(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show all that is known about one trace.")] = None,
    json: Json = False,
) -> None:
    """List public traces with format, size and address. Does not use the network.

    Example: `tracekit catalog`
    """
    from tracekit.catalog import catalog as known
    from tracekit.catalog import find

    if name is not None:
        entry = find(name)
        if json:
            print_json(entry.to_dict())
        else:
            _print_entry(entry)
        return
    entries = known().values()
    if json:
        print_json({"traces": [entry.to_dict() for entry in entries]})
        return
    rows = table("trace", "format", "years", "jobs", "size", "fetch", "what it is", right=("jobs", "size"))
    for entry in entries:
        sizes = ((entry.procs, "procs"), (entry.gpus, "gpus"), (entry.nodes, "nodes"))
        size = next((f"{count:,} {unit}" for count, unit in sizes if count), "")
        jobs = f"{entry.jobs:,}" if entry.jobs else ""
        rows.add_row(entry.name, entry.format, entry.years or "", jobs, size, "yes" * bool(entry.files), entry.title)
    console().print(rows)


def _print_entry(entry: Entry) -> None:
    out = console()
    for key, value in entry.to_dict().items():
        if key == "files":
            for source in entry.files:
                out.print(f"  {'file':<12} {source.url}")
                if source.sha256:
                    out.print(f"  {'SHA-256':<12} {source.sha256}")
        elif value not in (None, (), ""):
            shown = "; ".join(value) if isinstance(value, (tuple, list)) else value
            out.print(f"  {key:<12} {shown:,}" if type(shown) is int else f"  {key:<12} {shown}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a trace in the catalog.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="Output folder (default: the cache).")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Download a public trace. Interrupted downloads are resumed, and checksums are verified.

    Prints the path of every file. Without -o the files go to the cache ($TRACEKIT_CACHE, or ~/.cache/tracekit).

    Example: `tracekit fetch KTH-SP2-1996-2.1-cln -o .`
    """
    from tracekit import download
    from tracekit.catalog import cache_folder, find, require_address

    entry = find(name)
    require_address(entry)
    folder = cache_folder() if output is None else Path(output)
    paths: list[str] = []
    for source in entry.files:
        with _bar(source.name) as progress:
            made, remarks = download.fetch(source, folder, cache=cache_folder(), force=force, progress=progress)
        paths += [str(path) for path in made]
        for remark in remarks:
            say(remark)
    if entry.acknowledge:
        say(f"please acknowledge: {entry.acknowledge}")
    if entry.citation:
        say(f"please cite: {entry.citation}")
    if json:
        print_json({"name": entry.name, "format": entry.format, "files": paths})
        return
    for path in paths:
        console().print(path)


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """Show a progress bar on stderr if it is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    screen = console(stderr=True)
    shown = [TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
    with Progress(*shown, console=screen, disable=Settings.quiet or not screen.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
