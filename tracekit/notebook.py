"""HTML tables for `_repr_html_` of Trace, SimResult, Scores and Comparison.

Names of machines, users and files come from untrusted files, so every text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

#: Shown for a value that is missing.
MISSING = "–"


def safe(text: str) -> str:
    """Return text as HTML: ``<``, ``>``, ``&`` and quotes escaped, lone surrogates of odd file names replaced.

    >>> safe("<b>")
    '&lt;b&gt;'
    """
    return escape(text.encode("utf-8", "replace").decode())


def shown(value: Any) -> str:
    """Return one value as short text: numbers with four significant digits, `MISSING` for None, NaN and NA.

    >>> shown(1234567.0), shown(0.123456), shown(float("nan")), shown("a")
    ('1,234,567', '0.1235', '–', 'a')
    """
    if value is None or (str(value) in ("<NA>", "nan", "NaT") and not isinstance(value, str)):
        return MISSING  # compared as text: pandas' NA has no truth value
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.4g}" if math.isinf(value) or abs(value) < 10_000 else f"{value:,.0f}"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()) -> str:
    """Return a table with its caption above and notes below; numbers are aligned to the right."""
    top = "".join(f"<th>{safe(head)}</th>" for head in heads)
    body = "\n".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    below = "".join(f"<p>{safe(note)}</p>" for note in notes)
    return (
        f"<div><p><b>{safe(caption)}</b></p>\n<table>\n<thead><tr>{top}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>{below}</div>"
    )


def _cell(value: Any) -> str:
    side = "left" if isinstance(value, str) else "right"
    return f'<td style="text-align:{side}">{safe(shown(value))}</td>'
