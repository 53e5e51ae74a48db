"""The page: what stands where."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

from evaluation.report.content import Content
from evaluation.table import number
from tracekit.files import check_writable, write_text

#: Called as work goes on with (steps done, steps in all, what is being done).
Progress = Callable[[int, int, str], None]


def write(content: Content, path: str | Path, *, force: bool = False, progress: Progress | None = None) -> None:
    """Write the page to ``path`` and the scores as JSON beside it, each whole or not at all."""
    path = Path(path)
    beside = path.with_suffix(".json")
    for target in (path, beside):
        check_writable(target, force=force)
    text = page(content, progress)
    write_text(beside, json.dumps(content.scores.to_dict(), indent=2, ensure_ascii=False) + "\n", force=force)
    write_text(path, text, force=force)


def page(content: Content, progress: Progress | None = None) -> str:
    """Return the whole page."""
    rows = []
    for key in content.scores.keys_of():
        cells = [number(one.scores[key].value) or "–" for one in content.scores.synthetic]
        rows.append(f"<tr><th>{html.escape(key)}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in content.synthetic)
    verdicts = "".join(f"<li>{html.escape(str(v['sentence']))}</li>" for v in content.verdicts)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(content.heading)}</title>"
        f"<h1>{html.escape(content.heading)}</h1><ul>{verdicts}</ul>"
        f"<table><tr><th>score</th>{heads}</tr>{''.join(rows)}</table></html>\n"
    )
