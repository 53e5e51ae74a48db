"""Linkability and inference for users, as anonymeter defines them, with synthetic users as the attacker's help.

The targets are real users: those of the fitted weeks, and as the control those of the hold-out. What is reached on
fitted weeks beyond the hold-out was taken over from them by the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd

from evaluation.attacks.profiles import active_users, distances, hours_of_week, job_shapes, no_users, session_habits
from evaluation.attacks.rates import Count, Result, Worst
from evaluation.base import Score, Setting, absent
from evaluation.view import Codes, Floats, View

NEAR_RUN = 0.1  # of ln(seconds): a guessed run time within about a tenth


class _OnUsers:
    """Common code: attack the users of the fitted weeks, and those of the hold-out."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of users"
    name: ClassVar[str]

    def attacked(self, target: View, synth: View) -> tuple[np.ndarray, Codes]:
        """Return which users of the target fall to the attack, and the users."""
        raise NotImplementedError

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Attack both groups."""
        key, holdout = f"privacy.{self.name}", setting.holdout
        lacking = no_users(real, synth, holdout)
        if lacking or holdout is None:
            return {key: absent(lacking)}
        (found, users), (usual, _) = (self.attacked(view, synth) for view in (real, holdout))
        worst = Worst.of(users[found], real.labels["user"])
        return {key: Result(Count.of(found), Count.of(usual), "the hold-out", "real users", worst=worst).score()}


class Linkability(_OnUsers):
    """privacy.linkability: share of real users whose two halves are linked by one synthetic user.

    The attacker has a person's hours of the week and sessions from one source, and job shapes from another, and links
    them if the same synthetic user is nearest to both.
    """

    name = "linkability"

    def attacked(self, target: View, synth: View) -> tuple[np.ndarray, Codes]:
        """Compare the nearest synthetic users of the two halves."""
        users, theirs = active_users(target), active_users(synth)

        def times(view: View, of: Codes) -> Floats:
            parts = [hours_of_week(view, of), session_habits(view, of)]
            return np.asarray(np.concatenate(parts, axis=1) / np.sqrt(2))

        one = distances(times(target, users), times(synth, theirs)).argmin(axis=1)
        other = distances(job_shapes(target, users), job_shapes(synth, theirs)).argmin(axis=1)
        return one == other, users


class UserInference(_OnUsers):
    """privacy.inference_user: share of real users whose typical run time is guessed from the nearest synthetic user.

    The attacker knows a person's hours of the week, sessions, sizes and limits, and guesses the median run time, to
    about a tenth.
    """

    name = "inference_user"

    def attacked(self, target: View, synth: View) -> tuple[np.ndarray, Codes]:
        """Guess by the nearest synthetic user."""
        users, theirs = active_users(target), active_users(synth)

        def known(view: View, of: Codes) -> Floats:
            blind = replace(view, numbers={**view.numbers, "run_time": np.full(len(view), np.nan)})
            parts = [hours_of_week(view, of), session_habits(view, of), job_shapes(blind, of)]
            return np.asarray(np.concatenate(parts, axis=1) / np.sqrt(3))

        nearest = distances(known(target, users), known(synth, theirs)).argmin(axis=1)
        guess, truth = _median_run(synth, theirs)[nearest], _median_run(target, users)
        return np.abs(guess - truth) <= NEAR_RUN, users


def _median_run(view: View, users: Codes) -> Floats:
    """Return the logarithm of each user's median run time; NaN if unknown."""
    run = view.numbers.get("run_time", np.full(len(view), np.nan))
    median = pd.Series(np.log1p(np.maximum(run, 0))).groupby(view.labels["user"]).median()
    return np.asarray(median.reindex(users).to_numpy(), dtype=np.float64)
