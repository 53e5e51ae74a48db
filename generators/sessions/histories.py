"""Users' histories: the submit times of each user, in sessions and batches.

A *history* is everything that one user submitted; jobs without a user are taken week by week, each week as a history of
its own. Along a history every job begins a new *turn*: it belongs to the batch of the one before it, or follows in the
same session, or opens a new session, or comes after a night.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.local_calendar import DAY, LocalCalendar
from generators.sessions.shelf import MEMORY, Array, Column, Shelf, blocks, groups_in_blocks, small, whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH_GAP = 60.0  # seconds: faster submits come from a script
SESSION_GAP = 20 * 60.0  # Zakay and Feitelson 2012
NIGHT_GAP = 8 * 3600.0
#: Turn of a job by the seconds since the one before it in its history.
BATCH, SESSION, RETURN, NIGHT = 0, 1, 2, 3


def turns_of(gaps: Floats) -> Array:
    """Return the turn that begins after each gap (seconds); NaN, for a first job, is a night. A byte each."""
    turn = np.searchsorted([BATCH_GAP, SESSION_GAP, NIGHT_GAP], gaps, side="left")
    return np.where(np.isnan(gaps), NIGHT, turn).astype(np.int8)


def gaps_within(group: Array, at: Floats) -> Floats:
    """Return the seconds since the job before in the same group; NaN for the first. Sorted by group, then time."""
    gaps = np.diff(at, prepend=np.nan)
    gaps[1:][group[1:] != group[:-1]] = np.nan
    return gaps


def turns_within(group: Array, at: Floats) -> Array:
    """Return the turn of each job. Sorted by group, then time."""
    turn = np.empty(len(at), dtype=np.int8)
    for rows in blocks(len(at)):
        before = slice(max(rows.start - 1, 0), rows.stop)  # the gap of a block's first job is to the job before it
        turn[rows] = turns_of(gaps_within(group[before], at[before]))[rows.start - before.start :]
    return turn


def campaigns_of(turn: Array, kind: Array) -> Array:
    """Number the campaigns: all jobs of one template (``kind``) in one session of a user."""
    found, count, kinds = np.empty(len(turn), dtype=np.int64), 0, int(kind.max(initial=0)) + 1
    for rows in groups_in_blocks(turn >= RETURN):
        key = np.cumsum(turn[rows] >= RETURN) * kinds + kind[rows]
        found[rows] = np.unique(key, return_inverse=True)[1] + count
        count = int(found[rows].max()) + 1
    return small(found)


@dataclass(frozen=True)
class Histories:
    """Jobs by history, then by time. Arrays over jobs have shape (jobs,), over histories (histories,)."""

    owner: Column  # (jobs,) history of each job, from 0, never falling
    at: Column  # (jobs,) local seconds since the calendar's origin
    nameless: NDArray[np.bool_]  # (histories,) a week of jobs without a user
    active: Floats  # (histories,) seconds from the first to the last job
    turn: Column  # (jobs,) how each job follows the one before it

    @classmethod
    def of(cls, submit: Floats, user: Array, calendar: LocalCalendar, shelf: Shelf = MEMORY) -> tuple[Self, Array]:
        """Sort jobs, which are in submit order, into histories; return them and the jobs' rows in their order.

        ``user``: code of each job's user; −1 = unknown.
        """
        at, key = np.empty(len(submit)), np.empty(len(submit), dtype=np.int64)
        users = int(user.max(initial=-1)) + 1
        for rows in blocks(len(submit)):
            at[rows] = calendar.local(submit[rows])
            week = np.floor((at[rows] - at[0]) / calendar.unit_length).astype(np.int64)
            key[rows] = np.where(user[rows] >= 0, user[rows], users + np.maximum(week, 0))
        key = small(key)
        order = small(np.lexsort((at, key)))  # equal ones stay in their order
        key = key[order]
        at = at[order]
        owner = small(np.cumsum(key[1:] != key[:-1]))
        owner = np.concatenate([np.zeros(min(len(key), 1), dtype=owner.dtype), owner])
        del key
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        last = np.append(first[1:], len(owner)) - 1
        found = cls(
            shelf.keep(owner),
            shelf.keep(at),
            user[order[first]] < 0,
            at[last] - at[first],
            shelf.keep(turns_within(owner, at)),
        )
        return found, order

    def __len__(self) -> int:
        return len(self.nameless)

    @cached_property
    def size(self) -> Ints:
        """How many jobs each history has."""
        size = np.zeros(len(self), dtype=np.int64)
        for rows in blocks(len(self.owner)):
            size += np.bincount(self.owner[rows], minlength=len(self))
        return size

    @cached_property
    def first(self) -> Ints:
        """Where each history begins."""
        return np.cumsum(self.size) - self.size

    @cached_property
    def earliest(self) -> float:
        """When the first job comes; infinity without jobs."""
        return float(whole(self.at).min(initial=np.inf))

    def rows_of(self, drawn: Ints) -> tuple[Array, Array]:
        """Return the jobs of histories, one history after the other, and which of the given histories each is of."""
        size, first = self.size[drawn], self.first[drawn]
        which = np.repeat(np.arange(len(drawn), dtype=np.int32), size)
        rows, offset = np.empty(len(which), dtype=np.int64), first - (np.cumsum(size) - size)
        for part in blocks(len(which)):
            rows[part] = np.arange(part.start, part.stop) + offset[which[part]]
        return small(rows), which


@dataclass(frozen=True)
class Plan:
    """Which user submits when: the skeleton of one period, by synthetic user, then by time. All of shape (jobs,)."""

    new_user: Array  # synthetic user, never falling; the same number in two periods is the same person
    donor: Array  # history whose habits the synthetic user has
    at: Floats  # local seconds since the calendar's origin
    model: Array  # the real job that each one is modelled on

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def sorted(cls, new_user: Array, donor: Array, at: Floats, model: Array) -> Self:
        """Bring jobs into the order of a plan."""
        order = small(np.lexsort((at, new_user)))  # equal ones stay in their order
        return cls(small(new_user[order]), small(donor[order]), at[order], small(model[order]))

    @property
    def turn(self) -> Array:
        """Return each job's turn."""
        return turns_within(self.new_user, self.at)

    @property
    def session(self) -> Ints:
        """Number the sessions."""
        return np.cumsum(self.turn >= RETURN)

    @classmethod
    def joined(cls, one: Self, other: Self) -> Self:
        """Return the plan of two groups of users together."""
        return cls.sorted(
            *(np.concatenate([a, b]) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))
        )

    def to_the_ends(self, begin: float, length: float) -> Plan:
        """Let the first session begin, and the last one end, within a day of the ends of the time planned.

        At the quiet end of a trace that drifts there may be a single session: moved by a week, it would change how long
        the trace lasts, and with that the load of all.
        """
        session, at = small(self.session), self.at.copy()
        for job, away in ((np.argmin(at), begin - at.min()), (np.argmax(at), begin + length - at.max())):
            at[session == session[job]] += np.fix(away / DAY) * DAY
        return Plan.sorted(self.new_user, self.donor, np.clip(at, begin, begin + length), self.model)

    def take(self, rows: NDArray[np.bool_]) -> Plan:
        """Return some of the jobs."""
        return Plan(self.new_user[rows], self.donor[rows], self.at[rows], self.model[rows])
