"""Pieces of HTML for the report: every text from outside is escaped here, with `tracekit.notebook.safe`.

`Html` is text that is already HTML; everything else that goes into a piece is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.figures.base import Drawing
from evaluation.figures.svg import svg
from evaluation.report.summary_text import Bold, Words
from tracekit.notebook import safe


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def inline(*parts: str) -> Html:
    """Return parts of a sentence, escaped unless they are HTML already; bold ones in <b>."""
    return Html(
        "".join(p if isinstance(p, Html) else f"<b>{safe(p)}</b>" if isinstance(p, Bold) else safe(p) for p in parts)
    )


def tag(name: str, *parts: str, **attributes: str | int | bool | None) -> Html:
    """Return an element. ``class_`` means class, other underscores are hyphens; None and False are left out."""
    made = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        made.append(f" {key}" if value is True else f' {key}="{safe(str(value))}"')
    return Html(f"<{name}{''.join(made)}>{inline(*parts)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Return pieces one below the other."""
    return Html("\n".join(parts))


def paragraph(words: Words, **attributes: str) -> Html:
    """Return a sentence or two."""
    return tag("p", *words, **attributes)


@dataclass(frozen=True)
class Cell:
    """A cell of a table. ``sort``: the number it is ordered by; None = it comes last, or its text when it has any."""

    text: str
    sort: float | None = None
    kind: str = ""  # classes
    title: str = ""
    bar: float | None = None  # share of the cell that is filled, 0 … 1


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, kind: str = "", foot: int = 0) -> Html:
    """Return a table that can be sorted by any column; the last ``foot`` rows stay below."""
    left = [bool(rows) and all("left" in row[k].kind for row in rows) for k in range(len(heads))]
    top = [
        tag("th", tag("button", head, type="button"), scope="col", aria_sort="none", class_="left" if left[k] else None)
        for k, head in enumerate(heads)
    ]
    lines = [Html("<tr>" + "".join(_cell(cell, k == 0) for k, cell in enumerate(row)) + "</tr>") for row in rows]
    cut = len(lines) - foot
    body = tag("tbody", joined(lines[:cut])) + (tag("tbody", joined(lines[cut:]), class_="fixed") if foot else "")
    inner = tag("caption", tag("span", caption)) + tag("thead", tag("tr", joined(top))) + body
    made = tag("table", Html(inner), class_=f"sortable {kind}".strip())
    return tag("div", made, class_="wide", tabindex=0, role="region", aria_label=caption)


def _cell(cell: Cell, first: bool) -> Html:
    style = None if cell.bar is None else f"--share:{100 * cell.bar:.0f}%"
    options: dict[str, str | None] = {"class_": cell.kind or None, "title": cell.title or None, "style": style}
    options["data_sort"] = None if cell.sort is None or cell.sort != cell.sort else f"{cell.sort:.10g}"
    return tag("th", cell.text, scope="row", **options) if first else tag("td", cell.text, **options)


@dataclass(frozen=True)
class Tab:
    """One panel of several of which one is seen."""

    ident: str
    name: str
    body: Html


def tabs(name: str, panels: Sequence[Tab], level: int = 3) -> Html:
    """Return tabs for the arrow keys; in print and without JavaScript all panels are shown."""
    buttons, bodies = [], []
    for k, panel in enumerate(panels):
        buttons.append(
            tag("button", panel.name, type="button", role="tab", id=f"tab-{panel.ident}", aria_controls=panel.ident,
                aria_selected="true" if k == 0 else "false", tabindex=0 if k == 0 else -1)
        )  # fmt: skip
        heading = tag(f"h{level}", panel.name, class_="panel-name")
        bodies.append(
            tag("section", heading, panel.body, role="tabpanel", id=panel.ident, aria_labelledby=f"tab-{panel.ident}",
                tabindex=0, hidden=k > 0)
        )  # fmt: skip
    return tag("div", tag("div", joined(buttons), role="tablist", aria_label=name), joined(bodies), class_="tabs")


def figure(drawing: Drawing, ident: str, name: str, caption: str, *, wide: bool = False) -> Html:
    """Return a figure with its caption, its numbers, and buttons to save them; ``name`` is that of the saved files."""
    buttons = [
        tag("button", kind.upper(), type="button", data_get=kind, aria_label=f"Save “{caption}” as {kind.upper()}")
        for kind in ("svg", "png", "csv")
    ]
    numbers = tag("template", drawing.data.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    size = f"--width:{drawing.figure.get_figwidth():.2f}in"  # letters come out alike in all figures
    picture = tag("div", Html(svg(drawing.figure, ident, drawing.words)), class_="picture", style=size)
    below = tag("figcaption", tag("span", caption), tag("span", *buttons, class_="get"))
    return tag("figure", picture, below, numbers, id=ident, data_name=name, class_="broad" if wide else None)


def missing(caption: str, reason: str) -> Html:
    """Return the placeholder of a figure that cannot be drawn."""
    return tag("p", tag("b", caption), f": not drawn, {reason}.", class_="absent")


def details(summary: str, body: Html, *, opened: bool = False) -> Html:
    """Return a collapsible part."""
    return tag("details", tag("summary", summary), body, open=opened)
