"""The scores as tables for the terminal: a section a family, every number beside its noise floor and the baselines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from evaluation.base import FAMILIES
from evaluation.score import Scored, Scores
from evaluation.view import RAW_SIZES

if TYPE_CHECKING:
    from rich.table import Table

WITHIN = "✓"
LEGEND = (
    f"{WITHIN} no worse than one half of the real trace against the other (noise floor, 95 % interval in brackets);  "
    "r, i = no better than the trivial baselines resample, independent.  Distances: 0 is best; AUC: 0.5 is best; "
    "τ, precision, recall, dcr_ratio: high is best; where the real value is shown, the nearest to it."
)
_NAME_WIDTH = 14
#: Synthetic traces side by side in one table; more of them get tables of their own, so that 120 columns suffice.
SIDE_BY_SIDE = 3


def tables(scores: Scores) -> Iterator[Table]:
    """Yield one table a family (and a group of synthetic traces)."""
    groups = [scores.synthetic[k : k + SIDE_BY_SIDE] for k in range(0, len(scores.synthetic), SIDE_BY_SIDE)]
    for group in groups:
        for family, question in FAMILIES.items():
            keys = [key for key in scores.keys_of(family) if _shown(key, group)]
            if keys:
                yield _table(scores, family, question, keys, group)


def notes(scores: Scores) -> list[str]:
    """Return why scores are missing, each reason once, with the keys and, unless it is all of them, the traces."""
    missing: dict[tuple[str, str], list[str]] = {}  # (key, reason) -> traces
    for scored in scores.synthetic:
        for key, score in scored.scores.items():
            if math.isnan(score.value):
                missing.setdefault((key, score.note), []).append(scored.name)
    reasons: dict[str, list[str]] = {}
    for (key, reason), names in missing.items():
        whose = "" if len(names) == len(scores.synthetic) else f" ({', '.join(names)})"
        reasons.setdefault(reason + whose, []).append(key)
    found = [f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items()]
    if scores.switches["noise_floor"].startswith(("first", "none")):
        found.append(f"noise floor: {scores.switches['noise_floor']}")
    if scores.switches.get("in_parts"):
        found.append("read in parts: without the trivial baselines, which are made of the whole trace")
    missing_sizes = {name: count for name, count in scores.switches.get("left_out", {}).items() if count}
    if missing_sizes:
        counts = ", ".join(f"{name} {count:,}" for name, count in missing_sizes.items())
        found.append(f"jobs without {scores.switches['unit']}, left out wherever sizes count: {counts}")
    if scores.switches["machine_note"]:
        found.append(f"load and scheduling: {scores.switches['machine_note']}")
    return found


def _shown(key: str, group: Sequence[Scored]) -> bool:
    """Leave out sizes as the file has them, which repeat the sizes as scheduled, and what no trace has."""
    return key.rpartition(".")[2] not in RAW_SIZES and any(
        key in scored.scores and math.isfinite(scored.scores[key].value) for scored in group
    )


def _table(scores: Scores, family: str, question: str, keys: list[str], group: Sequence[Scored]) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(
        title=f"{family}: {question}",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    made.add_column("metric", no_wrap=True)
    names = distinct([scored.name for scored in scores.synthetic])
    headings = [
        "real",
        *(names[scored.name] for scored in group),
        "noise floor",
        *(baseline.name for baseline in scores.baselines),
    ]
    for heading in headings:
        made.add_column(heading, justify="right", no_wrap=True)
    for key in keys:
        cells = [key, number(group[0].scores[key].real)]
        cells += [_cell(scores, key, scored) for scored in group]
        floor = scores.noise_floor.get(key)
        cells.append(
            ""
            if floor is None or math.isnan(floor.value)
            else f"{number(floor.value)} [{number(floor.low)}, {number(floor.high)}]"
            if math.isfinite(floor.low)
            else number(floor.value)
        )
        cells += [number(baseline.scores[key].value) if key in baseline.scores else "" for baseline in scores.baselines]
        made.add_row(*cells)
    return made


def _cell(scores: Scores, key: str, scored: Scored) -> str:
    score = scored.scores.get(key)
    if score is None or math.isnan(score.value):
        return "–   "
    if scores.within_noise(key, scored):
        mark = WITHIN
    else:
        mark = "".join(name[0] for name in scores.not_better_than(key, scored))
    return f"{number(score.value)} {mark:<2}"


def number(value: float) -> str:
    """Return a number in at most seven characters; nothing for NaN.

    >>> number(0.12345), number(12.345), number(12345.6), number(float("nan"))
    ('0.123', '12.35', '12,346', '')
    """
    if math.isnan(value):
        return ""
    size = abs(value)
    if size >= 1e7:
        return f"{value:.2g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def distinct(names: Sequence[str]) -> dict[str, str]:
    """Return names that fit a column: without what all of them begin and end with, and cut at the end.

    >>> distinct(["synthetic_data_gc_theta", "synthetic_data_tvae_theta"])
    {'synthetic_data_gc_theta': 'gc', 'synthetic_data_tvae_theta': 'tvae'}
    """
    parts = [re.split(r"(?<=[_\-. /])|(?=[_\-. /])", name) for name in names]
    while len(parts) > 1 and all(len(part) > 1 and part[0] == parts[0][0] for part in parts):
        parts = [part[1:] for part in parts]
    while len(parts) > 1 and all(len(part) > 1 and part[-1] == parts[0][-1] for part in parts):
        parts = [part[:-1] for part in parts]
    short = ["".join(part).strip("_-. /") or name for part, name in zip(parts, names, strict=True)]
    return {
        name: cut if len(cut) <= _NAME_WIDTH else cut[: _NAME_WIDTH - 1] + "…"
        for name, cut in zip(names, short, strict=True)
    }
