"""Local time: seconds since a Monday midnight of the machine's own place, and back to submit times.

People keep their hours by the local clock, and a week moved by a whole number of weeks must keep them too, also across
the changes of summer time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.quantile import grain_of
from tracekit import stats
from tracekit.errors import UsageError
from tracekit.machine import Machine
from tracekit.readings import read_date
from tracekit.trace import Trace

Floats = NDArray[np.float64]

WEEK, DAY, HOUR, YEAR = 604_800.0, 86_400.0, 3600.0, 365.2425 * 86_400.0
#: What histories are moved by: whole weeks; in a trace of less than two weeks whole days, and so on.
UNITS = {"weeks": WEEK, "days": DAY, "hours": HOUR}
#: A trace drifts if one of its first and last quarters has so many times as many jobs as the other.
DRIFT = 1.5


def turned_back(place: Any, places: Any) -> Any:
    """Return places from 0 to below ``places``; those beyond an end are counted back from it.

    >>> turned_back(np.array([-2, -1, 0, 1, 2, 3, 4]), 3).tolist()
    [1, 0, 0, 1, 2, 2, 1]
    """
    place = place % (2 * places)
    return np.where(place < places, place, 2 * places - 1 - place)


@dataclass(frozen=True)
class Window:
    """A stretch of time into which histories are laid; what sticks out comes in again at the same hour of the week."""

    begin: float  # seconds since the calendar's origin
    length: float
    unit: float  # seconds
    drifts: bool = False

    def holding(self, at: Floats) -> Floats:
        """Return moments inside the window that differ from the given ones by whole units, each as often as any other.

        A window of ten weeks and a Monday has eleven places for what happened on a Monday, ten for the rest.
        """
        first, place, places, unit = self._places(at)
        return np.asarray(first + place % places * unit)

    def turning(self, at: Floats) -> Floats:
        """Return moments inside the window of a trace that drifts: what sticks out at an end is turned back there.

        If as much is moved forwards as back, every place keeps as much as it had, and a busy end does not become a busy
        beginning. Moments of other traces stay as they are.
        """
        if not self.drifts:
            return at
        first, place, places, unit = self._places(at)
        return np.asarray(first + turned_back(place, places) * unit)

    def _places(self, at: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return the first moment in the window at that hour of the week, which place it is, and how many there are."""
        unit = min(self.unit, self.length)
        first = self.begin + (at - self.begin) % unit
        places = np.maximum(np.ceil((self.begin + self.length - first) / unit), 1)
        return first, np.round((at - first) / unit), places, unit


@dataclass(frozen=True)
class Place:
    """Where a period's jobs are laid: moved within ``home``, the time of the real trace, then into a window."""

    home: Window
    window: Window
    late: float  # seconds from the one to the other, whole units

    def holding(self, at: Floats) -> Floats:
        """Return moments inside the window, given moments in or around home."""
        return self.window.holding(self.home.turning(at) + self.late)


@dataclass(frozen=True)
class LocalCalendar:
    """Local time of one trace, in seconds from ``origin``: the beginning of the week, day or hour of its first job."""

    origin: float  # local seconds since 1970; without a calendar the first submit time
    epoch: float  # Unix seconds at submit_time 0
    timezone: str | None  # None = no calendar, or one whose clock never changes
    calendar: bool
    unit: str  # weeks, days or hours
    period: float  # seconds that the trace lasts, up to when the next job might have come
    grain: float  # submit times are multiples of this many seconds; 0 = no grain
    drifts: bool = False  # much busier at one end than at the other

    @classmethod
    def fit(cls, trace: Trace) -> Self:
        """Read the calendar off a trace in submit order."""
        return cls.of(trace.column("submit_time"), trace.machine)

    @classmethod
    def of(cls, submit: Floats, machine: Machine) -> Self:
        """Read the calendar off submit times, in order."""
        span = float(submit[-1] - submit[0])
        unit = next((name for name, length in UNITS.items() if span >= 2 * length), "hours")
        period = span * len(submit) / (len(submit) - 1) or 1.0 if len(submit) > 1 else DAY  # at one instant: any length
        grain = grain_of(submit)
        quarter = [int((submit < submit[0] + span / 4).sum()), int((submit > submit[-1] - span / 4).sum())]
        drifts = max(quarter) > DRIFT * min(quarter)
        if machine.epoch is None or not all(stats.is_date(machine.epoch + ends) for ends in submit[[0, -1]]):
            return cls(float(submit[0]), 0.0, None, False, unit, period, grain, drifts)
        epoch = float(machine.epoch)
        bare = cls(0.0, epoch, _changing(machine.timezone), True, unit, period, grain, drifts)
        return replace(bare, origin=_begin(float(bare.local(submit[:1])[0]), bare.unit_length))

    @property
    def unit_length(self) -> float:
        """Return the unit in seconds."""
        return UNITS[self.unit]

    @property
    def units(self) -> int:
        """Return how many whole units the trace lasts."""
        return int(self.period // self.unit_length)

    def window(self, phase: float, number: int) -> Window:
        """Return the time of a period: the first begins at ``phase``, the others follow each other."""
        return Window(phase + number * self.period, self.period, self.unit_length)

    def home(self, phase: float) -> Window:
        """Return the time of the real trace, which begins at ``phase``."""
        return Window(phase, self.period, self.unit_length, self.drifts)

    def local(self, submit: Floats) -> Floats:
        """Turn submit times into seconds since the origin on the local clock."""
        seconds = submit + self.epoch
        if self.timezone is not None:
            whole = np.floor(seconds)
            there = _stamps(whole).tz_localize("UTC").tz_convert(self.timezone).tz_localize(None)
            seconds = seconds + _seconds(there) - whole
        return np.asarray(seconds - self.origin, dtype=np.float64)

    def submit(self, at: Floats) -> Floats:
        """Turn local seconds since the origin into submit times, rounded as the real ones are."""
        seconds = at + self.origin
        if self.timezone is not None and len(at):
            hours, place = np.unique(np.floor(seconds / HOUR) * HOUR, return_inverse=True)
            # The hour that comes twice in autumn counts as the later one; the one skipped in spring is moved forward.
            late = np.zeros(len(hours), dtype=bool)
            there = _stamps(hours).tz_localize(self.timezone, ambiguous=late, nonexistent="shift_forward")
            seconds = seconds + (_seconds(there.tz_convert("UTC").tz_localize(None)) - hours)[place]
        seconds = seconds - self.epoch
        return np.round(np.floor(seconds / self.grain) * self.grain, 9) if self.grain else seconds

    def moved_to(self, start: str, timezone: str | None) -> tuple[Self, float]:
        """Return the clock of a trace that begins at a date of the machine's own time zone, and that moment on it."""
        try:
            stamp = read_date(start)
            zone = timezone or "UTC"
            stamp = stamp.tz_localize(zone) if stamp.tzinfo is None else stamp.tz_convert(zone)
        except (ValueError, TypeError) as error:
            raise UsageError(f"--start {start}: not a date such as 2025-03-01 or 2025-03-01T08:00 ({error})") from None
        moved = replace(self, origin=0.0, epoch=float(stamp.timestamp()), timezone=_changing(timezone))
        first = float(moved.local(np.zeros(1))[0])
        if not self.calendar:
            return replace(moved, origin=first, timezone=None), 0.0
        origin = _begin(first, self.unit_length)
        return replace(moved, origin=origin), first - origin

    def season(self, phase: float, other: LocalCalendar, other_phase: float) -> float:
        """Return how much later in the year a trace on another calendar begins, in seconds, whole units.

        0 where this trace lasts less than a year, so that nothing is known of other seasons.
        """
        if not self.calendar or self.period < YEAR:
            return 0.0
        later = (other.origin + other_phase - self.origin - phase) % YEAR
        return float(round(later / self.unit_length) * self.unit_length)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def _changing(timezone: str | None) -> str | None:
    """Return the time zone, or None for one that is the epoch's own."""
    return None if timezone in (None, "UTC") else timezone


def _begin(first: float, unit: float) -> float:
    """Return when the week, day or hour begins that holds a moment, in local seconds since 1970."""
    monday = np.floor((first - 4 * DAY) / WEEK) * WEEK + 4 * DAY  # 1970-01-05 was a Monday
    return float(monday + np.floor((first - monday) / unit) * unit)


def _stamps(seconds: Floats) -> pd.DatetimeIndex:
    """Return whole seconds since 1970 as plain stamps."""
    return pd.DatetimeIndex(seconds.astype("datetime64[s]"))


def _seconds(stamps: pd.DatetimeIndex) -> Floats:
    """Return plain stamps as whole seconds since 1970."""
    return stamps.to_numpy().astype("datetime64[s]").astype(np.float64)
