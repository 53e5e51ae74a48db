"""The model card of an agent: README.md in its folder, written from agent.json alone: same agent, same card.

What it was judged by is kept in agent.json under ``judged``, one entry for each trace and set of windows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD = "README.md"
#: Baselines that a card lists for one evaluation, best first.
_MOST_ROWS = 8


def card_text(facts: Mapping[str, Any]) -> str:
    """Return the card of an agent with these facts (what agent.json holds); unknown parts are left out."""
    task, trace, metrics = (facts.get(key) or {} for key in ("task", "trace", "metrics"))
    lines = [
        f"# An agent for task {task.get('name', 'pick-job')}",
        "",
        f"Network `{facts.get('network')}` with layers {' → '.join(map(str, facts.get('sizes', ())))}; it sees "
        f"{len(facts.get('features', ()))} features: {', '.join(facts.get('features', ()))}.",
        "The folder holds weights and plain text. Loading it runs no code.",
        "",
        "## Trained on",
        "",
        *_listed(
            {
                "trace": trace.get("file"),
                "jobs": _number(trace.get("jobs")),
                "SHA-256 of the jobs": trace.get("jobs_sha256"),
                "cluster": _cluster(task.get("cluster")),
                "objective": task.get("objective"),
                "reward": task.get("reward"),
                "backfilling": task.get("backfill"),
                "seed": facts.get("seed"),
                "initial weights": facts.get("init") or "random",
                "decisions": _number(metrics.get("steps")),
                "versions": ", ".join(f"{name} {value}" for name, value in (facts.get("versions") or {}).items()),
            }
        ),
        "",
        "## Validated during training",
        "",
        *_listed(
            {
                f"validation {metrics.get('objective', 'score')}": _number(metrics.get("validation_score")),
                "windows": _number(metrics.get("validation_windows")),
                "best heuristic there": _scored(metrics.get("best_heuristic"), metrics.get("best_heuristic_score")),
                "note": metrics.get("note"),
            }
        ),
        "",
        "## Judged by",
        "",
    ]
    judged = facts.get("judged") or []
    if not judged:
        lines += ["Nothing yet. `tracekit evaluate FOLDER TRACE --update-card` adds an evaluation."]
    for entry in judged:
        lines += _judged(entry)
    return "\n".join(lines).rstrip() + "\n"


def _judged(entry: Mapping[str, Any]) -> list[str]:
    rows = sorted(entry["baselines"].items(), key=lambda item: item[1]["mean"] or 0.0)[:_MOST_ROWS]
    return [
        f"{entry['objective']} on {entry['windows']} windows of {entry['trace']} (seed {entry['seed']}), smaller is "
        "better; differences are paired, with 95 % intervals.",
        "",
        "| policy | mean | agent − policy |",
        "|---|---|---|",
        f"| **the agent** | {_interval(entry, 'mean')} | |",
        *(f"| {name} | {_short(row['mean'])} | {_interval(row, 'paired_difference')} |" for name, row in rows),
        *(["", *(f"- {note}" for note in entry["notes"])] if entry["notes"] else []),
        "",
    ]


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _interval(row: Mapping[str, Any], key: str) -> str:
    return f"{_short(row[key])} [{_short(row['low'])}, {_short(row['high'])}]"


def judgement(trace: str, seed: int, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``judged`` from what ``evaluate --json`` prints; files are named without their folders."""
    keep = ("mean", "paired_difference", "low", "high", "p")
    return {
        "trace": Path(trace).name,
        "objective": summary["objective"],
        "windows": len(summary["windows"]),
        "starts": [[window["start"], window["jobs"]] for window in summary["windows"]],
        "seed": seed,
        **{key: summary[key] for key in ("mean", "low", "high")},
        "baselines": {name: {key: row.get(key) for key in keep} for name, row in summary["baselines"].items()},
        "notes": list(summary.get("notes", ())),
    }


def with_judgement(facts: Mapping[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return facts with an evaluation added; one of the same trace, windows and objective is replaced."""

    def key(one: Mapping[str, Any]) -> str:
        return json.dumps([one["trace"], one["objective"], one["starts"]])

    others = [one for one in facts.get("judged") or [] if key(one) != key(entry)]
    return {**facts, "judged": [*others, _finite(entry)]}


def _finite(value: Any) -> Any:
    """Return plain values with None in place of numbers that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _listed(values: Mapping[str, Any]) -> list[str]:
    found = [f"- {name}: {value}" for name, value in values.items() if value not in (None, "")]
    return found or ["Not recorded."]


def _number(value: Any) -> str | None:
    return None if not isinstance(value, int | float) else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _scored(name: Any, score: Any) -> str | None:
    return None if not name else f"{name} ({_number(score)})"


def _cluster(given: Any) -> str | None:
    """Return a cluster in few words."""
    if not isinstance(given, Mapping):
        return str(given) if given else None
    hosts = sum(int(group.get("count", 0)) for group in given.get("groups", ()))
    return f"{given.get('name') or 'unnamed'} ({hosts} hosts)"
