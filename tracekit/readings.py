"""Ambiguous numbers and dates: loads and shares in per cent, and the order of day and month.

A value with two plausible meanings is rejected, and the message gives both.
"""

from __future__ import annotations

import re
from datetime import date

import pandas as pd

from tracekit.errors import UsageError

#: A plain offered load above this is probably per cent and is rejected; ``85x`` is accepted.
MOST_LOAD = 10.0

_DATE = re.compile(r"\s*(\d{1,4})([/.\-])(\d{1,2})\2(\d{1,4})(?!\d)(.*)", re.DOTALL)


def read_load(text: str | float, flag: str = "--load") -> float:
    """Return an offered load: 0.85, 85% or, for an intended overload, 20x.

    >>> read_load("0.85"), read_load("85%"), read_load("20x")
    (0.85, 0.85, 20.0)
    """
    words = str(text).strip()
    ending = words[-1:] if words[-1:] in ("%", "x") else ""
    try:
        number = float(words.removesuffix(ending)) / (100 if ending == "%" else 1)
    except ValueError:
        raise UsageError(f"{flag} must be a number such as 0.8 or 80%, not '{text}'") from None
    if not 0 < number < float("inf"):
        raise UsageError(f"{flag} must be above 0, not {text}")
    if number > MOST_LOAD and ending != "x":
        raise UsageError(
            f"{flag} {text}: did you mean {number / 100:g} ({number:g} %)? For an overload of {number:g} times the "
            f"machine write {flag} {number:g}x"
        )
    return number


def not_a_share(flag: str, value: float) -> UsageError:
    """Return the error for a share that is not between 0 and 1; a value in per cent is recognised."""
    if 1 < value <= 100:
        return UsageError(f"{flag} {value:g}: did you mean {value / 100:g} ({value:g} %)? A share is between 0 and 1")
    return UsageError(f"{flag} is a share between 0 and 1, such as 0.7, not {value:g}")


def read_date(text: str) -> pd.Timestamp:
    """Return a date; one whose day and month (or year) could be exchanged is rejected with the readings in ISO form.

    >>> read_date("2024-01-08"), read_date("31/01/1999").isoformat()
    (Timestamp('2024-01-08 00:00:00'), '1999-01-31T00:00:00')
    """
    found = _DATE.fullmatch(str(text))
    if found and len(found[1]) < 4:
        return _placed(str(text), found)
    try:
        stamp = pd.Timestamp(text)
    except (ValueError, OverflowError):
        raise _no_date(text) from None
    if pd.isna(stamp):
        raise _no_date(text)
    return stamp


def _placed(text: str, found: re.Match[str]) -> pd.Timestamp:
    """Read a date that does not begin with its year."""
    readings = _readings((found[1], found[3], found[4]))
    if not readings:
        raise _no_date(text)
    if len(readings) > 1:
        shown = " or ".join(day.isoformat() for day in readings)
        raise UsageError(f"'{text}' is ambiguous: it can be read as {shown}; write the date in this form")
    try:
        return pd.Timestamp(f"{readings[0].isoformat()}{found[5]}")
    except ValueError:
        raise _no_date(text) from None


def _readings(parts: tuple[str, str, str]) -> list[date]:
    """Return the dates that three numbers can mean: day, month, year; month, day, year; year, month, day."""
    found = []
    for year, month, day in ((2, 1, 0), (2, 0, 1), (0, 1, 2)):
        if len(parts[2]) == 4 and year != 2:
            continue
        number = int(parts[year])
        full = number if len(parts[year]) == 4 else number + (1900 if number >= 70 else 2000)
        try:
            found.append(date(full, int(parts[month]), int(parts[day])))
        except ValueError:
            continue
    return sorted(set(found))


def compact_date(text: str) -> pd.Timestamp | None:
    """Return the date of eight digits such as 20240108, which can also be a number of seconds; else None."""
    try:
        return pd.Timestamp(f"{text[:4]}-{text[4:6]}-{text[6:]}") if re.fullmatch(r"(19|20)\d{6}", text) else None
    except ValueError:
        return None


def _no_date(text: object) -> UsageError:
    return UsageError(f"cannot read '{text}' as a date; write it as 2023-01-31 or 2023-01-31T08:00")
