"""Privacy: whether the synthetic trace reveals jobs or users of the trace that its model was fitted on.

All of it needs a hold-out: real jobs that the model was not fitted on show what is normal for unrelated jobs. Take the
hold-out from interleaved weeks; a later period has drifted, which makes every model look safer. Nearest neighbours come
from scipy's k-d tree, on numbers only (logged and scaled by the real trace); exact copies also compare the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from evaluation.base import Better, Score, Setting, absent
from evaluation.joint import shared_labels, shared_numbers, standardised
from evaluation.view import WEEK, Codes, Floats, View, weeks
from tracekit.intervals import wilson

NO_HOLDOUT = "needs --holdout: real jobs that the model was not fitted on"
NEAR = 0.05  # quantile of the hold-out's distances below which a synthetic job counts as a near copy
_MAX_TARGETS = 200_000
_ACTIVE = 20  # jobs that a user must have in each trace for a weekly pattern to mean anything


def row_keys(views: list[View], numbers: list[str], labels: list[str]) -> list[NDArray[np.uint64]]:
    """Return a hash of each job's numbers and labels; equal jobs have equal hashes in all views."""
    found = []
    for view in views:
        columns = {name: np.nan_to_num(view.numbers[name], nan=-1.0) for name in numbers}
        table = pd.DataFrame(columns | {name: view.labels[name] for name in labels})
        found.append(np.asarray(pd.util.hash_pandas_object(table, index=False), dtype=np.uint64))
    return found


def share_intervals(value: float, trials: int, control: float, control_trials: int) -> dict[str, float]:
    """Return the 95 % intervals of a share and of its control, as the detail of a score; NaN without trials."""
    ends = (*wilson(value * trials, trials), *wilson(control * control_trials, control_trials))
    return dict(zip(("low", "high", "control_low", "control_high"), ends, strict=True))


class _Privacy:
    """Common code of the privacy metrics: they need a hold-out, and are null with a reason without one."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    keys: ClassVar[tuple[str, ...]]
    better: ClassVar[Better] = "lower"

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare with the real trace and with the hold-out."""
        if setting.holdout is None:
            return dict.fromkeys(self.keys, absent(NO_HOLDOUT, self.better))
        names = [name for name in shared_numbers(real, synth) if setting.holdout.has(name)]
        if not names:
            return dict.fromkeys(self.keys, absent("the three traces have no numeric column in common", self.better))
        return self.compare(real, synth, setting.holdout, names, setting, rng)

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Compute the scores."""
        raise NotImplementedError


class Copies(_Privacy):
    """privacy.exact_copies: share of synthetic jobs that equal a real one in every number and label."""

    name: ClassVar[str] = "copies"
    unit: ClassVar[str] = "share of jobs"
    keys = ("privacy.exact_copies",)

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Search for every synthetic and every hold-out job among the real ones."""
        labels = [name for name in shared_labels(real, synth) if holdout.has(name)]
        ours, theirs, fresh = row_keys([real, synth, holdout], names, labels)
        note = f"over {', '.join(names + labels)}; real = the hold-out's share"
        value, usual = float(np.isin(theirs, ours).mean()), float(np.isin(fresh, ours).mean())
        detail = share_intervals(value, len(theirs), usual, len(fresh))
        return {"privacy.exact_copies": Score(value, real=usual, note=note, detail=detail)}


def nearest(queries: Floats, targets: Floats) -> Floats:
    """Return each query's distance to the closest target; memory is linear in both."""
    return np.asarray(cKDTree(np.unique(targets, axis=0)).query(queries, workers=-1)[0])


def _part(table: Floats, most: int, rng: np.random.Generator) -> Floats:
    return table if len(table) <= most else table[np.sort(rng.permutation(len(table))[:most])]


class DistanceToClosest(_Privacy):
    """privacy.dcr_ratio: distance from synthetic to closest real job, over the same from the hold-out.

    Of medians (means where the hold-out's median is 0). Below 1: nearer to the fitted jobs than fresh real jobs are.
    privacy.near_copies: share of synthetic jobs nearer than the hold-out's nearest 5 %.
    """

    name: ClassVar[str] = "distance_to_closest"
    unit: ClassVar[str] = "ratio; share of jobs"
    keys = ("privacy.dcr_ratio", "privacy.near_copies")

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Compare the two distributions of distances."""
        ours, theirs, fresh = standardised(real, [real, synth, holdout], names)
        ours = _part(ours, _MAX_TARGETS, rng)
        synthetic = nearest(_part(theirs, setting.neighbour_rows, rng), ours)
        stranger = nearest(_part(fresh, setting.neighbour_rows, rng), ours)
        statistic, word = (np.median, "medians") if np.median(stranger) > 0 else (np.mean, "means")
        bound = float(np.quantile(stranger, NEAR))
        value, usual = float((synthetic <= bound).mean()), float((stranger <= bound).mean())
        spans = share_intervals(value, len(synthetic), usual, len(stranger))
        near = Score(value, real=usual, note="real = the hold-out's share", detail=spans)
        if not statistic(stranger) > 0:
            return {self.keys[0]: absent("every hold-out job equals a real one", "higher"), self.keys[1]: near}
        ratio = float(statistic(synthetic) / statistic(stranger))
        detail = {"synthetic": float(statistic(synthetic)), "holdout": float(statistic(stranger))}
        detail |= _nearer(_part(theirs, setting.neighbour_rows, rng), ours, fresh, rng)
        one, other = (fresh[rows] for rows in _split(holdout))
        usual = _nearer(_part(one, setting.neighbour_rows, rng), ours, other, rng)["nearer_fitted"]
        detail["nearer_control"] = usual
        return {
            self.keys[0]: Score(
                ratio,
                "higher",
                real=1.0,
                detail=detail,
                note=f"ratio of {word}; 1 or more = no nearer than the hold-out",
            ),
            self.keys[1]: near,
        }


def _nearer(synth: Floats, ours: Floats, fresh: Floats, rng: np.random.Generator) -> dict[str, float]:
    """Return the share of synthetic jobs that are nearer to a fitted job than to a hold-out job, with its interval.

    Half is what a model without memory reaches: its jobs may be typical, and so near to all real jobs. Equal
    distances count half; both sides have the same number of jobs.
    """
    rows = min(len(ours), len(fresh))
    if not rows or not len(synth):
        return {"nearer_fitted": float("nan"), "nearer_low": float("nan"), "nearer_high": float("nan")}
    fitted, other = nearest(synth, _part(ours, rows, rng)), nearest(synth, _part(fresh, rows, rng))
    share = float(((fitted < other) + 0.5 * (fitted == other)).mean())
    low, high = wilson(share * len(synth), len(synth))
    return {"nearer_fitted": share, "nearer_low": low, "nearer_high": high}


class Membership(_Privacy):
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
        value, low, high, rows = _told_apart(theirs, members, others, setting, rng)
        one, other = _split(holdout)
        usual, usual_low, usual_high, _ = _told_apart(fresh[one], members, others.take(other), setting, rng)
        note = (
            f"on {rows:,} fitted and {rows:,} hold-out jobs; real = one half of the hold-out in place of the synthetic"
        )
        detail = {"control_low": usual_low, "control_high": usual_high}
        return {self.keys[0]: Score(value, real=usual, low=low, high=high, note=note, detail=detail)}


@dataclass(frozen=True)
class _Group:
    """Jobs, and the week of each; jobs of one week are not independent."""

    table: Floats  # shape (jobs, columns)
    week: Codes

    def take(self, rows: NDArray[np.intp]) -> _Group:
        return _Group(self.table[rows], self.week[rows])

    def part(self, most: int, rng: np.random.Generator) -> _Group:
        return self if len(self.week) <= most else self.take(np.sort(rng.permutation(len(self.week))[:most]))

    def by_week(self) -> list[NDArray[np.intp]]:
        """Return the rows of each week."""
        order = np.argsort(self.week, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.week[order])) + 1)


def _told_apart(
    shown: Floats, members: _Group, others: _Group, setting: Setting, rng: np.random.Generator
) -> tuple[float, float, float, int]:
    """Return the AUC of separating fitted from other jobs by their distance to ``shown``, its interval, and the rows.

    The 95 % interval comes from drawing whole weeks of both sides with replacement.
    """
    from sklearn.metrics import roc_auc_score

    rows = min(setting.neighbour_rows, len(members.week), len(others.week))
    if not rows or not len(shown):
        return float("nan"), float("nan"), float("nan"), rows
    shown = _part(shown, _MAX_TARGETS, rng)
    groups = [group.part(rows, rng) for group in (members, others)]
    distances = [nearest(group.table, shown) for group in groups]
    blocks = [group.by_week() for group in groups]

    def auc(one: Floats, other: Floats) -> float:
        inside = np.arange(len(one) + len(other)) < len(one)
        return float(roc_auc_score(inside, -np.concatenate([one, other])))

    def drawn(side: int) -> Floats:
        chosen = rng.integers(0, len(blocks[side]), len(blocks[side]))
        picked: Floats = distances[side][np.concatenate([blocks[side][k] for k in chosen])]
        return picked

    low, high = np.quantile([auc(drawn(0), drawn(1)) for _ in range(setting.draws)], [0.025, 0.975])
    return auc(*distances), float(low), float(high), rows


def _split(holdout: View) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of every other week of the hold-out, and those of the weeks between."""
    week = weeks(holdout, holdout.submit)
    _, place = np.unique(week, return_inverse=True)
    return np.flatnonzero(place % 2 == 0), np.flatnonzero(place % 2 == 1)


def weekly_patterns(view: View, users: NDArray[np.int64]) -> Floats:
    """Return one row a user, of length 1: the square roots of the shares of jobs in each hour of the week."""
    hour = view.hour if view.hour is not None else ((view.submit % WEEK) // 3600).astype(np.int64)
    place = np.searchsorted(users, view.labels["user"])
    mine = (place < len(users)) & (users[np.minimum(place, len(users) - 1)] == view.labels["user"])
    table = np.zeros((len(users), 168))
    np.add.at(table, (place[mine], hour[mine]), 1.0)
    return np.asarray(np.sqrt(table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)))


class UserLinkage(_Privacy):
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
        linked, users = _linked(real, synth)
        level, fresh = _linked(real, holdout) if holdout.has("user") else (float("nan"), 0)
        if not users:
            return {self.keys[0]: absent(f"no user has {_ACTIVE} jobs in both traces under the same name", real=level)}
        return {
            self.keys[0]: Score(
                linked,
                real=level,
                detail={"chance": 1 / users, **share_intervals(linked, users, level, fresh)},
                note=f"{users} users with {_ACTIVE} jobs or more; real = the hold-out's share",
            )
        }


def _linked(real: View, other: View) -> tuple[float, int]:
    """Return the share of common users that are closest to themselves, and how many there are."""
    active, theirs = (
        np.flatnonzero(np.bincount(v.labels["user"][v.labels["user"] >= 0]) >= _ACTIVE) for v in (real, other)
    )
    common = np.intersect1d(active, theirs)
    if len(common) < 2:
        return float("nan"), 0
    closeness = weekly_patterns(other, common) @ weekly_patterns(real, active).T  # users × active real users
    best = active[closeness.argmax(axis=1)]
    return float((best == common).mean()), len(common)
