"""The one style of all pictures: colours that colour-blind readers can tell apart, sizes, titles, saving.

Matplotlib is imported inside the functions, so nobody else pays for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

BLUE, ORANGE, GREY = "#2f6c9e", "#d2691e", "#8a8a8a"


def save(figure: Figure, path: str | Path, *, force: bool = False) -> None:
    """Write a figure as PNG, whole or not at all, and with nothing in it that changes from run to run."""
    from tracekit.files import writing

    with writing(path, force=force) as out:
        figure.savefig(out, format="png", dpi=120, metadata={"Software": None})


def new_figure(rows: int, height: float, *, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, row by row, without touching the global state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads best."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * unit:
            return unit, name
    return 1.0, "seconds"
