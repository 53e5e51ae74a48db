"""Balancing the load over time: users, or parts of their activity, move until every week, or day, has the planned load.

What is to be moved is a list of *entries*: so many jobs of one kind, of one item, on one day. Kinds are classes of jobs
by size and run time, so that not only as many but also such jobs are submitted at a time as in the real trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.local_calendar import turned_back
from generators.sessions.shelf import Array, groups_in_blocks
from tracekit.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: How often every item reconsiders.
SWEEPS = 3
#: Least squares even out busy and quiet days; so they are asked for with contrasts exaggerated by these factors, and
#: the placement is taken whose days are as uneven as the real ones.
GAINS = (1.0, 1.5, 2.0, 3.0, 5.0)
#: What it costs that two items of one owner meet on a day, in squares of an item's mean number of jobs on a day.
MEETS = 30.0


def shift_days(day: Ints, step: Ints | int, days: int, every: int, drifts: bool) -> Ints:
    """Move days by ``step`` units of ``every`` days among ``days`` ones: round the end, or turned back."""
    inside = day % every
    places = np.maximum(-(-(days - inside) // every), 1)
    place = day // every + step
    return np.asarray(inside + (turned_back(place, places) if drifts else place % places) * every)


@dataclass(frozen=True)
class Entries:
    """Jobs by item, day and kind: those of item i are at ``first[i]`` … ``first[i + 1] − 1``."""

    first: Ints  # (items + 1,)
    day: Ints
    kind: Ints
    jobs: Floats
    kinds: int
    owner: Ints  # where each owner's items begin, and the end

    @classmethod
    def of(
        cls, item: Array, items: int, day: Array, days: int, kind: Array, kinds: int, owner: Array | None = None
    ) -> Self:
        """Count jobs; ``owner``: whose each item is; it and ``item`` never fall. By default owners are different."""
        parts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
        for rows in groups_in_blocks(np.diff(item, prepend=-1) != 0):
            key = (item[rows].astype(np.int64) * days + day[rows]) * kinds + kind[rows]
            parts.append(np.unique(key, return_counts=True))
        found, jobs = (np.concatenate(some) for some in zip(*parts, strict=True))
        first = np.searchsorted(found // (days * kinds), np.arange(items + 1)).astype(np.int64)
        begins = np.arange(items) if owner is None else np.flatnonzero(np.diff(owner, prepend=-1))
        begins = np.append(begins, items).astype(np.int64)
        return cls(first, found // kinds % days, found % kinds, jobs.astype(np.float64), kinds, begins)

    def by_day(self, days: int, to: Ints | None = None) -> Floats:
        """Return the jobs of each day and kind, shape (days, kinds); ``to``: other days of the entries."""
        place = (self.day if to is None else to) * self.kinds + self.kind
        counts = np.bincount(place, weights=self.jobs, minlength=days * self.kinds)
        return np.asarray(counts, dtype=np.float64).reshape(days, self.kinds)


def shift_items(
    entries: Entries,
    every: int,
    block: int,
    choose: Callable[[], Ints],
    wanted: Floats,
    drifts: bool,
    rng: np.random.Generator,
) -> Ints:
    """Choose moves, in units of ``every`` days, that keep blocks of days as busy and the days as uneven as wanted.

    ``wanted``: jobs on each day, of each kind, shape (days, kinds); ``choose`` gives the moves that are open to
    everybody in one try; ``drifts``: what is moved beyond an end is turned back there.
    """
    days = len(wanted)
    blocks = (days - 1) // block + 1
    ask = np.zeros((blocks, wanted.shape[1]))
    np.add.at(ask, np.arange(days) // block, wanted)
    items = len(entries.first) - 1
    item = np.repeat(np.arange(items), np.diff(entries.first))
    best, least = np.zeros(items, dtype=np.int64), np.inf
    for gain in GAINS:
        choices = choose()
        to = np.array([shift_days(np.arange(days), step, days, every, drifts) for step in choices])
        pick = settled(entries, to // block, ask.mean(axis=0) + gain * (ask - ask.mean(axis=0)), rng)
        made = entries.by_day(days, to[pick[item], entries.day]).sum(axis=1)
        error = abs(float(np.log((made.var() + 1e-9) / (wanted.sum(axis=1).var() + 1e-9))))
        if error < least:
            best, least = choices[pick], error
    return best


def settled(entries: Entries, to: Ints, wanted: Floats, rng: np.random.Generator) -> Ints:
    """Choose moves at random, then let items in turn take the one that brings the sum nearest to what is wanted.

    ``to``: the bin into which a choice brings a day, shape (choices, days); ``wanted``: jobs in each bin, of each kind,
    shape (bins, kinds), in the sense of least squares.
    """
    pick = rng.integers(len(to), size=len(entries.first) - 1)
    turns = np.concatenate([rng.permutation(len(entries.owner) - 1) for _ in range(SWEEPS)])
    excess = -np.ascontiguousarray(wanted, dtype=np.float64)
    meets = MEETS * (float(entries.jobs.sum()) / max(len(entries.jobs), 1)) ** 2
    what = (entries.first, entries.day, entries.kind, entries.jobs)
    _settle(entries.owner, what, to, excess, meets, pick, turns)
    return pick


_jit: Any = partial(compiled, sources=Path(__file__).resolve().parent)


@_jit
def _settle(owner, entries, to, excess, meets, pick, turns):  # type: ignore[no-untyped-def]
    """Change ``pick`` in place; ``turns`` lists owners in the order in which their items reconsider.

    ``meets``: what it costs that an item comes to a bin where its owner has another one.
    """
    first, day, kind, jobs = entries
    here = np.zeros(len(excess), np.int64)  # items of the owner in each bin
    for u in range(len(pick)):
        for k in range(first[u], first[u + 1]):
            excess[to[pick[u], day[k]], kind[k]] += jobs[k]
    for o in turns:
        alone = owner[o + 1] - owner[o] == 1
        for u in range(owner[o], owner[o + 1]):
            for k in range(first[u], first[u + 1]):
                here[to[pick[u], day[k]]] += k == first[u] or day[k] != day[k - 1]
        for u in range(owner[o], owner[o + 1]):
            for k in range(first[u], first[u + 1]):
                excess[to[pick[u], day[k]], kind[k]] -= jobs[k]
                here[to[pick[u], day[k]]] -= k == first[u] or day[k] != day[k - 1]
            least = np.inf
            for choice in range(len(to)):
                cost = 0.0  # what |excess + jobs moved|² has beyond |excess|²
                for k in range(first[u], first[u + 1]):
                    cost += jobs[k] * (jobs[k] + 2 * excess[to[choice, day[k]], kind[k]])
                    excess[to[choice, day[k]], kind[k]] += jobs[k]
                    if not alone and here[to[choice, day[k]]] and (k == first[u] or day[k] != day[k - 1]):
                        cost += meets
                for k in range(first[u], first[u + 1]):
                    excess[to[choice, day[k]], kind[k]] -= jobs[k]
                if cost < least:
                    least, pick[u] = cost, choice
            for k in range(first[u], first[u + 1]):
                excess[to[pick[u], day[k]], kind[k]] += jobs[k]
                here[to[pick[u], day[k]]] += k == first[u] or day[k] != day[k - 1]
        for u in range(owner[o], owner[o + 1]):
            for k in range(first[u], first[u + 1]):
                here[to[pick[u], day[k]]] = 0
