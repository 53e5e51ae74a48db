"""The command that prints the sacct command for a site's administrator."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tracekit.cli.app import app
from tracekit.errors import UsageError

Start = Annotated[str, typer.Option("--start", help="First day, such as 2024-01-01.")]
End = Annotated[str, typer.Option("--end", help="Day after the last one.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Only this cluster.")]
Steps = Annotated[bool, typer.Option("--steps/--no-steps", help="Include job steps, which contain the memory used.")]


@app.command("sacct-command")
def sacct_command(
    start: Start = "2024-01-01", end: End = "2025-01-01", cluster: Cluster = None, steps: Steps = True
) -> None:
    """Print the sacct command that exports a Slurm site's jobs for `convert`.

    The command prints times in UTC and includes cancelled jobs; redirect its output to a file.

    Example: `tracekit sacct-command --start 2024-01-01 --end 2024-07-01`
    """
    import re

    from swf.sacct import FIELDS

    for day in (start, end):
        if not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?", day):
            raise UsageError(f"--start and --end need a day such as 2024-01-31, not '{day}'")
    if end <= start:
        raise UsageError(f"--end {end} must come after --start {start}")
    if cluster is not None and not re.fullmatch(r"[\w.,-]+", cluster):
        raise UsageError(f"'{cluster}' is not a valid cluster name")
    words = ["TZ=UTC", "sacct", "--allusers", "--parsable2", "--noconvert"]
    words += [f"--clusters={cluster}"] if cluster else []
    words += [] if steps else ["--allocations"]
    words += [f"--starttime={start}", f"--endtime={end}", f"--format={FIELDS}"]
    sys.stdout.write(" ".join(words) + " > jobs.sacct\n")
