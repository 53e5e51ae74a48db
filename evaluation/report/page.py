"""The layout of the report: one self-contained HTML file without any external resource."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from evaluation.figures.base import Scene
from evaluation.report.content import Content
from evaluation.report.energy import energy_section
from evaluation.report.experiment import experiment
from evaluation.report.gallery import Gallery, grid, models, privacy_figure, ranked
from evaluation.report.markup import Html, details, inline, joined, paragraph, tag
from evaluation.report.overview import overview
from evaluation.report.sharing import sharing_table
from evaluation.report.story import told
from evaluation.report.tables import cost_table, definitions, privacy_table, provenance, score_tables
from tracekit.errors import OutputError
from tracekit.files import check_writable, is_stream, write_text
from tracekit.folders import writing_together

#: Progress callback: (steps done, steps in all, current step).
Progress = Callable[[int, int, str], None]
MAX_BYTES = 8_000_000
_UNFOLDED = (  # without JavaScript all panels are shown below each other
    "<noscript><style>[role=tabpanel][hidden] { display: block } [role=tablist], .get, .theme { display: none }"
    "</style></noscript>"
)
_FIGURES_A_MODEL = 15  # about: only the progress bar counts on it


def write(content: Content, path: str | Path, *, force: bool = False, progress: Progress | None = None) -> None:
    """Write the page to ``path`` and the scores as JSON beside it, whole and of one report."""
    with writing_together(*targets(path, force=force), force=force) as (html, beside):
        write_text(html, page(content, progress))
        sharing = [{"name": name, **answer.to_dict()} for name, answer in content.sharing.items()]
        found = content.scores.to_dict() | {"sharing": sharing}
        write_text(beside, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def targets(path: str | Path, *, force: bool = False) -> tuple[Path, Path]:
    """Return the two files that a report consists of, after making sure that they may be written."""
    if is_stream(path):
        raise OutputError("a report is two files, FILE.html and FILE.json; it cannot be written to standard output")
    page, beside = Path(path), Path(path).with_suffix(".json")
    if page.suffix.lower() not in (".html", ".htm") and not page.is_dir():
        raise OutputError(f"{path}: a report is HTML, for a browser: name it {page.with_suffix('.html')}")
    for target in (page, beside):
        check_writable(target, force=force)
    return page, beside


def page(content: Content, progress: Progress | None = None) -> str:
    """Return the whole page as HTML."""
    total = _FIGURES_A_MODEL * (len(content.synthetic) + 1)
    done = -1

    def tell(caption: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, total), total, f"drawing: {caption}")

    gallery = Gallery(tell)
    scene = Scene.of(content.real, content.synthetic, quick=bool(content.scores.switches.get("quick", True)))
    ranks = ranked(scene)
    story = told(content, scene, gallery, ranks)  # first, so that it is never left out for size
    agents = experiment(content, scene, gallery)
    sections: list[tuple[str, str, str]] = []  # id, name, body
    if agents:
        sections.append(("agents", "Agents", agents))
    sections += [
        ("scores", "Scores", score_tables(content.scores)),
        ("privacy", "Privacy", _privacy(content, scene, gallery)),
        *([("energy", "Energy", energy_section(content, scene, gallery))] if content.power else []),
        ("models", "Models", models(content, scene, gallery, ranks)),
        ("cost", "Cost", _cost(content, gallery)),
        ("definitions", "Definitions", details("What every metric measures", definitions())),
        ("provenance", "Provenance", provenance(content)),
    ]
    links = [tag("a", name, href=f"#{ident}") for ident, name, _ in sections]
    bar = tag("div", tag("strong", "tracekit"), tag("a", "Overview", href="#overview"),
              *([tag("a", "In four pictures", href="#story")] if story else []), *links,
              tag("button", "Theme: auto", type="button", class_="theme"))  # fmt: skip
    body = [tag("section", overview(content, story), id="overview", aria_label="Overview")]
    for ident, name, text in sections:
        body.append(
            tag("section", tag("h2", name, id=f"{ident}-name"), Html(text), id=ident, aria_labelledby=f"{ident}-name")
        )
    foot = "Made by tracekit. This file holds everything it shows; nothing is loaded from anywhere."
    return document(
        content.heading,
        tag("a", "Skip to the content", href="#overview", class_="skip")
        + tag("nav", bar, class_="bar", aria_label="Parts of the report")
        + tag("main", joined(body))
        + tag("footer", foot),
    )


def _privacy(content: Content, scene: Scene, gallery: Gallery) -> Html:
    made = privacy_table(content.scores)
    parts = [sharing_table(content), privacy_figure(content, scene, gallery)]
    if made is not None:
        parts.append(made)
    parts.append(paragraph(["Passing these attacks is not a guarantee: they are the simplest ones."], class_="quiet"))
    return joined(parts)


def _cost(content: Content, gallery: Gallery) -> Html:
    costs = content.table("costs")
    made = cost_table(content)
    if costs is None or made is None:
        return paragraph(["Unknown: the traces were read from files, which do not record the cost of making them."])
    from evaluation.figures import agents

    caption = "Seconds of CPU time by model and step; the first one on a machine includes compilation"
    drawn = gallery(caption, "cost", lambda: agents.costs(costs), wide=True)
    return inline(grid(drawn), made)


def document(title: str, body: str) -> str:
    """Return the page with its style and script inside, and a policy that lets it load and run nothing else."""
    place = files("evaluation") / "report"
    style, script = ((place / name).read_text("utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'{tag("title", title)}\n<link rel="icon" href="data:,">\n<style>\n{style}</style>{_UNFOLDED}</head>\n'
        f"<body>{body}\n<script>{script}</script></body></html>\n"
    )
