"""Who comes when the machine is busy: users choose among moves until every week, or day, is as busy as wanted."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: How often every user reconsiders.
SWEEPS = 3


def settled(jobs: Floats, choices: Ints, wanted: Floats, rng: np.random.Generator) -> Ints:
    """Choose moves at random, then let users in turn take the one that brings the sum nearest to what is wanted.

    ``jobs``: each user's jobs in each bin of time, shape (users, bins); ``wanted``: jobs in each bin, shape (bins,), in
    the sense of least squares; ``choices``: by how many bins a user may move, round the end.
    """
    moves = rng.choice(choices, len(jobs)).astype(np.int64)
    turns = np.concatenate([rng.permutation(len(jobs)) for _ in range(SWEEPS)]) if len(jobs) else np.empty(0, np.int64)
    _settle(np.ascontiguousarray(jobs), choices.astype(np.int64), wanted.astype(np.float64), moves, turns)
    return moves


@numba.njit(cache=True, nogil=True)
def _settle(jobs, choices, wanted, moves, turns):  # type: ignore[no-untyped-def]
    """Change ``moves`` in place; ``turns`` lists users in the order in which they reconsider."""
    bins = len(wanted)
    excess = -wanted
    for user in range(len(jobs)):
        for k in range(bins):
            excess[(k + moves[user]) % bins] += jobs[user, k]
    for user in turns:
        for k in range(bins):
            excess[(k + moves[user]) % bins] -= jobs[user, k]
        least = np.inf
        for choice in choices:
            cost = 0.0  # what |excess + jobs moved|² has beyond |excess|²
            for k in range(bins):
                own = jobs[user, k]
                if own > 0:
                    cost += own * (own + 2 * excess[(k + choice) % bins])
            if cost < least:
                least, moves[user] = cost, choice
        for k in range(bins):
            excess[(k + moves[user]) % bins] += jobs[user, k]
