"""Columns of one job together: matrices of correlations, real, synthetic and their difference side by side."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from evaluation.figures.base import INK, Drawing, Scene, bare, blank, label
from evaluation.joint import Matrix, association, pearson, shared_labels, shared_numbers, spearman
from evaluation.view import View
from tracekit.plots.style import NothingToDraw

Kind = Literal["pearson", "spearman", "association"]
MEANING: dict[Kind, str] = {
    "pearson": "Pearson's correlation of the numbers",
    "spearman": "Spearman's rank correlation of the numbers",
    "association": "association of numbers and labels (Spearman, correlation ratio, Cramér's V)",
}


def correlations(scene: Scene, kind: Kind = "pearson") -> Drawing:
    """Draw the matrices of the real trace, of the one synthetic trace of the scene, and synthetic minus real."""
    import seaborn

    (name, theirs), *_ = scene.others.items()
    numbers = shared_numbers(scene.real, theirs)
    labels = shared_labels(scene.real, theirs) if kind == "association" else []
    columns = numbers + labels
    if len(columns) < 2:
        raise NothingToDraw("a matrix needs two columns that vary in the real trace and exist in both")

    def matrix(view: View) -> Matrix:
        if kind == "association":
            return association(view, numbers, labels)
        return (pearson if kind == "pearson" else spearman)(view, numbers)

    ours, made = matrix(scene.real), matrix(theirs)
    if not (np.isfinite(ours).all() and np.isfinite(made).all()):
        raise NothingToDraw(f"no job has all of {', '.join(numbers)}")
    side = 1.0 + 0.52 * len(columns)
    figure, axes = blank(3 * side + 1.2, side + 0.7, columns=3, sharey=True)
    diagonal = np.eye(len(columns)) > 0
    for k, (axis, values, title) in enumerate(
        zip(axes, (ours, made, made - ours), ("real", label(name), f"{label(name)} − real"), strict=True)
    ):
        seaborn.heatmap(
            pd.DataFrame(values, columns, columns),
            mask=diagonal,
            vmin=-1,
            vmax=1,
            cmap="RdBu_r",
            annot=np.vectorize(_short)(values),
            fmt="",
            annot_kws={"fontsize": 8},
            linewidths=1,
            linecolor="none",
            square=True,
            cbar=k == 2,
            cbar_kws={"shrink": 0.8},
            ax=axis,
        )
        bare(axis)
        axis.set_title(title, color=INK)
        axis.tick_params(axis="x", rotation=45)
        for tick in axis.get_xticklabels():
            tick.set_horizontalalignment("right")
            tick.set_rotation_mode("anchor")
        axis.tick_params(axis="y", rotation=0)
    figure.axes[-1].tick_params(colors=INK)
    upper = np.triu_indices(len(columns), 1)
    gaps = np.abs(made - ours)[upper]
    worst = int(gaps.argmax())
    first, second = columns[upper[0][worst]], columns[upper[1][worst]]
    i, j = upper[0][worst], upper[1][worst]
    words = (
        f"Three matrices side by side, {MEANING[kind]}: real, {name}, and their difference. Mean absolute difference "
        f"{gaps.mean():.2f}; largest for {first} and {second}: real {ours[i, j]:.2f}, {name} {made[i, j]:.2f}."
    )
    data = pd.DataFrame(
        [
            {"column": a, "other": b, "real": ours[i, j], name: made[i, j], "difference": made[i, j] - ours[i, j]}
            for i, a in enumerate(columns)
            for j, b in enumerate(columns)
            if i < j
        ]
    )
    return Drawing(figure, data, words)


def _short(value: float) -> str:
    """Return a correlation as short text.

    >>> _short(0.314), _short(-0.31), _short(0.001), _short(1.0)
    ('.31', '−.31', '0', '1')
    """
    if abs(value) < 0.005:
        return "0"
    return f"{value:.2f}".replace("0.", ".", 1).replace("1.00", "1").replace("-", "−")
