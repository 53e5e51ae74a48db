"""Linkability of users by profile: a synthetic user whose profile points at one real user and at no other.

A profile is a histogram of what a user does. The attacker knows the profiles of all real users and looks for the real
user nearest to each synthetic one. It counts as found if the second nearest is much farther away; labels are not used.
The control is the same for users of the hold-out: people keep their habits, so they can be linked that often from weeks
that no model has seen.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evaluation.attacks.distance import NO_HOLDOUT
from evaluation.attacks.rates import Count, Result, Worst
from evaluation.base import Score, Setting, absent
from evaluation.chained import SESSION_GAP
from evaluation.users import Chains, user_gaps
from evaluation.view import WEEK, Codes, Floats, View

ACTIVE = 20  # jobs that a user must have for a profile to mean anything
NEARER = 0.75  # the nearest real user is at most this share as far away as the second nearest
FEWEST = 5  # users of the hold-out


def active_users(view: View) -> Codes:
    """Return the users with enough jobs for a profile."""
    user = view.labels["user"]
    return np.flatnonzero(np.bincount(user[user >= 0]) >= ACTIVE)


def _histogram(user: Codes, cell: Codes, users: Codes, cells: int) -> Floats:
    """Return one row a user, of length 1: the square roots of the shares in each cell."""
    place = np.searchsorted(users, user)
    mine = (place < len(users)) & (users[np.minimum(place, len(users) - 1)] == user)
    table = np.bincount(place[mine] * cells + cell[mine], minlength=len(users) * cells).reshape(len(users), cells)
    return np.asarray(np.sqrt(table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)))


def _log_cells(values: Floats, step: float, cells: int) -> Codes:
    """Return cells of the logarithm; unknown is a cell of its own."""
    known = np.isfinite(values)
    cell = np.floor(np.log(np.where(known, np.maximum(values, 0), 0) + 1) / step)
    return np.where(known, np.clip(cell, 0, cells - 2), cells - 1).astype(np.int64)


def hours_of_week(view: View, users: Codes) -> Floats:
    """Return the shares of jobs by hour of the week."""
    hour = view.hour if view.hour is not None else ((view.submit % WEEK) // 3600).astype(np.int64)
    return _histogram(view.labels["user"], hour, users, 168)


def job_shapes(view: View, users: Codes) -> Floats:
    """Return the shares of jobs by size (to half a power of two), limit and run time (each to a factor of e)."""
    limit = view.numbers.get("req_time", np.full(len(view), np.nan))
    run = view.numbers.get("run_time", np.full(len(view), np.nan))
    size = _log_cells(view.size, np.log(2) / 2, 40)
    cell = (size * 16 + _log_cells(limit, 1.0, 16)) * 16 + _log_cells(run, 1.0, 16)
    return _histogram(view.labels["user"], cell, users, 40 * 256)


def session_habits(view: View, users: Codes) -> Floats:
    """Return the shares of sessions by jobs, of gaps within and of pauses between sessions, as one row of length 1."""
    chains = Chains.of(view)
    user, gaps = view.labels["user"][chains.order], user_gaps(view, chains)
    breaks = ~chains.follows | (gaps > SESSION_GAP)
    last = np.flatnonzero(np.append(breaks, True))
    jobs = np.diff(np.append(-1, last)).astype(np.float64)
    length = _histogram(user[last], _log_cells(jobs, 0.25, 32), users, 32)
    gap = _histogram(user[1:][chains.follows], _log_cells(gaps[chains.follows], 0.5, 40), users, 40)
    return np.asarray(np.concatenate([length, gap], axis=1) / np.sqrt(2))


def distances(one: Floats, other: Floats) -> Floats:
    """Return Hellinger distances between rows of length 1, shape (rows, rows)."""
    return np.asarray(np.sqrt(np.maximum(1.0 - one @ other.T, 0.0)))


class _ByProfile:
    """Common code: the nearest real user by one profile."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of users"
    name: ClassVar[str]

    def profiles(self, view: View, users: Codes) -> Floats:
        """Return the profile of each user, shape (users, cells)."""
        raise NotImplementedError

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Look for every synthetic user, and every user of the hold-out, among the real ones."""
        key, holdout = f"privacy.{self.name}", setting.holdout
        lacking = no_users(real, synth, holdout)
        if lacking or holdout is None:
            return {key: absent(lacking)}
        users = active_users(real)
        ours = self.profiles(real, users)
        (found, who), (usual, _) = (self._pointed(ours, view) for view in (synth, holdout))
        worst = Worst.of(users[who[found]], real.labels["user"])
        return {key: Result(Count.of(found), Count.of(usual), "the hold-out", worst=worst).score()}

    def _pointed(self, ours: Floats, view: View) -> tuple[np.ndarray, np.ndarray]:
        """Return which users of a view point at one real user, and at whom (positions in ``ours``)."""
        apart = distances(self.profiles(view, active_users(view)), ours)
        who = apart.argmin(axis=1)
        first, second = np.partition(apart, 1, axis=1)[:, :2].T
        return first <= NEARER * second, who


def no_users(real: View, synth: View, holdout: View | None) -> str:
    """Return why users cannot be compared; empty if they can."""
    if holdout is None:
        return NO_HOLDOUT
    for view, side, least in ((real, "real trace", 2), (synth, "synthetic trace", 1), (holdout, "hold-out", FEWEST)):
        if not view.has("user"):
            return f"the {side} has no users"
        if len(active_users(view)) < least:
            return f"fewer than {least} users of the {side} have {ACTIVE} jobs"
    return ""


class HoursOfWeek(_ByProfile):
    """privacy.hours_of_week_profile: share of synthetic users whose hours of the week point at one real user."""

    name = "hours_of_week_profile"

    def profiles(self, view: View, users: Codes) -> Floats:
        """Return the hours of the week."""
        return hours_of_week(view, users)


class JobShapes(_ByProfile):
    """privacy.job_shapes: the same by the histogram of sizes, limits and run times."""

    name = "job_shapes"

    def profiles(self, view: View, users: Codes) -> Floats:
        """Return the job shapes."""
        return job_shapes(view, users)


class SessionHabits(_ByProfile):
    """privacy.session_habits: the same by the lengths of sessions and the pauses within and between them."""

    name = "session_habits"

    def profiles(self, view: View, users: Codes) -> Floats:
        """Return the habits."""
        return session_habits(view, users)
