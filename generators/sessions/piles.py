"""Values in piles, and the ranks of values in theirs: what is drawn of users' habits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.histories import Floats, Ints
from generators.sessions.shelf import MEMORY, Array, Column, Shelf, blocks, ranked, small, whole

#: With fewer pauses or days than this to draw from, those of all users are taken.
LEAST = 8


@dataclass(frozen=True)
class Piles:
    """Values in piles by key, each sorted; a pile of too few is replaced by that of everybody."""

    first: Ints  # (keys + 1,)
    value: Column

    @classmethod
    def of(cls, key: Array, keys: int, value: Floats, shelf: Shelf = MEMORY) -> Self:
        """Sort values into piles 0 … keys − 1."""
        first = np.append(0, np.cumsum(np.bincount(key, minlength=keys)))
        return cls(first, shelf.keep(value[np.lexsort((value, key))]))

    def loaded(self) -> Piles:
        """Return the piles in memory, to look at them often."""
        return Piles(self.first, whole(self.value))

    def at(self, key: Ints, rank: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the value at a rank 0 … 1 of each pile, between neighbours, and which piles hold enough."""
        first, size = self.first[key], self.first[key + 1] - self.first[key]
        place = rank * np.maximum(size - 1, 0)
        low = np.minimum(first + np.floor(place).astype(np.int64), max(len(self.value) - 1, 0))
        high = np.minimum(low + 1, np.maximum(first + size - 1, low))
        high = np.minimum(high, max(len(self.value) - 1, 0))
        if not len(self.value):
            return np.zeros(len(key)), np.zeros(len(key), dtype=bool)
        value = self.value[low] + (place - np.floor(place)) * (self.value[high] - self.value[low])
        return value, size >= LEAST


def ranks_of(group: Array, value: Floats) -> Floats:
    """Return the rank 0 … 1 of each value in its group."""
    code = ranked(group)[0]
    del group
    order = small(np.lexsort((value, code)))
    size = np.bincount(code)
    first, rank = np.cumsum(size) - size, np.empty(len(code))
    for rows in blocks(len(order)):
        here = order[rows]
        rank[here] = (np.arange(rows.start, rows.stop) - first[code[here]] + 0.5) / size[code[here]]
    return rank


def laid_out(group: Ints, rng: np.random.Generator) -> Floats:
    """Return ranks 0 … 1 at random, but spread evenly within each group: one in each equal part."""
    order = np.lexsort((rng.random(len(group)), group))
    first = np.searchsorted(group[order], group[order])
    size = np.searchsorted(group[order], group[order], side="right") - first
    rank = np.empty(len(group))
    rank[order] = (np.arange(len(group)) - first + rng.random(len(group))) / size
    return rank


def ranges(first: Ints, size: Ints) -> Ints:
    """Return first[0] … first[0] + size[0] − 1, first[1] …, one after another."""
    which = np.repeat(np.arange(len(first)), size)
    return np.arange(len(which)) - (np.cumsum(size) - size)[which] + first[which]
