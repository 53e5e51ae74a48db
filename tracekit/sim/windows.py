"""Windows of a trace: (position of the first job, number of jobs), drawn by seed, apart in time where they must be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError

Span = tuple[int, int]  # positions [first, last)
Window = tuple[int, int]  # first position, number of jobs


def parse_window(text: str) -> tuple[int, int]:
    """Read ``START:COUNT``."""
    start, _, count = text.partition(":")
    if not (start.isdigit() and count.isdigit() and int(count) > 0):
        raise UsageError(f"window '{text}': write START:COUNT, such as 1981:1024")
    return int(start), int(count)


def draw_windows(jobs: int, windows: int, length: int, seed: int) -> list[tuple[int, int]]:
    """Return ``windows`` random windows of ``length`` consecutive jobs; the same seed gives the same ones."""
    if windows < 1 or length < 1:
        raise UsageError("--windows and --jobs must be at least 1")
    if length > jobs:
        raise UsageError(f"windows of {length:,} jobs do not fit into a trace of {jobs:,}")
    rng = np.random.default_rng(seed)
    return [(int(start), length) for start in rng.integers(0, jobs - length + 1, size=windows)]


def random_windows(jobs: int, windows: int, length: int, seed: int) -> list[Window]:
    """Draw windows from a trace of ``jobs`` jobs as `draw_windows` does, but no more of them than there are places."""
    places = jobs - length + 1
    if 0 < places < windows:
        raise UsageError(f"--windows {windows:,}: {jobs:,} jobs have only {places:,} windows of {length:,} jobs")
    return draw_windows(jobs, windows, length, seed)


def spans(submit: NDArray[np.float64], shares: Sequence[float]) -> list[Span]:
    """Cut the positions of a trace into consecutive parts that do not overlap in time, such as (0.7, 0.15, 0.15).

    Where the file is not sorted by ``submit`` (NaN = unknown, ignored), a cut moves on to the next position before
    which nothing was submitted later than anything behind it.

    >>> spans(np.array([0.0, 1, 3, 2, 4, 5]), (0.5, 0.5))
    [(0, 4), (4, 6)]
    """
    if not shares or min(shares) <= 0 or sum(shares) > 1 + 1e-9:
        raise UsageError(f"the shares of the parts must be above 0 and sum to at most 1, not {tuple(shares)}")
    count = len(submit)
    latest = np.fmax.accumulate(np.where(np.isnan(submit), -np.inf, submit))
    earliest = np.fmin.accumulate(np.where(np.isnan(submit), np.inf, submit)[::-1])[::-1]
    found, first = [], 0
    for share in np.cumsum(shares):
        last = min(round(count * float(share)), count)
        while 0 < last < count and latest[last - 1] > earliest[last]:
            last += 1
        last = max(last, first)
        found.append((first, last))
        first = last
    return found


def draw(span: Span, windows: int, length: int, seed: int, *, warm: int = 0) -> list[Window]:
    """Return random windows of ``length`` jobs within a span; with ``warm``, the jobs before them lie within it too."""
    first, last = span[0] + warm, span[1]
    if length > last - first:
        before = f" after {warm:,} jobs to warm up" if warm else ""
        raise UsageError(
            f"windows of {length:,} jobs{before} do not fit into the {span[1] - span[0]:,} jobs from {span[0]:,} on"
        )
    return [(first + start, count) for start, count in draw_windows(last - first, windows, length, seed)]


def tile(span: Span, length: int, *, warm: int = 0) -> list[Window]:
    """Return the consecutive windows of ``length`` jobs that fit into a span, none overlapping another.

    >>> tile((10, 35), 10)
    [(10, 10), (20, 10)]
    """
    return [(start, length) for start in range(span[0] + warm, span[1] - length + 1, length)]


def outside(span: Span, windows: Sequence[Window], *, least: int = 1) -> list[Span]:
    """Return the parts of a span that no window touches, those of at least ``least`` jobs.

    >>> outside((0, 100), [(20, 10), (25, 10), (90, 10)])
    [(0, 20), (35, 90)]
    """
    found, at = [], span[0]
    for start, length in [*sorted(windows), (span[1], 0)]:
        if min(start, span[1]) - at >= least:
            found.append((at, min(start, span[1])))
        at = max(at, start + length)
    return found


def draw_from(parts: Sequence[Span], windows: int, length: int, seed: int, *, warm: int = 0) -> list[Window]:
    """Return random windows, each within one of several spans; every position that fits is equally likely."""
    room = np.array([max(last - first - warm - length + 1, 0) for first, last in parts])
    if not room.sum():
        raise UsageError(f"windows of {length:,} jobs fit into none of the {len(parts)} parts of the trace")
    edges = np.cumsum(room)
    drawn = np.random.default_rng(seed).integers(0, edges[-1], size=windows)
    part = np.searchsorted(edges, drawn, side="right")
    return [(int(parts[p][0] + warm + d - (edges[p] - room[p])), length) for p, d in zip(part, drawn, strict=True)]
