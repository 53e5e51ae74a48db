"""The first screen: what a busy person should see in ten seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.base import FAMILIES
from evaluation.experiment.uses import mark
from evaluation.exposure import alarms
from evaluation.report.content import Content
from evaluation.report.headline import headline
from evaluation.report.markup import Cell, Html, inline, joined, paragraph, table, tag
from evaluation.report.summary_text import Standing, best, family_sentence, measured, standings
from evaluation.score import Scored, Scores
from evaluation.share import Answer
from tracekit import stats
from tracekit.plots.style import duration

BADGES = {"good": "✓ good enough", "better": "✓ better", "copies": "= copies real jobs", "worse": "▼ worse",
          "undecided": "? undecided", "failed": "✕ failed", "blind": "– cannot tell"}  # fmt: skip

_FEW = 4  # verdicts that fit above the table


def overview(content: Content, story: Html) -> Html:
    """Return heading, verdicts, the closest traces, the story in pictures, and a sentence for every family."""
    few = len(content.verdicts) <= _FEW
    verdicts = [verdict_list(content)] if content.verdicts and len(content.uses) == 1 else []
    return joined(
        [
            tag("h1", content.heading),
            tag("p", _facts(content), class_="facts"),
            paragraph(headline(content), class_="lead"),
            *_failures(content),
            *(verdicts if few else []),
            who_wins(content),
            *([] if few else verdicts),
            story,
            *(_sensitivity(use) for use in content.uses),
            families(content.scores),
        ]
    )


def _facts(content: Content) -> str:
    real = content.real
    size, load = real.machine.size(), real.offered_load()
    parts = [
        f"Real: {content.scores.real}, {len(real):,} jobs in {duration(stats.span(real))}",
        f"{size:,} {real.machine.unit}" if size else "machine size unknown",
        f"offered load {load:.2f}" if np.isfinite(load) else "",
        f"{len(content.synthetic)} synthetic trace{'s' if len(content.synthetic) > 1 else ''}",
        "quick scores: smaller samples, wider noise" if content.scores.switches.get("quick") else "",
    ]
    return " · ".join(part for part in parts if part)


def verdict_list(content: Content) -> Html:
    """Return one line a model: the verdict in a word, the sentence, and what to beware of."""
    lines = []
    for verdict in content.verdicts:
        outcome = mark(verdict)
        said = [str(flag) for flag in verdict.get("flags") or ()]
        more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
        flags = [tag("span", f" ⚠ {said[0]}{more}", class_="flag", title="; ".join(said))] if said else []
        sentence = (
            str(verdict.get("sentence") or "")
            .removeprefix(f"{verdict['model']}: ")
            .removeprefix(f"{verdict['verdict']}: ")
        )
        line = inline(
            tag("b", str(verdict["model"])), " ", tag("span", BADGES[outcome], class_="badge"), " – ", sentence
        )
        lines.append(tag("li", line, *flags, class_=outcome))
    return tag("ul", joined(lines), class_="verdicts", aria_label="Verdict on every model")


def _sensitivity(use: Mapping[str, Any]) -> Html:
    advice = f". What would help: {use['advice']}" if use.get("advice") else ""
    return tag("p", f"Would {use['use']} notice a bad trace? ", str(use["sentence"]), advice, class_="quiet")


def _failures(content: Content) -> list[Html]:
    said = {str(verdict["model"]) for verdict in content.verdicts}
    silent = [failure for failure in content.failures if str(failure.get("model")) not in said]
    return [
        tag("p", tag("b", f"✕ {failure.get('model')} failed: "), str(failure.get("reason", "")), class_="alarm")
        for failure in silent
    ]


def who_wins(content: Content) -> Html:
    """Return the table of models and families: how many scores lie within the real trace's own noise."""
    scores = content.scores
    shown = [family for family in FAMILIES if family in measured(scores)]
    by_family = {family: standings(scores, family) for family in shown}
    judged = [family for family in shown if any(one.judged for one in by_family[family])]
    if judged:  # with a noise floor, a family that it does not cover would be an empty column
        by_family = {family: found for family, found in by_family.items() if family in (*judged, "privacy")}
        shown = list(by_family)
    top = {family: best(found) for family, found in by_family.items()}
    base = {family: standings(scores, family, baselines=True) for family in shown}
    verdicts = {(row["learner"], str(row["model"])): row for row in (*content.others, *content.verdicts)}
    rows = []
    for one in (*scores.synthetic, *scores.baselines):
        ours = one in scores.synthetic
        k = (scores.synthetic if ours else scores.baselines).index(one)
        name = tag("a", one.name, href=f"#model-{k}") if ours else f"{one.name} (baseline)"
        agents = [_verdict(verdicts.get((use["learner"], one.name)), baseline=not ours) for use in content.uses]
        answer = content.sharing[one.name] if ours else None
        rows.append([Cell(name), *agents, *_cells(one, k, by_family if ours else base, top if ours else {}, answer)])
    caption = "Scores within the real trace's own noise (how far halves of it differ)."
    caption += " ★ closest." if len(scores.synthetic) > 1 else ""
    caption += " Grey: trivial baselines that every model should beat." if scores.baselines else ""
    if content.uses:
        caption += (
            " For each use: what was learnt from the trace, tried on unseen real jobs; + is worse than with real jobs."
        )
    heads = ["trace", *(str(use["use"]).capitalize() for use in content.uses), *map(str.capitalize, shown)]
    return table(caption, heads, rows, kind="matrix", foot=len(scores.baselines))


def _verdict(verdict: Mapping[str, Any] | None, *, baseline: bool) -> Cell:
    """Return how good a trace is for a use, in a word and a number; baselines get no mark of success."""
    if verdict is None:
        return Cell("–", kind="left")
    outcome = mark(verdict)
    difference = float("nan") if verdict.get("difference") is None else float(verdict["difference"])
    number = f" {100 * difference:+.1f} %".replace("-", "−") if np.isfinite(difference) else ""
    limit = verdict.get("at_most_worse")
    if outcome == "good" and not baseline and limit is not None:
        number = f", at most {100 * float(limit):.1f} % worse"
    said = BADGES[outcome].partition(" ")[2] if baseline else BADGES[outcome]
    kind = f"verdict left {'' if baseline else outcome}".strip()
    return Cell(said + number, difference, kind, str(verdict.get("sentence") or ""))


def _cells(
    one: Scored,
    k: int,
    found: dict[str, list[Standing]],
    top: dict[str, list[Standing]],
    answer: Answer | None,
) -> list[Cell]:
    cells = []
    for family, standing in found.items():
        if family == "privacy":
            cells.append(_privacy(one, answer))
            continue
        mine = standing[k]
        wins = mine in top.get(family, []) and len(top[family]) < len(standing)
        title = f"{mine.missing} of them cannot be computed for this trace" if mine.missing else ""
        share = mine.share if mine.judged else None
        cells.append(Cell(str(mine), share, "best" if wins else "", title, bar=share))
    return cells


def _privacy(one: Scored, answer: Answer | None) -> Cell:
    """Return the alarms in a word; without any, whether the trace may be shared (not for baselines)."""
    found = alarms(one.scores)
    copies = one.scores.get("privacy.exact_copies")
    level = copies.value if copies is not None else float("nan")
    if found:
        return Cell("⚠ copies" if "copies" in found[0] else "⚠ alarm", level, "alarm", "; ".join(found))
    if answer is None or answer.verdict == "yes":
        return Cell("no alarm", level)
    return Cell("not ready", level, "", "no alarm, but not ready to share: " + "; ".join(answer.advice))


def families(scores: Scores) -> Html:
    """Return a sentence or two for every family."""
    parts: Sequence[Any] = [
        tag("div", tag("dt", family, tag("span", f" {question}")), tag("dd", *family_sentence(scores, family)))
        for family, question in FAMILIES.items()
    ]
    return tag("dl", joined(parts), class_="families")
