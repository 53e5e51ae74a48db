"""Pictures of policies compared on the same windows (`tracekit.compare`): their slowdowns, and the differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    PALETTE,
    Floats,
    NothingToDraw,
    headline,
    light_grid,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tracekit.sim.analysis.comparison import Comparison

_LOG_FROM = 10.0  # ratio of the largest to the smallest value from which on an axis is logarithmic
_MAX_DOTS = 100  # windows that are also drawn one by one


def slowdowns(comparison: Comparison) -> Figure:
    """Draw a box over the windows' mean bounded slowdowns for each policy × backfilling, in the table's order.

    Line: median; diamond: mean; box: the middle half; whiskers: 1.5 times as far, at most. Dots are the windows.
    A logarithmic axis where values differ tenfold.
    """
    table, windows = comparison.table, len(comparison.windows)
    rows = _rows(comparison, "mean_bsld")
    shown = [row[np.isfinite(row)] for row in rows]
    if not any(len(row) for row in shown):
        raise NothingToDraw("no window has a job to measure")
    backfills = list(dict.fromkeys(table["backfill"]))
    figure, (axis,) = new_figure(1, 1.5 + 0.42 * len(shown))
    boxes = axis.boxplot(
        shown,
        orientation="horizontal",
        widths=0.6,
        patch_artist=True,
        showmeans=True,
        showfliers=windows > _MAX_DOTS,
        medianprops={"color": "black", "linewidth": 1.6},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5, "zorder": 4},
        flierprops={"marker": ".", "markersize": 4, "markeredgecolor": GREY},
    )
    for box, backfill in zip(boxes["boxes"], table["backfill"], strict=True):
        box.set(facecolor=PALETTE[backfills.index(backfill) % len(PALETTE)], edgecolor=GREY, alpha=0.45)
    if windows <= _MAX_DOTS:
        for number, row in enumerate(shown, 1):
            axis.plot(row, number + _spread(len(row)), ".", color="#333333", markersize=3.5, alpha=0.6, zorder=3)
    _names(axis, comparison, len(backfills))
    everything = np.concatenate(shown)
    if everything.min() > 0 and everything.max() > _LOG_FROM * everything.min():
        _log(axis)
    axis.set_xlabel("mean bounded slowdown of a window (line: median, diamond: mean, box: middle half, dots: windows)")
    light_grid(axis)
    best = table.iloc[int(np.nanargmin(table["mean_bsld"]))]
    between = f" (95 %: {best['low']:,.4g} … {best['high']:,.4g})" if np.isfinite(best["low"]) else ""
    headline(
        figure,
        f"Lowest mean bounded slowdown: {best['policy']} + {best['backfill']}, {best['mean_bsld']:,.4g}{between}",
        _jobs(comparison),
        f"{windows} windows, the same for all; "
        + (f"backfilling {backfills[0]}" if len(backfills) == 1 else "colours: kinds of backfilling"),
    )
    return figure


def differences(comparison: Comparison) -> Figure:
    """Draw each window's difference of mean bounded slowdown from the baseline, and its mean with the 95 % interval.

    Left of zero is better than the baseline. Grey: the interval holds zero. A wide range is drawn logarithmically on
    both sides of zero.
    """
    table = comparison.table
    chosen = np.flatnonzero((table["policy"] != comparison.baseline) & np.isfinite(table["difference"]))
    if not len(chosen):
        raise NothingToDraw(f"no policy is compared with {comparison.baseline}")
    values = comparison.differences[chosen]
    part = table.iloc[chosen]
    figure, (axis,) = new_figure(1, 1.5 + 0.42 * len(chosen))
    axis.axvline(0, color="black", linewidth=1)
    better = worse = 0
    for number, (row, (_, facts)) in enumerate(zip(values, part.iterrows(), strict=True), 1):
        low, high, mean = facts["difference_low"], facts["difference_high"], facts["difference"]
        colour = BLUE if high < 0 else ORANGE if low > 0 else GREY
        better, worse = better + (high < 0), worse + (low > 0)
        known = row[np.isfinite(row)]
        axis.plot(known, number + _spread(len(known)), ".", color=PALE, markeredgecolor="#9a9a9a", markersize=5)
        if np.isfinite(low):
            axis.plot([low, high], [number, number], color=colour, linewidth=4, solid_capstyle="butt", zorder=3)
        axis.plot(mean, number, "D", color=colour, markeredgecolor="white", markersize=8, zorder=4)
        p = facts["p"]
        words = f"{mean:+,.3g}".replace("-", "−") + (
            f"   p {'< 0.001' if p < 0.001 else f'= {p:.2g}'}" if len(known) > 1 else ""
        )
        axis.annotate(words, (1.01, number), xycoords=("axes fraction", "data"), va="center", fontsize=8.5)
    axis.set_yticks(range(1, len(part) + 1), _labels(part["policy"], part["backfill"], table["backfill"].nunique()))
    axis.set_ylim(len(part) + 0.6, 0.4)
    _both_sides(axis, values[np.isfinite(values)])
    axis.set_xlabel(f"mean bounded slowdown less that of {comparison.baseline} on the same window (left: better)")
    light_grid(axis)
    unclear = len(part) - better - worse
    what = [f"{n} {word}" for n, word in ((better, "better"), (worse, "worse"), (unclear, "not distinguishable")) if n]
    headline(
        figure,
        f"Beside {comparison.baseline}: {', '.join(what)}",
        _jobs(comparison),
        f"{len(comparison.windows)} windows in pairs (dots); diamond and bar: mean and 95 % interval; p: signed ranks",
    )
    return figure


def _rows(comparison: Comparison, metric: str) -> Floats:
    values: Floats = comparison.values[metric].to_numpy(np.float64)
    return values.reshape(len(comparison.table), len(comparison.windows))


def _jobs(comparison: Comparison) -> int:
    return sum(jobs for _, jobs in comparison.windows)


def _spread(count: int) -> Floats:
    """Return small shifts that keep dots of one row apart, the same each time (multiples of the golden ratio)."""
    shifts: Floats = (np.arange(count, dtype=np.float64) * 0.618034 % 1 - 0.5) * 0.4
    return shifts


def _labels(policies: object, backfills: object, kinds: int) -> list[str]:
    pairs = zip(policies, backfills, strict=True)  # type: ignore[call-overload]
    return [f"{policy} + {backfill}" if kinds > 1 else str(policy) for policy, backfill in pairs]


def _names(axis: Axes, comparison: Comparison, kinds: int) -> None:
    table = comparison.table
    axis.set_yticks(range(1, len(table) + 1), _labels(table["policy"], table["backfill"], kinds))
    axis.set_ylim(len(table) + 0.6, 0.4)


def _log(axis: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _signed(value: float, place: int | None = None) -> str:
    return f"{value:+,g}".replace("-", "−") if value else "0"


def _both_sides(axis: Axes, values: Floats) -> None:
    """Draw far ends logarithmically where a few windows would push all others together."""
    from matplotlib.ticker import FuncFormatter

    axis.xaxis.set_major_formatter(FuncFormatter(_signed))
    sizes = np.abs(values[values != 0])
    if len(sizes) and sizes.max() > 2 * _LOG_FROM * np.median(sizes):
        axis.set_xscale("symlog", linthresh=float(10 ** np.floor(np.log10(np.median(sizes)))), linscale=0.7)
        axis.xaxis.set_major_formatter(FuncFormatter(_signed))
