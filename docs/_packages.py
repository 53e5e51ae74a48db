"""Draws docs/assets/packages.svg, the picture of the packages: python docs/_packages.py."""

from __future__ import annotations

from pathlib import Path

BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8a8a8a"

#: name, what it contains (two lines), left, top, colour
PACKAGES = (
    ("swf/", ("every format,", "one file each"), 190, 60, BLUE),
    ("tracekit/", ("Trace, Machine, rules,", "pictures, command line"), 400, 60, GREY),
    ("generators/", ("every model that", "makes a trace"), 610, 60, ORANGE),
    ("evaluation/", ("scores, report,", "experiment, verdict"), 820, 60, PINK),
    ("tracekit/sim/", ("simulator, policies,", "environments, agents"), 610, 230, GREEN),
)
WIDTH, HEIGHT = 160, 96

#: points of a line, the word on it, position of that word
ARROWS = (
    (((130, 108), (190, 108)), "", (0, 0)),
    (((350, 108), (400, 108)), "Trace", (375, 98)),
    (((560, 108), (610, 108)), "fit", (585, 98)),
    (((770, 108), (820, 108)), "synthetic", (795, 98)),
    (((480, 156), (480, 278), (610, 278)), "arrays", (545, 270)),
    (((770, 278), (900, 278), (900, 156)), "schedules", (836, 270)),
    (((980, 108), (1030, 108)), "", (0, 0)),
)


def picture() -> str:
    """Return the picture as SVG; the same each time."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 40 1160 320" role="img" '
        'font-family="system-ui, sans-serif" font-size="15">',
        "<title>Data flows through the packages in one direction: file, Trace, synthetic trace, verdict</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        '<rect y="40" width="1160" height="320" fill="white"/>',
        _words(75, 104, ("a file in", "any format")),
        _words(1095, 104, ("report.html", "verdict.json")),
    ]
    for points, word, (x, y) in ARROWS:
        line = " ".join(f"{px},{py}" for px, py in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#555" stroke-width="2" marker-end="url(#tip)"/>')
        if word:
            parts.append(f'<text x="{x}" y="{y}" text-anchor="middle" font-size="12" fill="#555">{word}</text>')
    for name, lines, x, y, colour in PACKAGES:
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{colour}18" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        parts.append(
            f'<text x="{x + WIDTH / 2:g}" y="{y + 28}" text-anchor="middle" font-weight="600" '
            f'font-family="ui-monospace, monospace" fill="{colour}">{name}</text>'
        )
        parts.append(_words(x + WIDTH / 2, y + 58, lines, size=13))
    parts.append(_words(580, 345, ("one engine schedules for policies and agents alike",)))
    return "\n".join([*parts, "</svg>", ""])


def _words(x: float, y: float, lines: tuple[str, ...], size: int = 14) -> str:
    return "\n".join(
        f'<text x="{x:g}" y="{y + 20 * n:g}" text-anchor="middle" font-size="{size}" fill="#222">{line}</text>'
        for n, line in enumerate(lines)
    )


if __name__ == "__main__":
    (Path(__file__).parent / "assets" / "packages.svg").write_text(picture(), encoding="utf-8")
