"""Pictures of how jobs fare by their size and length: which fail, and which wait."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.large.spreads import Counting
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
from tracekit.stats import work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

_LENGTHS = ((60.0, "≤ 1 min"), (600.0, "≤ 10 min"), (3600.0, "≤ 1 h"), (6 * 3600.0, "≤ 6 h"), (86400.0, "≤ 1 d"),
            (np.inf, "> 1 d"))  # fmt: skip
_COLOURS = dict(zip(STATUSES, (BLUE, ORANGE, PALETTE[4], PALETTE[3], PALETTE[5], "#cccccc"), strict=True))
_HATCH = {"failed": "//", "cancelled": "..", "timeout": "xx", "partial": "--"}


@dataclass(frozen=True)
class Bounds:
    """Classes of a number, each from above one bound up to the next."""

    name: str  # of the number
    bounds: Floats  # shape (classes + 1,)
    labels: tuple[str, ...]  # empty: the least and the most of each class

    def of(self, values: Floats) -> NDArray[np.intp]:
        """Return each value's class, −1 = none."""
        found = np.searchsorted(self.bounds, values) - 1
        return np.where(np.isnan(values) | (found >= len(self.bounds) - 1), -1, found)


def length_classes() -> Bounds:
    """Return classes of run time."""
    return Bounds("run time", np.array([-np.inf, *(b for b, _ in _LENGTHS)]), tuple(label for _, label in _LENGTHS))


def size_classes(low: float, high: float) -> Bounds | None:
    """Return at most seven classes of sizes from ``low`` to ``high``, each from a power of two on; None: no sizes."""
    if not 0 < low <= high:
        return None
    bottom, top = (int(np.ceil(np.log2(max(value, 1)))) for value in (low, high))
    step = max(1, -(-(top - bottom + 1) // 7))
    return Bounds("size", np.array([0.0, *(2.0**power for power in range(bottom, top + step, step))]), ())


class Classed:
    """Jobs in the classes of one number: how many, and the least and the most of the number in each."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        count = len(bounds.bounds) - 1
        self.low, self.high = np.full(count, np.inf), np.full(count, -np.inf)

    def add(self, values: Floats) -> NDArray[np.intp]:
        """Return each job's class, −1 = none."""
        found = self.bounds.of(values)
        there = found >= 0
        np.minimum.at(self.low, found[there], values[there])
        np.maximum.at(self.high, found[there], values[there])
        return found

    def labels(self) -> list[str]:
        """Return the names of the classes."""
        if self.bounds.labels:
            return list(self.bounds.labels)
        ends = zip(self.low, self.high, strict=True)
        return [f"{least:,.4g}" if least == most else f"{least:,.4g}–{most:,.6g}" for least, most in ends]


def panels_of(sizes: tuple[float, float]) -> list[Classed]:
    """Return the classes of both panels, given the least and the largest size above zero."""
    return [Classed(bounds) for bounds in (size_classes(*sizes), length_classes()) if bounds is not None]


def size_ends(size: Floats) -> tuple[float, float]:
    """Return the least and the largest known size above zero; inf and −inf if there are none."""
    known = size[np.isfinite(size) & (size > 0)]
    return float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))


class Endings:
    """How jobs ended, by size and by length; takes the jobs batch by batch."""

    def __init__(self, sizes: tuple[float, float]) -> None:
        self.panels = panels_of(sizes)
        self.counts = [np.zeros((len(p.low), len(STATUSES)), dtype=np.int64) for p in self.panels]
        self.kinds = np.zeros(len(STATUSES), dtype=np.int64)
        self.work = np.zeros(len(STATUSES), dtype=np.longdouble)

    def add(self, trace: Trace) -> None:
        """Take some jobs."""
        status = np.asarray(trace.column("status"))
        ended = (status >= 0) & (status != STATUSES.index("unknown"))
        self.kinds += np.bincount(status[ended], minlength=len(STATUSES))
        self.work += np.bincount(status[ended], weights=work(trace)[ended], minlength=len(STATUSES))
        for panel, counts in zip(self.panels, self.counts, strict=True):
            place = panel.add(_classed(trace, panel))
            both = ended & (place >= 0)
            np.add.at(counts, (place[both], status[both]), 1)


def _classed(trace: Trace, panel: Classed) -> Floats:
    return trace.sizes() if panel.bounds.name == "size" else np.asarray(trace.column("run_time"))


def failures(trace: Trace) -> Figure:
    """Draw how jobs ended, by size and by length, as shares of the jobs of each class."""
    endings = Endings(size_ends(trace.sizes()))
    endings.add(trace)
    return draw_failures(endings, trace.machine.unit)


def draw_failures(endings: Endings, unit: str) -> Figure:
    """Draw what `failures` draws."""
    if not endings.kinds.any():
        raise NothingToDraw("how the jobs ended is unknown")
    kinds = np.flatnonzero(endings.kinds).tolist()
    if len(kinds) < 2:
        raise NothingToDraw(f"every job of known end is '{STATUSES[kinds[0]]}', so there is nothing to compare")
    panels = [(p, c) for p, c in zip(endings.panels, endings.counts, strict=True) if c.any()]
    if not panels:
        raise NothingToDraw("neither sizes nor run times are known")
    figure, axes = new_figure(1, 4.3, columns=len(panels), sharey=True)
    for axis, (panel, table) in zip(axes, panels, strict=True):
        there = np.flatnonzero(table.sum(axis=1))
        counts, labels = table[there], [panel.labels()[k] for k in there]
        x, name = np.arange(len(counts)), panel.bounds.name
        bottom = np.zeros(len(counts))
        for kind in kinds:
            share = counts[:, kind] / counts.sum(axis=1)
            word = STATUSES[kind]
            look = {"color": _COLOURS[word], "hatch": _HATCH.get(word), "edgecolor": "white", "linewidth": 0}
            axis.bar(x, share, 0.8, bottom=bottom, label=word, **look)
            bottom += share
        jobs = counts.sum(axis=1)
        axis.set_xticks(x, [f"{label}\n{count:,}" for label, count in zip(labels, jobs, strict=True)], fontsize=7.5)
        axis.set(xlabel=f"{name}{f' [{unit}]' if name == 'size' else ''}; below it the jobs", ylim=(0, 1))
    axes[0].set_ylabel("share of jobs")
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes[-1].legend(
        *axes[0].get_legend_handles_labels(), fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
    done = STATUSES.index("completed")
    ended, total = int(endings.kinds.sum()), float(endings.work.sum())
    fine = float(endings.kinds[done] / ended)
    lost = float((endings.work.sum() - endings.work[done]) / total) if total > 0 else float("nan")
    tail = f"; the others used {lost:.0%} of the machine's time" if np.isfinite(lost) else ""
    headline(figure, f"{fine:.0%} of the jobs completed{tail}", ended)
    return figure


class Waited:
    """How long jobs waited, by size and by length; takes the jobs batch by batch."""

    def __init__(self, sizes: tuple[float, float], folder: Path | None = None) -> None:
        self.panels = panels_of(sizes)
        self.found = [
            [Counting(None if folder is None else folder / f"{panel.bounds.name}-{k}") for k in range(len(panel.low))]
            for panel in self.panels
        ]
        self.all = Counting(None if folder is None else folder / "all")

    def add(self, trace: Trace) -> None:
        """Take some jobs."""
        wait = trace.column("wait_time")
        known = np.isfinite(wait) & (wait >= 0)
        self.all.add(wait[known])
        for panel, classes in zip(self.panels, self.found, strict=True):
            place = panel.add(_classed(trace, panel))
            for k, counting in enumerate(classes):
                counting.add(wait[known & (place == k)])


def _from_one(values: Floats) -> Floats:
    return np.maximum(values, 1.0)


def waits(trace: Trace) -> Figure:
    """Draw how long jobs waited, by size and by length: median and the middle half as bars, mean as a cross."""
    waited = Waited(size_ends(trace.sizes()))
    waited.add(trace)
    return draw_waits(waited, trace.machine.unit)


def draw_waits(waited: Waited, unit: str) -> Figure:
    """Draw what `waits` draws."""
    every = waited.all.spread()
    if not len(every):
        raise NothingToDraw("waits are unknown")
    if not every.high > 0:
        raise NothingToDraw("no job waited at all")
    panels = []
    for panel, found in zip(waited.panels, waited.found, strict=True):
        spreads = zip(panel.labels(), (counting.spread() for counting in found), strict=True)
        if classes := [(label, spread) for label, spread in spreads if len(spread)]:
            panels.append((panel.bounds.name, classes))
    if not panels:
        raise NothingToDraw("neither sizes nor run times are known")
    figure, axes = new_figure(1, 4.3, columns=len(panels), sharey=True)
    top = 10.0
    for axis, (name, classes) in zip(axes, panels, strict=True):
        for k, (_, spread) in enumerate(classes):
            low, middle, high = spread.mapped(_from_one).quantiles([0.25, 0.5, 0.75])
            mean = max(spread.mean(), 1.0)
            top = max(top, float(high), mean)
            axis.bar(k, high - low, 0.6, bottom=low, color=BLUE, alpha=0.55)
            axis.plot([k - 0.3, k + 0.3], [middle, middle], color="black", linewidth=2)
            axis.plot(k, mean, "X", color=ORANGE, markersize=8, markeredgecolor="white")
        axis.set_xticks(range(len(classes)), [f"{label}\n{len(spread):,}" for label, spread in classes], fontsize=7.5)
        axis.set(xlabel=f"{name}{f' [{unit}]' if name == 'size' else ''}; below it the jobs")
        light_grid(axis)
    for axis in axes:
        seconds_axis(axis, "y", 1.0, top * 1.5)
    axes[0].set_ylabel("wait (a second or less drawn as one)")
    for k, (colour, word) in enumerate((("#222222", "median"), (BLUE, "middle half"), (ORANGE, "mean"))):
        place = ((0.80, 0.91, 0.98)[k], 0.985 - 0.30 / 4.3)
        figure.text(*place, word, color=colour, ha="right", va="top", fontsize=9, fontweight="bold")
    at_once = sum(int(counts[values < 60].sum()) for values, counts in every.blocks()) / len(every)
    average = duration(every.mean())
    headline(figure, f"{at_once:.0%} of the jobs start within a minute; the mean wait is {average}", len(every))
    return figure
