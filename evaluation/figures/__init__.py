"""Figures of a real trace beside synthetic ones; no function touches matplotlib's global state.

Use: ``cdf_overlays(real, {"tvae": synth}).savefig("cdf.png")``. The functions here take traces and return a matplotlib
Figure. Those of the modules take a `Scene`, which is prepared once for many figures, and return a `Drawing`: the
figure, its numbers and what one sees in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from evaluation.figures import columns, schedules, time, together
from evaluation.figures.base import Drawing, Scene, legend
from evaluation.figures.together import Kind
from tracekit.trace import Trace

__all__ = [
    "Drawing",
    "Scene",
    "autocorrelation_curves",
    "cdf_overlays",
    "correlation_heatmaps",
    "dispersion_curves",
    "hour_of_week_heatmaps",
    "ranking_slopes",
]


def cdf_overlays(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the cumulative distribution of every column that varies."""
    return columns.cdf_grid(Scene.of(real, synths))


def correlation_heatmaps(real: Trace, synth: Trace, kind: Kind = "spearman", name: str = "synthetic") -> Figure:
    """Draw the matrices of the real trace, of the synthetic one, and synthetic minus real."""
    return together.correlations(Scene.of(real, {name: synth}), kind).figure


def hour_of_week_heatmaps(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw each trace's share of jobs by weekday and hour, all on one colour scale."""
    return time.hour_grid(Scene.of(real, synths))


def autocorrelation_curves(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the autocorrelation of ln(1 + x) at lags 1 to 100, for gaps, run times and sizes."""
    scene = Scene.of(real, synths)
    names = time.series_names(scene)
    figure = Figure(figsize=(4.2 * len(names), 3.2), layout="constrained")
    axes = [figure.add_subplot(1, len(names), k + 1) for k in range(len(names))]
    for axis, name in zip(axes, names, strict=True):
        time.draw_autocorrelation(axis, scene, name)
    legend(axes[0], loc="best")
    return figure


def dispersion_curves(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the index of dispersion of arrivals against the window's length; a Poisson process stays at 1."""
    return time.dispersion(Scene.of(real, synths)).figure


def ranking_slopes(
    real: Trace, synth: Trace, backfill: str = "easy", name: str = "synthetic", quick: bool = True
) -> Figure:
    """Draw the rank of every policy on the real trace (left) and on the synthetic one (right); 1 = least slowdown."""
    scene = Scene.of(real, {name: synth}, quick=quick)
    return schedules.slopes(schedules.rankings(scene, backfill), ["real", name], backfill).figure
