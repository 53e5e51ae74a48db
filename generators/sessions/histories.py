"""Users' histories: the submit times of each user, in sessions and batches.

A *history* is everything that one user submitted; jobs without a user are taken week by week, each week as a history of
its own. Along a history every job begins a new *turn*: it belongs to the batch of the one before it, or follows in the
same session, or opens a new session, or comes after a night.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from generators.sessions.local_calendar import DAY, LocalCalendar
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH_GAP = 60.0  # seconds: faster submits come from a script
SESSION_GAP = 20 * 60.0  # Zakay and Feitelson 2012
NIGHT_GAP = 8 * 3600.0
#: Turn of a job by the seconds since the one before it in its history.
BATCH, SESSION, RETURN, NIGHT = 0, 1, 2, 3


def turns_of(gaps: Floats) -> Ints:
    """Return the turn that begins after each gap (seconds); NaN, for a first job, is a night."""
    turn = np.searchsorted([BATCH_GAP, SESSION_GAP, NIGHT_GAP], gaps, side="left")
    return np.where(np.isnan(gaps), NIGHT, turn).astype(np.int64)


def gaps_within(group: Ints, at: Floats) -> Floats:
    """Return the seconds since the job before in the same group; NaN for the first. Sorted by group, then time."""
    gaps = np.diff(at, prepend=np.nan)
    gaps[1:][group[1:] != group[:-1]] = np.nan
    return gaps


@dataclass(frozen=True)
class Histories:
    """Jobs by history, then by time. Arrays over jobs have shape (jobs,), over histories (histories,)."""

    owner: Ints  # (jobs,) history of each job, from 0, never falling
    at: Floats  # (jobs,) local seconds since the calendar's origin
    nameless: NDArray[np.bool_]  # (histories,) a week of jobs without a user
    active: Floats  # (histories,) seconds from the first to the last job
    turn: Ints  # (jobs,) how each job follows the one before it

    @classmethod
    def of(cls, trace: Trace, calendar: LocalCalendar) -> tuple[Self, NDArray[np.intp]]:
        """Sort a trace (in submit order) into histories; return them and the trace's rows in their order."""
        at = calendar.local(trace.column("submit_time"))
        user = trace.column("user")
        week = np.floor((at - at[0]) / calendar.unit_length).astype(np.int64)
        key = np.where(user >= 0, user, user.max(initial=-1) + 1 + np.maximum(week, 0))
        order = np.lexsort((np.arange(len(key)), at, key))
        _, owner = np.unique(key[order], return_inverse=True)
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        last = np.append(first[1:], len(owner)) - 1
        owner, at = owner.astype(np.int64), at[order]
        found = cls(owner, at, user[order][first] < 0, at[last] - at[first], turns_of(gaps_within(owner, at)))
        return found, order

    def __len__(self) -> int:
        return len(self.nameless)

    @property
    def first(self) -> Ints:
        """Return where each history begins."""
        return np.searchsorted(self.owner, np.arange(len(self))).astype(np.int64)

    @property
    def size(self) -> Ints:
        """Return how many jobs each history has."""
        return np.bincount(self.owner, minlength=len(self)).astype(np.int64)


@dataclass(frozen=True)
class Plan:
    """Which user submits when: the skeleton of one period, by synthetic user, then by time. All of shape (jobs,)."""

    new_user: Ints  # synthetic user, never falling; the same number in two periods is the same person
    donor: Ints  # history whose habits the synthetic user has
    at: Floats  # local seconds since the calendar's origin
    model: Ints  # the real job that each one is modelled on

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def sorted(cls, new_user: Ints, donor: Ints, at: Floats, model: Ints) -> Self:
        """Bring jobs into the order of a plan."""
        order = np.lexsort((np.arange(len(at)), at, new_user))
        return cls(new_user[order], donor[order], at[order], model[order])

    @property
    def turn(self) -> Ints:
        """Return each job's turn."""
        return turns_of(gaps_within(self.new_user, self.at))

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
        session, at = self.session, self.at.copy()
        for job, away in ((np.argmin(at), begin - at.min()), (np.argmax(at), begin + length - at.max())):
            at[session == session[job]] += np.fix(away / DAY) * DAY
        return Plan.sorted(self.new_user, self.donor, np.clip(at, begin, begin + length), self.model)

    def take(self, rows: NDArray[np.bool_]) -> Plan:
        """Return some of the jobs."""
        return Plan(self.new_user[rows], self.donor[rows], self.at[rows], self.model[rows])
