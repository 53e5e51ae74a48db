"""How batch systems write durations, memory, counts and dates; each is parsed once per distinct text.

Every parser of one text returns NaN for words that mean "unknown" and raises ValueError for text it cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import FormatError
from tracekit.schema import sorted_labels

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Words that mean "unknown".
UNKNOWN = frozenset(
    {"", "-", "unknown", "none", "none assigned", "n/a", "na", "nan", "null", "(null)", "unlimited", "infinite"}
    | {"partition_limit", "invalid", "not_set", "n/s"}
)
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(\.\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)(i?b|w)?([nc?]?)", re.IGNORECASE)
_OFFSET = r":\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)$"
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}


def duration(text: str, *, plain: float = 1.0) -> float:
    """Return the seconds of ``[D-]HH:MM:SS[.fff]``, ``MM:SS``, ``D-HH``, or of a plain number in units of ``plain``.

    >>> duration("10-13:27:06"), duration("02:05.5"), duration("30", plain=60), duration("1-12")
    (912426.0, 125.5, 1800.0, 129600.0)
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return float("nan")
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, first, second, third, fraction = match.groups()
    parts = [float(part) for part in (first, second, third) if part is not None]
    if days is not None:
        hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    elif len(parts) == 1:
        return (parts[0] + float(fraction or 0)) * plain
    else:
        hours, minutes, seconds = (0.0, *parts)[-3:]
    return float(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds + float(fraction or 0)


def memory(text: str) -> float:
    """Return the KB of ``1024K``, ``2G``, ``15240kb``, ``62.50G``; a plain number counts bytes; ``w`` is a word of 8.

    >>> memory("1024K"), memory("8gb"), memory("48000Mn"), memory("2048")
    (1024.0, 8388608.0, 49152000.0, 2.0)
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return float("nan")
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    word = 8.0 if (match[3] or "").lower() == "w" else 1.0
    return float(match[1]) * word * 1024.0 ** (_POWER[match[2].lower()] - 1)


def number(text: str) -> float:
    """Return a number; Slurm writes multiples of 512 as ``1.50K`` (1536), in steps of 1024.

    >>> number("12"), number("1.50K")
    (12.0, 1536.0)
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return float("nan")
    factor = 1024.0 ** _POWER[text[-1].lower()] if text[-1] in "KMGkmg" else 1.0
    value = float(text[:-1] if factor > 1 else text) * factor
    if not np.isfinite(value) or "_" in text:
        raise ValueError(text)
    return value


def distinct(values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the code of each row (−1 = missing) and the distinct values behind the codes."""
    values = values.array if isinstance(values, pd.Series) else values
    if isinstance(values, pd.Categorical):
        return values.codes, values.categories.to_numpy(dtype=object)
    codes, found = pd.factorize(np.asarray(values, dtype=object), use_na_sentinel=True)
    return codes, np.asarray(found, dtype=object)


def on_unique(values: Any, parse: Callable[[str], float]) -> tuple[Numbers, Mask]:
    """Parse every distinct text once; return the numbers, and which rows are invalid (NaN there)."""
    codes, texts = distinct(values)
    table = np.full(len(texts) + 1, np.nan)
    wrong = np.zeros(len(texts) + 1, dtype=bool)
    for k, text in enumerate(texts.tolist()):
        try:
            table[k] = parse(str(text))
        except (ValueError, OverflowError):
            wrong[k] = True
    return table[codes], wrong[codes]


def stamps(values: Any, timezone: str | None) -> tuple[Numbers, Mask, list[str]]:
    """Return Unix seconds of ISO dates (or of Unix seconds), which rows are invalid, and notes on ambiguous hours.

    Dates without an offset are on the clock of ``timezone`` (default UTC). An hour that occurs twice in autumn
    is read as the first; one that is skipped in spring is read one hour later.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    codes, found = distinct(values)
    texts = pc.utf8_trim_whitespace(pa.array([str(text) for text in found.tolist()], type=pa.string()))
    plain = pc.match_substring_regex(texts, r"^\d+(\.\d+)?$").to_numpy(zero_copy_only=False)
    offset = pc.match_substring_regex(texts, _OFFSET).to_numpy(zero_copy_only=False)
    unknown = pc.is_in(pc.utf8_lower(texts), pa.array(sorted(UNKNOWN))).to_numpy(zero_copy_only=False)
    seconds = np.full(len(texts) + 1, np.nan)
    strings = texts.to_numpy(zero_copy_only=False)
    seconds[:-1][plain] = [float(text) for text in strings[plain].tolist()]
    seconds[:-1][offset] = _unix(pd.to_datetime(strings[offset], errors="coerce", format="ISO8601", utc=True))
    rest = ~(plain | offset | unknown)
    dates = _dates(texts.filter(pa.array(rest)))
    first = np.ones(len(dates), dtype=bool)
    zone = timezone or "UTC"
    later: Any = pd.Timedelta(hours=1)
    try:
        local = dates.tz_localize(zone, ambiguous=first, nonexistent=later)
    except ValueError:  # a gap of more than an hour, such as the day that Samoa skipped in 2011
        later = "shift_forward"
        local = dates.tz_localize(zone, ambiguous=first, nonexistent=later)
    seconds[:-1][rest] = _unix(local)
    wrong = np.append(~unknown & ~np.isfinite(seconds[:-1]), False)
    clean: Any = dates.notna()
    odd = {
        "occurred twice, read as the first": dates.tz_localize(zone, ambiguous="NaT", nonexistent=later),
        "the clock skipped, read one hour later": dates.tz_localize(zone, ambiguous=first, nonexistent="NaT"),
    }
    remarks = []
    for what, strict in odd.items():
        mask = np.zeros(len(texts) + 1, dtype=bool)
        mask[:-1][rest] = np.asarray(strict.isna()) & clean
        if mask.any():
            remarks.append(f"{int(mask[codes].sum())} local times that {what}")
    return seconds[codes], wrong[codes], remarks


def _dates(texts: Any) -> pd.DatetimeIndex:
    """Read ISO dates without an offset, all at once if all are well formed, otherwise with NaT for the others."""
    import pyarrow as pa

    try:
        return pd.DatetimeIndex(texts.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return pd.DatetimeIndex(pd.to_datetime(texts.to_numpy(zero_copy_only=False), errors="coerce", format="ISO8601"))


def _unix(dates: pd.DatetimeIndex) -> Numbers:
    values = dates.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)


class Damage:
    """Rows that cannot be read: the first one raises FormatError, unless such rows are skipped and counted."""

    def __init__(self, path: Path, on_error: str) -> None:
        self.path, self.skip = path, on_error == "skip"
        self.found: list[tuple[int, str]] = []  # (line, what is wrong)

    def add(self, line: int, problem: str) -> None:
        """Record a damaged line, or raise FormatError."""
        if not self.skip:
            raise FormatError(self.path, problem, line=line, hint="convert --on-error skip leaves such lines out")
        self.found.append((line, problem))

    def remarks(self) -> list[str]:
        """Return the number of lines left out, for the history."""
        if not self.found:
            return []
        first = "; ".join(f"line {line}: {problem}" for line, problem in sorted(self.found)[:3])
        return [f"skipped {len(self.found)} damaged lines ({first}{' …' if len(self.found) > 3 else ''})"]


def shown(text: object) -> str:
    """Return a value for a message: printable and short."""
    printable = "".join(c if c.isprintable() else "?" for c in str(text))
    return printable if len(printable) <= 40 else printable[:40] + "…"


def as_labels(values: Any) -> pd.Categorical:
    """Turn texts into labels; an empty text is unknown. Numbers sort as numbers, anything else as text."""
    codes, names = distinct(values)
    texts = [str(name) for name in names.tolist()]
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[codes] = True
    known = sorted_labels(text for text, there in zip(texts, used.tolist(), strict=False) if there and text.strip())
    position = {text: k for k, text in enumerate(known)}
    table = np.array([position.get(text, -1) for text in texts] + [-1])
    made: Any = pd.Categorical
    return made.from_codes(table[codes], categories=pd.Index(known, dtype=object))  # type: ignore[no-any-return]
