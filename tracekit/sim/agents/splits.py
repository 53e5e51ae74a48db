"""Which windows are for training, validation and test: separate in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tracekit.errors import TracekitError, UsageError
from tracekit.readings import not_a_share
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.windows import Span, Window, draw_from, spans


@dataclass(frozen=True)
class Split:
    """Parts of a trace, as positions [first, last); a part may consist of several pieces."""

    train: tuple[Span, ...]
    validation: tuple[Span, ...]
    test: tuple[Span, ...] = ()
    overlap: bool = False  # the parts overlap, on request

    def __post_init__(self) -> None:
        pieces = [(span, name) for name in ("train", "validation", "test") for span in getattr(self, name)]
        for (first, last), name in pieces:
            if first < 0 or last <= first:
                raise UsageError(f"the {name} part {first}:{last} of the trace is empty")
        if self.overlap:
            return
        ordered = sorted(pieces)
        for (one, its), (two, other) in pairwise(ordered):
            if one[1] > two[0]:
                raise UsageError(
                    f"the parts {its} {one} and {other} {two} overlap; set overlap=True if that is intended"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        parts = {name: [list(span) for span in getattr(self, name)] for name in ("train", "validation", "test")}
        return parts | {"overlap": self.overlap}


def split(source: EpisodeSource, share: float, *, overlap: bool = False) -> Split:
    """Split a trace in time: ``share`` for training, half of the rest for validation, the other half for test.

    ``overlap`` uses the whole trace for all three.
    """
    jobs = len(source)
    if overlap:
        whole = ((0, jobs),)
        return Split(whole, whole, whole, overlap=True)
    if not 0 < share < 1:
        raise not_a_share("--split", share)
    rest = (1 - share) / 2
    first, second, third = spans(source.table.submit, (share, rest, rest))
    for name, (begin, end) in (("training", first), ("validation", second)):
        if end - begin < 2:
            raise TracekitError(f"a trace of {jobs:,} jobs leaves only {end - begin} for {name}; use a longer trace")
    return Split((first,), (second,), (third,) if third[1] > third[0] else ())


def longest(parts: Sequence[Span]) -> int:
    """Return the jobs of the longest piece."""
    return max((last - first for first, last in parts), default=0)


def windows_from(
    source: EpisodeSource, parts: Sequence[Span], count: int, jobs: int, key: Sequence[int]
) -> list[Window]:
    """Draw windows of ``jobs`` jobs (fewer where no piece is that long); those without a usable job are drawn again."""
    warm = source.task.warm
    jobs = min(jobs, longest(parts) - warm)
    if jobs < 1:
        raise TracekitError(f"no part of the trace has more jobs than the {warm:,} of the warm-up")
    found: list[Window] = []
    for turn in range(20):
        seed = int(np.random.SeedSequence([*key, turn]).generate_state(1)[0])
        for window in draw_from(parts, count - len(found), jobs, seed, warm=warm):
            try:
                source.episode(window)
            except TracekitError:
                continue
            found.append(window)
        if len(found) == count:
            return found
    if found:
        return found
    reasons = ", ".join(f"{why}: {number:,}" for why, number in source.rejected.items())
    raise TracekitError(f"no window of {jobs:,} jobs can be simulated ({reasons}); run 'tracekit validate' for details")
