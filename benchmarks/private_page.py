"""Draws the figure of docs/results/privacy.md and prints its tables, from what `bench_private` stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SHOWN = (
    ("ks.mean", "KS, mean of columns", 0.10),
    ("load error", "load, relative error", 0.10),
    ("hour_of_week.tv", "week profile, TV", 0.15),
    ("correlation.mad_spearman", "rank correlations, mean difference", None),
    ("order", "order: acf1 of run time, difference", None),
    ("c2st.auc", "classifier (C2ST), AUC", None),
    ("scheduling.log_wait_w1", "waits, distance in ln s", None),
    ("scheduling.kendall_tau", "policies, Kendall τ", None),
    ("linked", "linked users, above the control", None),
)
EPSILONS, LEVELS = ("0.5", "1", "3", "10"), ("1", "2", "5", "10")
COLOURS = {"KTH-SP2": "#0072b2", "CTC-SP2": "#d55e00", "SDSC-BLUE": "#009e73"}


def value(book: dict[str, Any], model: str, level: str, key: str) -> float:
    """Return the mean of a score over draws; NaN where it was not measured."""
    cells = [cell for name, cell in book.items() if name.startswith(f"{model} {level} #")]
    found = [one for cell in cells if np.isfinite(one := _one(cell, key))]
    return float(np.mean(found)) if found else float("nan")


def _one(cell: dict[str, float], key: str) -> float:
    if key == "load error":
        return abs(cell["offered_load"] / cell["offered_load.real"] - 1) if "offered_load" in cell else float("nan")
    if key == "order":
        return abs(cell["acf1.run_time"] - cell["acf1.run_time.real"]) if "acf1.run_time" in cell else float("nan")
    if key == "linked":
        names = ("privacy.submit_gaps", "privacy.submit_rhythm")
        return max(cell[n] - cell.get(f"{n}.real", 0.0) for n in names) if names[0] in cell else float("nan")
    return float(cell.get(key, float("nan")))


def write(results: dict[str, Any], figure: Path) -> None:
    """Draw the curve and print the tables in Markdown."""
    grid, axes = plt.subplots(3, 3, figsize=(11, 8.5), sharex=True, layout="constrained")
    for axis, (key, title, goal) in zip(axes.flat, SHOWN, strict=True):
        for name, colour in COLOURS.items():
            book = results.get(name, {})
            axis.plot(range(4), [value(book, "private", e, key) for e in EPSILONS], "o-", color=colour, label=name)
            axis.plot(range(5, 9), [value(book, "sessions", k, key) for k in LEVELS], "s--", color=colour, alpha=0.6)
            if key == "scheduling.kendall_tau" and "floor" in book:
                axis.axhline(book["floor"][key]["value"], color=colour, lw=0.8, ls=":")
        if goal is not None:
            axis.axhline(goal, color="black", lw=0.8, ls=":")
        axis.axvline(4, color="#cccccc", lw=1)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(
            [*range(4), *range(5, 9)], [f"ε {e}" for e in EPSILONS] + [f"k {k}" for k in LEVELS], fontsize=8
        )
        axis.grid(alpha=0.25)
    axes[0, 0].legend(fontsize=8)
    grid.suptitle("private, by ε (circles)  |  sessions --skeleton modelled, by k (squares, no proof)", fontsize=11)
    grid.savefig(figure, dpi=110)
    for name, book in results.items():
        facts = book["trace"]
        print(f"\n{name}: {facts['users']} users, {facts['jobs']} jobs, floor {book.get('floor')}\n")
        print("| | " + " | ".join(title for _, title, _ in SHOWN) + " |\n|" + "---|" * (len(SHOWN) + 1))
        for model, levels in (("private", EPSILONS), ("sessions", LEVELS)):
            for level in levels:
                numbers = [value(book, model, level, key) for key, _, _ in SHOWN]
                if np.isfinite(numbers).any():
                    sign = "ε" if model == "private" else "k"
                    shown = (f"{n:.3f}" if np.isfinite(n) else "–" for n in numbers)
                    print(f"| {model}, {sign} = {level} | " + " | ".join(shown) + " |")
