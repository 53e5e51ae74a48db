"""Figures of a real trace beside synthetic ones; each function returns a matplotlib Figure and touches no global state.

Use: ``cdf_overlays(real, {"tvae": synth}).savefig("cdf.png")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure

from evaluation.base import Setting
from evaluation.joint import Matrix, association, pearson, shared_labels, shared_numbers, spearman
from evaluation.temporal import IDC_WINDOWS, LAGS, Dispersion, autocorrelation, series
from evaluation.view import View, prepare
from tracekit.errors import TracekitError
from tracekit.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REAL = "#222222"
#: Okabe & Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
NAMES = {
    "run_time": "run time (s)",
    "req_time": "limit (s)",
    "cpu_time": "CPU time (s)",
    "interarrival": "gap between submits (s)",
    "procs": "processors",
    "nodes": "nodes",
    "gpus": "GPUs",
    "req_mem": "memory requested (KB)",
    "used_mem": "memory used (KB)",
}
_POINTS = 2_000  # of a curve; more cannot be seen


def _views(real: Trace, synths: Mapping[str, Trace]) -> tuple[View, dict[str, View]]:
    if not synths:
        raise TracekitError("a figure needs at least one synthetic trace")
    first, *others = prepare(real, list(synths.values()), ["real", *synths])
    return first, dict(zip(synths, others, strict=True))


def _grid(panels: int, width: float = 4.2, height: float = 3.2, most: int = 3) -> tuple[Figure, list[Axes]]:
    columns = min(panels, most)
    rows = -(-panels // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(panels)]
    return figure, axes


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, linewidth=0.6)


def _line(k: int) -> dict[str, Any]:
    """Return the look of the k-th curve; the real one, k = 0, is broad, so that it shows under one that equals it."""
    return {"color": REAL, "linewidth": 3.2} if k == 0 else {"color": COLOURS[(k - 1) % len(COLOURS)], "linewidth": 1.3}


def _values(view: View, name: str) -> np.ndarray:
    return view.gaps if name == "interarrival" else view.known(name) if view.has(name) else np.empty(0)


def cdf_overlays(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the cumulative distribution of every column that varies, on log axes where values span decades."""
    ours, others = _views(real, synths)
    first = next(iter(others.values()))
    names = [*shared_numbers(ours, first), "interarrival"]
    figure, axes = _grid(len(names))
    for axis, name in zip(axes, names, strict=True):
        everyone = {"real": ours, **others}
        below = False
        for k, (label, view) in enumerate(everyone.items()):
            values = np.sort(_values(view, name))
            if not len(values):
                continue
            shown = np.unique(np.linspace(0, len(values) - 1, _POINTS).astype(int))
            below = below or bool(values[0] < 1)
            axis.step(np.maximum(values[shown], 1.0), (shown + 1) / len(values), where="post", label=label, **_line(k))
        axis.set_xscale("log")
        axis.set_xlabel(NAMES.get(name, name) + (", below 1 drawn at 1" if below else ""))
        axis.set_ylim(0, 1.01)
        _tidy(axis)
    axes[0].set_ylabel("share of jobs at or below")
    axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle("Distribution of each column")
    return figure


Kind = Literal["pearson", "spearman", "association"]


def correlation_heatmaps(real: Trace, synth: Trace, kind: Kind = "spearman", name: str = "synthetic") -> Figure:
    """Draw the matrices of the real trace, of the synthetic one, and synthetic minus real."""
    ours, others = _views(real, {name: synth})
    theirs = others[name]
    numbers = shared_numbers(ours, theirs)
    labels = shared_labels(ours, theirs) if kind == "association" else []
    if len(numbers) + len(labels) < 2:
        raise TracekitError("a matrix needs two columns that vary in the real trace and exist in both")

    def matrix(view: View) -> Matrix:
        if kind == "association":
            return association(view, numbers, labels)
        return (pearson if kind == "pearson" else spearman)(view, numbers)

    a, b = matrix(ours), matrix(theirs)
    columns = numbers + labels
    side = 1.2 + 0.55 * len(columns)
    figure = Figure(figsize=(3 * side + 1.0, side + 0.6), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, values, title in zip(axes, (a, b, b - a), ("real", name, f"{name} − real"), strict=True):
        image = axis.imshow(np.where(np.eye(len(columns)) > 0, np.nan, values), vmin=-1, vmax=1, cmap="RdBu_r")
        axis.set_facecolor("#dddddd")
        axis.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
        axis.set_yticks(range(len(columns)), columns)
        axis.set_title(title)
        axis.tick_params(length=0)
        for i in range(len(columns)):
            for j in range(len(columns)):
                if i != j:
                    text = f"{values[i, j]:.2f}".replace("0.", ".", 1) if abs(values[i, j]) >= 0.005 else "0"
                    axis.text(
                        j,
                        i,
                        text,
                        ha="center",
                        va="center",
                        fontsize=8,
                        color="white" if abs(values[i, j]) > 0.6 else "black",
                    )
    figure.colorbar(image, ax=list(axes), shrink=0.8, label=kind)
    return figure


def hour_of_week_heatmaps(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw each trace's share of jobs by weekday and hour, all on one colour scale."""
    ours, others = _views(real, synths)
    everyone = {label: view for label, view in {"real": ours, **others}.items() if view.hour is not None}
    if ours.hour is None:
        raise TracekitError("the real trace has no calendar: nobody knows its hours")
    tables = {
        label: np.bincount(view.hour, minlength=168).reshape(7, 24) / len(view) * 100
        for label, view in everyone.items()
        if view.hour is not None
    }
    figure, axes = _grid(len(tables), width=5.2, height=2.4, most=2)
    top = max(float(table.max()) for table in tables.values())
    for axis, (label, table) in zip(axes, tables.items(), strict=True):
        image = axis.imshow(table, aspect="auto", cmap="viridis", vmin=0, vmax=top)
        axis.set_title(label)
        axis.set_yticks(range(7), ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        axis.set_xticks(range(0, 24, 3))
        axis.set_xlabel("hour of day")
    figure.colorbar(image, ax=axes, label="% of jobs")
    return figure


def autocorrelation_curves(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the autocorrelation of ln(1 + x) at lags 1 to 100, for gaps, run times and sizes."""
    ours, others = _views(real, synths)
    names = [name for name, values in series(ours).items() if np.isfinite(autocorrelation(values, LAGS)).all()]
    figure, axes = _grid(len(names))
    for axis, name in zip(axes, names, strict=True):
        for k, (label, view) in enumerate({"real": ours, **others}.items()):
            curve = autocorrelation(series(view).get(name, np.empty(0)), LAGS)
            axis.plot(range(1, LAGS + 1), curve, label=label, **_line(k))
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel("lag (jobs)")
        axis.set_title(NAMES.get(name, name))
        _tidy(axis)
    axes[0].set_ylabel("autocorrelation")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def dispersion_curves(real: Trace, synths: Mapping[str, Trace]) -> Figure:
    """Draw the index of dispersion of arrivals against the window's length; a Poisson process stays at 1."""
    ours, others = _views(real, synths)
    figure, (axis,) = _grid(1, width=6, height=4)
    for k, (label, view) in enumerate({"real": ours, **others}.items()):
        found = Dispersion().measure(view)
        points = [(s, value) for s in IDC_WINDOWS if not isinstance(value := found[f"idc.{s}"], str)]
        axis.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=label, **_line(k))
    axis.axhline(1, color="grey", linewidth=0.8, linestyle="--", label="Poisson")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(IDC_WINDOWS, ["1 min", "5 min", "15 min", "1 h", "6 h", "1 day"])
    axis.minorticks_off()
    axis.set_xlabel("window")
    axis.set_ylabel("variance / mean of arrivals")
    axis.legend(frameon=False)
    _tidy(axis)
    return figure


def ranking_slopes(
    real: Trace, synth: Trace, backfill: str = "easy", name: str = "synthetic", quick: bool = True
) -> Figure:
    """Draw the rank of every policy on the real trace (left) and on the synthetic one (right); 1 = least slowdown."""
    from evaluation.scheduling import POLICIES, Job, run_windows

    ours, others = _views(real, {name: synth})
    setting = Setting(quick=quick)
    capacity = ours.machine.capacity
    real_runs, begins = run_windows(Job.of(ours), None, capacity, 1.0, setting)
    synth_runs, _ = run_windows(Job.of(others[name]), begins, capacity, 1.0, setting)
    if (POLICIES[0], backfill) not in real_runs:
        raise TracekitError(f"backfill '{backfill}' was not simulated; with quick=True only easy is")
    means = [
        [float(runs[policy, backfill].mean_slowdown.mean()) for policy in POLICIES] for runs in (real_runs, synth_runs)
    ]
    ranks = [np.argsort(np.argsort(m, kind="stable"), kind="stable") + 1 for m in means]
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axis = figure.add_subplot()
    for k, policy in enumerate(POLICIES):
        left, right = int(ranks[0][k]), int(ranks[1][k])
        colour = COLOURS[k % len(COLOURS)] if left != right else "#888888"
        axis.plot([0, 1], [left, right], marker="o", color=colour, linewidth=1.8)
        axis.text(-0.05, left, f"{policy}  {means[0][k]:,.1f}", ha="right", va="center")
        axis.text(1.05, right, f"{means[1][k]:,.1f}  {policy}", ha="left", va="center")
    axis.set_xlim(-0.55, 1.55)
    axis.set_ylim(len(POLICIES) + 0.5, 0.5)
    axis.set_xticks([0, 1], ["real", name])
    axis.set_yticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_title(f"Policies by mean bounded slowdown, backfill {backfill}; 1 (top) = least")
    return figure
