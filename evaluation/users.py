"""Time structure of single users: the next submitter, repeated jobs, sessions.

A session is a stretch of one user's jobs with no gap between submits longer than 20 minutes (Zakay & Feitelson 2012);
a batch is a stretch in which each job is submitted before the one before it could have ended. Traces made by models
have no waits, so "ended" is submit + run time in the real trace too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from evaluation.base import Quantity, Score, Setting, absent
from evaluation.chained import SESSION_GAP, Habits
from evaluation.marginal import ks, w1
from evaluation.spreads import Values, log_seconds
from evaluation.streamed import Streamed
from evaluation.view import SIZES, Floats, Seen, View

NO_USERS = "the trace has no users"


class UserRepeat(Quantity):
    """user_repeat: P(the next job has the same user), over all pairs of consecutive jobs whose users are known."""

    name = "user_repeat"
    family = "time"
    unit = "probability"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return the share of repeats."""
        if not view.has("user") or len(view) < 2:
            return {"user_repeat": NO_USERS}
        found = habits(view)
        if not found.neighbours:
            return {"user_repeat": "no two known users in a row"}
        return {"user_repeat": found.same_user / found.neighbours}


@dataclass(frozen=True)
class Chains:
    """Each user's jobs in a row: ``order`` lists rows user by user; ``follows[i]``: order[i + 1] has the same user."""

    order: NDArray[np.intp]  # shape (jobs with a user,)
    follows: NDArray[np.bool_]  # shape (jobs with a user − 1,)

    @classmethod
    def of(cls, view: View) -> Chains:
        """Sort by user, then by submit."""
        user = view.labels["user"]
        order = np.argsort(user, kind="stable")
        order = order[user[order] >= 0]
        return cls(order, user[order][1:] == user[order][:-1])

    def stretches(self, breaks: NDArray[np.bool_]) -> Floats:
        """Return the lengths of the stretches that end where the user changes or where the pair ``breaks``."""
        ends = np.flatnonzero(np.append(~self.follows | breaks, True))
        return np.diff(np.concatenate([[-1], ends])).astype(np.float64)


class JobRepeat(Quantity):
    """job_repeat: P(a user's next job asks for what the last one asked for: the same sizes and the same limit)."""

    name = "job_repeat"
    family = "time"
    unit = "probability"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return the share of copies among jobs that have a predecessor of the same user."""
        if not view.has("user"):
            return {"job_repeat": NO_USERS}
        found = habits(view)
        if not found.followed:
            return {"job_repeat": "no user has two jobs"}
        return {"job_repeat": found.same_job / found.followed}


def user_gaps(view: View, chains: Chains) -> Floats:
    """Return the seconds between each pair of neighbours in ``chains.order``; means nothing where the user changes."""
    return np.diff(view.submit[chains.order])


def think_times(view: View, chains: Chains) -> Floats:
    """Return the seconds from a job's earliest end to its user's next submit; below zero = submitted while it ran."""
    run = view.numbers["run_time"][chains.order][:-1]
    return user_gaps(view, chains) - np.where(run > 0, run, 0.0)


def habits(view: Seen) -> Habits:
    """Return how users submit; several metrics ask for it."""
    if isinstance(view, Streamed):
        return view.habits
    assert isinstance(view, View)
    if view not in _KNOWN:
        _KNOWN[view] = _habits(view)
    return _KNOWN[view]


_KNOWN: WeakKeyDictionary[View, Habits] = WeakKeyDictionary()


def _habits(view: View) -> Habits:
    user = view.labels["user"]
    both = (user[1:] >= 0) & (user[:-1] >= 0)
    chains = Chains.of(view)
    same = chains.follows.copy()
    for name in (*SIZES, "req_time"):
        if view.has(name):
            values = view.numbers[name][chains.order]
            same &= (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    think = think_times(view, chains)
    return Habits(
        int(both.sum()),
        int((user[1:] == user[:-1])[both].sum()),
        int(chains.follows.sum()),
        int(same.sum()),
        chains.stretches(user_gaps(view, chains) > SESSION_GAP),
        chains.stretches(think > 0),
        think[chains.follows & (think > 0)],
    )


class Sessions:
    """sessions.*: how many jobs a session and a batch hold, and how long users think.

    sessions.length, sessions.batch: KS of the number of jobs. sessions.think_time: KS of the positive think times;
    sessions.log_think_w1 in ln seconds.
    """

    name: ClassVar[str] = "sessions"
    family: ClassVar[str] = "time"
    unit: ClassVar[str] = "share; ln seconds"
    resampled: ClassVar[bool] = True
    keys = ("sessions.length", "sessions.batch", "sessions.think_time", "sessions.log_think_w1")

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the distributions, with the means in the detail."""
        for view, side in ((real, "real"), (synth, "synthetic")):
            if not view.has("user"):
                return dict.fromkeys(self.keys, absent(f"the {side} trace has no users"))
        ours, theirs = habits(real), habits(synth)
        scores = {
            "sessions.length": Score(ks(ours.sessions, theirs.sessions), detail=_means(ours.sessions, theirs.sessions)),
            "sessions.batch": Score(ks(ours.batches, theirs.batches), detail=_means(ours.batches, theirs.batches)),
        }
        a_think, b_think = ours.thinks, theirs.thinks
        if not len(a_think) or not len(b_think):
            side = "synthetic" if len(a_think) else "real"
            missing = absent(f"{side} trace: no user submits after a job could have ended")
            return scores | {"sessions.think_time": missing, "sessions.log_think_w1": missing}
        scores["sessions.think_time"] = Score(ks(a_think, b_think), detail=_means(a_think, b_think))
        scores["sessions.log_think_w1"] = Score(w1(log_seconds(a_think), log_seconds(b_think)))
        return scores


def _means(real: Values, synth: Values) -> dict[str, float]:
    return {"real_mean": float(real.mean()), "synthetic_mean": float(synth.mean())}
