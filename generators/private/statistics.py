"""The exact statistics before noise: whole numbers to which one user (or job) adds a vector of bounded length.

Every function here is a sum over units (users, or jobs) of something that depends on that unit's jobs only, so removing
a unit changes the sum by exactly that unit's part. `parts` bounds the length of every part; tests check both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from generators.private.domain import (
    ACTIVITY,
    ALIKE,
    GAPS,
    LIMITS,
    OTHER,
    RUNS,
    SAME_SHAPE,
    SIMILAR,
    STATES,
    Domain,
    Floats,
    Ints,
    bin_of,
    block_of,
)
from tracekit import stats
from tracekit.trace import Trace

#: A part's largest length: parts are whole numbers, so that sums and noise are exact.
LENGTH = 2**16
#: Submit times beyond this many seconds are taken for errors (they have no date).
LATEST = 4e9
#: Lengths of what one unit can change, in units of `LENGTH` for tables and of 1 for counts of users.
#: A job's removal takes away two pairs of consecutive jobs and adds one: at most √(2² + 1²).
PAIRS_BY_JOB = float(np.sqrt(5.0))
#: A job's removal moves its user from one class of activity to another.
CLASSES_BY_JOB = float(np.sqrt(2.0))


@dataclass(frozen=True)
class Facts:
    """Jobs as bins; all arrays of shape (jobs,), by user and then in submit order."""

    unit: str  # user or job: what is protected
    owner: Ints  # number of the unit that the job belongs to
    units: int
    user: Ints
    submit: Floats
    work: Floats  # size × run time
    limit: Ints  # the last bin is "no limit"
    run: Ints
    size: Ints
    block: Ints | None  # of the week
    pair: Ints  # bin of (gap, state) to the user's job before it; −1 for a user's first job

    @classmethod
    def of(cls, trace: Trace, domain: Domain, unit: str) -> Self:
        """Translate a trace; jobs without a user, submit time, size or run time are not used at all."""
        user, submit, size = trace.column("user"), trace.column("submit_time"), trace.sizes(domain.unit)
        run, limit = trace.column("run_time"), trace.column("req_time")
        with np.errstate(invalid="ignore"):
            used = (user >= 0) & (np.abs(submit) < LATEST) & (size > 0) & (run >= 0) & np.isfinite(run * size)
        rows = np.flatnonzero(used)
        rows = rows[np.lexsort((rows, submit[rows], user[rows]))]
        users = pd.factorize(user[rows], sort=True)[0].astype(np.int64)
        size, run, limit = np.minimum(size[rows], domain.size), run[rows], limit[rows]
        run = np.minimum(run, RUNS[-1])
        with np.errstate(invalid="ignore"):
            limited = np.isfinite(limit) & (limit > 0)
        block = None
        if domain.calendar and len(rows):
            block = block_of(stats.hour_of_week(trace.take(rows)))
        elif domain.calendar:
            block = np.empty(0, np.int64)
        owner = users if unit == "user" else np.arange(len(rows))
        return cls(
            unit=unit,
            owner=owner,
            units=int(owner.max()) + 1 if len(owner) else 0,
            user=users,
            submit=submit[rows],
            work=size * run,
            limit=np.where(limited, bin_of(np.where(limited, limit, 1.0), LIMITS), len(LIMITS)),
            run=bin_of(run, RUNS),
            size=bin_of(size, domain.sizes),
            block=block,
            pair=_pairs(users, submit[rows], size, np.where(limited, limit, -1.0), run),
        )


def _pairs(user: Ints, submit: Floats, size: Floats, limit: Floats, run: Floats) -> Ints:
    """Return the bin of every job against its user's job before it."""
    if not len(user):
        return np.empty(0, np.int64)
    gap = np.searchsorted(GAPS, np.diff(submit, prepend=submit[0]), side="left")
    same = (size == np.roll(size, 1)) & (limit == np.roll(limit, 1))
    ratio = np.abs(np.log((run + 1.0) / (np.roll(run, 1) + 1.0)))
    state = np.where(~same, OTHER, np.where(ratio < np.log(SIMILAR), ALIKE, SAME_SHAPE))
    first = np.append(True, user[1:] != user[:-1])
    return np.where(first, -1, gap * STATES + state).astype(np.int64)


def parts(owner: Ints, cell: Ints, cells: int, cap: float) -> tuple[Ints, Ints, Ints]:
    """Return every unit's part of a table as (unit, cell, whole number), at most `LENGTH` long in the L2 norm.

    A unit's jobs are counted by cell; the vector of counts is shortened to length ``cap`` where it is longer, and
    multiplied by `LENGTH` / ``cap``. Numbers are rounded down, and the length is checked in whole numbers.
    """
    keys, counts = np.unique(owner * cells + cell, return_counts=True)
    who, where = keys // cells, keys % cells
    if not len(who):
        return who, where, counts.astype(np.int64)
    numbers = np.unique(who, return_inverse=True)[1]
    length = np.sqrt(np.bincount(numbers, weights=counts.astype(np.float64) ** 2))
    scaled = np.floor(counts * (LENGTH / np.maximum(length, cap))[numbers]).astype(np.int64)
    over = np.bincount(numbers, weights=scaled.astype(np.float64) ** 2) > float(LENGTH) ** 2
    scaled = np.maximum(scaled - over[numbers], 0)  # rounding of the length itself; one less is always enough
    return who, where, scaled


def table(owner: Ints, cell: Ints, cells: int, cap: float) -> Ints:
    """Return the sum of all parts, shape (cells,)."""
    _, where, value = parts(owner, cell, cells, cap)
    total = np.zeros(cells, np.int64)
    np.add.at(total, where, value)
    return total


def activity(facts: Facts) -> Ints:
    """Return the number of users by class of jobs per user; one user changes one of them by 1."""
    jobs = np.bincount(facts.user, minlength=int(facts.user.max()) + 1 if len(facts.user) else 0)
    classes = np.searchsorted(ACTIVITY, jobs[jobs > 0], side="right")
    return np.bincount(classes, minlength=len(ACTIVITY) + 1).astype(np.int64)


def pair_table(facts: Facts, cap: float) -> Ints:
    """Return the table of pairs; for unit job one job changes it by at most √5 · LENGTH."""
    known = facts.pair >= 0
    return table(facts.owner[known], facts.pair[known], STATES * (len(GAPS) + 1), cap)


def clipped_load(facts: Facts, capacity: float, cap: float) -> Ints:
    """Return the sum of every unit's share of the capacity, each at most ``cap``, in units of cap / LENGTH; shape (1,).

    ``capacity`` is in unit-seconds: the machine's size times the recorded span.
    """
    work = np.bincount(facts.owner, weights=facts.work, minlength=facts.units)
    share = np.floor(np.minimum(work / (capacity * cap), 1.0) * LENGTH).astype(np.int64)
    return np.array([int(share.sum())], dtype=np.int64)


def ends(facts: Facts, candidates: Floats) -> Ints:
    """Return, for every time, the number of units whose last job comes later."""
    last = np.full(facts.units, -np.inf)
    np.maximum.at(last, facts.owner, facts.submit)
    return (facts.units - np.searchsorted(np.sort(last), candidates, side="right")).astype(np.int64)


def begins(facts: Facts, candidates: Floats) -> Ints:
    """Return, for every time, the number of units whose first job comes earlier."""
    first = np.full(facts.units, np.inf)
    np.minimum.at(first, facts.owner, facts.submit)
    return np.searchsorted(np.sort(first), candidates, side="left").astype(np.int64)
