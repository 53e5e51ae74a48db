"""Values over time from a CSV file: carbon intensity, price, outside temperature. Each value holds until the next."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.files import opened, text_of

Floats = NDArray[np.float64]
Kind = Literal["carbon", "price", "temperature"]
#: Units of the values after reading.
UNITS: dict[Kind, str] = {"carbon": "kg per kWh", "price": "per kWh", "temperature": "°C"}
#: No grid emits so much (kg per kWh): such values are grams, and the header must say so.
MOST_CARBON = 10.0


@dataclass(frozen=True, eq=False)
class Series:
    """Steps in time; the last value holds as long as the one before it, a single value always."""

    name: str  # for messages
    times: Floats  # (steps,) rising; seconds as in the trace, or Unix seconds
    values: Floats  # (steps,)
    absolute: bool = False  # times are Unix seconds

    @property
    def end(self) -> float:
        """When the last value stops to hold."""
        return math.inf if len(self.times) < 2 else float(2 * self.times[-1] - self.times[-2])

    @property
    def begin(self) -> float:
        """When the first value begins to hold."""
        return -math.inf if len(self.times) < 2 else float(self.times[0])

    def in_trace_time(self, epoch: float | None) -> Series:
        """Return the series in seconds as in a trace; ``epoch`` is the Unix time of its second 0."""
        if not self.absolute:
            return self
        if epoch is None:
            raise TracekitError(
                f"{self.name} has time stamps, but the trace has no calendar; give the times in seconds of the trace"
            )
        return Series(self.name, self.times - epoch, self.values)

    def check_covers(self, begin: float, end: float) -> None:
        """Raise an error of one line unless the series has values over all of a window."""
        if self.begin > begin:
            raise TracekitError(
                f"{self.name} begins at second {self.begin:.10g}, after the window's begin at {begin:.10g}; "
                "add earlier values"
            )
        if self.end < end:
            raise TracekitError(
                f"{self.name} ends at second {self.end:.10g}, before the window's end at {end:.10g}; "
                "add later values, or end the window earlier (--until)"
            )

    def at(self, times: Floats) -> Floats:
        """Return the values that hold at some times within the series."""
        place = np.searchsorted(self.times, times, side="right") - 1
        return self.values[np.clip(place, 0, len(self.values) - 1)]

    def integral(self, times: Floats) -> Floats:
        """Return the integral of the values from the first time of the series to ``times`` within the series."""
        before = np.append(0.0, np.cumsum(self.values[:-1] * np.diff(self.times)))
        place = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.values) - 1)
        return before[place] + self.values[place] * (times - self.times[place])


def read_series(path: str | Path, kind: Kind) -> Series:
    """Read a CSV file with a time and a value per line; a header is optional and may state the unit.

    Times are seconds as in the trace, or ISO time stamps with a time zone (``2024-05-01T00:00+02:00``). Carbon is in kg
    per kWh, or in grams where the header says so (``g_per_kwh``); a price is per kWh, or per MWh (``eur_per_mwh``).
    """
    with opened(path) as source:
        text = text_of(source.read())
    rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), 1) if any(map(str.strip, row))]
    header = ""
    if rows and len(rows[0][1]) >= 2 and not _is_number(rows[0][1][1]):
        header = rows.pop(0)[1][1].strip()
    if not rows:
        raise FormatError(path, "has no values", hint="write lines of a time and a value, separated by a comma")
    stamps = _number(rows[0][1][0]) is None
    times, values = np.empty(len(rows)), np.empty(len(rows))
    for place, (line, row) in enumerate(rows):
        value = _number(row[1]) if len(row) > 1 else None
        if value is None:
            raise FormatError(path, "expected a time and a number, separated by a comma", line=line)
        seconds = _stamp(row[0], path, line) if stamps else _number(row[0])
        if seconds is None:
            raise FormatError(path, f"'{row[0][:40]}' is not a time in seconds, as the lines before", line=line)
        times[place], values[place] = seconds, value
    if (np.diff(times) <= 0).any():
        line = rows[int(np.flatnonzero(np.diff(times) <= 0)[0]) + 1][0]
        raise FormatError(path, "times must rise from line to line", line=line)
    return Series(f"{kind} series {path}", times, _in_unit(values, header, kind, path), stamps)


def parse_time(text: str, epoch: float | None) -> float:
    """Read a moment: seconds as in the trace, or a time stamp with a time zone."""
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"'{text}' is neither seconds nor a time stamp such as 2024-05-01T00:00+02:00") from None
    if found.tzinfo is None:
        raise UsageError(f"'{text}' has no time zone: write it as 2024-05-01T00:00+02:00 or with Z")
    if epoch is None:
        raise UsageError(f"'{text}' is a time stamp, but the trace has no calendar; give seconds of the trace")
    return found.astimezone(UTC).timestamp() - epoch


def _is_number(text: str) -> bool:
    """Return whether a cell is a number, be it NaN or infinite, and so not the title of a column."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _stamp(text: str, path: str | Path, line: int) -> float:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        words = f"'{text[:40]}' is neither seconds nor a time stamp such as 2024-05-01T00:00+02:00"
        raise FormatError(path, words, line=line) from None
    if found.tzinfo is None:
        raise FormatError(path, f"'{text[:40]}' has no time zone", line=line, hint="write 2024-05-01T00:00+02:00 or Z")
    return found.timestamp()


def _in_unit(values: Floats, header: str, kind: Kind, path: str | Path) -> Floats:
    """Return the values in the unit of `UNITS`, as the header says."""
    words = re.sub(r"[^a-z]+", " ", header.lower().replace("co2eq", "").replace("co2e", "").replace("co2", "")).split()
    if kind == "temperature":
        return values
    if kind == "price":
        return values / 1000 if "mwh" in words else values
    if (values < 0).any():
        raise FormatError(path, "has a negative carbon intensity")
    if "g" in words or "gram" in words or "grams" in words or "gwh" in words:
        return values / 1000
    if float(values.mean()) > MOST_CARBON:
        raise FormatError(
            path,
            f"has a mean of {values.mean():g} kg of CO2 per kWh",
            hint="if the values are grams, call the column g_per_kwh",
        )
    return values
