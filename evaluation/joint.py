"""Joint fidelity: do the columns of one job belong together? Order and time of the jobs do not enter.

Pearson and Spearman are numpy's and scipy's. Written by hand, because no base library has them for tables of mixed
types: the correlation ratio and Cramér's V, both corrected for bias so that many labels do not look like a strong
association, and improved precision and recall (the package prdc needs n² memory).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats
from scipy.spatial.distance import cdist

from evaluation.base import NAN, Score, Setting, absent
from evaluation.spreads import log_seconds
from evaluation.view import LABELS, NUMBERS, Codes, Floats, Seen, View

Matrix = NDArray[np.float64]  # shape (columns, columns)


def shared_numbers(real: Seen, synth: Seen) -> list[str]:
    """Return the columns of numbers that vary in the real trace and that the synthetic one has."""
    return [name for name in NUMBERS if real.varies(name) and synth.has(name)]


def shared_labels(real: View, synth: View) -> list[str]:
    """Return the labels that vary in the real trace and that the synthetic one has."""
    return [name for name in LABELS if real.varies(name) and synth.has(name)]


def logged(view: View, name: str) -> Floats:
    """Return a column on the scale on which jobs differ: ln(1 + x) for times, sizes and memory."""
    return log_seconds(view.numbers[name])


def _correlations(table: Floats) -> Matrix:
    """Return Pearson correlations over the rows with no unknown; a constant column correlates with nothing."""
    table = table[np.isfinite(table).all(axis=1)]
    if len(table) < 3:
        return np.full((table.shape[1],) * 2, NAN)
    spread = table.std(axis=0)
    scaled = (table - table.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
    return np.asarray(scaled.T @ scaled / len(table))


def pearson(view: View, names: list[str]) -> Matrix:
    """Return Pearson correlations of the columns as they are."""
    return _correlations(np.column_stack([view.numbers[name] for name in names]))


def spearman(view: View, names: list[str]) -> Matrix:
    """Return Spearman's rank correlations."""
    table = np.column_stack([view.numbers[name] for name in names])
    table = table[np.isfinite(table).all(axis=1)]
    return _correlations(scipy_stats.rankdata(table, axis=0))


def off_diagonal_mean(first: Matrix, second: Matrix) -> float:
    """Return the mean absolute difference over the pairs above the diagonal."""
    upper = np.triu_indices(len(first), 1)
    return float(np.abs(first - second)[upper].mean())


class Correlation:
    """correlation.mad_pearson, correlation.mad_spearman: mean |real − synthetic| over all pairs of numeric columns."""

    name: ClassVar[str] = "correlation"
    family: ClassVar[str] = "joint"
    unit: ClassVar[str] = "correlation"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the two correlation matrices, each pair in the detail."""
        names = shared_numbers(real, synth)
        scores = {}
        for key, matrix in (("correlation.mad_pearson", pearson), ("correlation.mad_spearman", spearman)):
            if len(names) < 2:
                scores[key] = absent("fewer than two columns of numbers vary in the real trace and exist in both")
                continue
            ours, theirs = matrix(real, names), matrix(synth, names)
            flat = [name for name in names if not synth.varies(name)]
            note = f"constant in the synthetic trace, so uncorrelated: {', '.join(flat)}" if flat else ""
            value = off_diagonal_mean(ours, theirs)
            if np.isnan(value):
                note = f"no job has all of {', '.join(names)}"
            scores[key] = Score(value, note=note, detail=pairs(names, ours, theirs))
        return scores


def pairs(names: list[str], real: Matrix, synth: Matrix) -> dict[str, float]:
    """Return synthetic minus real for every pair of columns."""
    return {
        f"{a}~{b}": float(synth[i, j] - real[i, j]) for i, a in enumerate(names) for j, b in enumerate(names) if i < j
    }


def correlation_ratio(values: Floats, codes: Codes) -> float:
    """Return the share of a number's spread that a label explains, as a correlation 0 … 1.

    η with Kelley's correction: ε² = 1 − (1 − η²)(n − 1)/(n − k), which is 0 on average for labels given at random.
    """
    keep = np.isfinite(values) & (codes >= 0)
    values, (_, codes) = values[keep], np.unique(codes[keep], return_inverse=True)
    n, k = len(values), int(codes.max(initial=-1)) + 1
    total = float(((values - values.mean()) ** 2).sum()) if n else 0.0
    if n <= k or total <= 0:
        return 0.0
    count = np.bincount(codes)
    means = np.bincount(codes, weights=values) / count
    within = total - float((count * (means - values.mean()) ** 2).sum())
    return float(np.sqrt(max(0.0, 1 - within / total * (n - 1) / (n - k))))


def cramers_v(first: Codes, second: Codes) -> float:
    """Return the bias-corrected Cramér's V of two labels, 0 … 1 (Bergsma 2013, equations 3–5)."""
    keep = (first >= 0) & (second >= 0)
    _, a = np.unique(first[keep], return_inverse=True)
    _, b = np.unique(second[keep], return_inverse=True)
    n, rows, columns = len(a), int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    if rows < 2 or columns < 2:
        return 0.0
    cells, count = np.unique(a * columns + b, return_counts=True)  # only those that occur: users × apps may be many
    expected = np.bincount(a)[cells // columns] * np.bincount(b)[cells % columns] / n
    phi2 = float((count**2 / expected).sum() / n - 1)
    phi2 = max(0.0, phi2 - (rows - 1) * (columns - 1) / (n - 1))
    smaller = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)) - 1
    return float(min(1.0, np.sqrt(phi2 / smaller))) if smaller > 0 else 0.0


def association(view: View, numbers: list[str], labels: list[str]) -> Matrix:
    """Return the mixed matrix: Spearman between numbers, else correlation ratio (of logs) or Cramér's V."""
    width = len(numbers) + len(labels)
    matrix = np.eye(width)
    if len(numbers) > 1:
        matrix[: len(numbers), : len(numbers)] = spearman(view, numbers)
    for j, label in enumerate(labels, len(numbers)):
        for i, number in enumerate(numbers):
            matrix[i, j] = matrix[j, i] = correlation_ratio(logged(view, number), view.labels[label])
        for i, other in enumerate(labels[: j - len(numbers)], len(numbers)):
            matrix[i, j] = matrix[j, i] = cramers_v(view.labels[other], view.labels[label])
    return matrix


class Association:
    """association.mad: mean |real − synthetic| over all pairs of columns, numbers and labels alike."""

    name: ClassVar[str] = "association"
    family: ClassVar[str] = "joint"
    unit: ClassVar[str] = "association"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare the two mixed matrices, each pair in the detail."""
        numbers, labels = shared_numbers(real, synth), shared_labels(real, synth)
        if len(numbers) + len(labels) < 2:
            return {"association.mad": absent("fewer than two columns vary in the real trace and exist in both")}
        ours, theirs = association(real, numbers, labels), association(synth, numbers, labels)
        value = off_diagonal_mean(ours, theirs)
        note = "no job has all of the numbers" if np.isnan(value) else ""
        return {"association.mad": Score(value, note=note, detail=pairs(numbers + labels, ours, theirs))}


def standardised(real: View, views: list[View], names: list[str]) -> list[Floats]:
    """Return each view's logged numbers, centred and scaled by the real trace; unknown values sit at the real mean."""
    tables = [np.column_stack([logged(view, name) for name in names]) for view in views]
    base = np.column_stack([logged(real, name) for name in names])
    centre = np.nanmean(base, axis=0)
    spread = np.nanstd(base, axis=0)
    return [
        np.nan_to_num((table - centre) / np.where(spread > 0, spread, 1.0), nan=0.0, posinf=1e6, neginf=-1e6)
        for table in tables
    ]


class PrecisionRecall:
    """prdc.*: share of synthetic jobs inside the real jobs' neighbourhoods (precision) and the reverse (recall).

    Neighbourhood: the ball that reaches a job's 5th nearest neighbour of its own kind (Kynkäänniemi et al. 2019);
    density and coverage after Naeem et al. 2020. On a random part of each trace, in chunks: never n² memory.
    """

    name: ClassVar[str] = "prdc"
    family: ClassVar[str] = "joint"
    unit: ClassVar[str] = "share of jobs"
    resampled: ClassVar[bool] = False
    k = 5

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compute the four numbers."""
        names = shared_numbers(real, synth)
        keys = ("prdc.precision", "prdc.recall", "prdc.density", "prdc.coverage")
        if not names or min(len(real), len(synth)) <= self.k:
            return {key: absent("needs a shared column of numbers and more than five jobs", "higher") for key in keys}
        rows = min(setting.neighbour_rows // 2, len(real), len(synth))
        draws = [np.sort(rng.permutation(len(view))[:rows]) for view in (real, synth)]
        if len(real) == len(synth):
            draws[1] = draws[0]  # the same places, so that a plain copy scores as one
        ours, theirs = (t[d] for t, d in zip(standardised(real, [real, synth], names), draws, strict=True))
        note = f"on {rows:,} jobs of each, drawn at random" if rows < max(len(real), len(synth)) else ""
        scores = {}
        for key, each in zip(keys, prdc(ours, theirs, self.k), strict=True):
            half = 1.96 * float(each.std() / np.sqrt(len(each)))
            value = float(each.mean())
            scores[key] = Score(value, "higher", low=max(0.0, value - half), high=value + half, note=note)
        return scores


def prdc(real: Floats, synth: Floats, k: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return what each job adds to precision, recall, density and coverage, which are the means; never n² memory."""
    reach_real, reach_synth = _reach(real, k), _reach(synth, k)
    inside = np.zeros(len(synth), dtype=np.int64)  # in how many real balls each synthetic point lies
    recalled = np.zeros(len(real), dtype=bool)
    covered = np.zeros(len(real), dtype=bool)
    for start in range(0, len(real), 500):
        part = slice(start, start + 500)
        distance = cdist(real[part], synth)
        balls = distance <= reach_real[part, None]
        inside += balls.sum(axis=0)
        covered[part] = balls.any(axis=1)
        recalled[part] = (distance <= reach_synth[None, :]).any(axis=1)
    return (inside > 0).astype(float), recalled.astype(float), inside / k, covered.astype(float)


def _reach(points: Floats, k: int) -> Floats:
    reach = np.empty(len(points))
    for start in range(0, len(points), 500):
        reach[start : start + 500] = np.partition(cdist(points[start : start + 500], points), k, axis=1)[:, k]
    return reach
