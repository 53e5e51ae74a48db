"""Membership: whether a job was among those that the model was fitted on.

The targets are as many hold-out jobs as fitted ones. Jobs of one week are not independent, so intervals come from
drawing whole weeks. The control takes one half of the hold-out's weeks in place of the synthetic jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from evaluation.attacks.distance import MAX_TARGETS, NeedsHoldout, nearest, part_of, some_rows
from evaluation.attacks.rates import drawn_score
from evaluation.base import Score, Setting
from evaluation.detection import auc
from evaluation.joint import standardised
from evaluation.view import Codes, Floats, View, weeks


class NearerFitted(NeedsHoldout):
    """privacy.nearer_fitted: share of synthetic jobs that are nearer to a fitted job than to any hold-out job.

    Half is what a model without memory reaches: its jobs may be typical, and so near to all real jobs. Both sides have
    the same number of jobs; equal distances count half. The control takes one half of the hold-out's weeks in place of
    the synthetic jobs. Intervals come from drawing whole weeks of both sides.
    """

    name: ClassVar[str] = "nearer_fitted"
    unit: ClassVar[str] = "share of jobs, 0.5 = no memory"
    keys = ("privacy.nearer_fitted",)

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Compare the two distances of each job."""
        ours, theirs, fresh = standardised(real, [real, synth, holdout], names)
        members, others = _Group(ours, weeks(real, real.submit)), _Group(fresh, weeks(holdout, holdout.submit))
        one, other = _split(holdout)
        times = setting.draws // 5
        value, draws = _nearer(theirs, members, others, setting, times, rng)
        usual, usual_draws = _nearer(fresh[one], members, others.take(other), setting, times, rng)
        note = "real = one half of the hold-out in place of the synthetic jobs"
        return {self.keys[0]: drawn_score(value, draws, usual, usual_draws, 0.5, note, {})}


def _nearer(
    shown: Floats, members: _Group, others: _Group, setting: Setting, times: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """Return the share of jobs nearer to a member than to another job, and the same for draws of weeks."""
    rows = min(setting.neighbour_rows, len(members.week), len(others.week))
    if not rows or not len(shown):
        return float("nan"), np.empty(0)
    shown = part_of(shown, setting.neighbour_rows // 2, rng)

    def share(one: Floats, other: Floats) -> float:
        fitted, fresh = nearest(shown, part_of(one, rows, rng)), nearest(shown, part_of(other, rows, rng))
        return float(((fitted < fresh) + 0.5 * (fitted == fresh)).mean())

    drawn = [share(members.resampled(rng), others.resampled(rng)) for _ in range(times)]
    return share(members.table, others.table), np.array(drawn)


class Membership(NeedsHoldout):
    """privacy.membership_auc: how well the distance to the closest synthetic job separates fitted from hold-out jobs.

    AUC of the simplest membership attack (Chen et al. 2020, GAN-Leaks); 0.5 = no, 1 = always. The control takes one
    half of the hold-out's weeks in place of the synthetic jobs and the other half as jobs that were not fitted.
    """

    name: ClassVar[str] = "membership"
    unit: ClassVar[str] = "AUC, 0.5 = indistinguishable"
    keys = ("privacy.membership_auc",)

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Attack the same number of fitted and other jobs."""
        ours, theirs, fresh = standardised(real, [real, synth, holdout], names)
        members, others = _Group(ours, weeks(real, real.submit)), _Group(fresh, weeks(holdout, holdout.submit))
        one, other = _split(holdout)
        value, draws, rows = self._told_apart(theirs, members, others, setting, rng)
        usual, usual_draws, _ = self._told_apart(fresh[one], members, others.take(other), setting, rng)
        note = (
            f"on {rows:,} fitted and {rows:,} hold-out jobs; real = one half of the hold-out in place of the synthetic"
        )
        return {self.keys[0]: drawn_score(value, draws, usual, usual_draws, 0.5, note, {})}

    def guesses(self, shown: Floats, groups: list[_Group], rng: np.random.Generator) -> list[Floats]:
        """Return how likely each job of each group was fitted, by any scale."""
        return [-nearest(group.table, shown) for group in groups]

    def _told_apart(
        self, shown: Floats, members: _Group, others: _Group, setting: Setting, rng: np.random.Generator
    ) -> tuple[float, Floats, int]:
        """Return the AUC of separating fitted from other jobs, the same for draws of weeks, and the rows."""
        rows = min(setting.neighbour_rows, len(members.week), len(others.week))
        if not rows or not len(shown):
            return float("nan"), np.empty(0), rows
        groups = [group.part(rows, rng) for group in (members, others)]
        guesses = self.guesses(part_of(shown, MAX_TARGETS, rng), groups, rng)
        blocks = [group.by_week() for group in groups]

        def drawn(side: int) -> Floats:
            chosen = rng.integers(0, len(blocks[side]), len(blocks[side]))
            picked: Floats = guesses[side][np.concatenate([blocks[side][k] for k in chosen])]
            return picked

        draws = [_auc(drawn(0), drawn(1)) for _ in range(setting.draws)]
        return _auc(*guesses), np.array(draws), rows


def _auc(one: Floats, other: Floats) -> float:
    """Return the chance that a member's value is above another's; equal ones count half."""
    return auc(np.concatenate([one, other]), np.arange(len(one) + len(other)) < len(one))


class TrainedMembership(Membership):
    """privacy.membership_classifier: the same attack with a trained classifier in place of one distance.

    The attacker knows of the jobs of half the weeks whether they were fitted, and trains boosted trees on their
    distances to the 1, 2, 5 and 20 nearest synthetic jobs; the AUC is that on the jobs of the other weeks.
    """

    name: ClassVar[str] = "membership_classifier"
    keys = ("privacy.membership_classifier",)

    def guesses(self, shown: Floats, groups: list[_Group], rng: np.random.Generator) -> list[Floats]:
        """Return the classifier's probabilities, each job judged by a classifier that has not seen its week."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        tree, count = cKDTree(shown), min(len(shown), 20)
        wanted = [k for k in (1, 2, 5, 20) if k <= count]
        tables = [np.log1p(1e3 * tree.query(group.table, k=wanted, workers=-1)[0]) for group in groups]
        halves = [np.unique(group.week, return_inverse=True)[1] % 2 for group in groups]
        found = [np.full(len(group.week), 0.5) for group in groups]
        for fold in (0, 1):
            known = [table[half == fold] for table, half in zip(tables, halves, strict=True)]
            if not all(len(part) for part in known):
                continue
            model = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0)
            with threadpool_limits(1):  # as in `detection.cross_validated`
                model.fit(np.concatenate(known), np.arange(sum(map(len, known))) < len(known[0]))
                for k, (table, half) in enumerate(zip(tables, halves, strict=True)):
                    if (half != fold).any():
                        found[k][half != fold] = model.predict_proba(table[half != fold])[:, 1]
        return found


@dataclass(frozen=True)
class _Group:
    """Jobs, and the week of each; jobs of one week are not independent."""

    table: Floats  # shape (jobs, columns)
    week: Codes

    def take(self, rows: NDArray[np.intp]) -> _Group:
        return _Group(self.table[rows], self.week[rows])

    def part(self, most: int, rng: np.random.Generator) -> _Group:
        return self if len(self.week) <= most else self.take(some_rows(len(self.week), most, rng))

    def by_week(self) -> list[NDArray[np.intp]]:
        """Return the rows of each week."""
        order = np.argsort(self.week, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.week[order])) + 1)

    def resampled(self, rng: np.random.Generator) -> Floats:
        """Return the jobs of as many weeks, drawn with replacement."""
        blocks = self.by_week()
        drawn = rng.integers(0, len(blocks), len(blocks))
        return np.asarray(self.table[np.concatenate([blocks[k] for k in drawn])])


def _split(holdout: View) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of every other week of the hold-out, and those of the weeks between."""
    week = weeks(holdout, holdout.submit)
    _, place = np.unique(week, return_inverse=True)
    return np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2 == 1)
