"""Registries of formats, models, policies and so on by name; nothing is imported until it is needed."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from tracekit.errors import MissingExtra, TracekitError, UnknownName, UsageError

T = TypeVar("T")

#: The extra that installs a package.
EXTRAS = {
    "torch": "synth",
    "sdv": "synth",
    "realtabformer": "synth",
    "transformers": "synth",
    "gymnasium": "rl",
    "ray": "ray",
    "stable_baselines3": "sb3",
    "sb3_contrib": "sb3",
    "opendp": "dp",
    "duckdb": "events",
}


class Registry(Generic[T]):
    """An ordered table of name → ``"module:attribute"``, open to other packages by entry points.

    >>> formats = Registry[Any]("format", {"swf": "swf.swf:SWF"})
    >>> formats.names()
    ['swf']
    >>> formats.get("sfw")
    Traceback (most recent call last):
    tracekit.errors.UnknownName: unknown format 'sfw'; did you mean swf?
    """

    def __init__(self, kind: str, entries: Mapping[str, str], *, group: str | None = None) -> None:
        self.kind = kind
        self._entries = dict(entries)
        self._here: dict[str, T] = {}  # added in this process, and perhaps not importable
        self._group = group

    def _table(self) -> dict[str, str]:
        """Add entries of other installed packages; our names have priority, so they cannot be replaced by accident."""
        if self._group:
            for point in entry_points(group=self._group):
                self._entries.setdefault(point.name, point.value)
            self._group = None
        return self._entries

    def add(self, name: str, thing: T | str) -> None:
        """Add a name in this process: the object, or its ``module:attribute``. A name that exists raises UsageError."""
        place = (
            thing
            if isinstance(thing, str)
            else f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', thing)}"
        )
        if self._table().setdefault(name, place) != place:
            raise UsageError(
                f"{self.kind} '{name}' is registered already as {self._entries[name]}; choose another name"
            )
        if not isinstance(thing, str):
            self._here[name] = thing

    def names(self) -> list[str]:
        """Return every registered name, in order of registration."""
        return list(self._table())

    def __contains__(self, name: object) -> bool:
        return name in self._table()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def target(self, name: str) -> str:
        """Return the ``module:attribute`` of ``name``; `UnknownName` with a suggestion if there is none."""
        try:
            return self._table()[name]
        except KeyError:
            raise UnknownName(self.kind, name, self._table()) from None

    def get(self, name: str) -> T:
        """Import and return the entry of ``name``; `UnknownName` with a suggestion if there is none."""
        return self._here[name] if name in self._here else imported(self.target(name))


def imported(target: str) -> Any:
    """Import and return ``module:attribute``; raise MissingExtra if its extra is not installed."""
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in EXTRAS:
            raise MissingExtra(package, EXTRAS[package]) from error
        raise
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def own(kind: str, target: str, prefixes: Iterable[str] = ()) -> Any:
    """Import a user's ``module:attribute``; every mistake becomes a one-line error that names the module.

    ``prefixes`` are words with another meaning before a colon, which may have been misspelt.
    """
    module, _, attribute = target.partition(":")
    if not attribute or module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{kind} '{target}': write module:Class, with the module as Python imports it, without .py")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # the user's module may raise anything
        missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if missing and f"{module}.".startswith(f"{missing}."):
            close = difflib.get_close_matches(module, list(prefixes), n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]}:{attribute}?" if close else ""
            raise UsageError(f"{kind} '{target}': module {missing} is not on Python's path{hint}") from None
        if missing.partition(".")[0] in EXTRAS:
            package = missing.partition(".")[0]
            raise MissingExtra(package, EXTRAS[package]) from error
        raise TracekitError(f"{kind} '{target}': importing {module} failed: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UnknownName(f"{kind} in module {module}", part, [n for n in dir(found) if n[0] != "_"])
        found = getattr(found, part)
    return found
