"""One column of the jobs by itself: cumulative distributions over each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation.figures.base import NAMES, Drawing, Scene, blank, label, legend, tidy
from evaluation.marginal import ks
from evaluation.view import NUMBERS, TIMES, Floats, View
from tracekit.plots.style import NothingToDraw, seconds_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 240  # of a curve; steps between quantiles this close cannot be seen


def column_names(scene: Scene) -> list[str]:
    """Return the columns of numbers that vary in the real trace, and the gaps between submits."""
    return [name for name in NUMBERS if scene.real.varies(name)] + (["interarrival"] if len(scene.real) > 1 else [])


def column_values(view: View, name: str) -> Floats:
    """Return the known values of a column; none where the trace does not have it."""
    return view.gaps if name == "interarrival" else view.known(name) if view.has(name) else np.empty(0)


def curve(values: Floats) -> tuple[Floats, Floats]:
    """Return points of the cumulative distribution: all values when they are few, else evenly spaced quantiles."""
    found, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts) / max(len(values), 1)
    if len(found) <= POINTS:
        return found, shares
    wanted = np.linspace(0, 1, POINTS)
    keep = np.unique(np.append(np.searchsorted(shares, wanted[1:] - 1e-12), 0))
    return found[keep], shares[keep]


def draw_cdf(axis: Axes, scene: Scene, name: str) -> pd.DataFrame:
    """Draw one column of all traces; return the points."""
    parts = []
    low = 1.0 if name in (*TIMES, "interarrival") else 0.8
    high, below = low * 10, False
    for trace, (view, look) in scene.everyone.items():
        values, shares = curve(column_values(view, name))
        if not len(values):
            continue
        below, high = below or bool(values[0] < low), max(high, float(values[-1]))
        axis.step(np.maximum(values, low), shares, where="post", label=label(trace), **look)
        parts.append(pd.DataFrame({"trace": trace, name: values, "share_at_or_below": shares}))
    if name in (*TIMES, "interarrival"):
        seconds_axis(axis, "x", low, high)
    else:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axis.set(xscale="log", xlim=(low, high * 1.1))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set(xlabel=NAMES.get(name, name) + (f" (below {low:g} drawn at {low:g})" if below else ""), ylim=(0, 1.02))
    axis.set_ylabel("share of jobs at or below")
    axis.margins(x=0)
    tidy(axis)
    return pd.concat(parts, ignore_index=True)


def cdf(scene: Scene, name: str) -> Drawing:
    """Draw the cumulative distribution of one column."""
    ours = column_values(scene.real, name)
    if not len(ours):
        raise NothingToDraw(f"the real trace has no {NAMES.get(name, name)}")
    figure, (axis,) = blank(4.6, 3.3)
    data = draw_cdf(axis, scene, name)
    legend(axis, loc="best")
    median = {trace: np.median(column_values(view, name)) for trace, (view, _) in scene.everyone.items()
              if len(column_values(view, name))}  # fmt: skip
    far = {trace: ks(ours, column_values(view, name)) for trace, view in scene.others.items() if trace in median}
    words = f"Cumulative distributions of {NAMES.get(name, name)}. Median: " + ", ".join(
        f"{trace} {value:,.4g}" for trace, value in median.items()
    )
    if far:
        words += ". Largest vertical distance from the real curve (KS): " + ", ".join(
            f"{trace} {value:.2f}" for trace, value in far.items()
        )
    missing = [trace for trace in scene.others if trace not in median]
    return Drawing(figure, data, words + (f". Without this column: {', '.join(missing)}." if missing else "."))


def cdf_grid(scene: Scene) -> Figure:
    """Draw every column into one figure."""
    names = column_names(scene)
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(len(names))]
    for axis, name in zip(axes, names, strict=True):
        draw_cdf(axis, scene, name)
    legend(axes[0], loc="best")
    figure.suptitle("Distribution of each column")
    return figure
