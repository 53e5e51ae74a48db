"""Pictures of orders of a queue: the schedule before and after a search, the search itself, many windows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.plots.schedule import lanes
from tracekit.plots.style import BLUE, GREY, HEAT, ORANGE, Floats, headline, light_grid, new_figure, time_unit
from tracekit.sim.orders.solve import Solution, relative_change

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = {"wait": "wait", "bsld": "bounded slowdown", "response": "response time", "slowdown": "slowdown"}


def before_and_after(solution: Solution) -> Figure:
    """Draw the schedules of the first and of the found order, and the best value over the evaluations."""
    problem = solution.problem
    figure, axes = new_figure(1, 4.6, columns=3, width=13)
    starts = [problem.starts(order) for order in (solution.init_order, solution.order)]
    end = max(float((start + problem.run).max()) for start in starts)
    unit, name = time_unit(end)
    waits = [start + problem.age for start in starts]
    top = max(float(np.max(waits)), 10.0)
    titles = (f"{solution.init}: {solution.init_value:,.4g}", f"{solution.solver}: {solution.value:,.4g}")
    for axis, start, wait, title in zip(axes, starts, waits, titles, strict=False):
        drawn = _gantt(axis, solution, start, wait, top, unit)
        axis.set(title=title, xlim=(0, end / unit), ylim=(0, problem.total / problem.scale), xlabel=f"{name} from now")
    axes[0].set_ylabel("processors")
    figure.colorbar(drawn, ax=axes[1], label="wait [s]", pad=0.02)
    _curve(axes[2], solution)
    what = _LABELS.get(problem.objective, problem.objective)
    change = f", {relative_change(solution):+.1%} against {solution.init}" if solution.init_value else ""
    remark = "the search saw " + ("actual run times" if solution.estimates == "actual" else "requested run times only")
    headline(figure, f"mean {what} {solution.value:,.4g}{change}", len(problem), remark)
    return figure


def _gantt(axis: Any, solution: Solution, start: Floats, wait: Floats, top: float, unit: float) -> Any:
    """Draw one schedule; running jobs are grey."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    problem, running = solution.problem, len(solution.problem.held)
    begin = np.concatenate([np.zeros(running), start])
    end = np.concatenate([problem.ends, start + problem.run])
    size = np.concatenate([problem.held, problem.size])
    units = problem.scale
    places = lanes(begin, end, np.maximum(size // units, 1), max(problem.total // units, 1))
    boxes: list[Any] = []
    colours: list[float] = []
    for job, runs in enumerate(places):
        left, right = begin[job] / unit, end[job] / unit
        for low, count in runs:
            boxes.append([(left, low), (right, low), (right, low + count), (left, low + count)])
            colours.append(max(float(wait[job - running]), 1.0) if job >= running else np.nan)
    drawn = PolyCollection(boxes, cmap=HEAT, norm=LogNorm(1, top), linewidths=0.25, edgecolors="white")
    drawn.set_array(np.ma.masked_invalid(colours))
    drawn.cmap.set_bad(GREY)
    axis.add_collection(drawn)
    return drawn


def _curve(axis: Any, solution: Solution) -> None:
    """Draw the best value found over the evaluations, as the search saw it."""
    count, cost = solution.curve[:, 0], solution.curve[:, 1]
    last = max(float(solution.evaluations), float(count[-1]) + 1)
    axis.step(np.append(count, last), np.append(cost, cost[-1]), where="post", color=BLUE)
    if solution.estimates == "actual" and solution.lower_bound > 0.5 * float(cost[-1]):
        axis.axhline(solution.lower_bound, color=ORANGE, linewidth=1, linestyle="--", label="lower bound")
        axis.legend(frameon=False, fontsize=9)
    axis.set(xscale="log", xlabel="evaluations", title="best value so far")
    light_grid(axis)


def over_windows(solutions: Sequence[Solution]) -> Figure:
    """Draw box plots over windows: the first orders, the found ones, and the change of each window."""
    figure, axes = new_figure(1, 4.2, columns=2)
    before = np.array([solution.init_value for solution in solutions])
    after = np.array([solution.value for solution in solutions])
    axes[0].boxplot([before, after], tick_labels=["first order", solutions[0].solver], showmeans=True)
    what = solutions[0].problem.objective
    axes[0].set(ylabel=f"mean {_LABELS.get(what, what)} of a window")
    change = 100 * (after - before) / np.where(before == 0, np.nan, np.abs(before))
    axes[1].boxplot([change[np.isfinite(change)]], tick_labels=["change"], showmeans=True)
    axes[1].axhline(0, color=GREY, linewidth=0.8)
    axes[1].set(ylabel="change of a window [%]")
    for axis in axes:
        light_grid(axis)
    saw = "actual run times" if solutions[0].estimates == "actual" else "requested run times only"
    words = f"{solutions[0].solver}: {after.mean():,.4g} on average, first orders {before.mean():,.4g}"
    headline(
        figure,
        words,
        sum(len(solution.problem) for solution in solutions),
        f"{len(solutions)} windows; the search saw {saw}",
    )
    return figure
