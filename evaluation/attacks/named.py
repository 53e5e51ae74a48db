"""Linkability of users whose labels are still the real ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evaluation.attacks.distance import NeedsHoldout
from evaluation.attacks.profiles import ACTIVE, active_users, hours_of_week
from evaluation.attacks.rates import Count, Result
from evaluation.base import Score, Setting, absent
from evaluation.view import View


class UserLinkage(NeedsHoldout):
    """privacy.user_linkage: share of users whose synthetic weekly pattern is closest to their own real one.

    Pattern: shares of jobs by hour of the week; closeness: Hellinger. The hold-out's share is the control: people
    keep their habits, so they can be linked that often from weeks that no model has seen. Chance is one over the users.
    """

    name: ClassVar[str] = "user_linkage"
    unit: ClassVar[str] = "share of users"
    keys = ("privacy.user_linkage",)

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Match the users that are active in both traces, synthetic and then hold-out."""
        if not (real.has("user") and synth.has("user")):
            return {self.keys[0]: absent("needs users in both traces")}
        found, usual = _linked(real, synth), _linked(real, holdout) if holdout.has("user") else Count(0, 0)
        if not found.trials:
            note = f"no user has {ACTIVE} jobs in both traces under the same name"
            return {self.keys[0]: absent(note, real=usual.rate)}
        extra = {"chance": 1 / found.trials}
        return {self.keys[0]: Result(found, usual, "the hold-out", "users with the same name", extra=extra).score()}


def _linked(real: View, other: View) -> Count:
    """Count the users of both traces that are closest to themselves."""
    active = active_users(real)
    common = np.intersect1d(active, active_users(other))
    if len(common) < 2:
        return Count(0, 0)
    closeness = hours_of_week(other, common) @ hours_of_week(real, active).T  # users × active real users
    return Count.of(active[closeness.argmax(axis=1)] == common)
