"""An experiment in four pictures: the real trace, a synthetic one, what schedulers make of both, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluation.experiment.uses import mark
from evaluation.figures import agents, story
from evaluation.figures.base import Drawing, Scene
from evaluation.report.content import Content
from evaluation.report.gallery import Gallery, Ranks, slopes
from evaluation.report.markup import Html, joined, tag

_PASSES = ("good", "better")


def told(content: Content, scene: Scene, gallery: Gallery, ranks: Ranks) -> Html:
    """Return the four pictures, each under its sentence; nothing for a page without verdicts."""
    if not content.verdicts:
        return Html("")
    name, uses = shown(content)
    good = " and ".join(uses)
    first = "A synthetic one that passes for it" if uses else "The closest synthetic one, which does not pass for it"
    steps: list[tuple[str, str, Callable[[], Drawing]]] = [
        ("Your trace", "When its jobs were submitted", lambda: story.submits(scene)),
        (
            f"{first}: {name}",
            "Single jobs, and how jobs resemble those before them",
            lambda: story.likeness(scene.only(name)),
        ),
        (
            "What schedulers make of both",
            "The same policies on windows of both traces; those with close values change places by chance",
            slopes(ranks, ["real", name]),
        ),
        (
            f"The verdict: good enough for {good}" if uses else "The verdict: not shown to be good enough",
            "What was learnt from each trace, tried on unseen real jobs, against learning from real jobs",
            lambda: agents.verdict_intervals(_rows(content)),
        ),
    ]
    parts = [
        tag("section", tag("h3", f"{k}. {title}"), gallery(caption, f"story {k}", draw))
        for k, (title, caption, draw) in enumerate(steps, 1)
    ]
    return tag("div", tag("h2", "In four pictures"), tag("div", joined(parts), class_="story"), id="story")


def shown(content: Content) -> tuple[str, list[str]]:
    """Return the synthetic trace that the pictures show, and the uses that it passes for.

    It passes where it is good enough for a use, no copy, and worse for none. Else the one with the least bad verdicts
    is shown; of equals the first.
    """
    ranked: list[tuple[int, int, int, str, list[str]]] = []
    for k, name in enumerate(content.synthetic):
        rows = [row for row in content.verdicts if str(row["model"]) == name]
        bad = sum(mark(row) in ("worse", "failed") for row in rows)
        good = [str(row["learner"]) for row in rows if mark(row) in _PASSES]
        ranked.append((bad if rows else len(content.uses) + 1, -len(good), k, name, good))
    bad, _, _, name, good = min(ranked)
    return name, [] if bad else [str(use["use"]) for use in content.uses if use["learner"] in good]


def _rows(content: Content) -> list[tuple[Any, Any]]:
    return [(use, content.of_use(use, content.verdicts)) for use in content.uses]
