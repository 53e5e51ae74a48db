"""Stretches without a single submit: outages, gaps in the records, and stray jobs before or after everything else.

How long is too long depends on the hour and on the season. So time is counted in the submits that were to be expected
by the hours of the week and by the weeks around, and in sessions (users active in an hour) instead of jobs, because
jobs come in bursts. A silence counts when it holds six times what the longest one of a thousand usual gaps does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.doctor.finding import DAY, WEEK, CannotLook, Finding, Floats, days, picture, submits, when

if TYPE_CHECKING:
    from tracekit.trace import Trace

HOUR = 3600.0
SHORTEST = 12 * HOUR
MIN_EXPECTED = 30.0  # sessions
TIMES_USUAL = 6.0  # of the 99.9 % quantile of all gaps, in expected sessions
LONG = 2 * DAY  # from here on a warning
FEW_JOBS = 20  # or one in a thousand: so few jobs before a silence are strays, not a part of the log


@dataclass(frozen=True)
class Silence:
    """A stretch without submits, seconds of the trace; ``before`` and ``after`` count the jobs on either side."""

    start: float
    end: float
    expected: float  # sessions
    before: int
    after: int
    idle: float  # share of the stretch in which no recorded job ran; NaN where starts are unknown

    @property
    def stray(self) -> str:
        """Whether this is the silence after a few stray early jobs, or before a few stray late ones."""
        few = max(FEW_JOBS, (self.before + self.after) // 1000)
        return "early" if self.before <= few else "late" if self.after <= few else ""


def activity(trace: Trace) -> tuple[Floats, float]:
    """Return the sessions of each hour since the first submit, and that submit, seconds.

    A session is a user who submits in that hour; where users are unknown, five minutes in which anyone submits.
    """
    submit, rows = submits(trace)
    hour = ((submit - submit[0]) // HOUR).astype(np.int64)
    users = trace.column("user")[rows]
    many = len(np.unique(users[users >= 0])) > 1
    what = users if many else ((submit - submit[0]) % HOUR // 300).astype(np.int64)
    pairs = np.unique(hour * (int(what.max()) + 2) + what + 1)
    return np.bincount(pairs // (int(what.max()) + 2), minlength=int(hour[-1]) + 1).astype(np.float64), float(submit[0])


def _expected_so_far(active: Floats) -> Floats:
    """Return the sessions to be expected up to each hour, from the hours of the week and the nine weeks around."""
    hours = np.arange(len(active))
    of_week, week = hours % 168, hours // 168
    usual = np.bincount(of_week, weights=active, minlength=168) / np.maximum(np.bincount(of_week, minlength=168), 1)
    level = np.bincount(week, weights=active) / np.maximum(np.bincount(week, weights=usual[of_week]), 1e-9)
    weeks = pd.Series(np.where(level > 0, level, np.nan))  # an empty week says nothing of what was to be expected
    around = weeks.rolling(9, center=True, min_periods=1).median().ffill().bfill().to_numpy()
    return np.concatenate(([0.0], np.cumsum(usual[of_week] * around[week])))


def find_silences(trace: Trace) -> list[Silence]:
    """Return the stretches without submits that are too long to be chance, in order of time."""
    submit, rows = submits(trace)
    if len(submit) < 200 or submit[-1] - submit[0] < 2 * WEEK:
        return []
    active, origin = activity(trace)
    so_far = np.interp((submit - origin) / HOUR, np.arange(len(active) + 1), _expected_so_far(active))
    gaps, lengths = np.diff(so_far), np.diff(submit)
    bound = max(MIN_EXPECTED, TIMES_USUAL * float(np.quantile(gaps, 0.999)))
    found = []
    for k in np.flatnonzero((gaps >= bound) & (lengths >= SHORTEST)):
        start, end = float(submit[k]), float(submit[k + 1])
        idle = _idle(trace, rows, start, end)
        found.append(Silence(start, end, float(gaps[k]), int(k) + 1, len(submit) - int(k) - 1, idle))
    return found


def _idle(trace: Trace, rows: NDArray[np.intp], start: float, end: float) -> float:
    """Return the share of ``[start, end]`` in which no recorded job ran."""
    submit, wait, run = (trace.column(name)[rows] for name in ("submit_time", "wait_time", "run_time"))
    if not np.isfinite(wait).any():
        return float("nan")
    begin = submit + np.where(wait > 0, wait, 0.0)
    over = begin + np.where(run > 0, run, 0.0)
    inside = (over > start) & (begin < end) & (run > 0)
    if not inside.any():
        return 1.0
    order = np.argsort(begin[inside])
    left, right = np.maximum(begin[inside][order], start), np.minimum(over[inside][order], end)
    reach = np.maximum.accumulate(right)
    before = np.concatenate(([start], reach[:-1]))
    busy = np.maximum(reach - np.maximum(left, before), 0.0).sum()
    return float(1 - busy / (end - start))


def outages(trace: Trace) -> list[Finding]:
    """Report outages and gaps; strays at the edges belong to `edges`."""
    submit, rows = submits(trace)
    if len(submit) < 200 or submit[-1] - submit[0] < 2 * WEEK:
        raise CannotLook("fewer than 200 jobs or two weeks: too little to establish what is usual")
    found = []
    for silence in find_silences(trace):
        if silence.stray:
            continue
        length = silence.end - silence.start
        stood = silence.idle >= 0.5
        cause = (
            "nothing ran for most of it: the machine was down, records are missing, or the clock was set forward"
            if stood
            else "the machine worked on: records are missing, submits were closed, or the clock was set forward"
            if np.isfinite(silence.idle)
            else "an outage, missing records, or a clock that was set forward"
        )
        found.append(
            Finding(
                "gap" if np.isfinite(silence.idle) and not stood else "outage",
                "warning" if length >= LONG else "note",
                f"no job was submitted for {days(length)} from {when(trace, silence.start)} on, where some "
                f"{silence.expected:,.0f} sessions were to be expected; {cause}",
                {
                    "start": silence.start,
                    "end": silence.end,
                    "hours": round(length / 3600, 2),
                    "expected_sessions": round(silence.expected, 1),
                    "idle_share": "unknown" if np.isnan(silence.idle) else round(silence.idle, 4),
                },
                rows[[silence.before - 1, silence.before]],
                "cut-outages" if length >= DAY else "",
                "loads and waits around it are not those of normal operation",
                picture("submits_over_time", spans=[(silence.start, silence.end)], label="no submits"),
            )
        )
    return found
