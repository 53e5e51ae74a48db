"""What a scheduler knows about earlier jobs when a job is submitted, kept up to date while time passes.

The same compiled functions see the recorded schedule of a trace (`tracekit.sim.predict.features`) and the one that a
simulation is making (`tracekit.sim.engine.events`): a job's features are written at its submit and are never changed,
so nothing that happens later can be in them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Known of a job by itself: logarithms of seconds and units; hours 0 … 23, days 0 (Monday) … 6, NaN without a calendar.
OWN = ("ln_limit", "ln_size", "hour", "weekday")
#: What the jobs of a group have in common.
GROUPS = ("user", "shape", "queue")
#: Known of a group: its jobs that have ended, the logarithms of the last run times (seconds), their mean, the decayed
#: mean, and the decayed mean of ln(run time / limit).
OF_GROUP = ("ended", "last", "before", "last_two", "mean", "recent", "share")
#: Known of the user now: jobs that wait and that run, seconds since the last submit, start and end.
GAPS = ("since_submit", "since_start", "since_end")
OF_USER = ("queued", "running", *GAPS)
FEATURES = (*OWN, *(f"{group}_{name}" for group in GROUPS for name in OF_GROUP), *OF_USER)
#: Weight of the newest job in a decayed mean.
NEWEST = 0.25

#: One group of jobs; NaN where no job has ended.
GROUP = np.dtype([(name, np.float64) for name in ("ended", "last", "before", "mean", "recent", "share")])
#: One user now; times in seconds, NaN where there was none.
USER = np.dtype([(name, np.float64) for name in ("queued", "running", "submitted", "started", "ended")])


class History(NamedTuple):
    """The jobs, and what is known of their groups so far; empty arrays where nothing is predicted."""

    own: Floats  # (jobs, OWN)
    member: Ints  # (jobs, GROUPS) number of each job's groups
    group: NDArray[Any]  # (groups,) GROUP
    user: NDArray[Any]  # (users,) USER; a user has the number of its group


def no_history() -> History:
    """Return a history without jobs."""
    return History(np.zeros((0, len(OWN))), np.zeros((0, len(GROUPS)), np.int64), np.zeros(0, GROUP), np.zeros(0, USER))


def begin_history(own: Floats, member: Ints) -> History:
    """Return the history before any job was submitted; ``member`` counts each kind of group from 0."""
    counts = member.max(axis=0, initial=-1) + 1
    first = np.concatenate(([0], np.cumsum(counts[:-1])))
    return History(own, member + first, *new_groups(int(counts.sum()), int(counts[0])))


def new_groups(groups: int, users: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return groups, (groups,) GROUP, and users, (users,) USER, without any job."""
    group, user = np.zeros(groups, GROUP), np.zeros(users, USER)
    for name in ("last", "before", "mean", "recent", "share"):
        group[name] = np.nan
    for name in ("submitted", "started", "ended"):
        user[name] = np.nan
    return group, user


@jit_internal
def observe(history: History, job: int, now: float, row: Floats) -> None:
    """Write the features of a job that is submitted now into ``row``, (FEATURES,)."""
    place = 0
    for column in range(history.own.shape[1]):
        row[place] = history.own[job, column]
        place += 1
    for kind in range(history.member.shape[1]):
        group = history.group[history.member[job, kind]]
        row[place] = group.ended
        row[place + 1] = group.last
        row[place + 2] = group.before
        row[place + 3] = group.last
        if group.ended > 1:
            row[place + 3] = math.log((math.exp(group.last) + math.exp(group.before)) / 2)
        row[place + 4] = group.mean
        row[place + 5] = group.recent
        row[place + 6] = group.share
        place += 7
    user = history.user[history.member[job, 0]]
    row[place] = user.queued
    row[place + 1] = user.running
    row[place + 2] = now - user.submitted
    row[place + 3] = now - user.started
    row[place + 4] = now - user.ended


@jit_internal
def note_submit(history: History, job: int, now: float) -> None:
    """Record that a job waits."""
    user = history.user[history.member[job, 0]]
    user.queued += 1
    user.submitted = now


@jit_internal
def note_start(history: History, job: int, now: float) -> None:
    """Record that a job that waited runs."""
    user = history.user[history.member[job, 0]]
    user.queued -= 1
    user.running += 1
    user.started = now


@jit_internal
def note_requeue(history: History, job: int) -> None:
    """Record that a job that ran waits again."""
    user = history.user[history.member[job, 0]]
    user.running -= 1
    user.queued += 1


@jit_internal
def note_cancel(history: History, job: int) -> None:
    """Record that a job that waited is withdrawn."""
    user = history.user[history.member[job, 0]]
    user.queued -= 1


@jit_internal
def note_end(history: History, job: int, now: float, run: float) -> None:
    """Record that a job has ended after ``run`` seconds."""
    user = history.user[history.member[job, 0]]
    user.running -= 1
    user.ended = now
    length = math.log(max(run, 1.0))
    share = length - history.own[job, 0]
    for kind in range(history.member.shape[1]):
        group = history.group[history.member[job, kind]]
        group.ended += 1
        group.before = group.last
        group.last = length
        if group.ended == 1:
            group.mean = group.recent = length
        else:
            group.mean += (length - group.mean) / group.ended
            group.recent += NEWEST * (length - group.recent)
        if not math.isnan(share):
            group.share = share if math.isnan(group.share) else group.share + NEWEST * (share - group.share)
