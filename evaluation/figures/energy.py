"""Energy of the traces under one power model: load-duration curves, and where the energy goes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from evaluation.figures.base import INK, Drawing, Scene, blank, label, legend
from tracekit.plots.energy import COLOURS, LABELS
from tracekit.sim.energy.integrate import PARTS, Energy

POINTS = 200  # of a curve


def load_durations(scene: Scene, energies: Mapping[str, Energy]) -> Drawing:
    """Draw for how much of its time each trace draws at least so much power."""
    figure, (axis,) = blank(5.6, 3.4)
    share = np.linspace(0.0, 100.0, POINTS)
    rows, said = [], []
    for trace, (_, look) in scene.everyone.items():
        seconds, kw = energies[trace].load_duration()
        place = np.searchsorted(seconds[1:], share / 100 * seconds[-1], side="left")
        curve = kw[np.minimum(place, len(kw) - 1)]
        axis.plot(share, curve, label=label(trace), **look)
        rows.append(pd.DataFrame({"trace": trace, "share_pct": share, "kw": curve}))
        said.append(f"{trace}: peak {curve[0]:,.4g} kW, median {curve[POINTS // 2]:,.4g} kW")
    axis.set(xlabel="share of the time [%]", ylabel="power is at least [kW]", xlim=(0, 100))
    axis.set_ylim(bottom=0)
    legend(axis)
    words = "Load-duration curves under first come, first served with EASY backfilling. " + "; ".join(said) + "."
    return Drawing(figure, pd.concat(rows, ignore_index=True), words)


def parts(energies: Mapping[str, Energy]) -> Drawing:
    """Draw the mean power of each trace by part."""
    figure, (axis,) = blank(5.6, 1.2 + 0.45 * len(energies))
    rows = []
    for place, (trace, energy) in enumerate(energies.items()):
        hours, left = float(energy.times[-1] - energy.times[0]) / 3600, 0.0
        for part in PARTS:
            kw = energy.parts_kwh[part] / hours
            named = LABELS.get(part, part) if place == 0 else None
            if any(one.parts_kwh[part] for one in energies.values()):
                axis.barh(place, kw, left=left, color=COLOURS[part], height=0.7, label=named)
            left += kw
            rows.append({"trace": trace, "part": part, "mean_kw": kw})
    axis.set_yticks(range(len(energies)), [label(trace) for trace in energies])
    axis.invert_yaxis()
    axis.set_xlabel("mean power [kW]")
    handles, names = axis.get_legend_handles_labels()
    made = figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=7.5)
    for text in made.get_texts():
        text.set_color(INK)
    data = pd.DataFrame(rows)
    means = data.groupby("trace", sort=False)["mean_kw"].sum()
    words = "Mean power by part. " + "; ".join(f"{trace}: {kw:,.4g} kW" for trace, kw in means.items()) + "."
    return Drawing(figure, data, words)
