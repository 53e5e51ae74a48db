"""Skeleton *modelled*: users' dates, hours and pauses are drawn from fitted distributions; no calendar is reused.

The story, from top to bottom:

* a user has a repertoire of *working days*: so many sessions, each of so many jobs, in batches or one by one. A made
  user goes through it in about the real order, in stretches of days: who comes late in the real trace comes late;
* a stretch begins in a week near that of its model, on any day on which this user works; which week is chosen so that
  the machine's busy and quiet days, and what kinds of jobs they bring, stay what they are;
* within a stretch a working day is followed by the next one after as many days as is usual for this user on that day of
  the week;
* a working day begins at an hour at which days like it began, and lasts about as long as its model;
* the pauses between sessions and between jobs are drawn from those of this user, longer or shorter about where those
  of the model are.

With privacy k, "this user" means at least k alike users whose habits are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.dealing import Dealer
from generators.sessions.histories import BATCH, NIGHT, RETURN, Floats, Histories, Ints, Plan
from generators.sessions.local_calendar import DAY, WEEK, LocalCalendar, Place, Window
from generators.sessions.piles import Piles, laid_out, ranges, ranks_of
from generators.sessions.placing import Entries, shift_days, shift_items
from generators.sessions.shelf import MEMORY, Array, Column, Shelf, blocks, small, whole
from tracekit.compiled import compiled

#: Chance that a new stretch begins after a working day; after so many dates without one it always does.
TURN_AROUND, ABSENT = 0.1, 14
#: Sessions and days are alike when they have as many jobs to the nearest of these classes: fewer than …
FEW, MANY = 5, 20
#: Seconds by which a day begins earlier or later than its model.
EARLIER = 900.0
#: Share by which a day lasts longer or shorter than its model.
LONGER = 0.2
#: How far the hour at which a day begins may stray from the rank of its model's.
STRAY = 0.25
#: How far the pause before a job of a batch may stray from its model's rank: if that is up to NOTED seconds, and all of
#: a batch alike; longer ones stray as far as hours do.
STEADY, NOTED = 0.05, 5.0
#: Weeks, or in short traces days, by which a stretch moves at most.
MOVES = 2


class Steps(NamedTuple):
    """Dates from the end of a working day to the next, in piles one after another; a tuple, as compiled code takes."""

    first: Ints  # (piles + 1,)
    dates: Ints


@dataclass(frozen=True)
class Habits:
    """What was learnt of users' time. Days are working days: stretches of a history without a pause of eight hours."""

    first: Column  # (days,) first job
    size: Column  # (days,) jobs
    owner: Column  # (days,) history
    pool: Ints  # (histories,)
    begin: Column  # (days,) seconds since midnight
    begin_rank: Column  # (days,) rank 0 … 1 among the days of the same pool and kind
    lasts: Column  # (days,) seconds from the first to the last job
    weekend: Column  # (days,) 0 or 1
    steps: Column  # dates from the end of a working day to the next, in piles by pool and day of the week
    step_first: Ints  # (pools · 7 + 1,)
    all_steps: Column
    all_step_first: Ints  # (7 + 1,)
    when: Column  # (days,) week, in short traces date, counted from the beginning of the real trace
    weekdays: Ints  # (pools, 7) working days by day of the week
    first_date: Ints  # () of the real trace
    busy: Floats  # (dates, kinds) jobs on each date of the real trace
    later: Column  # (jobs,) dates since the first of the working day
    turn: Column  # (jobs,)
    pace: Column  # (jobs,) class of the session by its number of jobs
    pause_rank: Column  # (jobs,) rank 0 … 1 of the pause before a job among those of the same pile
    long: Column  # (jobs,) the pause is longer than NOTED
    pauses: Piles  # seconds before a job, by pool, turn and pace
    all_pauses: Piles
    begins: Piles  # seconds since midnight, by pool, weekend and class of the day
    all_begins: Piles

    @classmethod
    def fit(
        cls,
        histories: Histories,
        pool: Ints,
        calendar: LocalCalendar,
        sort: Column,
        shelf: Shelf = MEMORY,
        *,
        by_users: bool = False,
    ) -> Self:
        """Learn from real histories; ``pool``: whose habits are taken together, ``sort``: what kind of job each is.

        ``by_users``: how busy a date is follows from how many users were active; no user makes a date stand out.
        """
        at, turn, owner = whole(histories.at), whole(histories.turn), whole(histories.owner)
        first = np.flatnonzero(turn == NIGHT)
        size = np.diff(np.append(first, len(at)))
        begin, end = at[first], at[first + size - 1]
        date, until = np.floor(begin / DAY).astype(np.int64), np.floor(end / DAY).astype(np.int64)
        day_owner = owner[first].astype(np.int64)
        here = np.flatnonzero((day_owner[1:] == day_owner[:-1]) & (date[1:] - until[:-1] <= ABSENT))
        step, weekday = date[here + 1] - until[here], until[here] % 7  # to the same user's next working day
        key = pool[day_owner[here]] * 7 + weekday
        order, by_day = np.lexsort((step, key)), np.lexsort((step, weekday))
        pools = int(pool.max()) + 1
        weekend = (date % 7 >= 5).astype(np.int64)
        kind = weekend * 3 + _class_of(size)
        length = max(1, round(calendar.period / DAY))
        every = 7 if calendar.unit == "weeks" else 1
        dates = np.empty(len(at), dtype=np.int32)
        for rows in blocks(len(at)):
            dates[rows] = np.floor(at[rows] / DAY)
        del at
        later = shelf.keep(dates - np.repeat(date.astype(np.int32), size))
        for rows in blocks(len(dates)):
            dates[rows] = shift_days(dates[rows] - date.min(), 0, length, every, calendar.drifts)
        busy = _busy(owner, dates, length, whole(sort), by_users)
        del dates
        session = np.cumsum(turn >= RETURN, dtype=np.int32 if len(turn) < 2**31 else np.int64)
        pace = _class_of(np.bincount(session)).astype(np.int8)[session]
        del session
        turns = (turn * 3 + pace).astype(np.int8)
        pause = np.diff(whole(histories.at), prepend=0.0)
        of_pool = small(pool[owner] * 12 + turns)
        del owner
        long, pause_rank = shelf.keep(pause > NOTED), shelf.keep(ranks_of(of_pool, pause))
        pace = shelf.keep(pace)
        inside = turn != NIGHT
        of_pool, turns, pause = of_pool[inside], turns[inside], pause[inside]
        del turn, inside
        pauses = Piles.of(of_pool, pools * 12, pause, shelf)
        del of_pool
        keep = shelf.keep
        return cls(
            keep(first),
            keep(size),
            keep(day_owner),
            pool,
            keep(begin % DAY),
            keep(ranks_of(pool[day_owner] * 6 + kind, begin % DAY)),
            keep(end - begin),
            keep(weekend),
            keep(step[order]),
            np.searchsorted(key[order], np.arange(pools * 7 + 1)).astype(np.int64),
            keep(step[by_day]),
            np.searchsorted(weekday[by_day], np.arange(8)).astype(np.int64),
            keep((date - date.min()) // every),
            np.bincount(pool[day_owner] * 7 + date % 7, minlength=pools * 7).reshape(pools, 7),
            np.asarray(date.min()),
            busy,
            later,
            histories.turn,
            pace,
            pause_rank,
            long,
            pauses,
            Piles.of(turns, 12, pause, shelf),
            Piles.of(pool[day_owner] * 6 + kind, pools * 6, begin % DAY, shelf),
            Piles.of(kind, 6, begin % DAY, shelf),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays by name."""
        found: dict[str, NDArray[Any]] = {}
        for name, value in vars(self).items():
            found |= (
                {f"{name}.first": value.first, f"{name}.value": whole(value.value)}
                if isinstance(value, Piles)
                else {name: whole(value)}
            )
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read back what `to_arrays` gave; a missing array is a KeyError."""
        found: dict[str, Any] = {}
        for f in fields(cls):
            piles = f"{f.name}.first" in arrays
            found[f.name] = Piles(arrays[f"{f.name}.first"], arrays[f"{f.name}.value"]) if piles else arrays[f.name]
        return cls(**found)

    def plan_period(
        self,
        drawn: Ints,
        new_users: Ints,
        copy: Ints,
        place: Place,
        sort: Column,
        rng: np.random.Generator,
        dealer: Dealer | None = None,
    ) -> Plan:
        """Lay working days of the drawn histories' users in their place.

        ``new_users``: the synthetic user of each; ``copy`` numbers the copies of one history; ``sort``: what kind of
        job each real one is. ``dealer``: who chooses days and sessions where none may be repeated as they followed each
        other.
        """
        if dealer is None:
            days, who = self._repertoire(drawn, copy, rng)
        else:
            days, who = dealer.working_days(self.pool, drawn, whole(self.owner), rng)
        order = np.lexsort((days, self.when[days], who))
        days, who = days[order], who[order]
        date = self._dates(self.pool[drawn[who]], days, who, place.home, sort, rng)
        begin = self._begins(days, who, drawn, date, rng)
        if dealer is None:
            job: Array = small(ranges(self.first[days], self.size[days]))
            day: Array = np.repeat(np.arange(len(days), dtype=np.int32), self.size[days])
        else:
            job, day = dealer.jobs_of(self.first[days], self.size[days], self.pool[drawn[who]], rng)
        pause = self._pauses(job, day, self.pool[drawn[who]], rng)
        starts = np.flatnonzero(np.diff(day, prepend=-1))
        pause[starts] = 0.0
        factor = self._stretch(days, day, job, pause, rng)
        slow = whole(self.turn)
        for rows in blocks(len(pause)):
            pause[rows] *= np.where(slow[job[rows]] > BATCH, factor[day[rows]], 1.0)
        del slow
        if dealer is not None:
            pause *= dealer.unsteady(len(pause), rng)
        at = np.cumsum(pause)
        del pause
        passed = at[starts]
        for rows in blocks(len(at)):
            of = day[rows]
            at[rows] = place.holding(date[of] * DAY + begin[of] + at[rows] - passed[of])
        return Plan.sorted(small(new_users)[who][day], small(drawn)[who][day], at, job)

    def _repertoire(self, drawn: Ints, copy: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Choose the working days of each synthetic user; return them and whose they are (positions in ``drawn``)."""
        group = self.pool[drawn] * (int(copy.max(initial=0)) + 1) + copy
        owner = whole(self.owner)
        wanted = np.bincount(owner, minlength=len(self.pool))[drawn]
        pool_of_day = self.pool[owner]
        by_pool = np.argsort(pool_of_day, kind="stable")
        pool_first = np.searchsorted(pool_of_day[by_pool], np.arange(int(self.pool.max()) + 2))
        groups = np.unique(group)
        pools = groups // (int(copy.max(initial=0)) + 1)
        count = pool_first[pools + 1] - pool_first[pools]
        day = by_pool[ranges(pool_first[pools], count)]
        of = np.repeat(groups, count)
        breaks = (rng.random(len(day)) < TURN_AROUND) | (np.diff(of, prepend=-1) != 0)
        breaks |= np.diff(owner[day], prepend=-1) != 0
        stretch = np.cumsum(breaks) - 1
        shuffled = np.lexsort((np.arange(len(day)), rng.random(int(stretch[-1]) + 1)[stretch], of))
        day = day[shuffled]
        users = np.lexsort((np.arange(len(drawn)), group))  # synthetic users in the order of their groups
        begin_of_group = np.cumsum(count) - count
        served = np.cumsum(wanted[users]) - wanted[users]
        before = served - served[np.searchsorted(group[users], group[users])]
        places = ranges(begin_of_group[np.searchsorted(groups, group[users])] + before, wanted[users])
        return day[places], np.repeat(users, wanted[users])

    def _dates(self, pool: Ints, days: Ints, who: Ints, home: Window, sort: Column, rng: np.random.Generator) -> Ints:
        """Choose the dates of the working days, in days since the origin; stretches move by weeks where there are.

        ``pool`` and ``who``: whose habits each day follows, and whose day it is; days are in the order of users.
        """
        every = 7 if home.unit == WEEK else 1
        last = self.later[self.first[days] + self.size[days] - 1]
        absent = np.diff(self.when[days], prepend=0) * every > ABSENT
        begins = (np.diff(who, prepend=-1) != 0) | absent | (rng.random(len(days)) < TURN_AROUND)
        stretch, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
        start = self.when[days[first]] * every
        if every == 7:
            start += (self._weekdays(pool[first], self.weekend[days[first]], rng) - self.first_date) % 7
        weekday = (self.first_date + start) % 7
        pile = np.repeat(np.arange(len(self.step_first) - 1), np.diff(self.step_first))
        steps = whole(self.steps)[np.lexsort((rng.random(len(pile)), pile))]  # each pile in a new order
        own, everybody = Steps(self.step_first, steps), Steps(self.all_step_first, whole(self.all_steps))
        since = start[stretch] + _stepped(first, last, pool[first], weekday, own, everybody, rng)
        # Dates are counted from the first one of the trace, which need not be a Monday.
        job = small(ranges(self.first[days], self.size[days]))
        day = np.repeat(np.arange(len(days), dtype=np.int32), self.size[days])
        (dates, kinds), count = self.busy.shape, len(job)
        at, later = np.empty(count, dtype=np.int32), whole(self.later)
        for rows in blocks(count):
            at[rows] = shift_days(since[day[rows]] + later[job[rows]], 0, dates, every, home.drifts)
        del later
        kind = np.minimum(sort[job], kinds - 1)
        del job
        entries = Entries.of(small(stretch)[day], len(first), at, dates, kind, kinds, who[first])
        del at, kind, day
        farthest = min(MOVES, max(1, dates // every // 3), dates // every - 1)
        moves = np.arange(-farthest, farthest + 1)
        wanted = self.busy * (count / self.busy.sum())
        moved = shift_items(entries, every, 1, lambda: moves, wanted, home.drifts, rng)
        return np.asarray(self.first_date + since + moved[stretch] * every)

    def _weekdays(self, pool: Ints, weekend: Ints, rng: np.random.Generator) -> Ints:
        """Choose days of the week, as common as they are in the pools; weekends stay weekends."""
        mine = self.weekdays[pool] * ((np.arange(7) >= 5) == weekend[:, None])
        total = np.cumsum(mine, axis=1)
        below = total <= (rng.random(len(pool)) * total[:, -1])[:, None]
        return np.asarray(below.sum(axis=1), dtype=np.int64)

    def _begins(self, days: Ints, who: Ints, drawn: Ints, date: Ints, rng: np.random.Generator) -> Floats:
        """Choose the hours at which the working days begin, in seconds since midnight."""
        weekend = (date % 7 >= 5).astype(np.int64)
        kind = weekend * 3 + _class_of(self.size[days])
        pile = self.pool[drawn[who]] * 6 + kind
        near = 1 - np.abs(1 - np.abs(self.begin_rank[days] + STRAY * rng.uniform(-1, 1, len(days))))
        rank = np.where(self.weekend[days] == weekend, near, laid_out(pile, rng))
        own, enough = self.begins.loaded().at(pile, rank)
        common, _ = self.all_begins.loaded().at(kind, rank)
        like = np.where(self.weekend[days] == weekend, self.begin[days], common)
        begin = np.where(enough, own, like) + rng.uniform(-EARLIER, EARLIER, len(days))
        return np.asarray(np.abs(begin))

    def _stretch(self, days: Ints, day: Array, job: Array, pause: Floats, rng: np.random.Generator) -> Floats:
        """Return factors of pauses, by working day, that make it last about as long as its model.

        Those within batches stay what they are.
        """
        slow = self.turn[job] > BATCH
        total = np.bincount(day, weights=np.where(slow, pause, 0.0), minlength=len(days))
        rest = np.bincount(day, weights=np.where(slow, 0.0, pause), minlength=len(days))
        wanted = self.lasts[days] * rng.uniform(1 - LONGER, 1 + LONGER, len(days)) - rest
        return np.clip(wanted / np.maximum(total, 1.0), 0.2, 5.0)

    def _pauses(self, job: Array, day: Array, pool: Ints, rng: np.random.Generator) -> Floats:
        """Choose the pause before each job, in seconds; ``pool``: of each working day."""
        turn, pace, rank, long = whole(self.turn), whole(self.pace), whole(self.pause_rank), whole(self.long)
        mine, everybody = self.pauses.loaded(), self.all_pauses.loaded()
        batch = np.cumsum(turn[job] > BATCH, dtype=np.int32 if len(job) < 2**31 else np.int64)
        together, pause = rng.uniform(-1, 1, int(batch[-1]) + 1), np.empty(len(job))
        for rows in blocks(len(job)):
            of = job[rows]
            kind = turn[of].astype(np.int64) * 3 + pace[of]
            away = np.where(long[of], STRAY, STEADY) * rng.uniform(-1, 1, len(of)) + STEADY * together[batch[rows]]
            near = 1 - np.abs(1 - np.abs(rank[of] + away))
            own, enough = mine.at(pool[day[rows]] * 12 + kind, near)
            others, _ = everybody.at(kind, near)
            pause[rows] = np.where(enough, own, others)
        return pause


def _busy(owner: Array, date: Array, dates: int, sort: Array, by_users: bool) -> Floats:
    """Return the number of jobs on each date, by kind; or of active users scaled to as many jobs, all of one kind."""
    if not by_users:
        kinds = int(sort.max()) + 1
        busy = np.zeros(dates * kinds, dtype=np.int64)
        for rows in blocks(len(date)):
            busy += np.bincount(date[rows].astype(np.int64) * kinds + sort[rows], minlength=dates * kinds)
        return busy.reshape(dates, kinds).astype(np.float64)
    active = np.bincount(np.unique(owner.astype(np.int64) * dates + date) % dates, minlength=dates).astype(np.float64)
    return np.asarray(active * len(date) / active.sum())[:, None]


def _class_of(jobs: Ints) -> Ints:
    return np.searchsorted([FEW, MANY], jobs, side="right").astype(np.int64)


_jit: Any = partial(compiled, sources=Path(__file__).resolve().parent)


@_jit
def _stepped(first, lasts, pool, weekday, own, everybody, rng):  # type: ignore[no-untyped-def]
    """Return each working day's date in days since its user's first one, stepping on as is usual on that weekday.

    ``lasts``: further dates that a working day extends over. Users go through their own steps in turn: ``own``
    has a pile for each pool and day of the week, ``everybody`` one for each day of the week.
    """
    since = np.zeros(len(lasts), np.int64)
    for u in range(len(first)):
        end = first[u + 1] if u + 1 < len(first) else len(lasts)
        used = np.zeros(7, np.int64)
        for i in range(first[u] + 1, end):
            over = since[i - 1] + lasts[i - 1]
            day = (weekday[u] + over) % 7
            low, high = own.first[pool[u] * 7 + day], own.first[pool[u] * 7 + day + 1]
            if high - low > 1:  # a single step would bring back the user's own calendar
                step = own.dates[low + used[day] % (high - low)]
                used[day] += 1
            else:
                low, high = everybody.first[day], everybody.first[day + 1]
                step = everybody.dates[low + int(rng.random() * (high - low))] if high > low else 1
            since[i] = over + max(step, 0)
    return since
