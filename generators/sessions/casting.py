"""The cast of a period: which users it has, and which of them are new people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from generators.sessions.histories import Floats, Histories, Ints
from generators.sessions.shelf import whole

#: Of so many random choices of some users that is taken whose jobs and work fit best.
CASTS = 20
#: Too few jobs are worse than too many: the rest would come with the users of another period.
SHORT = 1.0


def cast(
    histories: Histories,
    stays: NDArray[np.bool_],
    work: Callable[[], Floats],
    number: int,
    density: float,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, Ints]:
    """Choose the users of period ``number``: histories, the number of the synthetic user of each, and which copy it is.

    Everybody once, or ``density`` times on average. Users of a short while (not ``stays``) are new people in every
    period. ``work``: returns that of each job.
    """
    people = len(histories)
    some = _some(histories, work, density % 1, rng)
    if not len(some) and density < 1:
        some = np.array([np.argmax(histories.size)])  # at least one user is needed
    copies = [np.arange(people)] * int(density) + [some]
    drawn = np.concatenate(copies).astype(np.int64)
    copy = np.repeat(np.arange(len(copies)), [len(c) for c in copies])
    turn = np.where(stays[drawn], 0, number) * len(copies) + copy
    new_users = turn * people + drawn
    order = np.argsort(new_users, kind="stable")
    return drawn[order], new_users[order], copy[order]


def _some(histories: Histories, work: Callable[[], Floats], share: float, rng: np.random.Generator) -> Ints:
    """Choose a share of the histories, heavy and light ones alike, that has about that share of jobs and work."""
    if not share > 0:
        return np.empty(0, dtype=np.int64)
    size = histories.size
    done = np.bincount(whole(histories.owner), weights=work())
    best, least = np.empty(0, dtype=np.int64), np.inf
    for _ in range(CASTS):
        by_size = np.argsort(np.log(size) + rng.normal(0, 0.5, len(size)))
        some = by_size[np.diff(np.floor(np.arange(len(size) + 1) * share + rng.random())) > 0]
        off = sum(abs(of[some].sum() / max(of.sum(), 1e-300) - share) for of in (size, done))
        off += SHORT * (size[some].sum() < share * size.sum())
        if off < least:
            best, least = some, off
    return best
