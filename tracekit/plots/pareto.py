"""Energy, carbon, cost or peak power against the delay of jobs: settings as points, and the front of the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.plots.style import PALETTE, NothingToDraw, light_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = {
    "energy": ("energy_kwh", "energy [kWh]"),
    "carbon": ("carbon_kg", "carbon [kg]"),
    "cost": ("cost", "cost"),
    "peak": ("peak_kw", "peak power [kW]"),
}


#: Points of the front that are named.
MOST_NAMED = 12


def pareto_picture(rows: Sequence[dict[str, Any]], measure: str) -> Figure:
    """Draw the rows of `tracekit.sim.analysis.pareto.mark_front`; the points of the front are numbered and named."""
    if not rows:
        raise NothingToDraw("there are no settings")
    from matplotlib.lines import Line2D

    key, label = _UNITS[measure]
    figure, (axis,) = new_figure(1, 5, width=12)
    families = list(dict.fromkeys(_family(row) for row in rows))
    most = max(row["jobs"] for row in rows)
    for number, family in enumerate(families):
        colour = PALETTE[number % len(PALETTE)]
        for whole in (True, False):  # hollow: some jobs were rejected
            ours = [row for row in rows if _family(row) == family and (row["jobs"] == most) == whole]
            points = [row["delay_s"] / 3600 for row in ours], [row[key] for row in ours]
            axis.scatter(*points, s=34, facecolors=colour if whole else "none", edgecolors=colour, zorder=3)
    front = [row for row in rows if row["front"]]
    steps = [row["delay_s"] / 3600 for row in front], [row[key] for row in front]
    axis.step(*steps, where="post", color="0.35", linewidth=1.2, zorder=2)
    for number, place in enumerate(zip(*steps, strict=True), 1):
        axis.annotate(str(number), place, xytext=(5, 5), textcoords="offset points", fontsize=8)
    axis.set(xlabel="mean delay of a job: wait and stretch of its run [h]", ylabel=label)
    axis.set_title(f"{label.partition(' [')[0].capitalize()} against delay, {len(rows)} settings", loc="left")
    light_grid(axis)
    dots = {family: PALETTE[number % len(PALETTE)] for number, family in enumerate(families)}
    handles = [Line2D([], [], marker="o", linestyle="", color=colour, label=name) for name, colour in dots.items()]
    if any(row["jobs"] < most for row in rows):
        handles.append(
            Line2D([], [], marker="o", linestyle="", color="0.35", markerfacecolor="none", label="jobs were rejected")
        )
    handles.append(Line2D([], [], color="0.35", linewidth=1.2, label="front:"))
    names = [f"{number}  {row['label']}" for number, row in enumerate(front, 1)]
    shown = names[:MOST_NAMED] + [f"… and {len(names) - MOST_NAMED} more in pareto.csv"] * (len(names) > MOST_NAMED)
    handles += [Line2D([], [], linestyle="", label=name) for name in shown]
    figure.legend(handles=handles, frameon=False, loc="outside right upper", fontsize=8)
    return figure


def _family(row: dict[str, Any]) -> str:
    """Return which levers a setting uses."""
    used = {
        "sleep": row["sleep_after"] is not None,
        "power cap": row["power_cap"] is not None,
        "frequency": row["frequency"] != 1,
        "held back": bool(row["max_extra_wait"]),
    }
    return " + ".join(name for name, is_used in used.items() if is_used) or "no lever"
