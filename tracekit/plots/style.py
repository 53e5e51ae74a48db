"""The one style of all pictures: colours for colour-blind readers, sizes, titles, saving.

Matplotlib is imported inside the functions, so that other commands start fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UnknownName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

#: Okabe & Ito's palette, which colour-blind readers can distinguish; also distinct in grey, in this order.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = PALETTE
GREY, PALE = "#8a8a8a", "#e4e4e4"
HEAT = "cividis"  # a scale of amounts that reads the same with and without colour vision
#: What a figure can be saved as, and the facts that are left out, so that the same figure gives the same bytes.
FORMATS: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
POINTS = 2_000  # of a curve; more cannot be seen
_RANDOM_FREE: Any = {"svg.hashsalt": "tracekit", "svg.fonttype": "none", "pdf.fonttype": 42}


class NothingToDraw(TracekitError):
    """A trace lacks what a picture shows; the message is the reason."""


def save(figure: Figure, path: str | Path, *, force: bool = False) -> None:
    """Write a figure as its name's ending says, whole or not at all; the same figure gives the same bytes."""
    from matplotlib import rc_context

    from tracekit.files import plain_suffix, writing

    format = plain_suffix(path).lstrip(".") or "png"
    if format not in FORMATS:
        raise UnknownName("picture format", format, FORMATS)
    with rc_context(_RANDOM_FREE), writing(path, force=force) as out:
        figure.savefig(out, format=format, dpi=120, metadata=FORMATS[format])


def new_figure(rows: int, height: float, *, columns: int = 1, width: float = 10, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, row by row, without touching the global state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def headline(figure: Figure, text: str, jobs: int, remark: str = "") -> None:
    """Put over the whole picture what one sees in it, and in grey how many jobs it shows."""
    below = f"n = {jobs:,} jobs" + (f"; {remark}" if remark else "")
    figure.suptitle(f"{text}\n", x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.985 - 0.30 / figure.get_figheight(), below, ha="left", va="top", fontsize=9, color="#555555")


def light_grid(axis: Axes) -> None:
    """Draw the thin grid that helps to read values off."""
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)


def heatmap(figure: Figure, axis: Axes, across: Floats, upwards: Floats, cells: NDArray[Any]) -> None:
    """Draw numbers of jobs, (columns, rows), between the edges as colours on a logarithmic scale; none stays white."""
    from matplotlib.colors import LogNorm

    norm = LogNorm(1, max(cells.max(), 2))
    drawn = axis.pcolormesh(across, upwards, np.ma.masked_equal(cells.T, 0), cmap=HEAT, norm=norm, rasterized=True)
    figure.colorbar(drawn, ax=axis, label="jobs in the cell", pad=0.01)


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a span of time reads best."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * unit:
            return unit, name
    return 1.0, "seconds"


def duration(seconds: float) -> str:
    """Return a length of time in common units: 45 s, 12 min, 3.5 h, 12 days.

    >>> duration(45), duration(5400), duration(12 * 86400)
    ('45 s', '90 min', '12 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f}".removesuffix(".0") + " h"
    return f"{seconds / 86400:.0f} days"


#: Where a logarithmic axis of seconds has its ticks.
_TIMES = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h", 86400 * 2: "2 d",
          86400 * 20: "20 d", 86400 * 365: "1 y"}  # fmt: skip


def seconds_axis(axes: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """Make one axis logarithmic in seconds from ``low`` to ``high``, with ticks that people think in."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    high = max(high, low * 10)
    ticks = [tick for tick in _TIMES if low * 0.99 <= tick <= high * 1.01]
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _TIMES.get(round(value), f"{value:g}")))


def top_of(most: float, whole: float) -> float:
    """Return where an axis ends: at the whole, or just above the most where not even a quarter of the whole is reached.

    >>> top_of(70, 100), top_of(120, 100), top_of(3, 6000)
    (100, 120, 3.6)
    """
    return max(most, whole) if most >= whole / 4 or most <= 0 else round(1.2 * most, 9)
