"""What the doctor says: a finding with its evidence, and small helpers that all detectors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tracekit import stats
from tracekit.errors import TracekitError
from tracekit.registry import imported

if TYPE_CHECKING:
    from tracekit.trace import Trace

#: error: results from this trace would be wrong; warning: look before use; note: true and worth knowing, no alarm.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

DAY = 86_400.0
WEEK = 7 * DAY
YEAR = 365.25 * DAY
LONGEST = 100 * YEAR  # of a log
LAST_DATE = 9.0e9  # Unix seconds: in the year 2255, just before pandas' calendar ends
Floats = NDArray[np.float64]


class CannotLook(TracekitError):
    """A detector lacks what it needs; the message is the reason."""


@dataclass(frozen=True)
class Finding:
    """One thing that is odd about a trace. ``rows`` are positions in ``trace.jobs``, from 0."""

    rule: str
    severity: Severity
    message: str  # one sentence with its numbers, for people
    evidence: Mapping[str, float | int | str]
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    fix: str = ""  # the cleaning rule that fixes it, as in a recipe; empty = none can
    advice: str = ""  # what a person can do
    draw: Callable[[Trace], Any] | None = field(default=None, repr=False)  # makes a matplotlib Figure, see `picture`
    effect: float = 0.0  # 0 to 1: how much of a result it changes, see `tracekit.doctor.ranking`

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "count": len(self.rows),
            "first_rows": self.rows[:5].tolist(),
            "evidence": dict(self.evidence),
            "effect": self.effect,
            "fix": self.fix or None,
            "advice": self.advice or None,
        }


def picture(name: str, **arguments: Any) -> Callable[[Trace], Any]:
    """Return what draws a finding: the function ``name`` of `tracekit.plots.evidence`, for a trace.

    These pictures show what detectors work with, so they import the doctor. The doctor only names them; they are
    imported when one is drawn.
    """
    return partial(_draw, name, arguments)


def _draw(name: str, arguments: Mapping[str, Any], trace: Trace) -> Any:
    return imported(f"tracekit.plots.evidence:{name}")(trace, **arguments)


def when(trace: Trace, second: float) -> str:
    """Return a moment of the trace as text: the local date where there is a calendar, else the second."""
    if not stats.has_calendar(trace) or second + (trace.machine.epoch or 0.0) > LAST_DATE:
        return f"second {second:,.0f}"
    import pandas as pd

    stamp = pd.Timestamp(np.floor(second + (trace.machine.epoch or 0.0)), unit="s", tz="UTC")
    return stamp.tz_convert(trace.machine.timezone or "UTC").strftime("%Y-%m-%d %H:%M")


def submits(trace: Trace) -> tuple[Floats, NDArray[np.intp]]:
    """Return known submit times in order, and the row of each.

    `CannotLook` where they span centuries: nothing can be said by week and hour of such a log.
    """
    order = trace.order()
    submit = trace.column("submit_time")[order]
    known = np.isfinite(submit)
    submit, order = submit[known], order[known]
    if len(submit) and submit[-1] - submit[0] > LONGEST:
        raise CannotLook(f"submit times span {(submit[-1] - submit[0]) / YEAR:,.0f} years")
    return submit, order


def weekly_jobs(submit: Floats) -> float:
    """Return the jobs of a usual week: the median of weeks with jobs, or the mean of a trace under four weeks."""
    span = float(submit[-1] - submit[0]) if len(submit) else 0.0
    if span < 4 * WEEK:
        return len(submit) / max(span / WEEK, 1.0)
    return float(np.median(np.unique((submit - submit[0]) // WEEK, return_counts=True)[1]))


def days(seconds: float) -> str:
    """Return a length of time in hours or days as text."""
    return f"{seconds / 3600:.1f} hours" if seconds < 3 * DAY else f"{seconds / DAY:.1f} days"


def counted(number: int, what: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "job"), counted(12000, "job")
    ('1 job', '12,000 jobs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
