"""Pictures of the jobs themselves: distributions of run, size, wait and inter-arrival, and run against size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit.large.spreads import Spread
from tracekit.plots.style import (
    BLUE,
    ORANGE,
    POINTS,
    Floats,
    NothingToDraw,
    duration,
    headline,
    heatmap,
    light_grid,
    new_figure,
    seconds_axis,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.machine import Machine
    from tracekit.trace import Trace

#: What `cdfs` draws, in this order: name of the quantity, and whether it is a time in seconds.
QUANTITIES = {"run time": True, "limit asked for": True, "wait": True, "size": False, "gap between submits": True}


def quantities(trace: Trace) -> dict[str, Floats]:
    """Return what the trace knows of `cdfs`' quantities: known values only, seconds or units of the machine."""
    found = {
        "run time": trace.column("run_time"),
        "limit asked for": trace.column("req_time"),
        "wait": trace.column("wait_time"),
        "size": trace.sizes(),
        "gap between submits": trace.interarrival(),
    }
    return {name: values[np.isfinite(values)] for name, values in found.items() if np.isfinite(values).any()}


def cdfs(trace: Trace) -> Figure:
    """Draw the cumulative distributions of what the trace knows: run, limit and wait, size, inter-arrival.

    Axes are logarithmic. Times below a second are drawn at one, sizes from the smallest on. A dot marks the median.
    """
    known = {name: Spread.of(values) for name, values in quantities(trace).items()}
    return draw_cdfs(known, trace.machine, len(trace))


def draw_cdfs(known: dict[str, Spread], machine: Machine, jobs: int) -> Figure:
    """Draw what `cdfs` draws."""
    if not known:
        raise NothingToDraw("no time and no size is known")
    figure, axes = new_figure(1, 3.6, columns=len(known), width=2.6 * max(len(known), 4), sharey=True)
    for axis, (name, values) in zip(axes, known.items(), strict=True):
        least = 1.0 if QUANTITIES[name] else _smallest(values)
        x, shares = values.points(POINTS)
        x = np.maximum(x, least)
        axis.step(x, shares, where="post", color=BLUE, linewidth=1.6)
        median = float(values.quantiles([0.5])[0])
        axis.plot(max(median, least), 0.5, "o", color=ORANGE, markersize=5, zorder=3)
        text = duration(median) if QUANTITIES[name] else f"{median:,.3g} {machine.unit}"
        axis.annotate(f" median {text}", (max(median, least), 0.5), (4, -10), textcoords="offset points", fontsize=8)
        if QUANTITIES[name]:
            seconds_axis(axis, "x", 1.0, float(x[-1]))
            axis.tick_params(axis="x", labelsize=8, rotation=45)
        else:
            axis.set(xscale="log", xlim=(0.9 * least, max(x[-1] * 1.1, 10)), xlabel=machine.unit)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        axis.set_title(name, fontsize=10, loc="left")
        axis.set_ylim(0, 1.02)
        light_grid(axis)
    axes[0].set_ylabel("share of jobs at or below")
    headline(figure, _in_words(known, machine), jobs, f"{machine.name or machine.source}")
    return figure


def _smallest(sizes: Spread) -> float:
    """Return where an axis of sizes begins: at 1, or at the smallest share of a GPU that is asked for."""
    return float(min([1.0, *(values[values > 0].min(initial=1.0) for values, _ in sizes.blocks())]))


def _in_words(known: dict[str, Spread], machine: Machine) -> str:
    """Return the two main facts of the distributions as text."""
    parts = []
    if "run time" in known:
        half, most = known["run time"].quantiles([0.5, 0.9])
        parts.append(f"Half of the jobs run {duration(half)} or less, a tenth longer than {duration(most)}")
    if "size" in known:
        sizes = known["size"]
        one = sum(int(counts[values <= 1].sum()) for values, counts in sizes.blocks()) / len(sizes)
        unit = {"procs": "processor", "nodes": "node", "gpus": "GPU"}[machine.unit]
        shared = " or less" if any((values % 1 != 0).any() for values, _ in sizes.blocks()) else ""
        parts.append(f"{one:.0%} take one {unit}{shared}" if one >= 0.005 else f"hardly any takes a single {unit}")
    return "; ".join(parts) or "How the jobs are distributed"


def run_against_size(trace: Trace) -> Figure:
    """Draw how long jobs of each size run: cells are numbers of jobs, the line is the median run of each size."""
    size, run = trace.sizes(), trace.column("run_time")
    keep = (size > 0) & (run > 0)
    if not keep.any():
        raise NothingToDraw("no job has both a size and a run time above zero")
    size, run = size[keep], np.maximum(run[keep], 1.0)
    across = _edges(size.min(), max(size.max(), 2 * size.min()), 2.0 ** np.arange(-8.5, 25))
    upwards = np.geomspace(1.0, max(run.max() * 1.01, 10.0), 41)
    cells, _, _ = np.histogram2d(size, run, bins=(across, upwards))
    figure, (axis,) = new_figure(1, 5, width=8.5)
    heatmap(figure, axis, across, upwards, cells)
    place = np.digitize(size, across) - 1
    medians = [(b, float(np.median(run[place == b]))) for b in np.unique(place) if (place == b).sum() >= 10]
    if medians:
        centres = np.sqrt(across[:-1] * across[1:])
        x, y = [centres[b] for b, _ in medians], [value for _, value in medians]
        axis.plot(
            x, y, "o-", color="white", markeredgecolor=ORANGE, markerfacecolor=ORANGE, linewidth=2.5, markersize=6
        )
        axis.plot(x, y, color=ORANGE, linewidth=1.2, label="median of each size (10 jobs or more)")
        axis.legend(loc="lower right", fontsize=8, framealpha=0.9)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.set(xlabel=f"size [{trace.machine.unit}]", ylabel="run time")
    seconds_axis(axis, "y", 1.0, float(upwards[-1]))
    rank = _rank_correlation(size, run)
    word = (
        "Larger jobs run longer"
        if rank > 0.2
        else "Larger jobs run shorter"
        if rank < -0.2
        else "Size says little of run"
    )
    headline(figure, f"{word} (rank correlation {rank:+.2f})", int(keep.sum()), "sizes in steps of a factor 2")
    return figure


def _edges(low: float, high: float, candidates: Floats) -> Floats:
    """Return the candidates that just cover ``[low, high]``."""
    first = max(int(np.searchsorted(candidates, low, "right")) - 1, 0)
    last = min(int(np.searchsorted(candidates, high, "right")), len(candidates) - 1)
    return candidates[first : last + 1]


def _rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 where one side never varies."""
    from scipy.stats import rankdata

    a, b = rankdata(x), rankdata(y)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
