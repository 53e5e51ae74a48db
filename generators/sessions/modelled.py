"""Skeleton *modelled*: users' dates, hours and pauses are drawn from fitted distributions; no calendar is reused.

The story, from top to bottom:

* a user has a repertoire of *working days*: so many sessions, each of so many jobs, in batches or one by one. A made
  user goes through the repertoire in stretches of days that really followed each other, in a new order;
* a working day is followed by the next one after as many days as is usual for this user on that day of the week; the
  first one is placed so that the machine's busy and quiet days stay busy and quiet;
* a working day begins at an hour at which days like it began, and lasts about as long as its model;
* the pauses between sessions, between jobs and within batches are drawn from those of this user, where a session that
  goes fast goes on fast (one rank a session, and a little for each job).

With privacy k, "this user" means at least k alike users whose habits are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numba
import numpy as np
from numpy.typing import NDArray

from generators.sessions.histories import BATCH, NIGHT, RETURN, Floats, Histories, Ints, Plan
from generators.sessions.placing import settled
from generators.sessions.wall import DAY, Wall

#: Chance that a made user turns to another stretch of the repertoire after a day.
TURN_AROUND = 0.1
#: Sessions and days are alike when they have as many jobs to the nearest of these classes: fewer than …
FEW, MANY = 5, 20
#: Seconds by which a day begins earlier or later than its model.
EARLIER = 900.0
#: Share by which a day lasts longer or shorter than its model.
LONGER = 0.2
#: How far a job's pause may stray from the rank of its session's.
STRAY = 0.25
#: With fewer pauses or days than this to draw from, those of all users are taken.
LEAST = 8
#: Weeks among which a user chooses where to begin.
CHOICES = 9
#: Least squares even out busy and quiet days; so they are asked for with contrasts exaggerated by these factors, and
#: the placement is taken whose days are as uneven as the real ones.
GAINS = (1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True)
class Piles:
    """Values in piles by key, each sorted; a pile of too few is replaced by that of everybody."""

    first: Ints  # (keys + 1,)
    value: Floats

    @classmethod
    def of(cls, key: Ints, keys: int, value: Floats) -> Self:
        """Sort values into piles 0 … keys − 1."""
        order = np.lexsort((value, key))
        return cls(np.searchsorted(key[order], np.arange(keys + 1)).astype(np.int64), value[order])

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


@dataclass(frozen=True)
class Habits:
    """What was learnt of users' time. Days are working days: stretches of a history without a pause of eight hours."""

    first: Ints  # (days,) first job
    size: Ints  # (days,) jobs
    owner: Ints  # (days,) history
    pool: Ints  # (histories,)
    begin: Floats  # (days,) seconds since midnight
    begin_rank: Floats  # (days,) rank 0 … 1 among the days of the same pool and kind
    lasts: Floats  # (days,) seconds from the first to the last job
    weekend: Ints  # (days,) 0 or 1
    steps: Ints  # dates from a working day to the next, in piles by pool and day of the week
    step_first: Ints  # (pools · 7 + 1,)
    all_steps: Ints
    all_step_first: Ints  # (7 + 1,)
    start_weekday: Ints  # (histories,)
    busy: Floats  # (days,) jobs on each date of the real trace
    turn: Ints  # (jobs,)
    pace: Ints  # (jobs,) class of the session by its number of jobs
    pauses: Piles  # seconds before a job, by pool, turn and pace
    all_pauses: Piles
    begins: Piles  # seconds since midnight, by pool, weekend and class of the day
    all_begins: Piles

    @classmethod
    def fit(cls, histories: Histories, pool: Ints, wall: Wall) -> Self:
        """Learn from real histories; ``pool``: whose habits are taken together."""
        at, owner, turn = histories.at, histories.owner, histories.turn
        first = np.flatnonzero(turn == NIGHT)
        size = np.diff(np.append(first, len(at)))
        date = np.floor(at[first] / DAY).astype(np.int64)
        day_owner = owner[first]
        step = np.diff(date)
        follows = day_owner[1:] == day_owner[:-1]
        here = np.flatnonzero(follows)
        key = pool[day_owner[here]] * 7 + date[here] % 7
        order = np.lexsort((step[here], key))
        by_day = np.lexsort((step[here], date[here] % 7))
        pools = int(pool.max()) + 1
        session = np.cumsum(turn >= RETURN) - 1
        pace = _class_of(np.bincount(session)[session])
        pause = np.diff(at, prepend=0.0)
        inside = np.flatnonzero(turn != NIGHT)
        weekend = (date % 7 >= 5).astype(np.int64)
        kind = weekend * 3 + _class_of(size)
        first_date = date[np.searchsorted(day_owner, np.arange(len(histories)))]
        length = max(1, round(wall.period / DAY))
        turns = turn * 3 + pace
        return cls(
            first.astype(np.int64),
            size.astype(np.int64),
            day_owner,
            pool,
            at[first] % DAY,
            _ranks(pool[day_owner] * 6 + kind, at[first] % DAY),
            at[first + size - 1] - at[first],
            weekend,
            step[here][order],
            np.searchsorted(key[order], np.arange(pools * 7 + 1)).astype(np.int64),
            step[here][by_day],
            np.searchsorted((date[here] % 7)[by_day], np.arange(8)).astype(np.int64),
            first_date % 7,
            np.bincount(np.floor(at / DAY).astype(np.int64) % length, minlength=length).astype(np.float64),
            turn,
            pace,
            Piles.of(pool[owner[inside]] * 12 + turns[inside], pools * 12, pause[inside]),
            Piles.of(turns[inside], 12, pause[inside]),
            Piles.of(pool[day_owner] * 6 + kind, pools * 6, at[first] % DAY),
            Piles.of(kind, 6, at[first] % DAY),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays by name."""
        found: dict[str, NDArray[Any]] = {}
        for name, value in vars(self).items():
            found |= (
                {f"{name}.first": value.first, f"{name}.value": value.value}
                if isinstance(value, Piles)
                else {name: value}
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

    def plan_period(self, wall: Wall, drawn: Ints, makers: Ints, copy: Ints, rng: np.random.Generator) -> Plan:
        """Make one period of the drawn histories' users; ``copy`` numbers the copies of one history."""
        days, who = self._repertoire(drawn, copy, rng)
        date = self._dates(wall, drawn, days, who, rng)
        begin = self._begins(days, who, drawn, date, rng)
        job = _ranges(self.first[days], self.size[days])
        day = np.repeat(np.arange(len(days)), self.size[days])
        pause = self._pauses(job, self.pool[drawn[who]][day], rng)
        starts = np.flatnonzero(np.diff(day, prepend=-1))
        pause[starts] = 0.0
        pause *= self._stretch(days, day, job, pause, rng)
        passed = np.cumsum(pause)
        at = date[day] * DAY + begin[day] + passed - passed[starts][day]
        return Plan.sorted(makers[who][day], drawn[who][day], at % wall.period, job)

    def _repertoire(self, drawn: Ints, copy: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Choose the working days of each made user; return them and whose they are (positions in ``drawn``)."""
        group = self.pool[drawn] * (int(copy.max(initial=0)) + 1) + copy
        wanted = np.bincount(self.owner, minlength=len(self.pool))[drawn]
        pool_of_day = self.pool[self.owner]
        by_pool = np.argsort(pool_of_day, kind="stable")
        pool_first = np.searchsorted(pool_of_day[by_pool], np.arange(int(self.pool.max()) + 2))
        groups = np.unique(group)
        pools = groups // (int(copy.max(initial=0)) + 1)
        count = pool_first[pools + 1] - pool_first[pools]
        day = by_pool[_ranges(pool_first[pools], count)]
        of = np.repeat(groups, count)
        breaks = (rng.random(len(day)) < TURN_AROUND) | (np.diff(of, prepend=-1) != 0)
        breaks |= np.diff(self.owner[day], prepend=-1) != 0
        stretch = np.cumsum(breaks) - 1
        shuffled = np.lexsort((np.arange(len(day)), rng.random(int(stretch[-1]) + 1)[stretch], of))
        day = day[shuffled]
        users = np.lexsort((np.arange(len(drawn)), group))  # made users in the order of their groups
        begin_of_group = np.cumsum(count) - count
        served = np.cumsum(wanted[users]) - wanted[users]
        before = served - served[np.searchsorted(group[users], group[users])]
        places = _ranges(begin_of_group[np.searchsorted(groups, group[users])] + before, wanted[users])
        return day[places], np.repeat(users, wanted[users])

    def _dates(self, wall: Wall, drawn: Ints, days: Ints, who: Ints, rng: np.random.Generator) -> Ints:
        """Choose the dates of the working days, in days since the origin."""
        length = max(1, round(wall.period / DAY))
        first = np.flatnonzero(np.diff(who, prepend=-1))
        owner = drawn[who[first]]
        since = _stepped(
            first, len(who), self.pool[owner], self.start_weekday[owner], self.step_first, self.steps,
            self.all_step_first, self.all_steps, rng,
        )  # fmt: skip
        user = np.cumsum(np.diff(who, prepend=-1) != 0) - 1
        start = self.start_weekday[owner]
        if wall.unit != "weeks":
            return np.asarray(rng.integers(0, length, len(owner))[user] + since)
        date, size = (start[user] + since) % length, self.size[days].astype(np.float64)
        jobs = np.zeros((len(owner), length))
        np.add.at(jobs, (user, date), size)
        wanted = self.busy * (size.sum() / self.busy.sum())
        best, least = start, np.inf
        for gain in GAINS:
            choices = 7 * rng.choice(wall.units, min(CHOICES, wall.units), replace=False)
            move = settled(jobs, choices, wanted.mean() + gain * (wanted - wanted.mean()), rng)
            made = np.bincount((date + move[user]) % length, weights=size, minlength=length)
            error = abs(float(np.log((made.var() + 1e-9) / (wanted.var() + 1e-9))))
            if error < least:
                best, least = start + move, error
        return np.asarray(best[user] + since)

    def _begins(self, days: Ints, who: Ints, drawn: Ints, date: Ints, rng: np.random.Generator) -> Floats:
        """Choose the hours at which the working days begin, in seconds since midnight."""
        weekend = (date % 7 >= 5).astype(np.int64)
        kind = weekend * 3 + _class_of(self.size[days])
        pile = self.pool[drawn[who]] * 6 + kind
        near = 1 - np.abs(1 - np.abs(self.begin_rank[days] + STRAY * rng.uniform(-1, 1, len(days))))
        rank = np.where(self.weekend[days] == weekend, near, _laid_out(pile, rng))
        own, enough = self.begins.at(pile, rank)
        common, _ = self.all_begins.at(kind, rank)
        like = np.where(self.weekend[days] == weekend, self.begin[days], common)
        begin = np.where(enough, own, like) + rng.uniform(-EARLIER, EARLIER, len(days))
        return np.asarray(np.abs(begin))

    def _stretch(self, days: Ints, day: Ints, job: Ints, pause: Floats, rng: np.random.Generator) -> Floats:
        """Return factors of the pauses that make a working day last about as long as its model; batches keep theirs."""
        slow = self.turn[job] > BATCH
        total = np.bincount(day, weights=np.where(slow, pause, 0.0), minlength=len(days))
        rest = np.bincount(day, weights=np.where(slow, 0.0, pause), minlength=len(days))
        wanted = self.lasts[days] * rng.uniform(1 - LONGER, 1 + LONGER, len(days)) - rest
        factor = np.clip(wanted / np.maximum(total, 1.0), 0.2, 5.0)
        return np.where(slow, factor[day], 1.0)

    def _pauses(self, job: Ints, pool: Ints, rng: np.random.Generator) -> Floats:
        """Choose the pause before each job, in seconds."""
        kind = self.turn[job] * 3 + self.pace[job]
        session = np.cumsum(self.turn[job] >= RETURN)
        rank = rng.random(int(session[-1]) + 1)[session] + STRAY * rng.uniform(-1, 1, len(job))
        rank = np.where(self.turn[job] >= RETURN, rng.random(len(job)), 1 - np.abs(1 - np.abs(rank)))
        own, enough = self.pauses.at(pool * 12 + kind, rank)
        common, _ = self.all_pauses.at(kind, rank)
        return np.where(enough, own, common)


def _ranks(group: Ints, value: Floats) -> Floats:
    """Return the rank 0 … 1 of each value in its group."""
    order = np.lexsort((value, group))
    first = np.searchsorted(group[order], group[order])
    size = np.searchsorted(group[order], group[order], side="right") - first
    rank = np.empty(len(group))
    rank[order] = (np.arange(len(group)) - first + 0.5) / size
    return rank


def _laid_out(group: Ints, rng: np.random.Generator) -> Floats:
    """Return ranks 0 … 1 at random, but spread evenly within each group: one in each equal part."""
    order = np.lexsort((rng.random(len(group)), group))
    first = np.searchsorted(group[order], group[order])
    size = np.searchsorted(group[order], group[order], side="right") - first
    rank = np.empty(len(group))
    rank[order] = (np.arange(len(group)) - first + rng.random(len(group))) / size
    return rank


def _class_of(jobs: Ints) -> Ints:
    return np.searchsorted([FEW, MANY], jobs, side="right").astype(np.int64)


def _ranges(first: Ints, size: Ints) -> Ints:
    """Return first[0] … first[0] + size[0] − 1, first[1] …, one after another."""
    which = np.repeat(np.arange(len(first)), size)
    return np.arange(len(which)) - (np.cumsum(size) - size)[which] + first[which]


@numba.njit(cache=True, nogil=True)
def _stepped(first, count, pool, weekday, own_first, own, all_first, everybody, rng):  # type: ignore[no-untyped-def]
    """Return each working day's date in days since its user's first one, stepping on as is usual on that weekday."""
    since = np.zeros(count, np.int64)
    for u in range(len(first)):
        end = first[u + 1] if u + 1 < len(first) else count
        for i in range(first[u] + 1, end):
            day = (weekday[u] + since[i - 1]) % 7
            low, high = own_first[pool[u] * 7 + day], own_first[pool[u] * 7 + day + 1]
            if high > low:
                step = own[low + int(rng.random() * (high - low))]
            elif all_first[day + 1] > all_first[day]:
                step = everybody[all_first[day] + int(rng.random() * (all_first[day + 1] - all_first[day]))]
            else:
                step = 1
            since[i] = since[i - 1] + max(step, 0)
    return since
