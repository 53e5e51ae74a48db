"""Curves of packing studies: what is allocated, and what is fragmented, as jobs arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.plots.style import GREY, PALETTE, NothingToDraw, headline, light_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", ":", "-.")
_PANELS = (("allocated_pct", "allocated [% of GPUs]"), ("fragmented_pct", "fragmented, F of FGD [% of GPUs]"))


def packing_curves(rows: Sequence[dict[str, Any]], what: str = "") -> Figure:
    """Draw means over seeds of the results of `tracekit place`; bands reach from the least to the most."""
    names = list(dict.fromkeys(row["allocate"] for row in rows))
    if not names:
        raise NothingToDraw("there are no results")
    figure, axes = new_figure(1, 4.8, columns=2)
    for axis, (key, label) in zip(axes, _PANELS, strict=True):
        for number, name in enumerate(names):
            marks, table = _points([row for row in rows if row["allocate"] == name], key)
            colour = PALETTE[number % len(PALETTE)]
            axis.plot(
                marks,
                table.mean(axis=0),
                _DASHES[number // len(PALETTE) % len(_DASHES)],
                color=colour,
                marker=_MARKS[number % len(_MARKS)],
                markersize=4,
                label=name,
            )
            axis.fill_between(marks, table.min(axis=0), table.max(axis=0), color=colour, alpha=0.18, linewidth=0)
        axis.set(xlabel="requested by jobs that have arrived [% of GPUs]", ylabel=label, xlim=(0, None))
        axis.set_ylim(bottom=0)
        light_grid(axis)
    most = axes[0].get_xlim()[1]
    axes[0].plot([0, min(most, 100)], [0, min(most, 100)], color=GREY, linewidth=0.8, zorder=0)
    axes[0].axhline(100, color=GREY, linewidth=0.8, zorder=0)
    axes[1].legend(frameon=False, fontsize=9, loc="best")
    best = max(names, key=lambda name: np.mean([row["allocated_pct"] for row in rows if row["allocate"] == name]))
    share = float(np.mean([row["allocated_pct"] for row in rows if row["allocate"] == best]))
    seeds = len({row["seed"] for row in rows})
    remark = f"means of {seeds} order{'s' * (seeds > 1)} of arrival" + (
        ", bands from least to most" if seeds > 1 else ""
    )
    words = (
        f"{best} allocates the most, {share:.1f} % of the GPUs"
        if len(names) > 1
        else f"{best}: {share:.1f} % of the GPUs"
    )
    headline(figure, words, int(rows[0]["arrivals"]), remark + (f"; {what}" if what else ""))
    return figure


def _points(rows: Sequence[dict[str, Any]], key: str) -> tuple[list[float], Any]:
    """Return the marks that all rows have reached, 0 first, and their values, (rows, marks)."""
    marks = [mark for mark in rows[0]["curve"] if all(row["curve"][mark] is not None for row in rows)]
    values = [[row["curve"][mark][key] for mark in marks] for row in rows]
    idle = 0.0 if key == "allocated_pct" else np.nan
    table = np.array([[idle, *line] for line in values], dtype=np.float64)
    return [0.0, *map(float, marks)], table
