"""Singling out jobs by distance: exact copies, near copies, and how far the closest real job is.

All of it needs a hold-out: real jobs that the model was not fitted on show what is normal for unrelated jobs. Take the
hold-out from interleaved weeks; a later period has drifted, which makes every model look safer. Nearest neighbours come
from scipy's k-d tree, on numbers only (logged and scaled by the real trace); exact copies also compare the labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from evaluation.attacks.rates import Count, Result
from evaluation.base import Better, Score, Setting, absent
from evaluation.joint import shared_labels, shared_numbers, standardised
from evaluation.view import Floats, View, weeks

NO_HOLDOUT = "needs --holdout: real jobs that the model was not fitted on"
NEAR = 0.05  # quantile of the hold-out's distances below which a synthetic job counts as a near copy
MAX_TARGETS = 200_000


def row_keys(views: list[View], numbers: list[str], labels: list[str]) -> list[NDArray[np.uint64]]:
    """Return a hash of each job's numbers and labels; equal jobs have equal hashes in all views."""
    found = []
    for view in views:
        columns = {name: np.nan_to_num(view.numbers[name], nan=-1.0) for name in numbers}
        table = pd.DataFrame(columns | {name: view.labels[name] for name in labels})
        found.append(np.asarray(pd.util.hash_pandas_object(table, index=False), dtype=np.uint64))
    return found


class NeedsHoldout:
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


class Copies(NeedsHoldout):
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
        found, usual = (
            Count.of(np.isin(part, ours), weeks(view, view.submit))
            for part, view in ((theirs, synth), (fresh, holdout))
        )
        made = Result(found, usual, "the hold-out", "synthetic jobs").score()
        return {"privacy.exact_copies": replace(made, note=note)}


def nearest(queries: Floats, targets: Floats) -> Floats:
    """Return each query's distance to the closest target; memory is linear in both."""
    return np.asarray(cKDTree(np.unique(targets, axis=0)).query(queries, workers=-1)[0])


def some_rows(count: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return at most so many rows at random, in order."""
    return np.sort(rng.permutation(count)[:most])


def part_of(table: Floats, most: int, rng: np.random.Generator) -> Floats:
    """Return at most so many rows of a table at random, in order."""
    return table if len(table) <= most else table[some_rows(len(table), most, rng)]


class DistanceToClosest(NeedsHoldout):
    """privacy.dcr_ratio: distance from synthetic to closest real job, over the same from the hold-out.

    Of medians (means where the hold-out's median is 0). Below 1: nearer to the fitted jobs than fresh real jobs are; a
    model that makes typical jobs is, too, so the ratio is no attack by itself. privacy.near_copies: share of synthetic
    jobs nearer than the hold-out's nearest 5 %.
    """

    name: ClassVar[str] = "distance_to_closest"
    unit: ClassVar[str] = "ratio; share of jobs"
    keys = ("privacy.dcr_ratio", "privacy.near_copies")

    def compare(
        self, real: View, synth: View, holdout: View, names: list[str], setting: Setting, rng: np.random.Generator
    ) -> dict[str, Score]:
        """Compare the two distributions of distances."""
        ours, theirs, fresh = standardised(real, [real, synth, holdout], names)
        ours = part_of(ours, MAX_TARGETS, rng)
        rows = [some_rows(len(view), setting.neighbour_rows, rng) for view in (synth, holdout)]
        synthetic, stranger = nearest(theirs[rows[0]], ours), nearest(fresh[rows[1]], ours)
        statistic, word = (np.median, "medians") if np.median(stranger) > 0 else (np.mean, "means")
        bound = float(np.quantile(stranger, NEAR))
        near = Result(
            Count.of(synthetic <= bound, weeks(synth, synth.submit)[rows[0]]),
            Count.of(stranger <= bound, weeks(holdout, holdout.submit)[rows[1]]),
            "the hold-out",
            "synthetic jobs",
        ).score()
        if not statistic(stranger) > 0:
            return {self.keys[0]: absent("every hold-out job equals a real one", "higher"), self.keys[1]: near}
        ratio = float(statistic(synthetic) / statistic(stranger))
        detail = {"synthetic": float(statistic(synthetic)), "holdout": float(statistic(stranger))}
        note = f"ratio of {word}; 1 or more = no nearer than the hold-out"
        return {self.keys[0]: Score(ratio, "higher", real=1.0, detail=detail, note=note), self.keys[1]: near}
