"""The picture of an ablation: how much an allocator, an agent, and both change each base policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.plots.style import GREY, PALETTE, headline, light_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = {
    "wait": "mean wait",
    "jct": "job completion time",
    "gpu_utilization": "GPU utilisation",
    "fragmentation": "fragmentation",
}


def effects(plain: Mapping[str, Any]) -> Figure:
    """Draw the changes of the means against the base policy, in per cent, with intervals of the paired differences."""
    rows = plain["rows"]
    bases = list(dict.fromkeys(row["base"] for row in rows))
    arms = [arm for arm in dict.fromkeys(row["arm"] for row in rows) if arm != "base"]
    shown = [name for name in _SHOWN if name in rows[0]]
    figure, axes = new_figure(1, 4.2, columns=len(shown), width=3.4 * len(shown))
    for axis, name in zip(axes, shown, strict=True):
        for k, arm in enumerate(arms):
            found = {row["base"]: row[name] for row in rows if row["arm"] == arm}
            before = {row["base"]: row[name]["mean"] for row in rows if row["arm"] == "base"}
            scale = np.array([100 / abs(before[base]) if before[base] else np.nan for base in bases])
            middle, low, high = (
                np.array([found[base][key] for base in bases]) * scale for key in ("paired_difference", "low", "high")
            )
            place = np.arange(len(bases)) + (k - (len(arms) - 1) / 2) * 0.22
            reach = np.abs(np.stack([middle - low, high - middle]))
            axis.errorbar(place, middle, reach, fmt="o", markersize=4, capsize=2, color=PALETTE[k], label=arm)
        axis.axhline(0, color=GREY, linewidth=0.8)
        axis.set(title=_SHOWN[name], xticks=range(len(bases)), xticklabels=bases, ylabel="change [%]")
        light_grid(axis)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    plan = plain["plan"]
    words = f"change against the base policy on {plan['cluster']}: allocator {plan['allocate']}, an agent, both"
    jobs = sum(count for _, count in plain["windows"])
    headline(
        figure, words, jobs, f"{len(plain['windows'])} held-out windows; bars: 95 % intervals of paired differences"
    )
    return figure
