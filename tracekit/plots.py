"""Figures about one trace or one schedule. Matplotlib is imported inside, so nobody else pays for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.sim.simulate import SimResult
    from tracekit.trace import Trace

Floats = NDArray[np.float64]

_BLUE, _ORANGE, _GREY = "#2f6c9e", "#d2691e", "#8a8a8a"


def save(figure: Figure, path: str | Path, *, force: bool = False) -> None:
    """Write a figure as PNG, whole or not at all, and with nothing in it that changes from run to run."""
    from tracekit.files import writing

    with writing(path, force=force) as out:
        figure.savefig(out, format="png", dpi=120, metadata={"Software": None})


def _figure(rows: int, height: float, *, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, row by row, without touching the global state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _scale(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads best."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * unit:
            return unit, name
    return 1.0, "seconds"


# ---- schedules -------------------------------------------------------------------------------------------------------


def lanes(start: Floats, end: Floats, procs: NDArray[np.int64], total: int) -> list[list[tuple[int, int]]]:
    """Give every job processors of its own, lowest first, as runs (first, count) of neighbours; for drawing only."""
    order = np.lexsort((np.arange(len(start)), start))
    free_at = np.full(total, -np.inf)
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(start))]
    for job in order:
        rows = np.flatnonzero(free_at <= start[job])[: procs[job]]
        free_at[rows] = max(end[job], start[job])
        breaks = np.flatnonzero(np.diff(rows) > 1) + 1
        found[job] = [(int(part[0]), len(part)) for part in np.split(rows, breaks) if len(part)]
    return found


def gantt(result: SimResult, *, first: int = 0, jobs: int = 1000) -> Figure:
    """Draw who ran where and when; colour tells how long each had waited.

    ``jobs`` jobs are shown, from the ``first`` on in submit order; jobs before that are drawn in grey where they reach
    into the picture. Processors are numbered only for the drawing: the simulator counts them.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    figure, (axis,) = _figure(1, 5)
    last = min(first + jobs, len(result))
    shown = slice(first, last)
    if first >= last:
        axis.text(0.5, 0.5, "no jobs", ha="center", transform=axis.transAxes)
        return figure
    origin = float(result.submit[first])
    begin, end = float(result.start[shown].min()), float(result.end[shown].max())
    unit, name = _scale(end - begin)
    near = np.flatnonzero((result.end > begin) & (result.start < end))
    size = np.maximum(np.ceil(result.procs[near]).astype(np.int64), 1)
    places = lanes(result.start[near], result.end[near], size, result.total)

    boxes: dict[bool, list[Any]] = {True: [], False: []}
    waits = []
    for job, runs in zip(near, places, strict=True):
        inside = bool(first <= job < last)
        left, right = (result.start[job] - origin) / unit, (result.end[job] - origin) / unit
        for low, count in runs:
            boxes[inside].append([(left, low), (right, low), (right, low + count), (left, low + count)])
            if inside:
                waits.append(max(result.wait[job], 1.0))
    axis.add_collection(PolyCollection(boxes[False], facecolors="#e4e4e4", edgecolors="none"))
    top = max(max(waits, default=1.0), 10.0)
    drawn = PolyCollection(boxes[True], cmap="viridis", norm=LogNorm(1, top), linewidths=0.25, edgecolors="white")
    drawn.set_array(np.array(waits))
    axis.add_collection(drawn)
    figure.colorbar(drawn, ax=axis, label="wait [s], 1 or less is darkest", pad=0.01)
    axis.set(
        xlim=((begin - origin) / unit, (end - origin) / unit),
        ylim=(0, result.total),
        ylabel=result.switches["resource"],
        xlabel=f"{name} since the first submit shown",
    )
    part = "" if last - first == len(result) else f", jobs {first:,} to {last - 1:,} of {len(result):,} (others grey)"
    axis.set_title(f"{result.policy}, backfilling {result.backfill}{part}", loc="left")
    return figure


def binned(times: Floats, level: Floats, edges: Floats) -> Floats:
    """Return the time-average of a step function over each bin: ``level[i]`` holds from ``times[i]`` on, 0 before."""
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    at_edges = np.interp(edges, times, area)
    return np.diff(at_edges) / np.diff(edges)


def utilization(result: SimResult, *, bins: int = 500) -> Figure:
    """Draw processors in use above and jobs waiting below, averaged over ``bins`` equal stretches of time."""
    from tracekit.sim.metrics import steps

    figure, (busy, queue) = _figure(2, 5, sharex=True, height_ratios=[3, 2])
    if not len(result) or result.end.max() <= result.submit.min():
        busy.text(
            0.5, 0.5, "no jobs" if not len(result) else "nothing takes any time", ha="center", transform=busy.transAxes
        )
        return figure
    origin, last = float(result.submit.min()), float(result.end.max())
    unit, name = _scale(last - origin)
    edges = np.linspace(origin, last, bins + 1)
    used = binned(*steps(result.start, result.end, result.procs), edges)
    waiting = binned(*steps(result.submit, result.start), edges)
    x = (edges - origin) / unit
    busy.stairs(used, x, fill=True, color=_BLUE, alpha=0.85)
    busy.axhline(result.total, color=_GREY, linewidth=1)
    mean = float((result.run * result.procs).sum() / (result.total * (last - origin)))
    busy.set(ylabel=f"{result.switches['resource']} in use", ylim=(0, result.total * 1.05), xlim=(x[0], x[-1]))
    busy.set_title(f"{result.policy}, backfilling {result.backfill}: {mean:.1%} of {result.total:,} in use", loc="left")
    queue.stairs(waiting, x, fill=True, color=_ORANGE, alpha=0.85)
    queue.set(
        ylabel="jobs waiting", xlabel=f"{name} since the first submit", ylim=(0, max(float(waiting.max()) * 1.05, 1))
    )
    return figure


# ---- traces ----------------------------------------------------------------------------------------------------------

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
    figure, axes = _figure(1, 3.2, columns=len(known))
    for axis, (label, values) in zip(axes, known.items(), strict=True):
        x = np.sort(np.maximum(values[np.isfinite(values)], 1.0))
        axis.step(x, np.arange(1, len(x) + 1) / len(x), where="post", color=_BLUE)
        axis.set(xscale="log", xlabel=label, ylim=(0, 1.01), xlim=(1, max(x[-1], 10)))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of jobs at or below")
    return figure


def arrivals(trace: Trace) -> Figure:
    """Draw when jobs are submitted: by hour of day and by day of week on the machine's clock."""
    from tracekit.stats import hour_of_week

    week = hour_of_week(trace)
    figure, (hours, days) = _figure(1, 3.2, columns=2, width_ratios=[3, 1])
    weekend = week >= 5 * 24
    both = [np.bincount(week[part] % 24, minlength=24) for part in (~weekend, weekend)]
    hours.bar(np.arange(24), both[0], color=_BLUE, label="Monday to Friday")
    hours.bar(np.arange(24), both[1], bottom=both[0], color=_ORANGE, label="weekend")
    hours.set(xlabel="hour of day", ylabel="jobs submitted", xticks=range(0, 24, 3), xlim=(-0.6, 23.6))
    hours.legend(frameon=False)
    names = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
    days.bar(names, np.bincount(week // 24, minlength=7), color=[_BLUE] * 5 + [_ORANGE] * 2)
    days.set(xlabel="day of week")
    return figure
