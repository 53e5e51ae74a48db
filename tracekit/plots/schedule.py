"""Pictures of one schedule, simulated or recorded: Gantt charts, and how full the machine was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.lanes import lanes
from tracekit.plots.style import BLUE, GREY, HEAT, ORANGE, PALE, new_figure, time_unit, top_of
from tracekit.stats import binned, steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.recorded import Recorded
    from tracekit.sim.simulate import SimResult


def _how(result: SimResult | Recorded) -> str:
    """Return the policy and backfilling of the schedule as text."""
    return f"{result.policy}, backfilling {result.backfill}" if result.backfill else result.policy


def gantt(result: SimResult | Recorded, *, first: int = 0, jobs: int = 1000) -> Figure:
    """Draw a Gantt chart; the colour is the wait of each job.

    ``jobs`` jobs are shown, from the ``first`` on in submit order; jobs before that are drawn in grey where they reach
    into the picture. Processors are numbered only for the drawing: the simulator counts them.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    figure, (axis,) = new_figure(1, 5)
    last = min(first + jobs, len(result))
    shown = slice(first, last)
    if first >= last:
        axis.text(0.5, 0.5, "no jobs", ha="center", transform=axis.transAxes)
        return figure
    origin = float(result.submit[first])
    begin, end = float(result.start[shown].min()), float(result.end[shown].max())
    unit, name = time_unit(end - begin)
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
    axis.add_collection(PolyCollection(boxes[False], facecolors=PALE, edgecolors="none"))
    top = max(max(waits, default=1.0), 10.0)
    drawn = PolyCollection(boxes[True], cmap=HEAT, norm=LogNorm(1, top), linewidths=0.25, edgecolors="white")
    drawn.set_array(np.array(waits))
    axis.add_collection(drawn)
    figure.colorbar(drawn, ax=axis, label="wait [s], 1 or less is darkest", pad=0.01)
    axis.set(
        xlim=((begin - origin) / unit, (end - origin) / unit),
        ylim=(0, top_of(max(low + count for runs in places for low, count in runs), result.total)),
        ylabel=result.switches["resource"],
        xlabel=f"{name} since the first submit shown",
    )
    part = "" if last - first == len(result) else f", jobs {first:,} to {last - 1:,} of {len(result):,} (others grey)"
    axis.set_title(f"{_how(result)}{part}", loc="left")
    return figure


def utilization(result: SimResult | Recorded, *, bins: int = 500) -> Figure:
    """Draw processors in use above and jobs waiting below, averaged over ``bins`` equal stretches of time."""
    figure, (busy, queue) = new_figure(2, 5, sharex=True, height_ratios=[3, 2])
    if not len(result) or result.end.max() <= result.submit.min():
        busy.text(
            0.5, 0.5, "no jobs" if not len(result) else "nothing takes any time", ha="center", transform=busy.transAxes
        )
        return figure
    origin, last = float(result.submit.min()), float(result.end.max())
    unit, name = time_unit(last - origin)
    edges = np.linspace(origin, last, bins + 1)
    used = binned(*steps(result.start, result.end, result.procs), edges)
    waiting = binned(*steps(result.submit, result.start), edges)
    x = (edges - origin) / unit
    busy.stairs(used, x, fill=True, color=BLUE, alpha=0.85)
    busy.axhline(result.total, color=GREY, linewidth=1)
    mean = float((result.run * result.procs).sum() / (result.total * (last - origin)))
    busy.set(ylabel=f"{result.switches['resource']} in use", ylim=(0, result.total * 1.05), xlim=(x[0], x[-1]))
    busy.set_title(f"{_how(result)}: {mean:.1%} of {result.total:,} in use", loc="left")
    queue.stairs(waiting, x, fill=True, color=ORANGE, alpha=0.85)
    queue.set(
        ylabel="jobs waiting", xlabel=f"{name} since the first submit", ylim=(0, max(float(waiting.max()) * 1.05, 1))
    )
    return figure
