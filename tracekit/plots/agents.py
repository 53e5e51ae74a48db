"""Pictures of agents: how good they are beside heuristics, and how they came to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.plots.style import BLUE, GREY, PALE, PALETTE, light_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


def scores(values: Mapping[str, Floats], *, label: str, agent: str = "", most: int = 12) -> Figure:
    """Draw one box per policy over the same windows, best mean first; ``agent`` is the one in colour.

    Of many policies the ``most`` best are shown. A logarithmic scale where all values are positive.
    """
    order = sorted(values, key=lambda name: float(np.mean(values[name])))
    shown = order[:most] if agent in order[:most] or agent not in order else [*order[: most - 1], agent]
    figure, (axis,) = new_figure(1, 0.6 + 0.38 * len(shown))
    boxes = axis.boxplot(
        [values[name] for name in shown],
        orientation="horizontal",
        widths=0.6,
        patch_artist=True,
        showmeans=True,
        medianprops={"color": "black"},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5},
        flierprops={"marker": ".", "markersize": 4, "markeredgecolor": GREY},
    )
    for name, box in zip(shown, boxes["boxes"], strict=True):
        box.set(facecolor=BLUE if name == agent else PALE, edgecolor=GREY)
    axis.set_yticks(range(1, len(shown) + 1), shown)
    axis.invert_yaxis()
    if min(float(values[name].min()) for name in shown) > 0:
        axis.set_xscale("log")
    axis.set_xlabel(f"{label}, one value per window of {len(values[shown[0]])} (line: median, diamond: mean)")
    light_grid(axis)
    return figure


def learning_curves(logs: Mapping[str, Sequence[Mapping[str, Any]]], *, label: str) -> Figure:
    """Draw the validation score of some trainings over decisions, and the best heuristic's as a line.

    ``logs`` are lines of log.jsonl by name (`tracekit.sim.agents.checkpoint.read_log`).
    """
    figure, (axis,) = new_figure(1, 3.8)
    heuristics = []
    for number, (name, lines) in enumerate(logs.items()):
        points = [(line["steps"], line["validation_score"]) for line in lines if "validation_score" in line]
        heuristics += [line["validation_heuristic"] for line in lines if "validation_heuristic" in line][:1]
        steps, values = zip(*points, strict=True)
        colour = PALETTE[number % len(PALETTE)] if len(logs) > 1 else BLUE
        axis.plot(steps, values, color=colour, marker=".", linewidth=1.2, label=name)
    if heuristics and max(heuristics) - min(heuristics) < 1e-9:
        axis.axhline(heuristics[0], color="black", linestyle="--", linewidth=1.2, label="best heuristic")
    axis.set_xlabel("decisions learnt from")
    axis.set_ylabel(label)
    axis.set_title("validation windows, best choices", loc="left", fontsize=10)
    axis.margins(y=0.25)  # room for the legend beside the lines
    axis.legend(frameon=False, fontsize=8, ncols=3)
    light_grid(axis)
    return figure
