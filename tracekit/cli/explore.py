"""The command that makes a page to look at traces and schedules: explore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, Settings, app, print_json, say
from tracekit.cli.simulate import From, Procs
from tracekit.errors import FormatError, UsageError

if TYPE_CHECKING:
    from tracekit.explore.source import Source
    from tracekit.trace import Trace

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE|SCHEDULE|RUN [SECOND]",
        help="Traces in any format, schedule.csv files, or folders of simulate --out or experiment.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="PAGE.html", help="The HTML page.")]
#: Columns of a CSV file that is a schedule and not a trace.
_SCHEDULE = {"job_id", "start_time", "end_time", "procs"}


@app.command()
def explore(
    sources: Sources,
    output: Output,
    trace: Annotated[
        str | None, typer.Option("--trace", help="The trace of the schedules: adds users, status, limits and dates.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="START:COUNT, the jobs that are shown one by one (default: all up to 20,000)."),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", help="Show one by one the jobs submitted at or after this date or second.")
    ] = None,
    before: Annotated[str | None, typer.Option("--before", help="… and before this date or second.")] = None,
    title: Annotated[str, typer.Option("--title", help="Title of the page.")] = "",
    procs: Procs = None,
    resource: Resource = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a page to look at a trace, a schedule or a run, or at two of them side by side.

    One HTML file for any browser, without server and network: arrivals, sizes, run times, waits, status, users, queue
    and use of the machine, all linked; single jobs in a Gantt chart, with why they waited.

    Example: `tracekit explore sample.swf -o page.html`
    """
    from tracekit.cli.traces import second
    from tracekit.explore.page import MOST_SOURCES, check_target, write
    from tracekit.sim.windows import parse_window

    check_target(output, force=force)
    part = None if window is None else parse_window(window)
    if part is not None and (after is not None or before is not None):
        raise UsageError("give --window START:COUNT, or --after and --before, not both")
    reading = {"format": from_, "procs": procs, "resource": resource}
    found = _Reading(reading, trace).all(sources)
    if len(found) > MOST_SOURCES and any(Path(source).is_dir() for source in sources):
        say(f"{len(found)} traces or schedules; the first {MOST_SOURCES} are on the page")
        found = found[:MOST_SOURCES]
    span = None
    if after is not None or before is not None:
        first = found[0].trace
        span = second(first, after, float("-inf")), second(first, before, float("inf"))

    def tell(step: str) -> None:
        if sum(len(one) for one in found) > 100_000 and not Settings.quiet:
            say(f"{step} …")

    made = write(found, output, title=title, window=part, span=span, force=force, progress=tell)
    if json:
        print_json({"page": str(output), **made.to_dict()})
        return
    for one in made.sources:
        single = "all of them" if one["single_jobs"] == one["jobs"] else f"{one['single_jobs']:,}"
        say(f"{one['name']}: {one['kind']}, {one['jobs']:,} jobs, {single} one by one")
        for note in one["notes"]:
            say(f"{one['name']}: {note}")
    say(f"{output}: {made.bytes / 1e6:.1f} MB, open it in a browser")


class _Reading:
    """Reads the sources of a page: traces, schedules, and folders that hold some."""

    def __init__(self, options: dict[str, Any], trace: str | None) -> None:
        self.options = options
        self.trace = None if trace is None else self._load(trace)

    def _load(self, path: str) -> Trace:
        from tracekit.cli.traces import load

        return load(path, **self.options)[0]

    def all(self, paths: list[str]) -> list[Source]:
        """Read all sources, each under a name of its own."""
        traces = [path for path in paths if not Path(path).is_dir() and not self._is_schedule(path)]
        read = {path: self._load(path) for path in dict.fromkeys(traces)}
        if self.trace is None and len(read) == 1:
            self.trace, self.guessed = next(iter(read.values())), True  # the trace beside a schedule may be its own
        else:
            self.guessed = False
        found = [one for path in paths for one in self._sources(path, read)]
        names = [one.name for one in found]
        return [
            replace(one, name=f"{one.name} ({names[: k + 1].count(one.name)})") if names.count(one.name) > 1 else one
            for k, one in enumerate(found)
        ]

    def _is_schedule(self, path: str) -> bool:
        from tracekit.files import head_of, is_stream, text_of

        if self.options["format"] is not None or is_stream(path) or not Path(path).is_file():
            return False
        line = text_of(head_of(path)).partition("\n")[0]
        return set(re.split(r",\s*", line.strip())) >= _SCHEDULE

    def _sources(self, path: str, read: dict[str, Trace]) -> Iterator[Source]:
        from tracekit.explore.source import Source

        if Path(path).is_dir():
            yield from self._folder(Path(path))
        elif path in read:
            yield Source.of_trace("trace" if path == "-" else _stem(path), read[path])
        else:
            yield self._schedule(Path(path))

    def _schedule(self, path: Path, name: str | None = None) -> Source:
        from tracekit.errors import TracekitError
        from tracekit.explore.source import Source
        from tracekit.sim.analysis.check import read_schedule
        from tracekit.sim.analysis.resimulate import provenance_of

        made = provenance_of(path)
        name = name or (path.parent.name if path.stem == "schedule" and path.parent.name else path.stem)
        table = read_schedule(path)
        try:
            return Source.of_schedule(name, table, self.trace, made)
        except TracekitError:
            if not self.guessed:
                raise
            return Source.of_schedule(name, table, None, made)

    def _folder(self, folder: Path) -> Iterator[Source]:
        """Read what a folder holds: the traces of an experiment, or the schedules of a simulation."""
        from evaluation.report.run import is_run
        from tracekit.files import read_json

        if is_run(folder):
            yield from _experiment(folder, read_json(folder / "experiment.json"))
            return
        schedules = sorted(folder.glob("schedule.csv")) + sorted(folder.glob("*/schedule.csv"))
        if not schedules:
            raise FormatError(
                folder, "holds neither an experiment nor schedules",
                hint="give a trace, a schedule.csv, or a folder of 'simulate --out' or 'experiment'",
            )  # fmt: skip
        for path in schedules:
            yield self._schedule(path)


def _experiment(folder: Path, about: Any) -> Iterator[Source]:
    """Read the real trace of an experiment that models were fitted to, and the first trace of each model."""
    from tracekit.explore.source import Source
    from tracekit.trace import Trace

    real = folder / "data" / "train.parquet"
    if not real.is_file():
        raise FormatError(real, "no such file: the experiment has not begun")
    yield Source.of_trace("real (training part)", Trace.load(real))
    try:
        models = {name: folder / files[0] for name, files in about["files"]["traces"].items() if files}
    except (KeyError, TypeError, AttributeError):
        raise FormatError(folder / "experiment.json", "does not say which traces the experiment made") from None
    for name, place in models.items():
        if place.is_file():
            yield Source.of_trace(name, Trace.load(place))


def _stem(path: str) -> str:
    name = Path(path).name
    for suffix in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(suffix)
    return Path(name).stem
