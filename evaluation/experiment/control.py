"""Control variates: what heuristics do on the same windows takes noise out of a difference between agents.

Held-out windows are a small sample of the machine's windows, and some samples have more crowded windows than others.
Heuristics learn nothing, so they can be played on every window of the real trace; their scores say how typical the
held-out windows are. Regressing the differences on them, and reading the regression at the mean of *all* windows, is
the regression estimator of two-phase sampling (Cochran, Sampling Techniques, 1977, ch. 12): the residuals' variance
over the held-out windows, plus the variance that the regression's own part has over all windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Held-out windows for each regressor, and the most regressors: more would fit noise.
WINDOWS_EACH = 10
MAX_REGRESSORS = 3


@dataclass(frozen=True)
class Controls:
    """Log scores of the heuristics."""

    inside: Floats  # (windows, heuristics): on the held-out windows
    outside: Floats  # (more windows, heuristics): on windows of the training jobs

    def adjust(self, differences: Floats) -> tuple[Floats, float]:
        """Return differences, (samples, seeds, windows), without what heuristics explain, and the added variance.

        They come back as they are where heuristics explain nothing.
        """
        means = differences.mean(axis=(0, 1))
        windows = len(means)
        regressors = self._regressors(windows)
        taken = regressors.shape[1]
        everything, here = regressors, regressors[:windows]
        if taken == 0 or windows - 1 - taken < 1 or not np.ptp(means) > 0:
            return differences, 0.0
        design = np.column_stack([np.ones(windows), here])
        slopes = np.linalg.lstsq(design, means, rcond=None)[0][1:]
        explained = here @ slopes
        rest = means - explained
        widened = float(np.sqrt((windows - 1) / (windows - 1 - taken)))  # residuals are too small by so much
        if rest.std() * widened >= means.std():
            return differences, 0.0
        rest = rest.mean() + (rest - rest.mean()) * widened
        added = float((everything @ slopes).var(ddof=1)) / len(everything)
        return differences - means + rest, added

    def _regressors(self, windows: int) -> Floats:
        """Return the first principal components of the scores, (all windows, components), with mean 0 over all."""
        scores = np.concatenate([self.inside, self.outside])
        centred = scores - scores.mean(axis=0)
        taken = min(MAX_REGRESSORS, windows // WINDOWS_EACH, centred.shape[1])
        if taken == 0 or len(self.outside) < windows:
            return np.zeros((len(scores), 0))
        _, size, directions = np.linalg.svd(centred, full_matrices=False)
        taken = min(taken, int((size > 1e-9 * max(float(size[0]), 1e-300)).sum()))
        return np.asarray(centred @ directions[:taken].T)
