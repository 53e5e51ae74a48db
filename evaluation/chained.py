"""Each user's jobs as they follow each other, in a trace that is seen batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.spreads import Values
from evaluation.view import Codes
from tracekit.large.spreads import Counting, Floats

#: A session ends where a user submits nothing for longer, in seconds.
SESSION_GAP = 20 * 60.0


@dataclass(frozen=True)
class Habits:
    """How the users of a trace submit, as far as the metrics look at it."""

    neighbours: int  # pairs of consecutive jobs whose users are known
    same_user: int  # of these, pairs of one user
    followed: int  # jobs with an earlier job of their user
    same_job: int  # of these, jobs that ask for the same
    sessions: Values  # jobs in each
    batches: Values  # jobs in each
    thinks: Values  # think times above zero, in seconds


class Chained:
    """Takes the jobs of a trace in submit order; keeps of each user the last job, the session and the batch."""

    def __init__(self, users: int, asked: Sequence[str], folder: Path) -> None:
        self.asked = tuple(asked)
        self.last = {name: np.full(users, np.nan) for name in ("submit", "run_time", *asked)}
        self.open = {name: np.zeros(users, dtype=np.int64) for name in ("sessions", "batches")}  # jobs; 0 = none yet
        self.found = {name: Counting(folder / name) for name in ("sessions", "batches", "thinks")}
        self.neighbours = self.same_user = self.followed = self.same_job = 0
        self._before = -1  # the user of the job before

    def add(self, user: Codes, submit: Floats, numbers: Mapping[str, Floats]) -> None:
        """Take the next jobs."""
        if not len(user):
            return
        before = np.concatenate(([self._before], user[:-1]))
        both = (user >= 0) & (before >= 0)
        self.neighbours += int(both.sum())
        self.same_user += int((both & (user == before)).sum())
        self._before = int(user[-1])
        order = np.argsort(user, kind="stable")
        order = order[user[order] >= 0]
        if len(order):
            values = {"submit": submit, **{name: numbers[name] for name in ("run_time", *self.asked)}}
            self._chain(user[order], {name: column[order] for name, column in values.items()})

    def _chain(self, user: Codes, values: Mapping[str, Floats]) -> None:
        """Take jobs that are sorted by user, then by submit."""
        first = np.concatenate(([True], user[1:] != user[:-1]))
        follows = ~first | (self.open["sessions"][user] > 0)
        before = {name: _before(column, first, self.last[name][user]) for name, column in values.items()}
        same = follows.copy()
        for name in self.asked:
            now, then = values[name], before[name]
            same &= (now == then) | (np.isnan(now) & np.isnan(then))
        self.followed += int(follows.sum())
        self.same_job += int(same.sum())
        gap = values["submit"] - before["submit"]
        think = gap - np.where(before["run_time"] > 0, before["run_time"], 0.0)
        self.found["thinks"].add(think[follows & (think > 0)])
        self._stretches("sessions", user, first, follows & (gap <= SESSION_GAP))
        self._stretches("batches", user, first, follows & ~(think > 0))
        ends = np.append(first[1:], True)
        for name, column in values.items():
            self.last[name][user[ends]] = column[ends]

    def _stretches(self, name: str, user: Codes, first: NDArray[Any], goes_on: NDArray[Any]) -> None:
        """Count the jobs of stretches, of which each user's last one stays open."""
        opened = self.open[name]
        begins = first | ~goes_on
        number = np.cumsum(begins) - 1
        lengths = np.bincount(number).astype(np.int64)
        left = opened[user[first]]
        resumed = goes_on[first]
        lengths[number[first][resumed]] += left[resumed]
        last = number[np.append(first[1:], True)]
        closed = np.ones(len(lengths), dtype=bool)
        closed[last] = False
        self.found[name].add(left[~resumed & (left > 0)].astype(np.float64))
        self.found[name].add(lengths[closed].astype(np.float64))
        opened[user[first]] = lengths[last]

    def habits(self) -> Habits:
        """Return what was found; all stretches end here."""
        for name, opened in self.open.items():
            self.found[name].add(opened[opened > 0].astype(np.float64))
        spreads = {name: counting.spread() for name, counting in self.found.items()}
        return Habits(self.neighbours, self.same_user, self.followed, self.same_job, **spreads)


def _before(values: Floats, first: NDArray[Any], last: Floats) -> Floats:
    """Return each job's value of the same user's job before: in this batch, or the last one of an earlier batch."""
    return np.where(first, last, np.concatenate((last[:1], values[:-1])))
