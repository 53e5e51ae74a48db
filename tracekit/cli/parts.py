"""Conversion of files larger than memory, with a progress bar."""

from __future__ import annotations

from typing import Any

from tracekit.cli.app import Settings, console, say, tell


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
