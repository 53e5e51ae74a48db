"""Skeleton *resampled*: real users' activity, moved by whole weeks, every session by some minutes more.

After Zakay and Feitelson, "Workload resampling for performance evaluation of parallel job schedulers", CCPE 26(12),
2014. Reused from the real trace: every user's calendar, up to the move. Which users meet is new.
"""

from __future__ import annotations

import numpy as np

from generators.sessions.histories import SESSION_GAP, Floats, Histories, Ints, Plan, gaps_within
from generators.sessions.placing import moved, placed
from generators.sessions.wall import WEEK, Wall, Window

#: Histories move by at most so many seconds either way, so that a machine that fills up over the months still does.
FARTHEST = WEEK
#: Days of a week; in short traces parts of a day or an hour take their place.
DAYS = {"weeks": 7, "days": 4, "hours": 4}
#: Sessions move by up to this many seconds either way.
JITTER = 120.0


def plan_period(
    histories: Histories, wall: Wall, drawn: Ints, makers: Ints, late: float, window: Window, rng: np.random.Generator
) -> Plan:
    """Place the drawn histories in a window ``late`` seconds after the real one; ``makers``: the made user of each."""
    first, size = histories.first[drawn], histories.size[drawn]
    which = np.repeat(np.arange(len(drawn)), size)
    rows = np.arange(len(which)) - np.repeat(np.cumsum(size) - size, size) + first[which]
    at = histories.at[rows] + _session_moves(which, histories.at[rows], rng)
    at = window.holding(at + late + _moves(histories, wall, drawn, rng)[which])
    return Plan.sorted(makers[which], drawn[which], at, rows)


def _moves(histories: Histories, wall: Wall, drawn: Ints, rng: np.random.Generator) -> Floats:
    """Return by how many seconds each history moves: whole units, not zero where there is a choice."""
    moves = np.zeros(len(drawn))
    nameless = histories.nameless[drawn]
    farthest = min(round(FARTHEST / wall.unit_length), max(1, wall.units // 3))
    if wall.units > 1:
        choices = np.array([step for step in range(-farthest, farthest + 1) if step])
        moves[~nameless] = _as_busy(histories, wall, drawn[~nameless], choices, rng)
    # Weeks of jobs without users change places, so that no week stays empty; one that had only begun stays the last.
    week = np.floor((histories.at[histories.first[drawn]] - histories.at.min(initial=np.inf)) / wall.unit_length)
    whole = nameless & (week < wall.units)
    moves[whole] = rng.permutation(week[whole]) - week[whole]
    return np.asarray(moves * wall.unit_length)


def _as_busy(histories: Histories, wall: Wall, drawn: Ints, choices: Ints, rng: np.random.Generator) -> Ints:
    """Choose moves that keep every week about as busy, and the days as uneven, as they were."""
    every = DAYS[wall.unit]
    length = wall.unit_length / every
    days = max(1, round(wall.period / length))
    day = np.floor((histories.at - histories.at.min()) / length).astype(np.int64)
    by_day = np.zeros((len(histories), days))
    np.add.at(by_day, (histories.owner, moved(day, 0, days, every)), 1.0)
    by_day = by_day[drawn]
    return placed(by_day, every, every, lambda: choices, by_day.sum(axis=0), rng)


def _session_moves(which: Ints, at: Floats, rng: np.random.Generator) -> Floats:
    """Return some seconds for every session, the same for all its jobs; sessions keep their order."""
    gaps = np.nan_to_num(gaps_within(which, at), nan=np.inf)
    begins = gaps > SESSION_GAP
    session = np.cumsum(begins) - 1
    before = gaps[begins]
    after = np.append(before[1:], np.inf)
    room = np.minimum(np.minimum(before, after) / 3, JITTER)
    return np.asarray((rng.uniform(-1, 1, len(room)) * room)[session])
