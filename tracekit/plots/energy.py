"""Pictures of the energy of a schedule: power over time by part, and the load-duration curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit.plots.style import GREY, PALETTE, NothingToDraw, light_grid, new_figure, time_unit
from tracekit.sim.energy.integrate import PARTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.sim.energy.integrate import Energy

COLOURS = dict(zip(PARTS, (*PALETTE, GREY), strict=True))
#: Names of the parts in pictures.
LABELS = {"gpu": "GPUs", "overhead": "facility overhead"}


def energy_text(kwh: float) -> str:
    """Return an energy in the unit in which it reads best.

    >>> energy_text(0.5), energy_text(2500), energy_text(3.2e6)
    ('0.5 kWh', '2.5 MWh', '3.2 GWh')
    """
    unit, name = _scale(kwh)
    return f"{kwh / unit:,.4g} {name}Wh"


def _scale(kilo: float) -> tuple[float, str]:
    return next(((unit, name) for unit, name in ((1e6, "G"), (1e3, "M")) if abs(kilo) >= unit), (1.0, "k"))


def power_over_time(energy: Energy, *, bins: int = 500) -> Figure:
    """Draw the power of the facility over time, stacked by part: means over ``bins`` equal stretches of the window."""
    figure, (axis,) = new_figure(1, 4.5)
    begin, last = float(energy.times[0]), float(energy.times[-1])
    if last <= begin:
        raise NothingToDraw("the window of the energy has no length")
    edges = np.linspace(begin, last, bins + 1)
    unit, name = time_unit(last - begin)
    watts, prefix = _scale(energy.peak_kw)
    x, below = (edges - begin) / unit, np.zeros(bins)
    for number, part in enumerate(PARTS):
        joules = np.append(0.0, np.cumsum(energy.watts[:, number] * np.diff(energy.times)))
        level = np.diff(np.interp(edges, energy.times, joules)) / np.diff(edges) / 1000 / watts
        if energy.parts_kwh[part] > 0:
            label = f"{LABELS.get(part, part)}, {energy.parts_kwh[part] / energy.total_kwh:.1%}"
            axis.stairs(below + level, x, baseline=below, fill=True, color=COLOURS[part], alpha=0.9, label=label)
        below = below + level
    axis.axhline(energy.peak_kw / watts, color=GREY, linewidth=1, linestyle=":")
    axis.set(
        xlim=(x[0], x[-1]),
        ylim=(0, max(energy.peak_kw / watts * 1.05, 1e-9)),
        xlabel=f"{name} since the begin of the window",
        ylabel=f"power [{prefix}W]",
    )
    title = f"{energy_text(energy.total_kwh)}, peak {energy.peak_kw / watts:,.3g} {prefix}W (dotted)"
    axis.set_title(f"Power by part, {energy.model}: {title}", loc="left")
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    return figure


def load_duration(energy: Energy) -> Figure:
    """Draw for how much of the window the power is at least so high; idle power of the machine is the floor."""
    figure, (axis,) = new_figure(1, 4)
    seconds, kw = energy.load_duration()
    if seconds[-1] <= 0:
        raise NothingToDraw("the window of the energy has no length")
    scale, prefix = _scale(energy.peak_kw)
    mean = energy.total_kwh / (seconds[-1] / 3600)
    axis.stairs(kw / scale, seconds / seconds[-1] * 100, fill=True, color=PALETTE[0], alpha=0.85)
    axis.axhline(mean / scale, color=PALETTE[1], linewidth=1.2, label=f"mean, {mean / scale:,.3g} {prefix}W")
    axis.set(
        xlim=(0, 100),
        ylim=(0, max(energy.peak_kw / scale * 1.05, 1e-9)),
        xlabel="share of the window [%]",
        ylabel=f"power is at least [{prefix}W]",
    )
    axis.set_title(f"Load-duration curve, {energy.model}", loc="left")
    axis.legend(frameon=False, loc="upper right")
    light_grid(axis)
    return figure


#: Pictures by file name, as ``energy --out`` and ``simulate --power --out`` draw them.
ENERGY_PICTURES = {"power.png": power_over_time, "load-duration.png": load_duration}
