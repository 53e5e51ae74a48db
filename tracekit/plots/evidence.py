"""Pictures that go with the doctor's findings: what is odd, marked, on the background of what is usual.

The doctor asks for them by name (`tracekit.doctor.finding.picture`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.doctor.capacity import weekly_demand
from tracekit.doctor.clock import record_order, sessions_by_day
from tracekit.doctor.finding import submits
from tracekit.doctor.rhythm import Rhythm
from tracekit.plots.recorded import usage
from tracekit.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    Floats,
    NothingToDraw,
    headline,
    light_grid,
    new_figure,
    time_unit,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

_BINS = 200
Span = tuple[float, float]


def _binned(trace: Trace) -> tuple[Floats, Floats, float, str, NDArray[np.intp]]:
    """Return submit times, bin edges, the unit of time and its name, and the rows with a submit time."""
    submit = trace.column("submit_time")
    rows = np.flatnonzero(np.isfinite(submit))
    if not len(rows):
        raise NothingToDraw("no submit time is known")
    submit = submit[rows]
    unit, name = time_unit(float(np.ptp(submit)))
    width = 86400.0 if 30 <= np.ptp(submit) / 86400 <= 500 else max(float(np.ptp(submit)) / _BINS, 1.0)
    edges = np.arange(submit.min(), submit.max() + 2 * width, width)
    return submit, edges, unit, name, rows


def _mark(axis: Any, spans: Sequence[Span], origin: float, unit: float) -> None:
    left, right = axis.get_xlim()
    thin = (right - left) / 300  # a span of an hour in a log of years must still be seen
    for start, end in spans:
        low, high = (start - origin) / unit, (end - origin) / unit
        axis.axvspan(low - thin, high + thin, color=ORANGE, alpha=0.3, linewidth=0)


def submits_over_time(trace: Trace, *, spans: Sequence[Span] = (), label: str = "") -> Figure:
    """Draw jobs submitted over time, with the odd stretches marked."""
    submit, edges, unit, name, _ = _binned(trace)
    figure, (axis,) = new_figure(1, 3.6)
    counts, _ = np.histogram(submit, edges)
    axis.stairs(counts, (edges - edges[0]) / unit, fill=True, color=BLUE)
    axis.set(
        xlabel=f"{name} since the first submit",
        ylabel=f"jobs in {_length(edges)}",
        xlim=(0, (edges[-1] - edges[0]) / unit),
    )
    _mark(axis, spans, float(edges[0]), unit)
    light_grid(axis)
    headline(figure, f"Marked: {label}" if label else "Jobs submitted over time", len(submit))
    return figure


def _length(edges: Floats) -> str:
    unit, name = time_unit(float(edges[1] - edges[0]) * 3)
    count = (edges[1] - edges[0]) / unit
    return f"one {name.removesuffix('s')}" if count == 1 else f"{count:.3g} {name}"


def _over_time(trace: Trace, mine: NDArray[np.bool_], label: str) -> tuple[Figure, Any, Floats, float]:
    """Draw some jobs over time on top of all others; return the figure, its axis, the bin edges and their unit."""
    submit, edges, unit, name, rows = _binned(trace)
    figure, (axis,) = new_figure(1, 3.6)
    others, own = (np.histogram(submit[part], edges)[0] for part in (~mine[rows], mine[rows]))
    x = (edges - edges[0]) / unit
    axis.stairs(others + own, x, fill=True, color=ORANGE, label=label)
    axis.stairs(others, x, fill=True, color=BLUE, label="all others")
    axis.set(xlabel=f"{name} since the first submit", ylabel=f"jobs in {_length(edges)}", xlim=(0, x[-1]))
    axis.legend(frameon=False, fontsize=8)
    light_grid(axis)
    return figure, axis, edges, unit


def some_over_time(trace: Trace, *, rows: NDArray[np.intp], label: str) -> Figure:
    """Draw the jobs of some rows over time on top of all others."""
    mine = np.zeros(len(trace), dtype=bool)
    mine[rows] = True
    figure, *_ = _over_time(trace, mine, label)
    headline(figure, f"{len(rows) / len(trace):.1%} of the jobs: {label}", len(trace))
    return figure


def user_over_time(trace: Trace, *, user: str, start: float, end: float) -> Figure:
    """Draw one user's jobs over time on top of everybody else's, with a stretch marked."""
    mine = (trace.jobs["user"].astype(object) == user).to_numpy()
    figure, axis, edges, unit = _over_time(trace, mine, f"user {user}")
    _mark(axis, [(start, end)], float(edges[0]), unit)
    submit = trace.column("submit_time")
    inside = (submit >= start) & (submit <= end)
    share = (mine & inside).sum() / max(int(inside.sum()), 1)
    headline(figure, f"User {user} has {share:.0%} of the jobs in the marked stretch", len(trace))
    return figure


def demand_over_time(trace: Trace) -> Figure:
    """Draw the work submitted in each week as a share of what the machine could do."""
    begins, weekly = weekly_demand(trace)
    figure, (axis,) = new_figure(1, 3.6)
    x = np.arange(len(begins))
    axis.bar(x, weekly, 0.9, color=[ORANGE if value > 1 else BLUE for value in weekly])
    axis.axhline(1, color=GREY, linewidth=1.2)
    axis.set(xlabel="week of the log", ylabel="work submitted / capacity", ylim=(0, max(1.1, weekly.max() * 1.05)))
    light_grid(axis)
    headline(figure, f"{(weekly > 1).sum()} of {len(weekly)} weeks ask for more than the machine has", len(trace),
             f"{trace.machine.size():,} {trace.machine.unit}; the line is all of them")  # fmt: skip
    return figure


def record_times(trace: Trace, *, rows: NDArray[np.intp]) -> Figure:
    """Draw submit times in the order of the records; those that are off are marked."""
    order, _ = record_order(trace)
    submit = trace.column("submit_time")[order]
    odd = np.isin(order, rows)
    places = np.flatnonzero(odd)
    around = max(len(places) // 2, 200)
    low, high = max(places[0] - around, 0), min(places[0] + around + min(len(places), 5 * around), len(order))
    keep = np.unique(np.linspace(low, high - 1, min(high - low, 4000)).astype(np.int64))
    unit, name = time_unit(float(np.ptp(submit[low:high])))
    y = (submit - submit[low:high].min()) / unit
    figure, (axis,) = new_figure(1, 4)
    for part, colour, label in ((~odd, BLUE, "others"), (odd, ORANGE, "off")):
        chosen = keep[part[keep]]
        axis.plot(chosen, y[chosen], ".", color=colour, markersize=3, label=label)
    axis.set(xlabel="record", ylabel=f"submit time [{name}]")
    axis.legend(frameon=False, fontsize=8)
    light_grid(axis)
    headline(
        figure,
        f"The clock of {len(rows):,} records is off",
        len(order),
        "records in the order in which they were written",
    )
    return figure


def _hours(parts: Sequence[tuple[Floats, str]], clock: str) -> Figure:
    """Draw two distributions over the hours of the day, (24,) each, one beside the other."""
    figure, (axis,) = new_figure(1, 3.6)
    for (counts, label), colour, style in zip(parts, (BLUE, ORANGE), ("-", "--"), strict=True):
        share = counts / max(counts.sum(), 1)
        axis.step(np.arange(24), share, where="mid", color=colour, linestyle=style, label=label, linewidth=2)
    axis.set(xlabel=f"hour of day, {clock}", ylabel="share of sessions", xticks=range(0, 24, 3), ylim=(0, None))
    axis.legend(frameon=False, fontsize=8)
    light_grid(axis)
    return figure


def hours_by_season(trace: Trace) -> Figure:
    """Draw sessions by local hour on weekdays of winter and of summer time."""
    table, summer = sessions_by_day(trace)
    parts = [(table[~summer].sum(axis=0), "winter time"), (table[summer].sum(axis=0), "summer time")]
    figure = _hours(parts, f"clock of {trace.machine.timezone}")
    headline(figure, "The day begins at another hour in summer than in winter", len(trace), "weekdays only")
    return figure


def hours_before_and_after(trace: Trace, *, second: float) -> Figure:
    """Draw sessions by hour of the day before and after a moment."""
    submit, order = submits(trace)
    seen = Rhythm(trace, order)
    hour = (seen.clock // 3600).astype(np.int64)
    before = submit < second
    counts = [
        np.bincount(hour[part], weights=seen.weight[part], minlength=24).astype(float) for part in (before, ~before)
    ]
    figure = _hours([(counts[0], "before"), (counts[1], "after")], "local clock where the zone is known")
    headline(figure, "People keep other hours from some moment on", len(submit))
    return figure


def unit_ratio(trace: Trace, *, column: str, rows: NDArray[np.intp] | None = None) -> Figure:
    """Draw run time over limit, or the values themselves where limits do not help, on a logarithmic axis.

    With ``rows`` the jobs of a stretch are drawn beside all others.
    """
    run, limit = trace.column("run_time"), trace.column("req_time")
    if column in ("run_time", "req_time") and ((run > 0) & (limit > 0)).any():
        values, base, label = run, limit, "run time / limit"
    elif column == "cpu_time" and ((run > 0) & (trace.column("cpu_time") > 0)).any():
        values, base, label = trace.column("cpu_time"), run, "CPU time / run time"
    else:
        values = trace.sizes() if column == "procs" else trace.column(column)
        base, label = np.ones(len(trace)), column
    keep = np.isfinite(values) & (values > 0) & (base > 0)
    if not keep.any():
        raise NothingToDraw(f"no value of {column} is above zero")
    inside = np.zeros(len(trace), dtype=bool)
    inside[rows if rows is not None else []] = True
    inside, values = inside[keep], values[keep] / base[keep]
    low, high = np.log10(values.min()), np.log10(values.max())
    figure, (axis,) = new_figure(1, 3.6)
    bins = np.logspace(low - 0.05, high + 0.05, 150)
    if inside.any():
        for part, colour, name in ((~inside, BLUE, "all others"), (inside, ORANGE, "the stretch")):
            share = np.histogram(values[part], bins)[0] / max(part.sum(), 1)
            axis.stairs(share, bins, color=colour, linewidth=1.6, label=name)
        axis.legend(frameon=False, fontsize=8)
    else:
        axis.hist(values, bins=bins, color=BLUE)
    axis.set(xscale="log", xlabel=label, ylabel="share of its jobs" if inside.any() else "jobs")
    if "/" in label:
        for mark, text in ((1, "1"), (1 / 60, "1/60"), (60, "60"), (1000, "1000"), (1 / 1000, "1/1000")):
            if values.min() / 2 <= mark <= values.max() * 2:
                axis.axvline(mark, color=GREY, linewidth=1, linestyle="--")
                axis.annotate(text, (mark, 0.97), xycoords=("data", "axes fraction"), fontsize=8, ha="left")
    light_grid(axis)
    headline(figure, "A unit shows in where the values pile up", len(values))
    return figure


def last_days(trace: Trace) -> Figure:
    """Draw how long jobs stayed, wait and run, against how long before the last submit they came."""
    submit = trace.column("submit_time")
    stay = np.nan_to_num(trace.column("wait_time"), nan=0.0) + np.nan_to_num(trace.column("run_time"), nan=0.0)
    left = (np.nanmax(submit) - submit) / 86400
    keep = (left < 14) & np.isfinite(left)
    figure, (axis,) = new_figure(1, 4)
    axis.plot(left[keep], stay[keep] / 86400, ".", color=BLUE, markersize=3)
    axis.plot([0, 14], [0, 14], color=ORANGE, linewidth=1.5, label="ends at the last submit")
    axis.set(xlabel="days before the last submit", ylabel="days in the system", xlim=(14, 0), ylim=(0, None))
    axis.legend(frameon=False, fontsize=8)
    light_grid(axis)
    headline(figure, "No job lies above the line: the log was cut where it ends", int(keep.sum()), "last two weeks")
    return figure


def usage_or_submits(trace: Trace) -> Figure:
    """Draw the machine's usage, or submits where that cannot be drawn: the background for what a header says."""
    try:
        return usage(trace)
    except NothingToDraw:
        return submits_over_time(trace)
