"""The schedule that a trace recorded: how full the machine was, a Gantt chart, and how load and waits are related."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.plots.schedule import gantt
from tracekit.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    Floats,
    NothingToDraw,
    headline,
    heatmap,
    light_grid,
    new_figure,
    time_unit,
    top_of,
)
from tracekit.recorded import NothingRan, Recorded
from tracekit.sim.metrics import bounded_slowdown
from tracekit.stats import binned, steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace


def recorded(trace: Trace) -> Recorded:
    """Return the schedule that the trace recorded; where it holds none there is nothing to draw."""
    try:
        return Recorded.of(trace)
    except NothingRan as reason:
        raise NothingToDraw(str(reason)) from None


@dataclass(frozen=True)
class Use:
    """How much of the machine was in use and how many jobs waited, (bins,) each."""

    edges: Floats  # of the bins, in seconds, (bins + 1,)
    used: Floats  # share of the machine
    waiting: Floats | None  # None = waits unknown
    jobs: int
    total: int
    unit: str
    size_known: bool
    remark: str


#: Bins of time in the picture of usage, and the share of jobs that have ended where it ends.
BINS, MOST_ENDS = 500, 0.9999


def use_edges(first: float, last: float, bins: int = BINS) -> Floats:
    """Return the edges of the bins between the first submit and the last end."""
    if last <= first:
        raise NothingToDraw("all jobs were submitted and ended at one instant")
    return np.linspace(first, last, bins + 1)


def usage(trace: Trace, *, bins: int = BINS) -> Figure:
    """Draw the share of the machine in use above and the jobs waiting below, over the whole trace."""
    seen = recorded(trace)
    edges = use_edges(float(seen.submit.min()), float(np.quantile(seen.end, MOST_ENDS)), bins)
    used = binned(*steps(seen.start, seen.end, seen.procs), edges) / seen.total
    waiting = binned(*steps(seen.submit, seen.start), edges) if seen.waits_known else None
    return draw_usage(Use(edges, used, waiting, len(seen), seen.total, seen.unit, seen.size_known, seen.remark()))


def draw_usage(seen: Use) -> Figure:
    """Draw what `usage` draws."""
    edges, used = seen.edges, seen.used
    unit, name = time_unit(float(edges[-1] - edges[0]))
    x = (edges - edges[0]) / unit
    panels = 1 if seen.waiting is None else 2
    figure, axes = new_figure(panels, 2.2 + 1.6 * panels, sharex=True, height_ratios=[3, 2][:panels])
    axes[0].stairs(used, x, fill=True, color=BLUE)
    axes[0].axhline(1, color=GREY, linewidth=1)
    axes[0].set(ylabel=f"share of {seen.total:,} {seen.unit} in use", ylim=(0, top_of(float(used.max()), 1.0) * 1.05))
    mean = float(used.mean())
    text = (
        f"{mean:.{0 if mean >= 0.01 else 2}%} of the machine in use"
        if seen.size_known
        else f"Mean use is {mean:.0%} of the peak"
    )
    if seen.waiting is not None:
        waiting = seen.waiting
        axes[1].stairs(waiting, x, fill=True, color=ORANGE)
        axes[1].set(ylabel="jobs waiting", ylim=(0, max(float(waiting.max()) * 1.05, 1)))
        text += f", {waiting.mean():,.1f} jobs waiting on average, {waiting.max():,.0f} at worst"
    axes[-1].set(xlabel=f"{name} since the first submit", xlim=(x[0], x[-1]))
    for axis in axes:
        light_grid(axis)
    headline(figure, text, seen.jobs, seen.remark)
    return figure


def recorded_gantt(trace: Trace, *, first: int | None = None, jobs: int = 400) -> Figure:
    """Draw a Gantt chart of part of the trace: ``jobs`` jobs from the ``first`` on (default: the middle).

    Processors are numbered only for the drawing: a trace rarely says which ones a job had.
    """
    seen = recorded(trace)
    if not seen.waits_known:
        raise NothingToDraw("waits, and so start times, are unknown; simulate --out draws a schedule")
    first = max((len(seen) - jobs) // 2, 0) if first is None else first
    if first >= len(seen):
        raise NothingToDraw(f"the window starts at job {first:,}, but only {len(seen):,} jobs ran")
    shown = seen.wait[first : first + jobs]
    part, place, count = _stretch(seen, first, jobs)
    figure = gantt(part, first=place, jobs=count)
    at_once = float((shown < 60).mean())
    figure.axes[0].set_title("", loc="left")
    headline(
        figure,
        f"Each box is a job: width is run time, height is size; {at_once:.0%} of these started within a minute",
        len(shown),
        f"from job {first:,} of {len(seen):,} on, others grey; places are made up for the drawing",
    )
    return figure


def _stretch(seen: Recorded, first: int, jobs: int) -> tuple[Recorded, int, int]:
    """Cut the schedule down to some jobs and those beside them; return it with their new positions and number.

    The stretch ends where 19 of 20 of the jobs have ended: one that waited for months would squeeze the rest.
    """
    inside = np.zeros(len(seen), dtype=bool)
    inside[first : first + jobs] = True
    begin, end = seen.start[inside].min(), np.quantile(seen.end[inside], 0.95)
    inside &= seen.start < end
    keep = inside | ((seen.end > begin) & (seen.start < end))
    cut = replace(
        seen, submit=seen.submit[keep], wait=seen.wait[keep], run=np.minimum(seen.end, end)[keep] - seen.start[keep],
        procs=seen.procs[keep],
    )  # fmt: skip
    return cut, int(keep[:first].sum()), int(inside.sum())


def load_experienced(seen: Recorded) -> Floats:
    """Return for each job the mean share of the machine in use while it was in the system, submit to end."""
    times, level = steps(seen.start, seen.end, seen.procs)
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    inside = np.interp(seen.end, times, area) - np.interp(seen.submit, times, area)
    return np.asarray(inside / np.maximum(seen.end - seen.submit, 1e-9) / seen.total)


def load_and_slowdown(trace: Trace) -> Figure:
    """Draw, as a heatmap of jobs, the load each one met against the bounded slowdown it had.

    After Krakov & Feitelson, "High-resolution analysis of parallel job workloads", JSSPP 2012.
    """
    seen = recorded(trace)
    if not seen.waits_known:
        raise NothingToDraw("waits, and so slowdowns, are unknown")
    load = np.clip(load_experienced(seen), 0, 1.2)
    slow = bounded_slowdown(seen.wait, seen.run)
    across = np.linspace(0, top_of(float(load.max()), 1.0), 41)
    upwards = np.geomspace(1, max(float(slow.max()) * 1.01, 10), 41)
    cells, _, _ = np.histogram2d(load, slow, bins=(across, upwards))
    figure, (axis,) = new_figure(1, 5, width=8.5)
    heatmap(figure, axis, across, upwards, cells)
    middle, means = _means_by(load, slow, across)
    axis.plot(middle, means, color="white", linewidth=3)
    axis.plot(middle, means, color=ORANGE, linewidth=1.8, label="mean at that load (10 jobs or more)")
    axis.legend(loc="upper left", fontsize=8, framealpha=0.9)
    axis.set(yscale="log", xlabel="share of the machine in use while the job waited and ran",
             ylabel="bounded slowdown (bound 10 s)", xlim=(0, across[-1]))  # fmt: skip
    busy = load >= 0.8
    parts = [
        f"{slow[part].mean():,.1f} {name}" for part, name in ((~busy, "below"), (busy, "above")) if part.sum() >= 10
    ]
    text = f"Mean bounded slowdown {' and '.join(parts)} 80% load" if parts else "Load and slowdown, job by job"
    headline(figure, text, len(seen), seen.remark())
    return figure


def _means_by(x: Floats, y: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the bins' centres and the mean of y in each; bins with fewer than 10 jobs are left out."""
    place: NDArray[np.intp] = np.clip(np.digitize(x, edges) - 1, 0, len(edges) - 2)
    count = np.bincount(place, minlength=len(edges) - 1)
    total = np.bincount(place, weights=y, minlength=len(edges) - 1)
    keep = count >= 10
    return ((edges[:-1] + edges[1:]) / 2)[keep], total[keep] / count[keep]
