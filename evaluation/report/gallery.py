"""The figures of the page: drawn one by one, counted, and kept within the page's size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from evaluation.figures import columns, privacy, schedules, time, together
from evaluation.figures.base import NAMES, Drawing, Scene
from evaluation.report.content import Content
from evaluation.report.markup import Html, Tab, figure, inline, joined, missing, tabs, tag
from tracekit.plots.style import NothingToDraw

Tell = Callable[[str], None]
#: How policies rank on each trace, or why that is unknown.
Ranks = pd.DataFrame | str
MAX_BYTES = 7_000_000  # of all figures; the page has to stay below 8 MB
#: With more models than this, schedules are drawn for all of them together only.
SCHEDULES_FOR = 14
#: Columns that a reader expects; where a trace lacks one, its panel states that.
_LOOKED_FOR = {"req_time": "limits", "user": "users", "queue": "queues", "status": "statuses"}


class Gallery:
    """Draws and counts figures; ``tell`` is called with the name of each before it is drawn."""

    def __init__(self, tell: Tell | None = None) -> None:
        self.tell = tell or (lambda _: None)
        self.drawn, self.bytes = 0, 0
        self.left_out: list[str] = []

    def __call__(self, caption: str, name: str, draw: Callable[[], Drawing], *, wide: bool = False) -> Html:
        """Return a figure, or why there is none."""
        self.tell(caption)
        try:
            drawing = draw()
        except NothingToDraw as reason:
            return missing(caption, str(reason))
        made = figure(drawing, f"f{self.drawn}", slug(name), caption, wide=wide)
        if self.bytes + len(made.encode()) > MAX_BYTES:
            self.left_out.append(caption)
            return missing(caption, "to keep the page below 8 MB")
        self.drawn, self.bytes = self.drawn + 1, self.bytes + len(made.encode())
        return made


def slug(name: str) -> str:
    """Return a name for a file: letters, digits and hyphens.

    >>> slug("CDF <run time>, tvae")
    'cdf-run-time-tvae'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "figure"


def grid(*parts: Html) -> Html:
    """Return figures side by side as far as they fit; two or four of them in pairs."""
    return tag("div", joined(parts), class_="figures two" if len(parts) in (2, 4) else "figures")


def ranked(scene: Scene) -> Ranks:
    """Return how policies rank on each trace, or why that is unknown."""
    try:
        return schedules.rankings(scene)
    except NothingToDraw as reason:
        return str(reason)


def models(content: Content, scene: Scene, gallery: Gallery, ranks: Ranks) -> Html:
    """Return the tabs of all traces together and of each model."""
    panels = []
    if len(content.synthetic) > 1:
        panels.append(Tab("all-models", "All together", _together(scene, gallery, ranks)))
    for k, name in enumerate(content.synthetic):
        many = len(content.synthetic) > SCHEDULES_FOR
        panels.append(Tab(f"model-{k}", name, _model(scene.only(name), name, gallery, ranks, schedules_too=not many)))
    return tabs("Models", panels)


def slopes(ranks: Ranks, traces: list[str]) -> Callable[[], Drawing]:
    """Return what draws the ranks of policies on some traces."""

    def draw() -> Drawing:
        if isinstance(ranks, str):
            raise NothingToDraw(ranks)
        return schedules.slopes(ranks, traces)

    return draw


def _together(scene: Scene, gallery: Gallery, ranks: Ranks) -> Html:
    parts = [tag("h4", "Each column by itself"), _cdfs(scene, gallery, "all")]
    parts += [tag("h4", "Jobs in time"), _curves(scene, gallery, "all"), tag("h4", "Scheduling")]
    caption = "Rank of every policy on every trace; lines that cross are disagreements"
    parts.append(grid(gallery(caption, "rankings all", slopes(ranks, ["real", *scene.others]), wide=True)))
    return joined(parts)


def _model(scene: Scene, name: str, gallery: Gallery, ranks: Ranks, *, schedules_too: bool) -> Html:
    parts = [*_absent(scene, name), tag("h4", "Each column by itself"), _cdfs(scene, gallery, name)]
    parts += [
        tag("h4", "Columns together"),
        grid(
            gallery("Pearson's correlations: real, synthetic, difference", f"pearson {name}",
                    lambda: together.correlations(scene, "pearson"), wide=True),
            gallery("Associations of numbers and labels: real, synthetic, difference", f"associations {name}",
                    lambda: together.correlations(scene, "association"), wide=True),
        ),
        tag("h4", "Jobs in time"),
        grid(gallery("Jobs by hour of the week", f"hours {name}", lambda: time.hours(scene), wide=True)),
        _curves(scene, gallery, name),
        tag("h4", "Scheduling"),
        grid(
            gallery("Rank of every policy; lines that cross are disagreements", f"rankings {name}",
                    slopes(ranks, ["real", name]), wide=True),
        ),
    ]  # fmt: skip
    if schedules_too:
        parts.append(
            grid(
                gallery("Jobs waiting, first come first served with EASY backfilling", f"queue {name}",
                        lambda: schedules.queues(scene), wide=True),
                gallery("Gantt chart from the middle of each trace, same policy", f"gantt {name}",
                        lambda: schedules.gantt(scene), wide=True),
            )
        )  # fmt: skip
    else:
        parts.append(missing("Queue and Gantt chart", f"with more than {SCHEDULES_FOR} models they are left out"))
    return joined(parts)


def _cdfs(scene: Scene, gallery: Gallery, name: str) -> Html:
    return grid(
        *(
            gallery(f"Distribution of {NAMES.get(column, column)}", f"cdf {column} {name}",
                    lambda column=column: columns.cdf(scene, column))  # type: ignore[misc]
            for column in columns.column_names(scene)
        )
    )  # fmt: skip


def _curves(scene: Scene, gallery: Gallery, name: str) -> Html:
    made = [
        gallery(f"Autocorrelation of {NAMES.get(one, one)}", f"autocorrelation {one} {name}",
                lambda one=one: time.autocorrelations(scene, one))  # type: ignore[misc]
        for one in time.series_names(scene)
    ]  # fmt: skip
    made.append(gallery("Burstiness of arrivals", f"dispersion {name}", lambda: time.dispersion(scene)))
    return grid(*made)


def _absent(scene: Scene, name: str) -> list[Html]:
    """Return a note on columns that could not be compared because one of the traces lacks them."""
    theirs = scene.others[name]
    ours = [words for column, words in _LOOKED_FOR.items() if not scene.real.has(column)]
    lost = [words for column, words in _LOOKED_FOR.items() if scene.real.has(column) and not theirs.has(column)]
    said = []
    if ours:
        said.append(f"The real trace has no {', no '.join(ours)}: nothing about them can be compared.")
    if lost:
        said.append(f"This trace has no {', no '.join(lost)}, although the real one does.")
    return [tag("p", " ".join(said), class_="absent")] if said else []


def privacy_figure(content: Content, scene: Scene, gallery: Gallery) -> Html:
    """Return the shares of copies of every trace beside those of fresh real jobs."""
    trivial = [replace(one, name=f"{one.name} (baseline)") for one in content.scores.baselines]
    everyone = [*content.scores.synthetic, *trivial]
    caption = "Copies of real jobs; the line marks what fresh real jobs (the hold-out) reach"
    return inline(grid(gallery(caption, "privacy", lambda: privacy.copies(everyone, scene.looks), wide=True)))
