"""Jobs one after the other: when they are submitted, how they resemble the ones before, how bursty they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation.figures.base import INK, NAMES, Drawing, Scene, bare, blank, colour_bar, label, legend, tidy
from evaluation.temporal import IDC_WINDOWS, LAGS, Dispersion, autocorrelation, series
from evaluation.view import Floats, View
from tracekit.plots.style import HEAT, NothingToDraw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def week(view: View) -> Floats:
    """Return the percentage of jobs by weekday and hour, shape (7, 24)."""
    if view.hour is None:
        raise NothingToDraw(f"the {view.name} trace has no calendar, so the hour of day is unknown")
    return np.bincount(view.hour, minlength=168).reshape(7, 24) / max(len(view), 1) * 100


def hours(scene: Scene) -> Drawing:
    """Draw the shares of jobs by weekday and hour: real, the one synthetic trace of the scene, and the difference."""
    (name, theirs), *_ = scene.others.items()
    ours, made = week(scene.real), week(theirs)
    figure, axes = blank(11.5, 2.9, columns=3, sharey=True)
    top, gap = max(float(ours.max()), float(made.max())), float(np.abs(made - ours).max()) or 1.0
    panels = (("real", ours, 0.0, top, HEAT), (label(name), made, 0.0, top, HEAT),
              (f"{label(name)} − real", made - ours, -gap, gap, "RdBu_r"))  # fmt: skip
    for axis, (title, values, low, high, colours) in zip(axes, panels, strict=True):
        image = axis.imshow(values, aspect="auto", cmap=colours, vmin=low, vmax=high, interpolation="none")
        bare(axis)
        axis.set_title(title, color=INK)
        axis.set_xticks(range(0, 24, 3))
        axis.set_xlabel("hour of day")
        if title != "real":
            colour_bar(figure, image, [axis], "% of jobs" if colours == HEAT else "points")
    axes[0].set_yticks(range(7), DAYS)
    peaks = [np.unravel_index(int(values.argmax()), values.shape) for values in (ours, made)]
    busy = [f"{DAYS[int(day)]} {int(hour)}:00" for day, hour in peaks]
    words = (
        f"Share of jobs by weekday and hour, three tables of colours: real, {name} and their difference. "
        f"Busiest hour: real {busy[0]}, {name} {busy[1]}. {np.abs(made - ours).sum() / 2:.0f} % of the jobs would have "
        "to move to another hour of the week for the two to agree."
    )
    day, hour = np.divmod(np.arange(168), 24)
    data = pd.DataFrame({"weekday": np.take(DAYS, day), "hour": hour, "real": ours.ravel(), name: made.ravel()})
    return Drawing(figure, data, words)


def hour_grid(scene: Scene) -> Figure:
    """Draw each trace's share of jobs by weekday and hour, all on one colour scale."""
    if scene.real.hour is None:
        raise NothingToDraw("the real trace has no calendar, so the hour of day is unknown")
    tables = {name: week(view) for name, (view, _) in scene.everyone.items() if view.hour is not None}
    columns = min(len(tables), 2)
    figure = Figure(figsize=(5.2 * columns, 2.4 * -(-len(tables) // columns)), layout="constrained")
    axes = [figure.add_subplot(-(-len(tables) // columns), columns, k + 1) for k in range(len(tables))]
    top = max(float(table.max()) for table in tables.values())
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        image = axis.imshow(table, aspect="auto", cmap=HEAT, vmin=0, vmax=top, interpolation="none")
        bare(axis)
        axis.set_title(label(name))
        axis.set_yticks(range(7), DAYS)
        axis.set_xticks(range(0, 24, 3))
        axis.set_xlabel("hour of day")
    colour_bar(figure, image, axes, "% of jobs")
    return figure


def series_names(scene: Scene) -> list[str]:
    """Return the series of the real trace that have an autocorrelation at all lags."""
    return [name for name, values in series(scene.real).items() if np.isfinite(autocorrelation(values, LAGS)).all()]


def draw_autocorrelation(axis: Axes, scene: Scene, name: str) -> pd.DataFrame:
    """Draw one series of all traces; return lag and one column a trace that has it."""
    known = {}
    for trace, (view, look) in scene.everyone.items():
        values = autocorrelation(series(view).get(name, np.empty(0)), LAGS)
        if np.isfinite(values).any():
            known[trace] = values
            axis.plot(range(1, LAGS + 1), values, label=label(trace), **look)
    axis.axhline(0, color=INK, linewidth=0.8)
    axis.set(xscale="log", xlim=(1, LAGS), xlabel="lag (jobs)", ylabel="autocorrelation")
    axis.set_title(NAMES.get(name, name), color=INK)
    axis.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axis.minorticks_off()
    tidy(axis)
    return pd.DataFrame({"lag": np.arange(1, LAGS + 1), **known})


def autocorrelations(scene: Scene, name: str) -> Drawing:
    """Draw the autocorrelation of ln(1 + x) at lags 1 to 100 of one series: gaps, run times or sizes."""
    figure, (axis,) = blank(4.6, 3.3)
    data = draw_autocorrelation(axis, scene, name)
    legend(axis, loc="best")
    words = f"Autocorrelation of {NAMES.get(name, name)} at lags 1 to {LAGS}. At lag 1 and lag 10: " + ", ".join(
        f"{trace} {data[trace][0]:.2f} and {data[trace][9]:.2f}" for trace in data.columns[1:]
    )
    return Drawing(figure, data, words + ".")


def dispersion(scene: Scene) -> Drawing:
    """Draw the index of dispersion of arrivals against the window's length; a Poisson process stays at 1."""
    figure, (axis,) = blank(4.6, 3.3)
    rows = []
    for trace, (view, look) in scene.everyone.items():
        found = Dispersion().measure(view)
        points = [(s, value) for s in IDC_WINDOWS if not isinstance(value := found[f"idc.{s}"], str)]
        axis.plot([s for s, _ in points], [v for _, v in points], marker="o", markersize=4, label=label(trace), **look)
        rows += [{"trace": trace, "window_s": s, "variance_over_mean": v} for s, v in points]
    if not rows:
        raise NothingToDraw("the traces are shorter than five minutes")
    axis.axhline(1, color=INK, linewidth=0.8, linestyle="--")
    axis.set(xscale="log", yscale="log", xlabel="window", ylabel="variance / mean of arrivals")
    axis.set_xticks(IDC_WINDOWS, ["1 min", "5", "15", "1 h", "6 h", "1 d"])
    axis.minorticks_off()
    axis.set_title("burstiness of arrivals (dashed: Poisson)", color=INK)
    legend(axis, loc="best")
    data = pd.DataFrame(rows)
    ends = data.groupby("trace", sort=False).last()
    words = "Variance over mean of the arrivals in windows of growing length; a Poisson process stays at 1. In the " + (
        "longest window: " + ", ".join(f"{t} {v:,.3g}" for t, v in ends["variance_over_mean"].items()) + "."
    )
    return Drawing(figure, data, words)
