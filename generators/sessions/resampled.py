"""Skeleton *resampled*: real users' activity, moved by whole weeks, every session by some minutes more.

After Zakay and Feitelson, "Workload resampling for performance evaluation of parallel job schedulers", CCPE 26(12),
2014. Reused from the real trace: every user's calendar, up to the move. Which users meet is new.
"""

from __future__ import annotations

import numpy as np

from generators.sessions.histories import SESSION_GAP, Floats, Histories, Ints, Plan, gaps_within
from generators.sessions.wall import Wall

#: Histories move by at most this many weeks either way, so that a machine that fills up over the months still does.
FARTHEST = 1
#: Sessions move by up to this many seconds either way.
JITTER = 600.0


def plan_period(histories: Histories, wall: Wall, drawn: Ints, makers: Ints, rng: np.random.Generator) -> Plan:
    """Place the drawn histories in one period; ``makers`` names the made user of each."""
    first, size = histories.first[drawn], histories.size[drawn]
    which = np.repeat(np.arange(len(drawn)), size)
    rows = np.arange(len(which)) - np.repeat(np.cumsum(size) - size, size) + first[which]
    at = histories.at[rows] + _session_moves(which, histories.at[rows], rng)
    at = (at + _moves(histories, wall, drawn, rng)[which]) % wall.period
    return Plan.sorted(makers[which], drawn[which], at, rows)


def _moves(histories: Histories, wall: Wall, drawn: Ints, rng: np.random.Generator) -> Floats:
    """Return by how many seconds each history moves: whole units, not zero where there is a choice."""
    farthest = min(FARTHEST, wall.units // 2)
    moves = np.zeros(len(drawn))
    if farthest:
        moves = rng.integers(1, farthest + 1, len(drawn)) * rng.choice([-1.0, 1.0], len(drawn))
    nameless = np.flatnonzero(histories.nameless[drawn])
    if len(nameless):  # weeks of jobs without users change places, so that no week stays empty
        week = np.floor(histories.at[histories.first[drawn[nameless]]] / wall.unit_length)
        moves[nameless] = rng.permutation(week) - week
    return np.asarray(moves * wall.unit_length)


def _session_moves(which: Ints, at: Floats, rng: np.random.Generator) -> Floats:
    """Return some seconds for every session, the same for all its jobs; sessions keep their order."""
    gaps = np.nan_to_num(gaps_within(which, at), nan=np.inf)
    begins = gaps > SESSION_GAP
    session = np.cumsum(begins) - 1
    before = gaps[begins]
    after = np.append(before[1:], np.inf)
    room = np.minimum(np.minimum(before, after) / 3, JITTER)
    return np.asarray((rng.uniform(-1, 1, len(room)) * room)[session])
