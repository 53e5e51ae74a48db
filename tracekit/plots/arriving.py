"""Pictures of when people submit: by hour of day, by weekday, and by hour of the week."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit.plots.style import BLUE, HEAT, ORANGE, NothingToDraw, headline, light_grid, new_figure
from tracekit.stats import has_calendar, hour_of_week

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from tracekit.trace import Trace

DAYS = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")


def _hours(trace: Trace) -> tuple[NDArray[np.int64], str]:
    """Return each job's hour of the week, and whose clock that is."""
    known = trace.take(np.isfinite(trace.column("submit_time")))
    if not len(known):
        raise NothingToDraw("no submit time is known")
    if not has_calendar(known):
        raise NothingToDraw("the trace has no calendar: give the date of second 0 with --epoch or in a machine file")
    zone = trace.machine.timezone
    return hour_of_week(known), f"clock of {zone}" if zone else "time zone unknown: hours in UTC"


def arrivals(trace: Trace) -> Figure:
    """Draw when jobs are submitted: by hour of day and by day of week on the machine's clock.

    A trace without a calendar is drawn as if second 0 were a Monday midnight, with a note.
    """
    try:
        week, clock = _hours(trace)
    except NothingToDraw:
        submit = trace.column("submit_time")
        submit = submit[np.isfinite(submit)]
        if not len(submit):
            raise
        week, clock = (submit // 3600 % 168).astype(np.int64), "no calendar: second 0 taken as Monday midnight"
    figure, (hours, days) = new_figure(1, 3.7, columns=2, width_ratios=[3, 1])
    weekend = week >= 5 * 24
    both = [np.bincount(week[part] % 24, minlength=24) for part in (~weekend, weekend)]
    hours.bar(np.arange(24), both[0], color=BLUE, label="Monday to Friday")
    hours.bar(np.arange(24), both[1], bottom=both[0], color=ORANGE, label="weekend", hatch="//", edgecolor="white")
    hours.set(xlabel="hour of day", ylabel="jobs submitted", xticks=range(0, 24, 3), xlim=(-0.6, 23.6))
    hours.legend(frameon=False, fontsize=8)
    by_day = np.bincount(week // 24, minlength=7)
    bars = days.bar(DAYS, by_day, color=[BLUE] * 5 + [ORANGE] * 2)
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
    headline(figure, text, len(week), f"{weekend.mean():.0%} on weekends (2 of 7 days are 29%); {clock}")
    return figure


def hour_of_week_map(trace: Trace) -> Figure:
    """Draw the mean number of jobs submitted in each hour of the week as a heatmap of 7 × 24 cells."""
    week, clock = _hours(trace)
    submit = trace.column("submit_time")
    weeks = max((np.nanmax(submit) - np.nanmin(submit)) / (7 * 86400), 1.0)
    cells = np.bincount(week, minlength=168).reshape(7, 24) / weeks
    figure, (axis,) = new_figure(1, 4, width=10)
    drawn = axis.imshow(cells, cmap=HEAT, aspect="auto", vmin=0)
    figure.colorbar(drawn, ax=axis, label="jobs an hour, mean over the weeks", pad=0.01)
    axis.set(xlabel="hour of day", xticks=range(0, 24, 3), yticks=range(7), yticklabels=DAYS)
    axis.spines[:].set_visible(False)
    day, hour = divmod(int(cells.argmax()), 24)
    ratio = cells.max() / cells.mean()
    headline(figure, f"Busiest: {DAYS[day]} from {hour} h, {ratio:.1f} times the mean hour", len(week),
             f"{weeks:,.0f} weeks; {clock}")  # fmt: skip
    return figure
