"""Singling out users by the gaps between their submits: a few consecutive gaps are nearly a fingerprint.

Gaps of start times (submit + wait) are used as well as those of submit times if waits are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from evaluation.attacks.tokens import Keys, SinglesOut, Tokens, hashed
from evaluation.view import Floats, View, weeks


@dataclass(frozen=True)
class Exact:
    """Sequences of ``count`` gaps, each above ``least`` seconds, that are equal to the millisecond."""

    count: int
    least: float  # seconds

    def keys(self, gaps: Floats) -> Iterator[Keys]:
        """Return one hash for each row of gaps, shape (sequences, count)."""
        yield hashed(np.round(gaps * 1000).astype(np.int64), 1)


@dataclass(frozen=True)
class Ratios:
    """Sequences with similar ratios of neighbouring gaps: scaled, rounded or jittered times change them little.

    Cells of ``width`` in the logarithm of the ratio, twice: the second time shifted by half a cell, as ratios near the
    edge of one cell are in the middle of another.
    """

    count: int
    least: float  # seconds
    width: float

    def keys(self, gaps: Floats) -> Iterator[Keys]:
        """Return two hashes for each row of gaps, shape (sequences, count)."""
        steps = np.diff(np.log(gaps), axis=1) / self.width
        for half in (0, 1):
            yield hashed(np.floor(steps + half / 2).astype(np.int64), 2 * round(self.least) + half)


Recipes = tuple[Exact | Ratios, ...]


def _clocks(view: View) -> Iterator[Floats]:
    """Return submit times, and start times where some job is known to have waited."""
    yield view.submit
    wait = view.numbers.get("wait_time")
    if wait is not None and np.any(wait > 0):
        yield view.submit + wait


def _parts(view: View, clock: Floats, recipe: Exact | Ratios) -> Iterator[Tokens]:
    """Return the sequences of one kind by one clock."""
    rows = np.flatnonzero((view.labels["user"] >= 0) & np.isfinite(clock))
    rows = rows[np.lexsort((clock[rows], view.labels["user"][rows]))]
    user, time = view.labels["user"][rows], clock[rows]
    if len(rows) <= recipe.count:
        yield Tokens.empty()
        return
    gaps = np.diff(time)
    usable = (user[1:] == user[:-1]) & (gaps > recipe.least)
    first = np.flatnonzero(sliding_window_view(usable, recipe.count).all(axis=1))
    week = weeks(view, time)
    block = np.where(week[first] == week[first + recipe.count], week[first], -1)
    for key in recipe.keys(sliding_window_view(gaps, recipe.count)[first]):
        yield Tokens(key, user[first], block)


class _ByGaps(SinglesOut):
    """Common code: recipes by every clock."""

    lacking = "enough consecutive jobs with long enough gaps"
    recipes: ClassVar[Recipes]

    def tokens(self, view: View) -> list[Tokens]:
        """Return every user's sequences, once by each clock."""
        return [
            Tokens.joined(part for one in self.recipes for part in _parts(view, clock, one)) for clock in _clocks(view)
        ]


class SubmitGaps(_ByGaps):
    """privacy.submit_gaps: share of synthetic users with three consecutive submit gaps that only one real user has.

    Each gap is above 5 s; gaps are equal to the millisecond.
    """

    name = "submit_gaps"
    recipes = (Exact(3, 5.0),)


class SubmitRhythm(_ByGaps):
    """privacy.submit_rhythm: the same by ratios of five consecutive gaps, so scaled, rounded or jittered times match.

    Gaps above 2 minutes whose ratios agree within about 5 %, or above 30 minutes and within about 10 %.
    """

    name = "submit_rhythm"
    recipes = (Ratios(5, 120.0, 0.05), Ratios(5, 1800.0, 0.1))
