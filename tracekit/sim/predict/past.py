"""What was known at any moment of a trace about jobs that had ended by then, by the recorded schedule.

Every end changes what is known of three groups and of one user. All of these changes are worked out once, so that the
history before any window of the trace is a look-up and not another pass over the jobs before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.predict.history import GROUPS, History, note_end

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Past:
    """The ends of a trace's jobs in their order; ``history`` is that of all jobs before the first submit."""

    def __init__(self, history: History, submit: Floats, start: Floats, end: Floats, run: Floats) -> None:
        self._begin = history
        rows = np.flatnonzero(np.isfinite(end) & np.isfinite(submit))
        # jobs of no length end after the others, as `tracekit.sim.predict.features` has it
        order = rows[np.lexsort((rows, end[rows] == start[rows], end[rows]))]
        self._job, self._end = order, end[order]
        self._times = np.column_stack((submit[order], start[order]))  # (ends, 2)
        self._run = np.ascontiguousarray(run[order], np.float64)
        self._place = np.full(len(submit), len(order), np.int64)  # (jobs,) place of each job's end
        self._place[order] = np.arange(len(order))

    @cached_property
    def _after(self) -> tuple[History, Ints, Ints]:
        """What is known after each end: groups (ends · kinds,), users (ends,); the ends of each, sorted by group."""
        history, ends = self._begin, len(self._job)
        scratch = history._replace(group=history.group.copy(), user=history.user.copy())
        group, user = np.zeros(ends * len(GROUPS), history.group.dtype), np.zeros(ends, history.user.dtype)
        _follow(scratch, self._job, self._times, self._end, self._run, group, user)
        member = history.member[self._job]
        keys = (member * (ends + 1) + np.arange(ends)[:, None]).ravel()  # of a group's ends, ascending within it
        order = np.argsort(keys)
        return history._replace(group=group, user=user), keys[order], order

    def before(self, rows: Ints, begin: float) -> History:
        """Return the history of some jobs, ``rows`` (jobs,), before the first of them is submitted at ``begin``.

        It has the groups of these jobs only, numbered anew.
        """
        known = int(np.searchsorted(self._end, begin, side="right"))
        known = min(known, int(self._place[rows].min(initial=known)))  # none of the jobs themselves
        member = self._begin.member[rows]
        numbers, place = np.unique(member, return_inverse=True)
        users = len(np.unique(member[:, 0]))  # the first groups: a user has the number of its group
        group = self._begin.group[numbers]
        user = np.zeros(users, self._begin.user.dtype)
        for name in ("submitted", "started", "ended"):
            user[name] = np.nan
        if known:
            after, keys, order = self._after
            ends = len(self._job) + 1
            last = np.searchsorted(keys, numbers * ends + known) - 1
            there = (last >= 0) & (keys[np.maximum(last, 0)] // ends == numbers)
            group[there] = after.group[order[last[there]]]
            theirs = np.flatnonzero(there[:users])
            user[theirs] = after.user[order[last[theirs]] // len(GROUPS)]
        own = np.ascontiguousarray(self._begin.own[rows])
        return History(own, place.reshape(member.shape).astype(np.int64), group, user)


@jit
def _follow(
    history: History, job: Ints, times: Floats, end: Floats, run: Floats, group: NDArray[Any], user: NDArray[Any]
) -> None:
    """Let the jobs end in their order and write what is known after each end."""
    kinds = history.member.shape[1]
    for i in range(len(job)):
        theirs = history.user[history.member[job[i], 0]]
        if not theirs.submitted >= times[i, 0]:  # NaN: none yet
            theirs.submitted = times[i, 0]
        if not theirs.started >= times[i, 1]:
            theirs.started = times[i, 1]
        note_end(history, job[i], end[i], run[i])
        theirs.running = 0.0
        user[i].queued, user[i].running = 0.0, 0.0
        user[i].submitted, user[i].started, user[i].ended = theirs.submitted, theirs.started, theirs.ended
        for kind in range(kinds):
            found, at = history.group[history.member[job[i], kind]], i * kinds + kind
            group[at].ended, group[at].last, group[at].before = found.ended, found.last, found.before
            group[at].mean, group[at].recent, group[at].share = found.mean, found.recent, found.share
