"""Operational time: a clock that runs fast when jobs arrive often and slowly when they do not.

Arrivals of a trace with a calendar follow the hour of the week. Measured on a clock whose speed is the intensity of
that hour, gaps lose the cycle; made on it and read back on the wall, they have it again, whatever the model.
(The time-rescaling theorem: Λ(t) = ∫ λ(hour of week) turns a cyclic Poisson process into a homogeneous one.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import stats
from tracekit.trace import Trace

HOUR = 3600.0
WEEK_HOURS = 168
#: No hour is quieter than this share of the mean hour: a clock must never stop.
QUIETEST = 0.02
#: Fewer jobs than this, or less than a week of them, are too little to estimate the hours of the week.
LEAST_JOBS = 500
#: Beyond this many hours the clock runs evenly; a century is enough for any trace.
FARTHEST = 24 * 366 * 100

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Seconds on the wall to operational seconds and back. A week lasts a week on both."""

    speed: Floats  # shape (168,), mean 1, from Monday midnight, local time
    epoch: float  # Unix seconds at submit_time 0
    timezone: str | None = None

    @classmethod
    def fit(cls, trace: Trace) -> Clock | None:
        """Learn the hours of the week, or return None where the trace has no calendar or is too short for one."""
        if not stats.has_calendar(trace) or len(trace) < LEAST_JOBS or stats.span(trace) < WEEK_HOURS * HOUR:
            return None
        weeks = max(stats.span(trace) / (WEEK_HOURS * HOUR), 1.0)
        jobs = np.bincount(stats.hour_of_week(trace), minlength=WEEK_HOURS).astype(np.float64)
        # Short logs say little about single hours: lean on the hour of the day and on the day of the week.
        grid = jobs.reshape(7, 24) + 1e-9
        product = np.outer(grid.sum(axis=1), grid.sum(axis=0)) / grid.sum()
        trust = weeks / (weeks + 8.0)
        speed = (trust * grid + (1 - trust) * product).ravel()
        speed = np.maximum(speed / speed.mean(), QUIETEST)
        return cls(speed / speed.mean(), float(trace.machine.epoch or 0.0), trace.machine.timezone)

    def at(self, epoch: float, timezone: str | None) -> Clock:
        """Return the same week on another calendar."""
        return Clock(self.speed, epoch, timezone)

    def _grid(self, first: float, hours: int) -> tuple[Floats, Floats]:
        """Return whole hours of the wall clock from ``first`` on, and operational time at each (0 at the first)."""
        hours = int(min(max(hours, 1), FARTHEST))
        start = np.floor((first + self.epoch) / HOUR) * HOUR
        wall = start + HOUR * np.arange(hours + 1)
        latest = pd.Timestamp.max.timestamp() - 86400
        stamps = pd.DatetimeIndex(pd.to_datetime(np.clip(wall[:-1], 0, latest), unit="s", utc=True))
        local = stamps.tz_convert(self.timezone or "UTC")
        speed = self.speed[(local.day_of_week * 24 + local.hour).to_numpy()]
        return wall - self.epoch, np.concatenate([[0.0], np.cumsum(speed * HOUR)])

    def operational(self, submit: Floats) -> Floats:
        """Turn sorted submit times into operational seconds since the hour of the first."""
        wall, passed = self._grid(submit[0], int((submit[-1] - submit[0]) // HOUR) + 2)
        return _interpolate(submit, wall, passed)

    def wall(self, start: float, gaps: Floats) -> Floats:
        """Return submit times from ``start`` on for operational gaps; the first gap is not used."""
        hours = int(min(gaps[1:].sum() / HOUR, FARTHEST)) + 2
        wall, passed = self._grid(start, hours)
        offset = _interpolate(np.array([start]), wall, passed)[0]
        needed = offset + np.concatenate([[0.0], np.cumsum(gaps[1:])])
        while passed[-1] < needed[-1] and len(wall) <= FARTHEST:
            hours = int(hours * 1.3) + WEEK_HOURS
            wall, passed = self._grid(start, hours)
        return np.maximum(_interpolate(needed, passed, wall), start)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"speed": self.speed.tolist(), "epoch": self.epoch, "timezone": self.timezone}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Clock:
        """Read back what `to_dict` gave."""
        return cls(np.asarray(plain["speed"], dtype=np.float64), float(plain["epoch"]), plain["timezone"])


def _interpolate(x: Floats, known_x: Floats, known_y: Floats) -> Floats:
    """Interpolate linearly; beyond the last point continue at the clock's mean pace of 1."""
    y: Floats = np.interp(x, known_x, known_y) + np.maximum(x - known_x[-1], 0.0)
    return y
