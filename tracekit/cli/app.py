"""The Typer application of all commands, and what they share. Nothing heavy is imported here."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.groups import GroupedCommands
from tracekit.terminal import escaped, escaped_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

app = typer.Typer(
    name="tracekit",
    cls=GroupedCommands,
    help="Read, clean, synthesise, score and simulate job traces of supercomputers and GPU clusters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Settings:
    """The flags before the command, read by `say` and by progress bars; and whether the run was interrupted."""

    quiet = False
    interrupted = False
    verbose = bool(os.environ.get("TRACEKIT_DEBUG"))


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Resource = Annotated[
    str | None,
    typer.Option("--resource", help="Scheduled unit: procs, nodes or gpus (default: the unit that most jobs have)."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]


def console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout (data) or stderr (progress and notes); 120 columns if it is not a terminal."""
    from tracekit.cli.screen import Screen

    made = Screen(stderr=stderr, highlight=False, markup=False, soft_wrap=True)  # file names may contain brackets
    if not made.is_terminal:
        made.width = max(made.width, 120)
    return made


def say(message: str) -> None:
    """Print a message on stderr, unless ``-q`` was given."""
    if not Settings.quiet:
        sys.stderr.write(escaped(message) + "\n")


class EscapingHandler(logging.Handler):
    """Writes the log to stderr, escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        sys.stderr.write(escaped(self.format(record)) + "\n")


def search_here(names: Iterable[str]) -> None:
    """Allow ``module:Class`` to name a module of the current folder, as ``python -m`` does."""
    here = str(Path.cwd())
    if any(":" in name for name in names) and here not in sys.path:
        sys.path.append(here)


def tell(path: str, history: Iterable[str]) -> None:
    """Print what was left out of a trace, which unit it is counted in, and which times of day are ambiguous."""
    for step in history:
        if step.startswith(("skipped", "counted in")) or "the clock" in step:
            say(f"{path}: {step}")


def print_json(data: Any) -> None:
    """Print one JSON object on stdout."""
    sys.stdout.write(json_text(data))


def json_text(data: Any) -> str:
    """Return data as JSON; NaN and infinity, which JSON cannot hold, become null."""
    text = json.dumps(_plain(data), indent=2, ensure_ascii=False) + "\n"
    return escaped_json(
        text.encode("utf-8", "replace").decode()
    )  # JSON cannot hold the bytes of undecodable file names


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if hasattr(data, "item") and not isinstance(data, (str, bytes)):
        data = data.item()
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
        return None
    return data


def table(*columns: str, title: str | None = None, right: Iterable[str] = ()) -> Table:
    """Return an empty table; columns named in ``right`` hold numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in set(right) else "left", overflow="fold")
    return made
