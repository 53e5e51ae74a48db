"""Pictures of when people submit: by hour of day, by weekday, and by hour of the week."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.plots.style import BLUE, HEAT, ORANGE, NothingToDraw, headline, light_grid, new_figure
from tracekit.stats import has_calendar, hour_of_week

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

DAYS = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")


@dataclass(frozen=True)
class Submits:
    """When the jobs of a trace were submitted, by the hour of the week."""

    hours: NDArray[np.int64]  # jobs in each hour of the week on the machine's clock, shape (168,)
    plain: NDArray[np.int64]  # the same if second 0 were a Monday midnight
    first: float  # submit, in seconds
    last: float
    calendar: bool
    timezone: str | None

    @classmethod
    def of(cls, trace: Trace) -> Submits:
        """Count the jobs of a trace whose submit times are known."""
        known = trace.take(np.isfinite(trace.column("submit_time")))
        submit = known.column("submit_time")
        calendar = len(known) > 0 and has_calendar(known)
        hours = np.bincount(hour_of_week(known), minlength=168) if calendar else np.zeros(168, dtype=np.int64)
        ends = (float(submit.min()), float(submit.max())) if len(known) else (np.nan, np.nan)
        return cls(hours, plain_hours(submit), *ends, calendar, trace.machine.timezone)

    def by_calendar(self) -> tuple[NDArray[np.int64], str]:
        """Return the jobs in each hour of the week, and whose clock that is."""
        if not self.plain.any():
            raise NothingToDraw("no submit time is known")
        if not self.calendar:
            raise NothingToDraw(
                "the trace has no calendar: give the date of second 0 with --epoch or in a machine file"
            )
        return self.hours, f"clock of {self.timezone}" if self.timezone else "time zone unknown: hours in UTC"


def plain_hours(submit: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the jobs in each hour of the week if second 0 were a Monday midnight."""
    return np.bincount((submit // 3600 % 168).astype(np.int64), minlength=168)


def arrivals(trace: Trace) -> Figure:
    """Draw when jobs are submitted: by hour of day and by day of week on the machine's clock.

    A trace without a calendar is drawn as if second 0 were a Monday midnight, with a note.
    """
    return draw_arrivals(Submits.of(trace))


def draw_arrivals(submits: Submits) -> Figure:
    """Draw what `arrivals` draws."""
    try:
        week, clock = submits.by_calendar()
    except NothingToDraw:
        if not submits.plain.any():
            raise
        week, clock = submits.plain, "no calendar: second 0 taken as Monday midnight"
    jobs, table = int(week.sum()), week.reshape(7, 24)
    figure, (hours, days) = new_figure(1, 3.7, columns=2, width_ratios=[3, 1])
    both = [table[:5].sum(axis=0), table[5:].sum(axis=0)]
    hours.bar(np.arange(24), both[0], color=BLUE, label="Monday to Friday")
    hours.bar(np.arange(24), both[1], bottom=both[0], color=ORANGE, label="weekend", hatch="//", edgecolor="white")
    hours.set(xlabel="hour of day", ylabel="jobs submitted", xticks=range(0, 24, 3), xlim=(-0.6, 23.6))
    hours.legend(frameon=False, fontsize=8)
    bars = days.bar(DAYS, table.sum(axis=1), color=[BLUE] * 5 + [ORANGE] * 2)
    for bar in bars[5:]:
        bar.set(hatch="//", edgecolor="white")
    days.set(xlabel="day of week")
    for axis in (hours, days):
        light_grid(axis)
    by_hour = both[0] + both[1]
    peak, night = int(by_hour.argmax()), int(by_hour.argmin())
    text = f"Most jobs come between {peak} and {peak + 1} h, fewest between {night} and {night + 1} h"
    if by_hour[night]:
        text += f" ({by_hour[peak] / by_hour[night]:.1f} to 1)"
    weekend = both[1].sum() / jobs
    headline(figure, text, jobs, f"{weekend:.0%} on weekends (2 of 7 days are 29%); {clock}")
    return figure


def hour_of_week_map(trace: Trace) -> Figure:
    """Draw the mean number of jobs submitted in each hour of the week as a heatmap of 7 × 24 cells."""
    return draw_hour_of_week(Submits.of(trace))


def draw_hour_of_week(submits: Submits) -> Figure:
    """Draw what `hour_of_week_map` draws."""
    week, clock = submits.by_calendar()
    weeks = max((submits.last - submits.first) / (7 * 86400), 1.0)
    cells = week.reshape(7, 24) / weeks
    figure, (axis,) = new_figure(1, 4, width=10)
    drawn = axis.imshow(cells, cmap=HEAT, aspect="auto", vmin=0)
    figure.colorbar(drawn, ax=axis, label="jobs an hour, mean over the weeks", pad=0.01)
    axis.set(xlabel="hour of day", xticks=range(0, 24, 3), yticks=range(7), yticklabels=DAYS)
    axis.spines[:].set_visible(False)
    day, hour = divmod(int(cells.argmax()), 24)
    ratio = cells.max() / cells.mean()
    headline(figure, f"Busiest: {DAYS[day]} from {hour} h, {ratio:.1f} times the mean hour", int(week.sum()),
             f"{weeks:,.0f} weeks; {clock}")  # fmt: skip
    return figure
