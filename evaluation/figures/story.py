"""Two pictures for a newcomer: when jobs come, and whether a synthetic trace is like the real one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evaluation.figures.base import INK, Drawing, Scene, blank, legend
from evaluation.figures.columns import draw_cdf
from evaluation.figures.time import draw_autocorrelation, series_names
from evaluation.view import DAY
from tracekit.plots.style import NothingToDraw, time_unit

_BARS = 90  # at most, of submits over time


def submits(scene: Scene) -> Drawing:
    """Draw how many jobs of the real trace were submitted, over time."""
    times = scene.real.submit - scene.real.submit[0]
    span = float(times[-1])
    if not span > 0:
        raise NothingToDraw("all jobs were submitted at once")
    width = DAY * max(1.0, np.ceil(span / DAY / _BARS)) if span > 5 * DAY else span / 60
    edges = np.arange(0.0, span + width, width)
    counts, _ = np.histogram(times, edges)
    unit, name = time_unit(span)
    figure, (axis,) = blank(6.4, 3.3)
    axis.stairs(counts, edges / unit, fill=True, color=INK, alpha=0.75)
    axis.set(xlabel=f"{name} since the first submit", xlim=(0, span / unit), ylim=(0, None))
    every = "day" if width == DAY else f"{width / DAY:g} days" if width > DAY else f"{width / 60:,.0f} minutes"
    axis.set_ylabel(f"jobs submitted per {every}")
    data = pd.DataFrame({"from_s": edges[:-1], "to_s": edges[1:], "jobs": counts})
    return Drawing(
        figure, data, f"Jobs submitted over time: {len(times):,} in all, at most {counts.max():,} per {every}."
    )


def likeness(scene: Scene) -> Drawing:
    """Draw the run times of the real and the synthetic trace, and how much a job is like the ones before it."""
    figure, axes = blank(7.6, 3.3, columns=2)
    data = draw_cdf(axes[0], scene, "run_time")
    axes[0].set_title("run times: share of jobs that are shorter", color=INK, fontsize="medium")
    names = series_names(scene)
    if "run_time" in names:
        found = draw_autocorrelation(axes[1], scene, "run_time")
        axes[1].set_title("run times: likeness to earlier jobs", color=INK, fontsize="medium")
        data = pd.concat([data, found], ignore_index=True)
    else:
        axes[1].set_axis_off()
    legend(axes[0], loc="best")
    others = ", ".join(scene.others)
    return Drawing(figure, data, f"Run times of the real trace and of {others}: distribution, and autocorrelation.")
