"""Skeleton *resampled*: real users' activity, moved by whole weeks, every session by some minutes more.

After Zakay and Feitelson, "Workload resampling for performance evaluation of parallel job schedulers", CCPE 26(12),
2014. Reused from the real trace: every user's calendar, up to the move. Which users meet is new.
"""

from __future__ import annotations

import numpy as np

from generators.sessions.histories import SESSION_GAP, Floats, Histories, Ints, Plan, gaps_within
from generators.sessions.placing import settled
from generators.sessions.wall import DAY, Wall

#: Histories move by at most this many weeks either way, so that a machine that fills up over the months still does.
FARTHEST = 1
#: Of this many placements the one is taken whose days are as uneven as the real ones.
TRIES = 5
#: Sessions move by up to this many seconds either way.
JITTER = 120.0


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
        choices = np.array([step for step in range(-farthest, farthest + 1) if step])
        moves = _as_busy(histories, wall, drawn, choices, rng).astype(np.float64)
    nameless = np.flatnonzero(histories.nameless[drawn])
    if len(nameless):  # weeks of jobs without users change places, so that no week stays empty
        week = np.floor(histories.at[histories.first[drawn[nameless]]] / wall.unit_length)
        moves[nameless] = rng.permutation(week) - week
    return np.asarray(moves * wall.unit_length)


def _as_busy(histories: Histories, wall: Wall, drawn: Ints, choices: Ints, rng: np.random.Generator) -> Ints:
    """Choose moves that keep every week about as busy, and the days as uneven, as they were."""
    days = max(1, round(wall.unit_length / DAY))  # in a unit
    day = np.floor(histories.at / wall.unit_length * days).astype(np.int64) % (wall.units * days)
    by_day = np.zeros((len(histories), wall.units * days))
    np.add.at(by_day, (histories.owner, day), 1.0)
    by_day = by_day[drawn]
    weeks = by_day.reshape(len(drawn), wall.units, days).sum(axis=2)
    uneven = by_day.sum(axis=0).var()
    best, least = np.zeros(len(drawn), dtype=np.int64), np.inf
    for _ in range(TRIES):
        move = settled(weeks, choices, weeks.sum(axis=0), rng)
        made = sum(
            (np.roll(by_day[move == step].sum(axis=0), step * days) for step in choices), np.zeros_like(by_day[0])
        )
        error = abs(float(np.log((made.var() + 1e-9) / (uneven + 1e-9))))
        if error < least:
            best, least = move, error
    return best


def _session_moves(which: Ints, at: Floats, rng: np.random.Generator) -> Floats:
    """Return some seconds for every session, the same for all its jobs; sessions keep their order."""
    gaps = np.nan_to_num(gaps_within(which, at), nan=np.inf)
    begins = gaps > SESSION_GAP
    session = np.cumsum(begins) - 1
    before = gaps[begins]
    after = np.append(before[1:], np.inf)
    room = np.minimum(np.minimum(before, after) / 3, JITTER)
    return np.asarray((rng.uniform(-1, 1, len(room)) * room)[session])
