"""A figure as a small piece of SVG that takes its ink from the page around it, in the dark as in the light."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from evaluation.figures.base import INK, REAL, SOFT
from tracekit.plots.style import BLUE

#: Colours that the page sets; the value here is what a saved file has, and a page without the variable.
_VARIABLES = {INK: "--ink", SOFT: "--soft", REAL: "--real", BLUE.lower(): "--blue"}
_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_SETTINGS: Any = {"svg.hashsalt": "tracekit", "svg.fonttype": "none", "svg.image_inline": True}


def svg(figure: Figure, prefix: str, words: str = "") -> str:
    """Return a figure as an <svg> element; ``prefix`` keeps its ids apart from those of other figures on the page.

    Dense parts that are rasterised stay images inside. The same figure gives the same text.
    """
    from html import escape

    out = io.BytesIO()
    with rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # names in any script: the browser has the letters
        figure.savefig(out, format="svg", dpi=110, transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _ids(text, prefix)
    text = re.sub(r'\b(d|x|y)="([^"]*)"', lambda m: f'{m[1]}="{_rounded(m[2])}"', text)
    text = re.sub(r"font: ([^;\"]*?[\d.]+px) [^;\"]*", r"font: \1 var(--font, sans-serif)", text)
    for colour, name in _VARIABLES.items():
        text = text.replace(colour, f"var({name}, {colour})")
    head, body = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0] if box else ""}'
    )
    named = f' role="img" aria-label="{escape(words)}"' if words else ' aria-hidden="true"'
    return re.sub(r"\s*\n\s*", "\n", f"{opening}{named}>{body}").strip()


def _ids(text: str, prefix: str) -> str:
    """Drop ids that nothing refers to, and make the others unique on a page of many figures."""
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", text)
    return re.sub(r"(url\(|href=\")#", rf"\1#{prefix}-", text)


def _rounded(numbers: str) -> str:
    return re.sub(r"-?\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), numbers)
