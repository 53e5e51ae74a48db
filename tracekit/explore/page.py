"""The page: bins, rows and single jobs of all sources with the script that draws them, in one HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.errors import OutputError, UsageError
from tracekit.explore.bins import Bins
from tracekit.explore.cube import LEVELS, MOST_ROWS, SERIES, Cube, about, coded, cube, series
from tracekit.explore.jobs import FEW, between, chosen, packed
from tracekit.explore.pack import Pack
from tracekit.explore.source import Source
from tracekit.files import check_writable, is_stream, write_text
from tracekit.notebook import safe
from tracekit.schema import STATUSES

#: The parts of the script, in the order in which they depend on each other.
SCRIPTS = (
    "unpack.js", "cube.js", "format.js", "pen.js", "charts.js",
    "views_time.js", "views_class.js", "gantt.js", "export.js", "main.js",
)  # fmt: skip
MAX_BYTES = 8_000_000
#: Sources on one page, at most.
MOST_SOURCES = 8

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """What a page holds."""

    bytes: int
    sources: tuple[dict[str, Any], ...]  # name, kind, jobs, rows, level, single_jobs

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"bytes": self.bytes, "sources": [dict(one) for one in self.sources]}


def write(
    sources: Sequence[Source],
    path: str | Path,
    *,
    title: str = "",
    window: tuple[int, int] | None = None,
    span: tuple[float, float] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Made:
    """Write a page about one or more sources.

    The jobs that are shown one by one: ``window`` names their positions, (first, number), or ``span`` when they were
    submitted, in seconds of the first source; in the others it is the same stretch of the page's time axis.
    """
    target = check_target(path, force=force)
    text, made = page(sources, title=title, window=window, span=span, progress=progress)
    write_text(target, text, force=force)
    return made


def check_target(path: str | Path, *, force: bool = False) -> Path:
    """Raise OutputError before any work if the page cannot be written."""
    if is_stream(path):
        raise OutputError("a page is a file for a browser; it cannot be written to standard output")
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm") and not target.is_dir():
        raise OutputError(f"{path}: the page is HTML, for a browser: name it {target.with_suffix('.html')}")
    check_writable(target, force=force)
    return target


def page(
    sources: Sequence[Source],
    *,
    title: str = "",
    window: tuple[int, int] | None = None,
    span: tuple[float, float] | None = None,
    progress: Progress | None = None,
) -> tuple[str, Made]:
    """Return the page as HTML, and what it holds: the finest levels that stay below `MAX_BYTES`."""
    if not sources:
        raise UsageError("nothing to explore: give a trace, a schedule or a folder of them")
    check_units(sources)
    if len(sources) > MOST_SOURCES:
        raise UsageError(f"{len(sources)} sources are too many for one page; at most {MOST_SOURCES}")
    tell = progress or (lambda _: None)
    tell("binning")
    bins = Bins.of(sources)
    all_codes = [coded(source, bins, shift) for source, shift in zip(sources, bins.axis.shifts, strict=True)]
    moved = [bins.axis.shifts[0] - shift for shift in bins.axis.shifts]
    parts = [
        window if span is None else between(source, span[0] + by, span[1] + by)
        for source, by in zip(sources, moved, strict=True)
    ]
    if span is not None and not any(count for _, count in filter(None, parts)):
        raise UsageError(f"{sources[0].name}: no job was submitted in the range of --after and --before")
    rows = [chosen(source, part) for source, part in zip(sources, parts, strict=True)]
    tell("explaining waits of single jobs")
    singles, jobs = Pack(), []
    for source, shift, (_, codes), ours in zip(sources, bins.axis.shifts, all_codes, rows, strict=True):
        jobs.append(packed(source, bins, shift, codes, ours, singles))
    beside = singles.base64({"sources": jobs})
    name = title or " and ".join(source.name for source in sources[:2])
    for level, coarse in enumerate(LEVELS):
        tell(f"packing, level {level + 1} of {len(LEVELS)}")
        cubes = [cube(time, codes, bins, coarse) for time, codes in all_codes]
        if sum(map(len, cubes)) > MOST_ROWS and coarse is not LEVELS[-1]:
            continue
        text = document(name, _cubes(name, sources, bins, all_codes, cubes, rows), beside)
        if len(text.encode()) <= MAX_BYTES:
            break
    size = len(text.encode())
    if size > MAX_BYTES:
        raise OutputError(
            f"the page would have {size / 1e6:.1f} MB: name a smaller window of single jobs, or fewer sources"
        )
    facts = tuple(
        {"name": source.name, "kind": source.kind, "jobs": len(source), "rows": len(made), "level": level + 1,
         "single_jobs": len(ours), "notes": list(source.notes)}
        for source, made, ours in zip(sources, cubes, rows, strict=True)
    )  # fmt: skip
    return text, Made(size, facts)


def check_units(sources: Sequence[Source]) -> None:
    """Raise UsageError where two sources count different things."""
    for source in sources[1:]:
        ours, theirs = sources[0].trace.machine.unit, source.trace.machine.unit
        if ours != theirs:
            raise UsageError(
                f"{sources[0].name} is counted in {ours} and {source.name} in {theirs}, so they have no common axis; "
                "choose one with --resource"
            )


def _cubes(
    name: str,
    sources: Sequence[Source],
    bins: Bins,
    all_codes: Sequence[Any],
    cubes: Sequence[Cube],
    rows: Sequence[Any],
) -> str:
    """Return the first block of the page: bins, and the rows of all sources."""
    pack = Pack()
    hours, clock = bins.axis.local()
    facts: dict[str, Any] = {
        "title": name,
        "version": tracekit.__version__,
        "unit": sources[0].trace.machine.unit,
        "few": FEW,
        "axis": {
            "begin": bins.axis.begin, "width": bins.axis.width, "count": bins.axis.count,
            "calendar": bins.axis.calendar, "clock": clock, "hours": pack.add(hours, "u1"),
        },
        "size": bins.size.to_dict(), "run": bins.run.to_dict(), "wait": bins.wait.to_dict(), "gap": bins.gap.to_dict(),
        "user": bins.user.to_dict("users"),
        "queue": bins.queue.to_dict(f"{bins.queue_column}s") | {"column": bins.queue_column},
        "status": list(STATUSES), "met": list(bins.met), "sources": [],
    }  # fmt: skip
    shifts = bins.axis.shifts
    for source, shift, (_, codes), made, ours in zip(sources, shifts, all_codes, cubes, rows, strict=True):
        exact = len(ours) == len(source) and made.count is None
        about_it = about(source, bins, codes)
        about_it["shift"] = shift
        about_it["rows"] = {
            "n": len(made),
            "exact": exact,  # the single jobs are the rows, so that use and queue can be drawn exactly
            "level": "" if made.count is None else made.level.words(bins),
            "time": pack.add_rising(made.time),
            "count": None if made.count is None else pack.add_counts(made.count),
            "codes": {column: pack.add(values, "u1") for column, values in made.codes.items()},
        }
        curves = series(source, bins, shift, SERIES >> 3 if exact else SERIES)
        about_it["series"] = {}
        for key, values in curves.items():
            top = float(values.max(initial=0.0)) or 1.0
            about_it["series"][key] = pack.add(np.rint(values / top * 65535), "u2") | {"top": top}
        facts["sources"].append(about_it)
    return pack.base64(facts)


def document(title: str, first: str, second: str) -> str:
    """Return the page: markup, style, the two blocks of data and the script, and a policy that lets it load nothing."""
    place = files("tracekit") / "explore"
    html, style = ((place / name).read_text("utf-8") for name in ("page.html", "page.css"))
    script = "\n".join((place / name).read_text("utf-8") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"POLICY": policy, "TITLE": safe(title), "STYLE": style, "CUBES": first, "JOBS": second, "SCRIPT": script}
    return re.sub("%([A-Z]+)%", lambda found: parts[found[1]], html)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
