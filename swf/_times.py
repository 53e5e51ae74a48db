"""Dates as people write them."""

from __future__ import annotations

import pandas as pd

from tracekit.errors import UsageError


def instant(when: str | float, timezone: str | None = None) -> float:
    """Return Unix seconds for a date such as 2023-01-01, or for a number of seconds.

    >>> instant("1970-01-02"), instant(5)
    (86400.0, 5.0)
    """
    try:
        return float(when)
    except ValueError:
        pass
    try:
        stamp = pd.Timestamp(when)
    except ValueError:
        raise UsageError(f"cannot read '{when}' as a date; write it as 2023-01-31 or 2023-01-31T08:00") from None
    return float((stamp if stamp.tzinfo else stamp.tz_localize(timezone or "UTC")).timestamp())
