"""What commands share that work on many traces: where the work is done, its progress, and what is told of all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tracekit.cli.app import Settings, console, print_json, say, table
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from evaluation.experiment.runner import Status
    from evaluation.spread.run import Study

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Traces: any known format, plain or compressed; one alone may be - (stdin)."
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="local (processes), ray, or slurm (job arrays).")]
Address = Annotated[
    str | None, typer.Option("--address", help="Ray cluster to use (default: RAY_ADDRESS, else a local one).")
]
WorkerMemory = Annotated[
    str | None, typer.Option("--worker-memory", help="Most memory of one worker, such as 2G; fewer run if need be.")
]


class Workers(NamedTuple):
    """Where the work is done, as the flags say it."""

    engine: str
    address: str | None
    memory: str | None

    def wanted(self, files: Sequence[str]) -> bool:
        """Return whether the work is spread over workers: several traces, or a word about the workers."""
        return len(files) > 1 or self != Workers("local", None, None)


def spread(
    study: Study,
    files: Sequence[str],
    out: str | None,
    workers: Workers,
    *,
    caption: str,
    write: Callable[[dict[str, Any], Path], None],
    table_of: Callable[[Sequence[dict[str, Any]]], tuple[Sequence[str], list[list[str]]]],
    force: bool,
    json: bool,
) -> None:
    """Do a study on many traces: ``write`` makes the folder of each, ``table_of`` the rows that tell of all."""
    from evaluation.experiment.engines import Where
    from evaluation.experiment.memory import read_memory
    from evaluation.experiment.summary import markdown
    from evaluation.experiment.together import PAGE, SUMMARY, memory_in_words, plain_cell, write_summary
    from evaluation.spread.run import run
    from swf import FORMATS

    if not out:
        raise UsageError("missing output folder: several traces, --engine and --worker-memory need -o DIR")
    if study.reading.format is not None:
        FORMATS.get(study.reading.format)  # check the name before any work
    folder, where = Path(out), Where(workers.engine, workers.address, read_memory(workers.memory))
    with resumable(out) as display:
        found = run(study, files, folder, where=where, force=force, progress=display)
    for row in found["traces"]:
        if row["rows"]:
            write(row, folder / row["name"])
    titles, rows = table_of(found["traces"])
    cells = [[plain_cell(cell) for cell in line] for line in [*rows, *_others(found["traces"], len(titles))]]
    said = memory_in_words(found["cost"])
    count = len(found["traces"])
    title = f"{study.of} of {count} trace{'s' * (count > 1)}: {caption}"
    lines = [f"# {title[0].upper()}{title[1:]}", "", *markdown(titles, cells), said]
    write_summary(folder, found, lines)
    if json:
        print_json(found)
    else:
        shown = table(*titles, title=title, right=titles[1:])
        for line in rows:
            shown.add_row(*line)
        console().print(shown)
        for row in found["traces"]:
            for note in row["notes"]:
                say(f"{row['trace']}: {note}")
            if row["same_as"]:
                say(f"{row['trace']}: the same as {row['same_as']}")
    say(said)
    say(f"{out}: {PAGE}, {SUMMARY}, and a folder for each trace")
    fail_for_some(found)


def _others(traces: Iterable[dict[str, Any]], width: int) -> list[list[str]]:
    """Return rows for traces of which nothing was found."""
    found = []
    for row in traces:
        if row["failed"] or row["same_as"]:
            said = f"failed: {row['failed']}" if row["failed"] else f"the same as {row['same_as']}"
            found.append([row["name"] or row["trace"], said, *[""] * (width - 2)])
    return found


def fail_for_some(found: dict[str, Any]) -> None:
    """Raise an error that names the traces that came to nothing; the others are there."""
    from evaluation.experiment.together import failures

    bad, total = failures(found), sum(not row["same_as"] for row in found["traces"])
    for one in bad[1:]:
        say(one)
    if len(bad) == total:
        raise TracekitError(f"{'all traces' if total > 1 else 'the trace'} failed; {bad[0]}")
    if bad:
        raise TracekitError(f"{len(bad)} of {total} traces failed, the others are finished; {bad[0]}")


@contextlib.contextmanager
def resumable(out: str) -> Iterator[Display]:
    """Show progress; when the run is interrupted, say that it can be resumed."""
    with Display() as display:
        try:
            yield display
        except KeyboardInterrupt:
            say(f"{out}: run the same command to resume")
            raise


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(59), clock(3725)
    ('0:59', '1:02:05')
    """
    whole = round(seconds)
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02d}:{whole % 60:02d}" if hours else f"{whole // 60}:{whole % 60:02d}"


class Display:
    """Progress of the whole grid: a bar on a terminal, else a line every half minute; nothing with -q."""

    def __enter__(self) -> Display:
        from rich.progress import BarColumn, Progress, TextColumn

        screen = console(stderr=True)
        self._live = screen.is_terminal and not Settings.quiet
        self._said = time.monotonic()
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            console=screen,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("preparing")
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, status: Status) -> None:
        """Show how far the work is."""
        failed = f", {status.failed} failed" if status.failed else ""
        running = f" · {', '.join(status.running)}" if status.running else ""
        text = f"{status.done}/{status.total} {status.counted}{failed}, {clock(status.left_s)} left{running}"
        self._bar.update(self._task, completed=status.done, total=status.total, description=text)
        if not self._live and time.monotonic() - self._said > 30:
            self._said = time.monotonic()
            say(text)
