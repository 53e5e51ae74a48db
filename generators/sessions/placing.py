"""Balancing the load over time: users are shifted until every week, or day, has the planned load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.local_calendar import turned_back
from tracekit.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: How often every user reconsiders.
SWEEPS = 3
#: Least squares even out busy and quiet days; so they are asked for with contrasts exaggerated by these factors, and
#: the placement is taken whose days are as uneven as the real ones.
GAINS = (1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True)
class Busy:
    """Jobs of each user on each day. Only days with jobs are kept: a million users over ten years fit into memory."""

    first: Ints  # (users + 1,) where each user's days begin
    day: Ints  # (busy days,) by user, then by day
    jobs: Floats  # (busy days,)
    days: int

    @classmethod
    def count(cls, user: Ints, day: Ints, users: int, days: int) -> Self:
        """Count jobs, given the user and the day of each."""
        key, jobs = np.unique(user * days + day, return_counts=True)
        first = np.searchsorted(key, np.arange(users + 1) * days).astype(np.int64)
        return cls(first, key % days, jobs.astype(np.float64), days)

    def __len__(self) -> int:
        return len(self.first) - 1

    def take(self, users: Ints) -> Busy:
        """Return some users, in the given order, each as often as named."""
        size = np.diff(self.first)[users]
        first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.arange(first[-1]) - np.repeat(first[:-1] - self.first[users], size)
        return Busy(first, self.day[rows], self.jobs[rows], self.days)

    @property
    def owner(self) -> Ints:
        """Return the user of each busy day."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def total(self) -> Floats:
        """Return the jobs of all users on each day."""
        return np.bincount(self.day, weights=self.jobs, minlength=self.days)


def shift_days(day: Ints, step: int, days: int, every: int, drifts: bool) -> Ints:
    """Move days by ``step`` units of ``every`` days among ``days`` ones: round the end, or turned back if they drift."""
    inside = day % every
    places = np.maximum(-(-(days - inside) // every), 1)
    place = day // every + step
    return np.asarray(inside + (turned_back(place, places) if drifts else place % places) * every)


def shift_users(
    busy: Busy,
    every: int,
    block: int,
    choose: Callable[[], Ints],
    wanted: Floats,
    drifts: bool,
    rng: np.random.Generator,
) -> Ints:
    """Choose moves, in units of ``every`` days, that keep blocks of days as busy and the days as uneven as wanted.

    ``wanted``: jobs on each day; ``choose`` gives the moves that are open to everybody in one try;
    ``drifts``: what is moved beyond an end is turned back there.
    """
    days, owner = np.arange(len(wanted)), busy.owner
    ask = np.bincount(days // block, weights=wanted)
    best, least = np.zeros(len(busy), dtype=np.int64), np.inf
    for gain in GAINS:
        choices = choose()
        to = np.array([shift_days(days, step, len(days), every, drifts) for step in choices])
        pick = settled(busy, to // block, ask.mean() + gain * (ask - ask.mean()), rng)
        made = np.bincount(to[pick[owner], busy.day], weights=busy.jobs, minlength=len(days))
        error = abs(float(np.log((made.var() + 1e-9) / (wanted.var() + 1e-9))))
        if error < least:
            best, least = choices[pick], error
    return best


def settled(busy: Busy, to: Ints, wanted: Floats, rng: np.random.Generator) -> Ints:
    """Choose moves at random, then let users in turn take the one that brings the sum nearest to what is wanted.

    ``to``: the bin into which a choice brings a day, shape (choices, days); ``wanted``: jobs in each bin, shape
    (bins,), in the sense of least squares.
    """
    pick = rng.integers(len(to), size=len(busy))
    turns = np.concatenate([rng.permutation(len(busy)) for _ in range(SWEEPS)])
    _settle(busy.first, busy.day, busy.jobs, to, wanted.astype(np.float64), pick, turns)
    return pick


_jit: Any = partial(compiled, sources=Path(__file__).resolve().parent)


@_jit
def _settle(first, day, jobs, to, wanted, pick, turns):  # type: ignore[no-untyped-def]
    """Change ``pick`` in place; ``turns`` lists users in the order in which they reconsider."""
    excess = -wanted
    for user in range(len(first) - 1):
        for k in range(first[user], first[user + 1]):
            excess[to[pick[user], day[k]]] += jobs[k]
    for user in turns:
        begin, end = first[user], first[user + 1]
        for k in range(begin, end):
            excess[to[pick[user], day[k]]] -= jobs[k]
        least = np.inf
        for choice in range(len(to)):
            cost = 0.0  # what |excess + jobs moved|² has beyond |excess|²
            for k in range(begin, end):
                cost += jobs[k] * (jobs[k] + 2 * excess[to[choice, day[k]]])
                excess[to[choice, day[k]]] += jobs[k]
            for k in range(begin, end):
                excess[to[choice, day[k]]] -= jobs[k]
            if cost < least:
                least, pick[user] = cost, choice
        for k in range(begin, end):
            excess[to[pick[user], day[k]]] += jobs[k]
