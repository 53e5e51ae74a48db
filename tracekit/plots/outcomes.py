"""Pictures of how jobs fare by their size and length: which fail, and which wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.plots.style import (
    BLUE,
    ORANGE,
    PALETTE,
    Floats,
    NothingToDraw,
    duration,
    headline,
    light_grid,
    new_figure,
    seconds_axis,
)
from tracekit.schema import STATUSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

Classes = list[tuple[str, NDArray[np.bool_]]]

_LENGTHS = ((60.0, "≤ 1 min"), (600.0, "≤ 10 min"), (3600.0, "≤ 1 h"), (6 * 3600.0, "≤ 6 h"), (86400.0, "≤ 1 d"),
            (np.inf, "> 1 d"))  # fmt: skip
_COLOURS = dict(zip(STATUSES, (BLUE, ORANGE, PALETTE[4], PALETTE[3], PALETTE[5], "#cccccc"), strict=True))
_HATCH = {"failed": "//", "cancelled": "..", "timeout": "xx", "partial": "--"}


def by_length(run: Floats) -> Classes:
    """Return classes of run time; empty ones are left out."""
    found, low = [], -np.inf
    for bound, label in _LENGTHS:
        part = (run > low) & (run <= bound)
        low = bound
        if part.any():
            found.append((label, part))
    return found


def by_size(size: Floats) -> Classes:
    """Return at most seven classes of size, each from a power of two on; empty ones are left out."""
    known = size[np.isfinite(size) & (size > 0)]
    if not len(known):
        return []
    bottom, top = (int(np.ceil(np.log2(max(value, 1)))) for value in (known.min(), known.max()))
    step = max(1, -(-(top - bottom + 1) // 7))
    found: Classes = []
    low = 0.0
    for power in range(bottom, top + step, step):
        high = 2.0**power
        part = (size > low) & (size <= high)
        if part.any():
            least, most = size[part].min(), size[part].max()
            found.append((f"{least:,.4g}" if least == most else f"{least:,.4g}–{most:,.6g}", part))
        low = high
    return found


def failures(trace: Trace) -> Figure:
    """Draw how jobs ended, by size and by length, as shares of the jobs of each class."""
    status = trace.column("status")
    ended = (status >= 0) & (status != STATUSES.index("unknown"))
    if not ended.any():
        raise NothingToDraw("how the jobs ended is unknown")
    kinds = [k for k in range(len(STATUSES)) if (status[ended] == k).any()]
    if len(kinds) < 2:
        raise NothingToDraw(f"every job of known end is '{STATUSES[kinds[0]]}', so there is nothing to compare")
    panels = [("size", by_size(trace.sizes())), ("run time", by_length(trace.column("run_time")))]
    panels = [
        (name, [(label, part & ended) for label, part in classes if (part & ended).any()]) for name, classes in panels
    ]
    panels = [(name, classes) for name, classes in panels if classes]
    if not panels:
        raise NothingToDraw("neither sizes nor run times are known")
    figure, axes = new_figure(1, 4.3, columns=len(panels), sharey=True)
    for axis, (name, classes) in zip(axes, panels, strict=True):
        x = np.arange(len(classes))
        bottom = np.zeros(len(classes))
        for kind in kinds:
            share = np.array([(status[part] == kind).mean() for _, part in classes])
            word = STATUSES[kind]
            look = {"color": _COLOURS[word], "hatch": _HATCH.get(word), "edgecolor": "white", "linewidth": 0}
            axis.bar(x, share, 0.8, bottom=bottom, label=word, **look)
            bottom += share
        axis.set_xticks(x, [f"{label}\n{part.sum():,}" for label, part in classes], fontsize=7.5)
        axis.set(xlabel=f"{name}{f' [{trace.machine.unit}]' if name == 'size' else ''}; below it the jobs", ylim=(0, 1))
    axes[0].set_ylabel("share of jobs")
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes[-1].legend(
        *axes[0].get_legend_handles_labels(), fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
    fine = float((status[ended] == STATUSES.index("completed")).mean())
    lost = _work_share(trace, ended & (status != STATUSES.index("completed")), ended)
    tail = f"; the others used {lost:.0%} of the machine's time" if np.isfinite(lost) else ""
    headline(figure, f"{fine:.0%} of the jobs completed{tail}", int(ended.sum()))
    return figure


def _work_share(trace: Trace, part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    from tracekit.stats import work

    used = work(trace)
    total = float(used[whole].sum())
    return float(used[part].sum() / total) if total > 0 else float("nan")


def waits(trace: Trace) -> Figure:
    """Draw how long jobs waited, by size and by length: median and the middle half as bars, mean as a cross."""
    wait = trace.column("wait_time")
    known = np.isfinite(wait) & (wait >= 0)
    if not known.any():
        raise NothingToDraw("waits are unknown")
    if not (wait[known] > 0).any():
        raise NothingToDraw("no job waited at all")
    panels = [("size", by_size(trace.sizes())), ("run time", by_length(trace.column("run_time")))]
    panels = [
        (name, [(label, part & known) for label, part in classes if (part & known).any()]) for name, classes in panels
    ]
    panels = [(name, classes) for name, classes in panels if classes]
    if not panels:
        raise NothingToDraw("neither sizes nor run times are known")
    figure, axes = new_figure(1, 4.3, columns=len(panels), sharey=True)
    top = 10.0
    for axis, (name, classes) in zip(axes, panels, strict=True):
        for k, (_, part) in enumerate(classes):
            values = wait[part]
            low, middle, high = np.quantile(np.maximum(values, 1.0), [0.25, 0.5, 0.75])
            mean = max(float(values.mean()), 1.0)
            top = max(top, float(high), mean)
            axis.bar(k, high - low, 0.6, bottom=low, color=BLUE, alpha=0.55)
            axis.plot([k - 0.3, k + 0.3], [middle, middle], color="black", linewidth=2)
            axis.plot(k, mean, "X", color=ORANGE, markersize=8, markeredgecolor="white")
        axis.set_xticks(range(len(classes)), [f"{label}\n{part.sum():,}" for label, part in classes], fontsize=7.5)
        axis.set(xlabel=f"{name}{f' [{trace.machine.unit}]' if name == 'size' else ''}; below it the jobs")
        light_grid(axis)
    for axis in axes:
        seconds_axis(axis, "y", 1.0, top * 1.5)
    axes[0].set_ylabel("wait (a second or less drawn as one)")
    for k, (colour, word) in enumerate((("#222222", "median"), (BLUE, "middle half"), (ORANGE, "mean"))):
        place = ((0.80, 0.91, 0.98)[k], 0.985 - 0.30 / 4.3)
        figure.text(*place, word, color=colour, ha="right", va="top", fontsize=9, fontweight="bold")
    at_once = float((wait[known] < 60).mean())
    average = duration(float(wait[known].mean()))
    headline(figure, f"{at_once:.0%} of the jobs start within a minute; the mean wait is {average}", int(known.sum()))
    return figure
