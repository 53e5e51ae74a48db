"""The command line: parses, calls the library, prints. It contains no other logic."""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer

from tracekit import limits
from tracekit.cli.app import EscapingHandler, Settings, app, search_here
from tracekit.cli.groups import group_commands
from tracekit.cli.usage import explain, first_words, is_usage_problem
from tracekit.errors import TracekitError
from tracekit.terminal import escaped

#: Modules that define commands; the order of `tracekit --help` is that of `tracekit.cli.groups`.
COMMAND_MODULES = (
    "tracekit.cli.traces",
    "tracekit.cli.changes",
    "tracekit.cli.inspect",
    "tracekit.cli.transform",
    "tracekit.cli.capacity",
    "tracekit.cli.catalog",
    "tracekit.cli.env",
    "tracekit.cli.sacct",
    "tracekit.cli.synth",
    "tracekit.cli.score",
    "tracekit.cli.report",
    "tracekit.cli.sharing",
    "tracekit.cli.audit",
    "tracekit.cli.simulate",
    "tracekit.cli.reproduce",
    "tracekit.cli.schedules",
    "tracekit.cli.explore",
    "tracekit.cli.energy",
    "tracekit.cli.pareto",
    "tracekit.cli.hosts",
    "tracekit.cli.orders",
    "tracekit.cli.order_agents",
    "tracekit.cli.order_study",
    "tracekit.cli.ablation",
    "tracekit.cli.experiment",
    "tracekit.cli.serve",
    "tracekit.cli.lsf",
    "tracekit.cli.slurm",
    "tracekit.cli.learn",
    "tracekit.cli.evaluate",
)

for _module in COMMAND_MODULES:
    importlib.import_module(_module)
group_commands(app)


@app.callback()
def _flags(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress and notes.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the traceback of an unexpected error.")
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", help="NAME=VALUE: raise a limit on files that are read; see docs/file-limits.md."),
    ] = None,
) -> None:
    Settings.quiet = quiet
    log = logging.getLogger("tracekit")
    log.setLevel(logging.ERROR if quiet else logging.WARNING)
    if not log.handlers:
        log.addHandler(EscapingHandler())
    limits.change(limit or ())
    Settings.verbose = Settings.verbose or verbose


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM like Ctrl-C, so that half-written temporary files are removed; record the interruption.

    The compiler of the simulator calls Python from C, where a KeyboardInterrupt is lost and another error follows.
    """
    Settings.interrupted = True
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 ok, 1 bad data, 2 usage, 3 missing extra, 130 interrupted."""
    Settings.interrupted = False
    signal.signal(signal.SIGTERM, _interrupted)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    search_here([os.environ.get("TRACEKIT_TASKS", "")])
    arguments = first_words(_flags_first(sys.argv[1:] if arguments is None else arguments))
    try:
        # a command returns None or raises typer.Exit
        code = app(arguments, prog_name="tracekit", standalone_mode=False)
        return _fail("interrupted", 130) if code == 130 else code or 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except TracekitError as error:
        if Settings.verbose and error.__cause__ is not None:
            sys.stderr.write(escaped("".join(traceback.format_exception(error.__cause__))))
        return _fail(str(error), error.exit_code)
    except Exception as error:
        if Settings.interrupted:
            return _fail("interrupted", 130)
        if Settings.verbose and not is_usage_problem(error):
            raise
        if is_usage_problem(error):
            return _fail(explain(error, arguments), 2) if arguments else 2  # the help has been printed
        if isinstance(error, BrokenPipeError):  # the reader of our output has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        if isinstance(error, OSError):
            return _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
        if isinstance(error, MemoryError):
            return _fail("out of memory; use fewer jobs or a part of the trace (tracekit slice)", 1)
        return _fail(
            f"unexpected {type(error).__name__}: {error}; please report it, with the output of 'tracekit -v …'", 1
        )


def _flags_first(arguments: list[str]) -> list[str]:
    """Accept -q, -v and --limit anywhere, although they are options of the program and not of its commands."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours = {"-q", "--quiet", "-v", "--verbose"}
    first: list[str] = []
    others: list[str] = []
    words = iter(arguments[:end])
    for word in words:
        if word == "--limit":
            first += [word, *(value for value in [next(words, None)] if value is not None)]
        else:
            (first if word in ours or word.startswith("--limit=") else others).append(word)
    return first + others + arguments[end:]


def _fail(message: str, code: int) -> int:
    sys.stderr.write(escaped(f"error: {' '.join(message.split())}") + "\n")
    return code


def _unraisable(problem: sys.UnraisableHookArgs) -> None:
    """Suppress the report of an interruption that Python dropped; `main` reports it."""
    if problem.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(problem)


def run() -> None:
    """Entry point of the installed command."""
    sys.unraisablehook = _unraisable
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # terminals without – and × still get the table
    sys.exit(main())
