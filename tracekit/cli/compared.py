"""Output of `simulate` over windows: a table with intervals and differences, two files, two pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.cli.app import console, json_text, say, table
from tracekit.errors import OutputError

if TYPE_CHECKING:
    from tracekit.sim.analysis.comparison import Comparison

TABLES = ("summary.csv", "summary.json")
PICTURES = tuple(f"{name}.{kind}" for name in ("slowdowns", "differences") for kind in ("pdf", "svg", "png"))

SUMMARY = (*TABLES, *PICTURES)


def check_summary(out: Path, *, compared: bool, figures: bool) -> None:
    """Raise OutputError if a summary exists already."""
    for name in (*TABLES, *(PICTURES if figures else ())) if compared else ():
        if (out / name).exists():
            raise OutputError(f"{out / name}: exists already; use --force to replace it")


def write_summary(comparison: Comparison, out: Path, file: str, *, figures: bool) -> None:
    """Write summary.csv, summary.json and the pictures."""
    from tracekit.files import write_text

    csv, plain = TABLES
    write_text(out / csv, comparison.table.to_csv(index=False, lineterminator="\n"), force=True)
    write_text(out / plain, json_text({"trace": file, **comparison.to_dict()}), force=True)
    if figures:
        from tracekit import plots

        for name, make in zip(("slowdowns", "differences"), (plots.slowdowns, plots.differences), strict=True):
            try:
                figure = make(comparison)
            except plots.NothingToDraw as reason:
                say(f"{name}: not drawn, {reason}")
                continue
            for picture in PICTURES:
                if picture.startswith(name):
                    plots.save(figure, out / picture, force=True)


def print_comparison(comparison: Comparison, file: str) -> None:
    """Show means with intervals, and differences from the baseline."""
    first = comparison.results[0]
    titles = ["policy", "backfill", "bsld", "wait, s", "used", "difference", "p"]
    made = table(
        *titles,
        title=f"{file}: {first.total:,} {first.switches['resource']}, means over {len(comparison.windows)} windows "
        f"[95 % intervals]; paired difference of bsld from {comparison.baseline}",
        right=titles[2:],
    )
    for row in comparison.table.to_dict("records"):
        ours = row["policy"] == comparison.baseline
        made.add_row(
            row["policy"],
            row["backfill"],
            _between(row["mean_bsld"], row["low"], row["high"]),
            _between(row["mean_wait_s"], row["wait_low"], row["wait_high"]),
            "–" if math.isnan(row["utilization"]) else f"{row['utilization']:.3f}",
            "baseline" if ours else _between(row["difference"], row["difference_low"], row["difference_high"], "+"),
            "" if ours or math.isnan(row["p"]) else f"{row['p']:.2g}",
        )
    console().print(made)


def _between(mean: float, low: float, high: float, sign: str = "") -> str:
    """Return ``35.7 [17.2, 85.4]``: three significant digits, all digits of a whole number; – = unknown."""
    texts = [f"{value:{sign},.3g}" if abs(value) < 1000 else f"{value:{sign},.0f}" for value in (mean, low, high)]
    if math.isnan(mean):
        return "–"
    return texts[0] if math.isnan(low) else f"{texts[0]} [{texts[1]}, {texts[2]}]"
