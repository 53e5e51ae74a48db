"""Pictures of the jobs of one trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tracekit.plots.style import BLUE, ORANGE, Floats, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

#: What `cdfs` draws: the label on the axis, and how the values come out of a trace.
_QUANTITIES: dict[str, Callable[[Trace], Floats]] = {
    "run time [s]": lambda trace: trace.column("run_time"),
    "requested time [s]": lambda trace: trace.column("req_time"),
    "wait [s]": lambda trace: trace.column("wait_time"),
    "size": lambda trace: trace.sizes(),
    "inter-arrival [s]": lambda trace: trace.interarrival(),
}


def cdfs(trace: Trace) -> Figure:
    """Draw the cumulative distributions of what the trace knows: run, limit and wait, size, inter-arrival.

    Axes are logarithmic from 1 on; values below 1 are drawn there.
    """
    known = {label: values for label, get in _QUANTITIES.items() if np.isfinite(values := get(trace)).any()}
    figure, axes = new_figure(1, 3.2, columns=len(known))
    for axis, (label, values) in zip(axes, known.items(), strict=True):
        x = np.sort(np.maximum(values[np.isfinite(values)], 1.0))
        axis.step(x, np.arange(1, len(x) + 1) / len(x), where="post", color=BLUE)
        axis.set(xscale="log", xlabel=label, ylim=(0, 1.01), xlim=(1, max(x[-1], 10)))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of jobs at or below")
    return figure


def arrivals(trace: Trace) -> Figure:
    """Draw when jobs are submitted: by hour of day and by day of week on the machine's clock."""
    from tracekit.stats import hour_of_week

    week = hour_of_week(trace)
    figure, (hours, days) = new_figure(1, 3.2, columns=2, width_ratios=[3, 1])
    weekend = week >= 5 * 24
    both = [np.bincount(week[part] % 24, minlength=24) for part in (~weekend, weekend)]
    hours.bar(np.arange(24), both[0], color=BLUE, label="Monday to Friday")
    hours.bar(np.arange(24), both[1], bottom=both[0], color=ORANGE, label="weekend")
    hours.set(xlabel="hour of day", ylabel="jobs submitted", xticks=range(0, 24, 3), xlim=(-0.6, 23.6))
    hours.legend(frameon=False)
    names = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
    days.bar(names, np.bincount(week // 24, minlength=7), color=[BLUE] * 5 + [ORANGE] * 2)
    days.set(xlabel="day of week")
    return figure
