"""May each trace be shared? The decision of ``tracekit share``, with every attack and its control."""

from __future__ import annotations

import math

from evaluation.exposure import Attack
from evaluation.report.content import Content
from evaluation.report.markup import Cell, Html, details, joined, table, tag
from evaluation.share import Answer
from evaluation.table import number

_WORDS = {"no": "NO", "change": "change", "unknown": "open", "ok": "ok"}


def sharing_table(content: Content) -> Html:
    """Return the decision on every synthetic trace, what to do, and the attacks behind it."""
    rows = []
    for name, answer in content.sharing.items():
        said = "; ".join(answer.advice) or "nothing to do"
        alarm = any(attack.alarm for attack in answer.attacks)
        rows.append(
            [
                Cell(name),
                Cell(answer.verdict.upper(), kind="alarm left" if alarm else "left"),
                Cell(said, kind="left"),
            ]
        )
    caption = "May it be shared? The decision of tracekit share, from the attacks and names below."
    parts = [table(caption, ["trace", "verdict", "what to do"], rows, kind="keys")]
    parts += [_behind(name, answer) for name, answer in content.sharing.items()]
    return joined(parts)


def _behind(name: str, answer: Answer) -> Html:
    """Return all reasons and attacks of one trace, folded."""
    reasons = tag("ul", joined(tag("li", f"[{_WORDS[one.verdict]}] {one.text}") for one in answer.reasons))
    rows = [
        [
            Cell(one.name),
            Cell(one.target, kind="left"),
            Cell(_share(one.rate, one.low, one.high), one.rate),
            Cell(_share(one.control, one.control_low, one.control_high), one.control),
            Cell("alarm" if one.alarm else _quiet(one), kind="alarm" if one.alarm else ""),
        ]
        for one in answer.attacks
    ]
    made = table(f"Attacks on {name}", ["attack", "finds", "rate", "control", "outcome"], rows, kind="keys")
    return details(f"{name}: {answer.verdict.upper()}, and why", joined([reasons, made]))


def _share(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "–"
    return number(value) + (f" [{number(low)}, {number(high)}]" if math.isfinite(low + high) else "")


def _quiet(one: Attack) -> str:
    return "not tried" if math.isnan(one.rate) else "no alarm"
