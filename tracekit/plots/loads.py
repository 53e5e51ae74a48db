"""Pictures of what a sweep over loads found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.plots.style import PALETTE, NothingToDraw, headline, light_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", ":", "-.")
#: What is drawn: key, label on the axis, unit, and whether the axis is logarithmic.
_PANELS = (("mean_wait_s", "mean wait [h]", 3600.0, False), ("mean_bsld", "mean bounded slowdown", 1.0, True))


def load_curves(rows: Sequence[dict[str, Any]], jobs: int) -> Figure:
    """Draw mean wait and bounded slowdown against the offered load; bands are the 95 % intervals.

    ``rows`` are those of `tracekit.sim.analysis.sweep.sweep`. Policies differ in colour and mark, backfillings in
    dashes.
    """
    if not rows:
        raise NothingToDraw("the sweep has no points")
    figure, axes = new_figure(1, 4.6, columns=len(_PANELS))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    backfills = list(dict.fromkeys(row["backfill"] for row in rows))
    for axis, (key, label, unit, logarithmic) in zip(axes, _PANELS, strict=True):
        for policy in policies:
            for backfill in backfills:
                line = [row for row in rows if (row["policy"], row["backfill"]) == (policy, backfill)]
                if not line:
                    continue
                loads = [row["load"] for row in line]
                mean, low, high = (np.array([row[key][end] for row in line]) / unit for end in ("mean", "low", "high"))
                number = policies.index(policy)
                colour = PALETTE[number % len(PALETTE)]
                least = 1.0 if logarithmic else 0.0
                axis.plot(
                    loads,
                    mean,
                    _DASHES[backfills.index(backfill) % len(_DASHES)],
                    color=colour,
                    marker=_MARKS[number % len(_MARKS)],
                    markersize=5,
                    label=f"{policy} + {backfill}",
                )
                if np.isfinite(low).all():
                    axis.fill_between(loads, np.maximum(low, least), high, color=colour, alpha=0.18, linewidth=0)
        axis.set(xlabel="offered load", ylabel=label)
        if logarithmic:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        light_grid(axis)
    axes[0].legend(frameon=False, fontsize=9)
    loads = sorted({row["load"] for row in rows})
    runs = max(row["runs"] for row in rows)
    headline(
        figure,
        f"Waits from load {loads[0]:g} to {loads[-1]:g}",
        jobs,
        f"means of {runs} runs a point, bands: 95 % intervals",
    )
    return figure
