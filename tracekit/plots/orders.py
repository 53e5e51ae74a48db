"""Pictures of orders of a queue: the schedule before and after a search, the search itself, many windows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.intervals import interval
from tracekit.lanes import lanes
from tracekit.plots.hosts import MOST_HOSTS, held_by, host_boxes
from tracekit.plots.style import BLUE, GREY, HEAT, ORANGE, PALE, Floats, headline, light_grid, new_figure, time_unit
from tracekit.sim.analysis.order_study import HEURISTIC, NETWORK, Study
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.orders.problem import QueueProblem
from tracekit.sim.orders.solve import Solution, relative_change

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ints = NDArray[np.int64]
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
    for axis, order, wait, title in zip(axes, (solution.init_order, solution.order), waits, titles, strict=False):
        drawn = _gantt(axis, solution, order, wait, top, unit)
        axis.set(title=title, xlim=(0, end / unit), xlabel=f"{name} from now")
    figure.colorbar(drawn, ax=axes[1], label="wait [s]", pad=0.02)
    _curve(axes[2], solution)
    what = _LABELS.get(problem.objective, problem.objective)
    change = f", {relative_change(solution):+.1%} against {solution.init}" if solution.init_value else ""
    remark = "the search saw " + ("actual run times" if solution.estimates == "actual" else "requested run times only")
    headline(figure, f"mean {what} {solution.value:,.4g}{change}", len(problem), remark)
    return figure


def _gantt(axis: Any, solution: Solution, order: Ints, wait: Floats, top: float, unit: float) -> Any:
    """Draw one schedule, by hosts or by processors; running jobs are pale."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    problem, waiting = solution.problem, len(solution.problem)
    start = problem.starts(order)
    begin = np.concatenate([start, np.zeros(len(problem.held))])
    end = np.concatenate([start + problem.run, problem.ends])
    placed = problem.places(order)
    draw = _on_processors(axis, problem, begin, end) if placed is None else _on_hosts(axis, placed, begin, end)
    boxes: dict[bool, list[Any]] = {True: [], False: []}
    waits: list[float] = []
    for job, low, high in draw:
        left, right = begin[job] / unit, end[job] / unit
        boxes[job < waiting].append([(left, low), (right, low), (right, high), (left, high)])
        waits += [max(float(wait[job]), 1.0)] if job < waiting else []
    axis.add_collection(PolyCollection(boxes[False], facecolors=PALE, linewidths=0.25, edgecolors="white"))
    drawn = PolyCollection(boxes[True], cmap=HEAT, norm=LogNorm(1, top), linewidths=0.25, edgecolors="white")
    drawn.set_array(np.array(waits))
    axis.add_collection(drawn)
    return drawn


#: (job, from, to) on the vertical axis.
Boxes = list[tuple[int, float, float]]


def _on_processors(axis: Any, problem: QueueProblem, begin: Floats, end: Floats) -> Boxes:
    """Return where jobs are drawn on processors, which are numbered only for the drawing."""
    size, units = np.concatenate([problem.size, problem.held]), problem.scale
    places = lanes(begin, end, np.maximum(size // units, 1), max(problem.total // units, 1))
    axis.set(ylim=(0, problem.total / units), ylabel="processors")
    return [(job, low, low + count) for job, runs in enumerate(places) for low, count in runs]


def _on_hosts(axis: Any, placed: Placements, begin: Floats, end: Floats) -> Boxes:
    """Return where jobs are drawn on the hosts that are used, the first `MOST_HOSTS` of them; a row for each host."""
    use = held_by(placed, len(begin))
    used = np.unique(use.host)
    shown = used[:MOST_HOSTS]
    found: Boxes = []
    for row, host in enumerate(shown.tolist()):
        for low, high, job in host_boxes(use, begin, end, np.flatnonzero(use.host == host)):
            found.append((job, row + 0.06 + 0.88 * low, row + 0.06 + 0.88 * high))
        axis.axhline(row, color=PALE, linewidth=0.5, zorder=0)
    axis.set_yticks(np.arange(len(shown)) + 0.5, [placed.names[host] for host in shown], fontsize=7)
    axis.tick_params(axis="y", length=0)
    more = f", the first {len(shown)} of {len(used):,} in use" if len(used) > len(shown) else ""
    axis.set(ylim=(len(shown), 0), ylabel=f"hosts{more}")
    return found


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


def study_figure(study: Study, trace: str) -> Figure:
    """Draw, for each kind of run times, box plots over windows, and the gap over the evaluations with its interval."""
    kinds = list(study.arms)
    figure, axes = new_figure(len(kinds), 4.0 * len(kinds), columns=2, width=12)
    for row, seen in enumerate(kinds):
        boxes, curves = axes[2 * row], axes[2 * row + 1]
        _boxes(boxes, study, seen)
        _gaps(curves, study, seen)
    most = max(study.plan.evaluations)
    first, after = (study.arm(kinds[0], HEURISTIC, count).value.mean() for count in (0, most))
    words = f"{trace}: mean {study.plan.task.objective} {first:,.4g} by heuristics, {after:,.4g} by search"
    headline(figure, words, study.plan.jobs * len(study.windows), f"{len(study.windows)} windows; {kinds[0]} run times")
    return figure


def _boxes(axis: Any, study: Study, seen: str) -> None:
    """Draw values over windows: heuristics, network, and searches with most evaluations."""
    most, goal = max(study.plan.evaluations), study.plan.task.objective
    shown = [arm for arm in study.arms[seen] if arm.evaluations == 0 and arm.start != HEURISTIC]
    alone = [arm for arm in study.arms[seen] if arm.start == NETWORK][:1]
    searched = [study.arm(seen, HEURISTIC, most), study.arm(seen, NETWORK, most)]
    names = [*(arm.start for arm in shown), NETWORK, f"search\n{most:,}", f"network\n+ {most:,}"]
    values = [np.maximum(arm.value, 1.0) for arm in (*shown, *alone, *searched)]
    axis.boxplot(values, tick_labels=names, showmeans=True)
    axis.set(yscale="log", ylabel=f"mean {_LABELS.get(goal, goal)}, {seen} run times")
    axis.tick_params(axis="x", labelsize=8)
    light_grid(axis)


def _gaps(axis: Any, study: Study, seen: str) -> None:
    """Draw the gap to the lowest cost known over the evaluations; the heuristic alone stands at one evaluation."""
    for start, colour in ((HEURISTIC, ORANGE), (NETWORK, BLUE)):
        arms = [arm for arm in study.arms[seen] if arm.start == start]
        count = [max(arm.evaluations, 1) for arm in arms]
        gaps = [100 * study.gap(seen, arm) for arm in arms]
        ends = np.array([interval(gap) for gap in gaps])
        axis.plot(count, [gap.mean() for gap in gaps], "o-", color=colour, label=f"from the {start}", markersize=3)
        axis.fill_between(count, ends[:, 0], ends[:, 1], color=colour, alpha=0.2, linewidth=0)
    axis.set(xscale="log", xlabel="evaluations", ylabel="gap to the best known [%]", ylim=(0, None))
    axis.legend(frameon=False, fontsize=9)
    light_grid(axis)
