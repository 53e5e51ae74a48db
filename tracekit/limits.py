"""Named limits on input files, so that no damaged or hostile file uses up time and memory.

``TRACEKIT_LIMITS="line=64M,expansion=1000"`` in the environment, or ``--limit line=64M`` on the command line, changes
them; ``none`` removes one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tracekit.errors import FormatError, UnknownName, UsageError

VARIABLE = "TRACEKIT_LIMITS"
#: The limits by name: default, and what it counts.
LIMITS: dict[str, tuple[float, str]] = {
    "line": (4 * 1024**2, "bytes in one line of a text file"),
    "fields": (2000, "fields in one line, or columns of a table"),
    "expansion": (100, "times that a compressed file may grow when it is unpacked, beyond its first 64 MB"),
    "document": (64 * 1024**2, "bytes in a settings file (TOML or JSON)"),
    "memory": (0, "bytes of memory that reading a Parquet trace whole may take (0: what is free)"),
}
#: Unpacked data up to here is never rejected, however small the file.
FREE_BYTES = 64 * 1024**2
_NUMBER = re.compile(r"(\d{1,15})([kmg]?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def limit(name: str) -> float:
    """Return the value of a limit; infinity where it was removed."""
    return _settings(os.environ.get(VARIABLE, "")).get(name, LIMITS[name][0])


@cache
def _settings(text: str) -> dict[str, float]:
    return dict(_parsed(part) for part in text.split(",") if part.strip())


def _parsed(text: str) -> tuple[str, float]:
    """Read ``name=value``: a whole number, with K, M or G for powers of 1024, or ``none``."""
    name, _, value = (part.strip() for part in text.partition("="))
    if name not in LIMITS:
        raise UnknownName("limit", name, LIMITS)
    if value.lower() == "none":
        return name, math.inf
    found = read_amount(value)
    if found is None:
        raise UsageError(f"limit {name}: write {name}=NUMBER, such as {name}=1000 or {name}=64M, or {name}=none")
    return name, float(found)


def read_amount(text: str) -> int | None:
    """Read a whole number above 0, with K, M or G for powers of 1024; None if it is something else.

    >>> read_amount("64M"), read_amount("1.5G")
    (67108864, None)
    """
    match = _NUMBER.fullmatch(text.strip())
    return (int(match[1]) * _FACTORS[match[2].lower()] or None) if match else None


def change(texts: Iterable[str]) -> None:
    """Change limits, each ``name=value``, for this process and those that it starts."""
    given = ",".join(texts)
    if given:
        _settings(given)
        before = os.environ.get(VARIABLE, "")
        os.environ[VARIABLE] = f"{before},{given}" if before else given


def check(name: str, found: float, path: str | Path, what: str, *, line: int | None = None) -> None:
    """Raise `FormatError` where ``found`` is beyond a limit; ``what`` begins the message."""
    allowed = limit(name)
    if found > allowed:
        raise FormatError(
            path,
            f"{what}, beyond the limit '{name}' of {allowed:,.0f} {LIMITS[name][1]}",
            line=line,
            hint=f"if you trust the file, raise the limit with --limit {name}=NUMBER, or set {VARIABLE}",
        )
