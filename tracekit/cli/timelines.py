"""Schedules for Perfetto and chrome://tracing: ``simulate --timeline FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.app import say
from tracekit.errors import OutputError

if TYPE_CHECKING:
    from tracekit.sim.analysis.grid import Grid
    from tracekit.sim.simulate import SimResult
    from tracekit.trace import Trace

TimelineFile = Annotated[
    str | None,
    typer.Option("--timeline", metavar="FILE.json", help="Write the schedules as trace events, for Perfetto."),
]


def check_timeline(path: str | None, *, force: bool) -> None:
    """Raise OutputError before any work if the file cannot be written."""
    from tracekit.files import check_writable, is_stream, plain_suffix

    if path is None:
        return
    if not is_stream(path) and not Path(path).is_dir() and plain_suffix(path) != ".json":
        raise OutputError(f"{path}: a timeline is JSON: name it {Path(path).with_suffix('.json')} (or .json.gz)")
    if is_stream(path):
        raise OutputError("--timeline writes a file; standard output has the results")
    check_writable(path, force=force)


def write_timeline(
    path: str, runs: Sequence[tuple[Grid, list[SimResult]]], trace: Trace, cluster: str | None, *, force: bool
) -> None:
    """Write all schedules of a simulation into one file."""
    from tracekit.clusters import cluster_of
    from tracekit.files import writing
    from tracekit.sim.analysis.timeline import Timeline, write_timelines

    hosts = None if cluster is None else cluster_of(cluster)
    timelines = []
    for grid, results in runs:
        windows: list[tuple[int, int] | None] = [*grid.windows] or [None]
        for number, (name, result) in enumerate(zip(grid.folders(), results, strict=True)):
            timelines.append(Timeline(name, result, trace, hosts, windows[number % len(windows)]))
    with writing(path, force=force) as out:
        counts = write_timelines(timelines, out)
    jobs = sum(len(one.result) for one in timelines)
    say(f"{path}: {counts['slices']:,} slices on {counts['tracks']:,} tracks; open it at ui.perfetto.dev")
    if counts["explained"] < jobs:
        say(f"{path}: reasons of {counts['explained']:,} of {jobs:,} jobs; the others need 'tracekit explain --job'")
