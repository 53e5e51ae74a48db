"""The errors that tracekit raises on purpose; the command line turns each into one line and an exit code."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

#: The name on PyPI, where `tracekit` is another project. The import and the command are tracekit.
DISTRIBUTION = "tracekit-hpc"


def pip_line(extra: str) -> str:
    """Return the command that installs an extra.

    >>> pip_line("rl")
    "pip install 'tracekit-hpc[rl]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


class TracekitError(Exception):
    """Bad data or a failed run. The message states what is wrong, where, and what to do next."""

    exit_code = 1


class FormatError(TracekitError):
    """A file does not follow its format. Names the file and, if known, the line (from 1)."""

    def __init__(self, path: str | Path, problem: str, *, line: int | None = None, hint: str = "") -> None:
        self.path, self.problem, self.line, self.hint = str(path), problem, line, hint
        place = f"{path}, line {line}" if line else str(path)
        super().__init__(f"{place}: {problem}" + (f" ({hint})" if hint else ""))


class SchemaError(TracekitError):
    """A table lacks the columns or types that a Trace needs."""


class OutputError(TracekitError):
    """An output cannot be written: it exists, it is a directory, or it is the input itself."""


class NotFitted(TracekitError):
    """A generator's sample() was called before fit() or load()."""


class UsageError(TracekitError):
    """Contradicting or malformed arguments."""

    exit_code = 2


class UnknownName(UsageError):
    """A format, model, policy, metric or rule that is not registered; suggests the nearest names."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        close = [own for own in known if own.lower() == name.lower()]
        close = close or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        some = ", ".join(known[:40]) + (" …" if len(known) > 40 else "")
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {some}"
        super().__init__(f"unknown {kind} '{name}'; {hint}")


class MissingExtra(TracekitError):
    """An optional package is not installed; the message contains the pip command that installs it."""

    exit_code = 3

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package}, which is not installed: {pip_line(extra)}")


def loads(what: str) -> Callable[[F], F]:
    """Decorate a function whose first argument (after a class) is a file or folder: it is guarded by `reading`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            given = [arg for arg in args if not isinstance(arg, type)]
            with reading(given[0] if given else what, what):
                return function(*args, **kwargs)

        return cast("F", guarded)

    return decorate


@contextmanager
def reading(path: str | Path, what: str, *passing: type[Exception]) -> Iterator[None]:
    """Turn any error that is not ours into a `FormatError` that names the file; the error itself is its cause.

    ``what`` says what the file should be, such as "a saved model". Running out of memory, a missing package and
    ``passing`` errors are passed on.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (TracekitError, MemoryError, ImportError, *passing)):
            raise
        words = error.strerror if isinstance(error, OSError) else None
        text = " ".join((words or str(error) or "no further message").split())
        short = text[:160] + "…" * (len(text) > 160)
        raise FormatError(path, f"damaged, or not {what}: {type(error).__name__}: {short}") from error
