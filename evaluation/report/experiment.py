"""The part of the page about agents: verdicts, learning, windows in pairs, which score to trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evaluation.experiment.uses import mark
from evaluation.experiment.verdict import percent
from evaluation.figures import agents
from evaluation.figures.base import Scene
from evaluation.report.content import Content
from evaluation.report.gallery import Gallery, grid
from evaluation.report.markup import Cell, Html, joined, table, tag

METRICS = {
    "mean_bsld": "mean bounded slowdown",
    "error_factor": "factor by which predicted run times miss",
    "forecast_factor": "factor by which forecasts of waits miss",
    "mean_wait_s": "mean wait (s)",
    "p95_bsld": "95th percentile of bounded slowdown",
    "utilization": "utilisation",
}


_ENOUGH = 10  # models, below which a rank correlation of scores with verdicts says little


def experiment(content: Content, scene: Scene, gallery: Gallery) -> Html:
    """Return everything that an experiment added, in the order of the questions that one asks."""
    what = METRICS.get(content.metric, content.metric)
    learning, windows, trust = (content.table(name) for name in ("learning", "windows", "trust"))
    parts: list[str] = []
    if content.verdicts:
        caption = "Difference from agents trained on real jobs, with its interval; green: ends below the margin"
        everyone = [
            (use, [*content.of_use(use, content.verdicts), *content.of_use(use, content.others)])
            for use in content.uses
        ]
        draw_all = lambda: agents.verdict_intervals(everyone)  # noqa: E731
        parts += [tag("h3", "Verdicts"), grid(gallery(caption, "verdicts", draw_all, wide=True))]
        for use, rows in everyone:
            measured = METRICS.get(use["metric"], use["metric"])
            parts.append(verdict_table(f"{str(use['use']).capitalize()}: {measured}, against real jobs", rows))
    if content.scarce:
        parts += [
            tag("h3", "Few real jobs, with and without synthetic ones added"),
            verdict_table("Against agents trained on the few real jobs alone", content.scarce),
        ]
    if learning is not None:
        learning = _in_order(learning, list(scene.others))
        caption = "Learning curves, each on validation windows of its own training set: levels do not compare"
        draw = lambda: agents.learning_curves(learning, scene.looks, what)  # noqa: E731
        parts += [tag("h3", "Learning"), grid(gallery(caption, "learning", draw, wide=True))]
    if windows is not None:
        parts += [tag("h3", "Held-out windows")]
        windows = _in_order(windows, list(scene.others))
        heuristics = content.table("heuristics")
        caption = "Means over held-out windows" + (", heuristics beside them" if heuristics is not None else "")
        draw = lambda: agents.by_load(windows, heuristics, scene.looks, what)  # noqa: E731
        parts.append(grid(gallery(caption, "loads", draw, wide=True)))
        arms = [arm for arm in dict.fromkeys(windows["arm"].astype(str)) if arm != "real"]
        parts.append(grid(*(_pair(content, scene, gallery, arm, what) for arm in arms)))
    if trust is not None:
        few = int(trust["n"].max())
        caption = f"How each cheap score orders the models against how the agents do; over {few} models"
        caption += ", so by chance many agree" if few < _ENOUGH else ""
        parts += [
            tag("h3", "Which score to trust"),
            *([tag("p", f"{content.trust_note}.", class_="quiet")] if content.trust_note else []),
            grid(gallery(caption, "trust", lambda: agents.trusted(trust), wide=True)),
        ]
    return joined(parts)


def _in_order(windows: pd.DataFrame, models: list[str]) -> pd.DataFrame:
    """Return the windows with agents trained on real jobs first, then the models as everywhere, then the others."""
    places = {arm: k for k, arm in enumerate(["real", *models])}
    return windows.sort_values("arm", key=lambda arms: arms.map(places).fillna(len(places)), kind="stable")


def _pair(content: Content, scene: Scene, gallery: Gallery, arm: str, what: str) -> Html:
    windows = content.table("windows")
    assert windows is not None
    look: Mapping[str, Any] = scene.looks.get(arm, {"color": "#8a8a8a"})
    caption = f"Window by window; above the line {arm} is worse"
    margin = next((float(use["margin"]) for use in content.uses if use["metric"] == content.metric), None)
    return gallery(caption, f"paired {arm}", lambda: agents.paired(windows, arm, margin, look, what))


def verdict_table(caption: str, verdicts: Sequence[Mapping[str, Any]]) -> Html:
    """Return the verdicts with their numbers."""
    rows = []
    for verdict in verdicts:
        numbers = [verdict.get(name) for name in ("difference", "low", "high")]
        cells = [Cell("–") if v is None or v != v else Cell(percent(float(v)), float(v)) for v in numbers]
        sentence = str(verdict.get("sentence") or "")
        rows.append([Cell(str(verdict["model"])), Cell(_outcome(verdict)), *cells, Cell(sentence, kind="left")])
    return table(caption, ["trained on", "verdict", "difference", "low", "high", "in words"], rows)


def _outcome(verdict: Mapping[str, Any]) -> str:
    """Return the verdict in a word: what may be better by more than the margin is undecided, and good enough."""
    outcome = str(verdict["verdict"])
    return "good enough" if outcome == "undecided" and mark(verdict) in ("good", "copies") else outcome
