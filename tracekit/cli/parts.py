"""Conversion of files larger than memory, and progress bars of reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracekit.cli.app import Settings, console, say, tell

#: Seconds of work before anything is said about it, and between lines where the output is not a terminal.
PATIENCE, BETWEEN = 2.0, 15.0


@contextmanager
def shown_progress(path: str) -> Iterator[None]:
    """Show on stderr how far a reader has come that reports it, once it has taken two seconds."""
    from tracekit.progress import heard

    screen = console(stderr=True)
    began = said = time.monotonic()
    live = screen.is_terminal
    with_bar: Any = None

    def show(what: str, share: float) -> None:
        nonlocal said, with_bar
        now = time.monotonic()
        if not what or now - began < PATIENCE or (not live and now - said < BETWEEN):
            return
        said = now
        if not live:
            say(f"{path}: {what}, {share:.0%}")
            return
        if with_bar is None:
            with_bar = screen.status(what)
            with_bar.start()
        with_bar.update(f"{what}, {share:.0%}")

    try:
        with heard(None if Settings.quiet else show):
            yield
    finally:
        if with_bar is not None:
            with_bar.stop()


@contextmanager
def counted(path: str) -> Iterator[Callable[[str, int], None]]:
    """Yield a function that shows on stderr how many jobs were read, once that has taken two seconds."""
    began, said = time.monotonic(), 0.0

    def show(what: str, jobs: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - began > PATIENCE and now - said > BETWEEN:
            said = now
            say(f"{path}: {what}, {jobs:,} jobs")

    yield show


def convert_in_parts(
    source: str,
    target: str,
    format: str | None,
    *,
    procs: int | None,
    machine: str | None,
    resource: str | None,
    part_jobs: int | None = None,
    force: bool,
    options: dict[str, Any],
) -> str | None:
    """Convert to Parquet in parts and return the format; None if this file can only be read whole."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from tracekit.api import to_parquet

    screen = console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
        disable=Settings.quiet or not screen.is_terminal,
    )
    with bar:
        task = bar.add_task("pass 1", total=1.0)
        passes, reached = 1, 0.0

        def show(share: float) -> None:
            nonlocal passes, reached
            passes += share < reached  # back at the start: the next pass
            reached = share
            bar.update(task, completed=share, description=f"pass {passes}")

        done = to_parquet(
            source,
            target,
            format,
            procs=procs,
            machine=machine,
            resource=resource,
            part_jobs=part_jobs,
            force=force,
            progress=show,
            **options,
        )
    if done is None:
        return None
    jobs, found, history = done
    tell(source, history)
    say(f"{target}: {jobs:,} jobs")
    return found
