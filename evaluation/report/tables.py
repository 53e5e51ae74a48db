"""Tables: every score beside its noise floor and the baselines, what each one means, and where everything came from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from evaluation.base import FAMILIES, METRICS
from evaluation.report.content import Content
from evaluation.report.markup import Cell, Html, Tab, details, inline, joined, paragraph, table, tabs, tag
from evaluation.score import Scored, Scores
from evaluation.table import notes, number
from evaluation.view import RAW_SIZES

LEGEND = (
    "✓ within the real trace's own noise: no worse than one half of it against the other. r, i: no better than the "
    "trivial baselines resample, independent. Distances: 0 is best; AUC: 0.5; τ, precision, recall, dcr_ratio: high is "
    "best; where the real value is shown, the nearest to it. Point at a number for its 95 % interval and remarks."
)


def score_tables(scores: Scores) -> Html:
    """Return one sortable table a family, in tabs, and why scores are missing."""
    panels = []
    for family, question in FAMILIES.items():
        keys = [key for key in scores.keys_of(family) if key.rpartition(".")[2] not in RAW_SIZES]
        keys = [key for key in keys if any(math.isfinite(one.scores[key].value) for one in scores.synthetic)]
        if keys:
            panels.append(Tab(f"scores-{family}", family.capitalize(), family_table(scores, family, question, keys)))
    absent = notes(scores)
    parts = [paragraph([LEGEND], class_="small quiet"), tabs("Families of scores", panels)]
    if absent:
        listed = tag("ul", joined(tag("li", line) for line in absent))
        parts.append(details(f"Not measured, or with a reservation ({len(absent)})", listed))
    return joined(parts)


def family_table(scores: Scores, family: str, question: str, keys: list[str]) -> Html:
    """Return the keys of one family as rows; real, synthetic, noise floor and baselines as columns."""
    rows = []
    for key in keys:
        real = next((one.scores[key].real for one in scores.synthetic if key in one.scores), math.nan)
        floor = scores.noise_floor.get(key)
        cells = [Cell(key, title=definition(key)), Cell(number(real) or "–", real)]
        cells += [_value(scores, key, one) for one in scores.synthetic]
        if floor is None or math.isnan(floor.value):
            cells.append(Cell("–"))
        else:
            ends = f" [{number(floor.low)}, {number(floor.high)}]" if math.isfinite(floor.low) else ""
            cells.append(Cell(number(floor.value) + ends, floor.value, title=floor.note))
        cells += [_plain(one, key) for one in scores.baselines]
        rows.append(cells)
    heads = [
        "score",
        "real",
        *(one.name for one in scores.synthetic),
        "noise floor",
        *(b.name for b in scores.baselines),
    ]
    return table(f"{family.capitalize()}: {question}", heads, rows, kind="keys")


def _value(scores: Scores, key: str, one: Scored) -> Cell:
    score = one.scores[key]
    if math.isnan(score.value):
        return Cell("–", kind="no", title=score.note)
    within = scores.within_noise(key, one)
    mark = "✓" if within else "".join(name[0] for name in scores.not_better_than(key, one))
    interval = f"95 % interval {number(score.low)} … {number(score.high)}" if math.isfinite(score.low) else ""
    title = "; ".join(part for part in (interval, score.note) if part)
    return Cell(f"{number(score.value)} {mark}".strip(), score.value, "within" if within else "", title)


def _plain(one: Scored, key: str) -> Cell:
    score = one.scores.get(key)
    return Cell("–") if score is None or math.isnan(score.value) else Cell(number(score.value), score.value, "no")


def definition(key: str) -> str:
    """Return the first line of what a key's metric says of itself; empty for keys of other packages' own naming."""
    for name in METRICS.names():
        first = (METRICS.get(name).__doc__ or "").partition("\n")[0]
        wanted = [part.strip() for part in first.partition(":")[0].split(",")]
        for pattern in wanted:
            if re.fullmatch(
                re.sub(r"<[^>]+>|\\\*", ".+", re.escape(pattern).replace(r"\<", "<").replace(r"\>", ">")), key
            ):
                return first
    return ""


def definitions() -> Html:
    """Return what every metric measures, as it says itself."""
    rows = []
    for name in METRICS.names():
        metric = METRICS.get(name)
        meaning = " ".join((metric.__doc__ or "").split())
        rows.append(
            [Cell(name), Cell(metric.family, kind="left"), Cell(metric.unit, kind="left"), Cell(meaning, kind="left")]
        )
    return table("Every metric, in its own unit", ["metric", "family", "unit", "definition"], rows, kind="keys")


def privacy_table(scores: Scores) -> Html | None:
    """Return the privacy scores, one row a trace; None where there are none."""
    keys = [k for k in scores.keys_of("privacy") if any(math.isfinite(s.scores[k].value) for s in scores.synthetic)]
    if not keys:
        return None
    rows = [
        [Cell(one.name), *(_value(scores, key, one) if one in scores.synthetic else _plain(one, key) for key in keys)]
        for one in (*scores.synthetic, *scores.baselines)
    ]
    holdout = [next((s.scores[key].real for s in scores.synthetic), math.nan) for key in keys]
    rows.append([Cell("fresh real jobs (hold-out)"), *(Cell(number(v) or "–", v) for v in holdout)])
    heads = ["trace", *(key.removeprefix("privacy.") for key in keys)]
    return table("Privacy scores of every trace", heads, rows, foot=len(scores.baselines) + 1)


def cost_table(content: Content) -> Html | None:
    """Return the seconds of every step, one row a model."""
    costs = content.table("costs")
    if costs is None:
        return None
    wide = costs.groupby(["model", "step"], sort=False)["seconds"].sum().unstack("step")
    wide = wide.reindex(list(dict.fromkeys(costs["model"])))
    rows = [
        [Cell(str(name)), *(Cell("–" if math.isnan(v) else f"{v:,.1f}", float(v)) for v in wide.loc[name])]
        for name in wide.index
    ]
    return table("Seconds of CPU time by step", ["model", *map(str, wide.columns)], rows)


def provenance(content: Content) -> Html:
    """Return inputs with their hashes, seeds, versions, switches, the command and what was done to the traces."""
    parts: list[str] = []
    if content.command:
        parts.append(inline(tag("h3", "Command"), tag("p", tag("code", content.command))))
    if content.inputs:
        rows = [
            [
                Cell(one.name),
                Cell("–") if one.jobs is None else Cell(f"{one.jobs:,}", one.jobs),
                Cell(one.sha256 or "not a file", kind="hash left"),
            ]
            for one in content.inputs
        ]
        parts.append(inline(tag("h3", "Inputs"), table("Files and their SHA-256", ["trace", "jobs", "sha256"], rows)))
    parts += [_pairs("Seeds", content.seeds), _pairs("Versions", content.versions)]
    parts.append(_pairs("How the scores were computed", content.scores.switches))
    history = {
        name: trace.history for name, trace in {"real": content.real, **content.synthetic}.items() if trace.history
    }
    if history:
        lines = [tag("li", tag("b", name), ": ", "; ".join(steps)) for name, steps in history.items()]
        parts.append(details("What was done to the traces since they were read or made", tag("ul", joined(lines))))
    if content.notes:
        parts.append(inline(tag("h3", "Notes"), tag("ul", joined(tag("li", note) for note in content.notes))))
    return joined(parts)


def _pairs(heading: str, values: Mapping[str, Any]) -> Html:
    if not values:
        return Html("")
    rows = [[Cell(str(key)), Cell(_said(value), kind="left")] for key, value in values.items()]
    return inline(tag("h3", heading), table(heading, ["", "value"], rows))


def _said(value: Any) -> str:
    if value is None or value == "":
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
