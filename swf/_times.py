"""Dates in the notations of people and files, converted to seconds since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.readings import read_date

#: A time zone or offset at the end of a date.
_OFFSET = r"(?:[Zz]|[+-]\d\d:?\d\d)\s*$"


def instant(when: str | float, timezone: str | None = None) -> float:
    """Return Unix seconds for a date such as 2023-01-01, or for a number of seconds; 01/02/1999 is rejected.

    >>> instant("1970-01-02"), instant(5)
    (86400.0, 5.0)
    """
    try:
        return float(when)
    except ValueError:
        pass
    stamp = read_date(str(when))
    return float((stamp if stamp.tzinfo else stamp.tz_localize(timezone or "UTC")).timestamp())


def seconds_of(values: pd.Series, timezone: str | None) -> tuple[NDArray[np.float64], list[str]]:
    """Return Unix seconds (NaN = unknown or not a date), and notes on hours that occurred twice or never.

    Dates with an offset keep it; the others are read as local time of ``timezone`` (None = UTC).

    >>> seconds_of(pd.Series(["1970-01-01 00:00:01", "1970-01-01 01:00:02+01:00", "soon"]), None)
    (array([ 1.,  2., nan]), [])
    """
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return _localised(values, timezone)
    if values.isna().all():
        return np.full(len(values), np.nan), []
    texts = values.astype("string")
    own = texts.str.contains(_OFFSET, regex=True, na=False).to_numpy(dtype=bool)
    seconds = np.full(len(values), np.nan)
    remarks: list[str] = []
    if own.any():
        aware = pd.to_datetime(texts[own], errors="coerce", utc=True, format="ISO8601")
        seconds[own] = _localised(aware, None)[0]
    if not own.all():
        naive = pd.to_datetime(texts[~own], errors="coerce", format="ISO8601")
        seconds[~own], remarks = _localised(naive, timezone)
    return seconds, remarks


def _localised(stamps: pd.Series, timezone: str | None) -> tuple[NDArray[np.float64], list[str]]:
    remarks: list[str] = []
    if stamps.dt.tz is None:
        naive = stamps
        stamps = naive.dt.tz_localize(timezone or "UTC", ambiguous="NaT", nonexistent="NaT")
        odd = (stamps.isna() & naive.notna()).to_numpy()
        if odd.any():
            rows = naive[odd]
            first = rows.dt.tz_localize(timezone, ambiguous=np.ones(len(rows), bool), nonexistent="NaT")
            never = first.isna().to_numpy()
            later: Any = rows.dt.tz_localize(
                timezone, ambiguous=np.ones(len(rows), bool), nonexistent=pd.Timedelta(hours=1)
            )
            stamps = stamps.copy()
            stamps[odd] = first.where(~never, later)
            if (~never).any():
                remarks.append(f"{int((~never).sum())} local times that occurred twice, read as the first")
            if never.any():
                remarks.append(f"{int(never.sum())} local times that the clock skipped, read one hour later")
    whole = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    unit = np.datetime_data(whole.dtype)[0]
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = whole.to_numpy().view(np.int64) / per_second
    return np.where(whole.isna().to_numpy(), np.nan, numbers), remarks


def stamp_texts(seconds: NDArray[np.float64], timezone: str) -> NDArray[Any]:
    """Return ``YYYY-MM-DD HH:MM:SS`` on the clock of ``timezone``, with microseconds where any is not whole.

    Unknown becomes an empty text.

    >>> stamp_texts(np.array([0.0, np.nan]), "Asia/Shanghai").tolist()
    ['1970-01-01 08:00:00', '']
    """
    known = np.abs(seconds) < 2.5e11  # up to the year 9999; comparisons with NaN are false
    micros = np.where(known, np.round(np.where(known, seconds, 0.0) * 1e6), 0.0).astype("int64")
    local = pd.Series(micros.view("datetime64[us]")).dt.tz_localize("UTC").dt.tz_convert(timezone).dt.tz_localize(None)
    pattern = "%Y-%m-%d %H:%M:%S" + (".%f" if (micros % 1_000_000).any() else "")
    texts: NDArray[Any] = local.dt.strftime(pattern).to_numpy(dtype=object)
    texts[~known] = ""
    return texts


def elapsed(begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds between two times, to the microsecond: Unix seconds as float64 are not finer.

    >>> float(elapsed(np.float64(1652111621.288), np.float64(1652111622.875)))
    1.587
    """
    return np.round(end - begin, 6)
