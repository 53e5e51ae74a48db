"""A replay on Slurm beside its simulation: how full the machine was, and each job's start in both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.plots.style import BLUE, GREY, ORANGE, headline, light_grid, new_figure, save
from tracekit.stats import steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.slurm.compare import Agreement


def agreement(found: Agreement) -> Figure:
    """Draw processors in use over time in both, and below when each job started less when the simulation did."""
    run, procs = found.real.column("run_time"), found.real.column("req_procs")
    figure, axes = new_figure(2, 5.6, sharex=True, height_ratios=[3, 2])
    for start, colour, name in ((found.start, BLUE, "Slurm"), (found.simulated.start, ORANGE, "simulated")):
        times, used = steps(start, start + run, procs)
        axes[0].step(times, used, where="post", color=colour, linewidth=1.2, label=name)
    axes[0].axhline(found.simulated.total, color=GREY, linewidth=1)
    axes[0].set(ylabel="CPUs in use", ylim=(0, found.simulated.total * 1.12))
    axes[0].legend(loc="lower center", ncols=2, frameon=False)
    off = -found.error
    axes[1].axhline(0, color=GREY, linewidth=1)
    axes[1].scatter(found.start, off, s=12, color=BLUE)
    most = max(float(np.abs(off).max()) * 1.15, 1.0)
    axes[1].set(
        xlabel="start on Slurm, seconds after the first submit", ylabel="later than\nsimulated, s", ylim=(-most, most)
    )
    for axis in axes:
        light_grid(axis)
    facts: dict[str, Any] = found.to_dict()
    headline(
        figure,
        f"Mean wait {facts['mean_wait_slurm_s']:.1f} s on Slurm, {facts['mean_wait_simulated_s']:.1f} s simulated",
        facts["jobs"],
        f"{facts['policy']} + {facts['backfill']}, reaction {found.reaction:g} s; starts differ by "
        f"{facts['start_error_s']['mean']:.2f} s on average, order: Kendall's tau {facts['order_agreement']:.3f}",
    )
    return figure


def draw_agreement(found: Agreement, path: str | Path, *, force: bool = False) -> None:
    """Draw into a file."""
    save(agreement(found), path, force=force)
