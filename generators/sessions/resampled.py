"""Skeleton *resampled*: real users' activity, moved by whole weeks, every session by some minutes more.

After Zakay and Feitelson, "Workload resampling for performance evaluation of parallel job schedulers", CCPE 26(12),
2014. Reused from the real trace: every user's calendar, up to the move. Which users meet is new.
"""

from __future__ import annotations

import numpy as np

from generators.sessions.histories import SESSION_GAP, Floats, Histories, Ints, Plan, gaps_within
from generators.sessions.local_calendar import WEEK, LocalCalendar, Place
from generators.sessions.placing import Entries, shift_days, shift_items
from generators.sessions.shelf import Array, Column, blocks, small, whole

#: Histories move by at most so many seconds either way, so that a machine that fills up over the months still does.
FARTHEST = WEEK
#: Days of a week; in short traces parts of a day or an hour take their place.
DAYS = {"weeks": 7, "days": 4, "hours": 4}
#: Chance that three weeks without users change places, not two.
THREE = 0.3
#: Sessions move by up to this many seconds either way.
JITTER = 120.0


def plan_period(
    histories: Histories,
    calendar: LocalCalendar,
    drawn: Ints,
    new_users: Ints,
    place: Place,
    sort: Column,
    rng: np.random.Generator,
) -> Plan:
    """Move the drawn histories and lay them in their place.

    ``new_users``: whose they become; ``sort``: what kind of job each real one is.
    """
    rows, which = histories.rows_of(drawn)
    at = _jittered(which, histories.at[rows], rng)
    moves = _moves(histories, calendar, drawn, sort, rng)
    for part in blocks(len(at)):
        at[part] = place.holding(at[part] + moves[which[part]])
    return Plan.sorted(small(new_users)[which], small(drawn)[which], at, rows)


def _moves(
    histories: Histories, calendar: LocalCalendar, drawn: Ints, sort: Column, rng: np.random.Generator
) -> Floats:
    """Return by how many seconds each history moves: whole units, not zero where there is a choice."""
    moves = np.zeros(len(drawn))
    nameless = histories.nameless[drawn]
    farthest = min(round(FARTHEST / calendar.unit_length), max(1, calendar.units // 3))
    if calendar.units > 1:
        choices = np.array([step for step in range(-farthest, farthest + 1) if step])
        moves[~nameless] = _as_busy(histories, calendar, drawn[~nameless], sort, choices, rng)
    # Weeks of jobs without users change places with their neighbours, so that no week stays empty and a trace that
    # changes over the months still does; one that had only begun stays the last.
    week = np.floor((histories.at[histories.first[drawn]] - histories.earliest) / calendar.unit_length)
    whole = nameless & (week < calendar.units)
    moves[whole] = with_neighbours(week[whole], rng) - week[whole]
    return np.asarray(moves * calendar.unit_length)


def with_neighbours(week: Floats, rng: np.random.Generator) -> Floats:
    """Return a new order of weeks in which pairs, and here and there three, of neighbours have changed places."""
    order = np.argsort(week, kind="stable")
    found = week.copy()
    begin = 0
    while (left := len(order) - begin) > 1:
        count = 3 if left == 3 or (left > 4 and rng.random() < THREE) else 2
        block = order[begin : begin + count]
        found[block] = week[np.roll(block, 1 if rng.random() < 0.5 else -1)]
        begin += count
    return found


def _as_busy(
    histories: Histories, calendar: LocalCalendar, drawn: Ints, sort: Column, choices: Ints, rng: np.random.Generator
) -> Ints:
    """Choose moves that keep every week about as busy, with such jobs, and the days as uneven, as they were."""
    every = DAYS[calendar.unit]
    length = calendar.unit_length / every
    days = max(1, round(calendar.period / length))
    rows, item = histories.rows_of(drawn)
    at, kinds = whole(histories.at), int(whole(sort).max()) + 1
    day = np.empty(len(rows), dtype=np.int32)
    for part in blocks(len(rows)):
        since = np.floor((at[rows[part]] - histories.earliest) / length).astype(np.int64)
        day[part] = shift_days(since, 0, days, every, calendar.drifts)
    del at
    entries = Entries.of(item, len(drawn), day, days, sort[rows], kinds)
    del rows, item, day
    return shift_items(entries, every, every, lambda: choices, entries.by_day(days), calendar.drifts, rng)


def _jittered(which: Array, at: Floats, rng: np.random.Generator) -> Floats:
    """Move every session by some seconds, the same for all its jobs; sessions keep their order."""
    gaps = gaps_within(which, at)
    np.nan_to_num(gaps, copy=False, nan=np.inf)
    begins = gaps > SESSION_GAP
    before = gaps[begins]
    del gaps
    after = np.append(before[1:], np.inf)
    room = np.minimum(np.minimum(before, after) / 3, JITTER)
    moves, sessions = rng.uniform(-1, 1, len(room)) * room, 0
    for part in blocks(len(at)):
        session = np.cumsum(begins[part]) - 1 + sessions
        at[part] += moves[session]
        sessions = int(session[-1]) + 1
    return at
