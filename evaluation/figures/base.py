"""What all figures share: the traces on stage and their looks, what a figure returns, and one style."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.figure import Figure

from evaluation.view import View, prepare
from tracekit.plots.style import PALETTE, NothingToDraw
from tracekit.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that a page may replace by its own (see `evaluation.figures.svg`); used for nothing else.
INK, SOFT, REAL = "#1f2328", "#cfd4da", "#0b0c0d"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_LONGEST = 24  # letters of a name
_INSIDE = 5  # up to so many curves are labelled in the plot
NAMES = {
    "run_time": "run time",
    "req_time": "limit",
    "cpu_time": "CPU time",
    "interarrival": "gap between submits",
    "procs": "processors",
    "nodes": "nodes",
    "gpus": "GPUs",
    "tasks": "tasks",
    "req_mem": "memory requested (KB)",
    "used_mem": "memory used (KB)",
    "mean_watts": "mean power (W)",
    "cpu_bound": "CPU-bound share",
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, the numbers in it, and a text description of it for screen readers."""

    figure: Figure
    data: pd.DataFrame
    words: str


@dataclass(frozen=True, eq=False)
class Scene:
    """The traces of a comparison as arrays. Every synthetic one keeps its look in all figures."""

    real: View
    others: Mapping[str, View]
    looks: Mapping[str, dict[str, Any]]
    quick: bool = True  # fewer and shorter windows where jobs are simulated

    @classmethod
    def of(cls, real: Trace, synths: Mapping[str, Trace], *, quick: bool = True) -> Scene:
        """Prepare the traces once for all figures."""
        if not synths:
            raise NothingToDraw("a figure needs at least one synthetic trace")
        first, *others = prepare(real, list(synths.values()), ["real", *synths])
        looks = {
            name: {
                "color": PALETTE[k % len(PALETTE)],
                "linestyle": _DASHES[k // len(PALETTE) % len(_DASHES)],
                "linewidth": 1.6,
            }
            for k, name in enumerate(synths)
        }
        return cls(first, dict(zip(synths, others, strict=True)), looks, quick)

    def only(self, name: str) -> Scene:
        """Return the real trace and one synthetic one, in its own colour but never dashed."""
        look = self.looks[name] | {"linestyle": "-"}
        return replace(self, others={name: self.others[name]}, looks={name: look})

    @property
    def everyone(self) -> dict[str, tuple[View, dict[str, Any]]]:
        """Return each trace with its look; the real one is broad, so that it shows under one that equals it."""
        found = {"real": (self.real, {"color": REAL, "linewidth": 3.4, "alpha": 0.85})}
        return found | {name: (view, self.looks[name]) for name, view in self.others.items()}


def label(name: str, longest: int = _LONGEST) -> str:
    """Return a name as a figure can show it: short, on one line, and no mathematics in it."""
    text = " ".join(name.encode("utf-8", "replace").decode().split())
    if len(text) > longest:  # names that begin alike, as those of one package do, stay apart by their ends
        text = text[: longest // 2 - 2] + "…" + text[-(longest // 2 + 1) :]
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # matplotlib hides labels that start with _


def blank(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure and its tidy axes, row by row."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for axis in axes:
        tidy(axis)
    return figure, axes


def tidy(axis: Axes, *, grid: bool = True) -> None:
    """Give axes the style of all figures: ink, no box, a faint grid."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(INK)
    axis.tick_params(colors=INK, which="both")
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_color(INK)
    if grid:
        axis.grid(color=SOFT, linewidth=0.6)
        axis.set_axisbelow(True)


def bare(axis: Axes) -> None:
    """Take frame, ticks and grid away, for tables of colours."""
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, colors=INK)
    axis.grid(visible=False)


def legend(axis: Axes, **options: Any) -> None:
    """Name the curves: inside the axes where they are few, below them where they are many."""
    handles, names = axis.get_legend_handles_labels()
    if len(names) <= _INSIDE:
        made = axis.legend(frameon=False, fontsize=8.5, handlelength=1.8, **options)
    else:
        figure = axis.get_figure(root=True)
        assert figure is not None
        width, height = figure.get_size_inches()
        columns = max(2, int(width // 1.5))
        figure.set_size_inches(width, height + 0.17 * -(-len(names) // columns))
        made = figure.legend(
            handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=7.5, handlelength=1.8
        )
    for text in made.get_texts():
        text.set_color(INK)


def colour_bar(figure: Figure, drawn: Any, axes: list[Axes], text: str, **options: Any) -> None:
    """Add the scale of a table of colours."""
    made = figure.colorbar(drawn, ax=axes, **options)
    made.set_label(text, color=INK)
    made.ax.tick_params(colors=INK)
    made.outline.set_visible(False)
