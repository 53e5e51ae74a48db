"""The rhythm of the day as a witness: do records fit the usual hours better if their clock is set right.

People keep to the hours of the day. How much better some records fit the usual hours after a shift is a log-likelihood
ratio, counted in sessions (a user in an hour), because the jobs of one session say the same thing over and over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit import stats
from tracekit.doctor.finding import DAY, LAST_DATE, WEEK, Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tracekit.trace import Trace

_BINS = 48
_HOURS = tuple(hours for hours in range(-11, 13) if hours)
_MIN_WEEKS = 4
_MOMENTS = 40  # around the best week that are tried
_SMOOTH = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9


def _log_shares(counts: Floats) -> Floats:
    """Return the logarithm of the share of each half hour, smoothed over its neighbours."""
    smooth = sum(np.roll(counts + 1.0, k - 2) * part for k, part in enumerate(_SMOOTH))
    return np.asarray(np.log(smooth / np.sum(smooth)))


def _count(half_hour: NDArray[np.int64], weight: Floats) -> Floats:
    return np.bincount(half_hour, weights=weight, minlength=_BINS).astype(np.float64)


def _together(before: Floats, total: Floats, hours: int) -> float:
    """Return how much likelier sessions are by one profile if those after a moment are moved back by some hours."""
    moved = before + np.roll(total - before, -2 * hours)
    return float(moved @ _log_shares(moved) - total @ _log_shares(total))


class Rhythm:
    """Records in a given order, and how well they keep to the hours of the day."""

    def __init__(self, trace: Trace, order: NDArray[np.intp]) -> None:
        submit = trace.column("submit_time")[order]
        self.submit = submit
        self.clock = _seconds_of_day(trace, order)
        session = trace.column("user")[order].astype(np.float64) * 1e7 + submit // 3600
        _, inverse, counts = np.unique(session, return_inverse=True, return_counts=True)
        self.weight: Floats = 1.0 / counts[inverse]
        self.by_shift: dict[float, Floats] = {}

    def profile(self, end: int | None = None) -> Floats:
        """Return the logarithm of the share of sessions in each half hour, of the first ``end`` records or of all."""
        places = (self.clock[:end] // (DAY / _BINS)).astype(np.int64)
        return _log_shares(_count(places, self.weight[:end]))

    def _gains(self, profile: Floats, shift: float, begin: int = 0) -> Floats:
        """Return for every record from ``begin`` on how much better it fits when it is moved by ``shift`` seconds."""
        now = self.clock[begin:]
        then = np.mod(now + shift, DAY)
        places = [(moment // (DAY / _BINS)).astype(np.int64) for moment in (now, then)]
        return np.asarray(self.weight[begin:] * (profile[places[1]] - profile[places[0]]))

    def of_stretch(self, low: int, high: int, shift: float) -> float:
        """Return the gain of moving records ``low`` … ``high`` − 1, by the profile of all records."""
        if shift not in self.by_shift:
            self.by_shift[shift] = np.append(0.0, np.cumsum(self._gains(self.profile(), shift)))
        return float(self.by_shift[shift][high] - self.by_shift[shift][low])

    def of_rest(self, low: int, shift: float) -> float:
        """Return the gain of moving all records from ``low`` on, by the profile of those before."""
        return float(self._gains(self.profile(low), shift, low).sum())

    def lasting(self) -> tuple[int, float, float, float] | None:
        """Look for a moment from which on everybody keeps other hours than before, by whole hours.

        Returns the first record after it, by how many seconds later people come from then on, how much likelier all is
        with one profile of hours if they are moved back, and the same for each session (a tenth as many before as
        after count a tenth). None where four weeks before and after are not there. Weeks are compared first, then the
        widest steps of the clock around the best one.
        """
        week = np.maximum((self.submit - self.submit[0]) // WEEK, 0).astype(np.int64)
        if week[-1] < 2 * _MIN_WEEKS:
            return None
        half_hour = (self.clock // (DAY / _BINS)).astype(np.int64)
        table = np.bincount(week * _BINS + half_hour, weights=self.weight, minlength=(int(week.max()) + 1) * _BINS)
        so_far = np.cumsum(table.reshape(-1, _BINS), axis=0)
        total = so_far[-1]
        best = max(
            (_together(so_far[split - 1], total, hours), split, hours)
            for split in range(_MIN_WEEKS, len(so_far) - _MIN_WEEKS + 1)
            for hours in _HOURS
        )
        _, split, hours = best
        near = np.searchsorted(self.submit, self.submit[0] + WEEK * np.array([split - 1.5, split + 1.5]))
        step = np.diff(self.submit[near[0] : near[1]]) * (-1 if hours > 0 else 1)  # the clock went forward, or back
        moments = near[0] + 1 + np.argsort(step, kind="stable")[:_MOMENTS]
        if not len(moments):
            return None

        def before(record: int) -> Floats:
            return _count(half_hour[:record], self.weight[:record])

        gain, record = max((_together(before(k), total, hours), k) for k in moments.tolist())
        some, rest = float(before(record).sum()), float(total.sum() - before(record).sum())
        return record, 3600.0 * hours, gain, gain / max(some * rest / max(some + rest, 1.0), 1.0)

    def missed(self, place: int, seconds: float) -> float:
        """Return the sessions to be expected in ``seconds`` of the silence before record ``place``."""
        hours = max(float(np.ptp(self.submit)) / 3600, 1.0)
        middle = np.mod((self.clock[place - 1] + (self.submit[place] - self.submit[place - 1]) / 2), DAY)
        share = np.exp(self.profile()[int(middle // (DAY / _BINS))]) * _BINS  # of the mean rate, at that hour
        return float(self.weight.sum() / hours * share * seconds / 3600)


def _seconds_of_day(trace: Trace, order: NDArray[np.intp]) -> Floats:
    """Return the local time of day, or that of the trace's own clock where there is no calendar."""
    submit = trace.column("submit_time")[order]
    if not stats.has_calendar(trace) or submit.max() + (trace.machine.epoch or 0.0) > LAST_DATE:
        return np.mod(submit, DAY)
    stamps = stats.local_times(trace.take(order))
    return np.asarray(stamps.hour * 3600.0 + stamps.minute * 60.0 + stamps.second, dtype=np.float64)
