"""Detection: can gradient boosting separate synthetic and real jobs? AUC 0.5 = no, 1 = always (Lopez-Paz & Oquab 2017).

Two traps are closed. A job that occurs in both traces would be learnt with one name and tested under the other, which
pushes the AUC of plain copies far below 0.5: equal rows therefore share one fold. Windows that overlap a fold's edge
would leak: windows do not overlap, and folds are stretches of the trace.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from evaluation.base import Score, Setting, absent
from evaluation.joint import logged, shared_labels, shared_numbers
from evaluation.spreads import log_seconds
from evaluation.view import Floats, Seen, View

FOLDS = 5
WINDOW = 5
_BLOCKS = 40  # blocks of each trace that are resampled for the interval


def job_features(view: View, numbers: list[str], labels: list[str]) -> Floats:
    """Return one row a job: logged numbers and the codes of labels; NaN = unknown."""
    codes = [np.where(view.labels[label] >= 0, view.labels[label], np.nan) for label in labels]
    return np.column_stack([*(logged(view, name) for name in numbers), *codes])


def familiar(real: View, synth: View, labels: list[str]) -> list[str]:
    """Leave out labels that the synthetic trace has renamed: names are opaque, so new ones are not a fault."""
    return [
        label
        for label in labels
        if np.isin(synth.labels[label][synth.labels[label] >= 0], real.labels[label]).mean() >= 0.5
    ]


def window_features(view: View, numbers: list[str], *, users: bool) -> Floats:
    """Return one row per five consecutive jobs: logged numbers, gaps and, if asked, whether the user stays the same."""
    count = len(view) // WINDOW
    used = count * WINDOW
    gaps = np.concatenate([[np.nan], log_seconds(view.gaps)])
    columns = [gaps, *(logged(view, name) for name in numbers)]
    if users:
        user = view.labels["user"]
        same = np.concatenate([[np.nan], (user[1:] == user[:-1]).astype(float)])
        columns.append(same)
    table = np.column_stack(columns)[:used].reshape(count, WINDOW, len(columns))
    table[:, 0, 0] = np.nan  # the gap before the window belongs to the one before
    if users:
        table[:, 0, -1] = np.nan
    return table.reshape(count, -1)


def cross_validated(table: Floats, truth: NDArray[np.bool_], fold: NDArray[np.intp], trees: int, seed: int) -> Floats:
    """Return each row's score from a model that has not seen its fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    scores = np.full(len(table), 0.5)
    for k in range(FOLDS):
        test = fold == k
        if not test.any() or len(np.unique(truth[~test])) < 2:
            continue
        model = HistGradientBoostingClassifier(
            max_iter=trees, learning_rate=0.1, max_leaf_nodes=15, early_stopping=False, random_state=seed
        )
        alive = ~np.isnan(table[~test]).all(axis=0)
        with threadpool_limits(1):  # small tables: threads that wait for each other cost more than they give
            model.fit(table[~test][:, alive], truth[~test])
            scores[test] = model.predict_proba(table[test][:, alive])[:, 1]
    return scores


def auc(scores: Floats, truth: NDArray[np.bool_]) -> float:
    """Return P(a synthetic row scores above a real one), ties half: as scikit-learn, without its checks each call."""
    above = rankdata(scores)[truth].sum() - truth.sum() * (truth.sum() + 1) / 2
    return float(above / (truth.sum() * (~truth).sum()))


def folded_auc(scores: Floats, truth: NDArray[np.bool_], fold: NDArray[np.intp]) -> float:
    """Return the mean AUC of the folds that hold both kinds, weighted by their rows."""
    values, weights = [], []
    for k in range(FOLDS):
        test = fold == k
        if 0 < truth[test].sum() < test.sum():
            values.append(auc(scores[test], truth[test]))
            weights.append(int(test.sum()))
    return float(np.average(values, weights=weights)) if values else float("nan")


def equal_rows(table: Floats) -> NDArray[np.intp]:
    """Return the same number for equal rows (NaN equals NaN)."""
    hashed = pd.util.hash_pandas_object(pd.DataFrame(np.nan_to_num(table, nan=-1.0)), index=False)
    return np.asarray(pd.factorize(hashed)[0], dtype=np.intp)


def _auc(
    tables: tuple[Floats, Floats], folds: NDArray[np.intp], setting: Setting, rng: np.random.Generator, note: str
) -> Score:
    """Return the cross-validated AUC with an interval from resampling blocks of both traces."""
    table = np.vstack(tables)
    truth = np.arange(len(table)) >= len(tables[0])
    scores = cross_validated(table, truth, folds, setting.trees, int(rng.integers(2**31)))
    value = folded_auc(scores, truth, folds)
    if np.isnan(value):
        return absent("too few jobs for cross-validation")
    blocks = np.concatenate(
        [side * _BLOCKS + np.arange(len(part)) * _BLOCKS // max(len(part), 1) for side, part in enumerate(tables)]
    )
    members = [np.flatnonzero(blocks == b) for b in range(2 * _BLOCKS)]
    draws = []
    for _ in range(setting.draws):
        picked = [rng.integers(0, _BLOCKS, _BLOCKS), _BLOCKS + rng.integers(0, _BLOCKS, _BLOCKS)]
        rows = np.concatenate([members[b] for b in np.concatenate(picked)])
        draws.append(folded_auc(scores[rows], truth[rows], folds[rows]))
    half = 1.96 * float(np.nanstd(draws))
    return Score(value, low=max(0.0, value - half), high=min(1.0, value + half), note=note)


class JobDetection:
    """c2st.auc: cross-validated AUC of gradient boosting on single jobs; equal jobs are kept in one fold."""

    name: ClassVar[str] = "c2st"
    family: ClassVar[str] = "joint"
    unit: ClassVar[str] = "AUC, 0.5 = indistinguishable"
    resampled: ClassVar[bool] = False

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Train and test on a random part of both traces."""
        numbers, labels = shared_numbers(real, synth), familiar(real, synth, shared_labels(real, synth))
        if not numbers + labels or min(len(real), len(synth)) < 50:
            return {"c2st.auc": absent("needs a shared column and at least 50 jobs in each trace")}
        drawn = [_drawn(len(view), setting.detection_rows, rng) for view in (real, synth)]
        if len(real) == len(synth):
            drawn[1] = drawn[0]
        first, second = (job_features(v, numbers, labels)[d] for v, d in zip((real, synth), drawn, strict=True))
        group = equal_rows(np.vstack([first, second]))
        fold = rng.integers(0, FOLDS, group.max() + 1).astype(np.intp)[group]
        note = f"on {len(first):,} and {len(second):,} jobs"
        if renamed := [label for label in shared_labels(real, synth) if label not in labels]:
            note += f"; without {', '.join(renamed)}, which the synthetic trace has renamed"
        return {"c2st.auc": _auc((first, second), fold, setting, rng, note)}


def _drawn(length: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.sort(rng.permutation(length)[:most])


class WindowDetection:
    """c2st.window_auc: the same on five consecutive jobs, with their gaps and whether the user stays the same."""

    name: ClassVar[str] = "c2st_window"
    family: ClassVar[str] = "time"
    unit: ClassVar[str] = "AUC, 0.5 = indistinguishable"
    resampled: ClassVar[bool] = False

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Train and test on windows that do not overlap; folds are stretches of the trace, equal windows share one."""
        numbers = shared_numbers(real, synth)
        if min(len(real), len(synth)) < 50 * WINDOW:
            return {"c2st.window_auc": absent("needs at least 250 jobs in each trace")}
        users = real.has("user") and synth.has("user")
        counts = [len(view) // WINDOW for view in (real, synth)]
        drawn = [_drawn(count, setting.detection_rows // 2, rng) for count in counts]
        if counts[0] == counts[1]:
            drawn[1] = drawn[0]
        places = np.concatenate([d * (4 * FOLDS) // count for d, count in zip(drawn, counts, strict=True)])
        chosen = [(d[:, None] * WINDOW + np.arange(WINDOW)).ravel() for d in drawn]
        first, second = (
            window_features(view.take(rows), numbers, users=users)
            for view, rows in zip((real, synth), chosen, strict=True)
        )
        group = equal_rows(np.vstack([first, second]))
        earliest = np.full(group.max() + 1, len(group), dtype=np.intp)
        np.minimum.at(earliest, group, np.arange(len(group)))
        fold = (places % FOLDS)[earliest[group]].astype(np.intp)
        note = f"on {len(first):,} and {len(second):,} windows"
        return {"c2st.window_auc": _auc((first, second), fold, setting, rng, note)}
