"""Balancing the load over time: users are shifted until every week, or day, has the planned load."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: How often every user reconsiders.
SWEEPS = 3
#: Least squares even out busy and quiet days; so they are asked for with contrasts exaggerated by these factors, and
#: the placement is taken whose days are as uneven as the real ones.
GAINS = (1.0, 1.5, 2.0, 3.0, 5.0)


def shift_days(day: Ints, step: int, days: int, every: int) -> Ints:
    """Move days by ``step`` units of ``every`` days among ``days`` ones, round the end to the same day of the unit."""
    inside = day % every
    places = -(-(days - inside) // every)
    return np.asarray(inside + (day // every + step) % np.maximum(places, 1) * every)


def shift_users(
    by_day: Floats, every: int, block: int, choose: Callable[[], Ints], wanted: Floats, rng: np.random.Generator
) -> Ints:
    """Choose moves, in units of ``every`` days, that keep blocks of days as busy and the days as uneven as wanted.

    ``by_day``: each user's jobs on each day, shape (users, days); ``wanted``: jobs on each day; ``choose`` gives the
    moves that are open to everybody in one try.
    """
    days = np.arange(len(wanted))
    ask = np.bincount(days // block, weights=wanted)
    best, least = np.zeros(len(by_day), dtype=np.int64), np.inf
    for gain in GAINS:
        choices = choose()
        to = np.array([shift_days(days, step, len(days), every) for step in choices])
        pick = settled(by_day, to // block, ask.mean() + gain * (ask - ask.mean()), rng)
        made = np.zeros(len(days))
        for k in range(len(choices)):
            np.add.at(made, to[k], by_day[pick == k].sum(axis=0))
        error = abs(float(np.log((made.var() + 1e-9) / (wanted.var() + 1e-9))))
        if error < least:
            best, least = choices[pick], error
    return best


def settled(jobs: Floats, to: Ints, wanted: Floats, rng: np.random.Generator) -> Ints:
    """Choose moves at random, then let users in turn take the one that brings the sum nearest to what is wanted.

    ``jobs``: each user's jobs on each day, shape (users, days); ``to``: the bin into which a choice brings a day, shape
    (choices, days); ``wanted``: jobs in each bin, shape (bins,), in the sense of least squares.
    """
    pick = rng.integers(len(to), size=len(jobs))
    turns = np.concatenate([rng.permutation(len(jobs)) for _ in range(SWEEPS)])
    _settle(np.ascontiguousarray(jobs), to, wanted.astype(np.float64), pick, turns)
    return pick


_jit: Any = partial(compiled, sources=Path(__file__).resolve().parent)


@_jit
def _settle(jobs, to, wanted, pick, turns):  # type: ignore[no-untyped-def]
    """Change ``pick`` in place; ``turns`` lists users in the order in which they reconsider."""
    excess = -wanted
    for u in range(len(jobs)):
        for k in range(jobs.shape[1]):
            excess[to[pick[u], k]] += jobs[u, k]
    for user in turns:
        busy = np.flatnonzero(jobs[user])
        for day in busy:
            excess[to[pick[user], day]] -= jobs[user, day]
        least = np.inf
        for choice in range(len(to)):
            cost = 0.0  # what |excess + jobs moved|² has beyond |excess|²
            for day in busy:
                own = jobs[user, day]
                cost += own * (own + 2 * excess[to[choice, day]])
                excess[to[choice, day]] += own
            for day in busy:
                excess[to[choice, day]] -= jobs[user, day]
            if cost < least:
                least, pick[user] = cost, choice
        for day in busy:
            excess[to[pick[user], day]] += jobs[user, day]
