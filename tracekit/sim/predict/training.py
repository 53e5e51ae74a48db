"""From a trace to a predictor: gradient-boosted trees on what was known at every submit.

The loss is asymmetric where it matters (Gaussier, Glesser, Reis & Trystram, "Improving backfilling by using machine
learning to predict running times", SC 2015): a job that outlives its prediction delays a reservation, one that ends
early leaves a gap. Quantiles above the median are the minima of such losses.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.history import FEATURES, GAPS, GROUPS
from tracekit.sim.predict.predictor import OUTPUTS, Predictor
from tracekit.sim.predict.trees import BOUND, forest_of, no_forest
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Fewer jobs with a run time than this are too few to learn from.
FEWEST = 100
#: What is predicted where nothing is known, in seconds.
A_DAY = 86400.0
#: Up to which count of ended jobs trees tell counts apart, where some jobs have not ended: the largest counts are then
#: known of jobs that ended at once only, so trees would take every later job for a short one.
MOST_ENDED = 100.0
_ENDED = [FEATURES.index(f"{group}_ended") for group in GROUPS]
#: How each output is learnt: the loss of scikit-learn, and the quantile.
_LOSSES: dict[str, dict[str, Any]] = {
    "ln_mean": {"loss": "squared_error"},
    "q50": {"loss": "quantile", "quantile": 0.5},
    "q75": {"loss": "quantile", "quantile": 0.75},
    "q90": {"loss": "quantile", "quantile": 0.9},
    # Trees of the Poisson loss add up to the logarithm of the mean, whatever the distribution. Those of the gamma loss
    # do as well, but its second derivative vanishes where a prediction is far too large, so steps have no bounds.
    "expected": {"loss": "poisson"},
    "weight": {"loss": "poisson"},
}


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown; the same for every output."""

    trees: int = 150
    leaves: int = 15
    leaf_jobs: int = 40  # fewest jobs in a leaf
    learning_rate: float = 0.05
    share: float = 0.5  # of the features that each split looks at, drawn by the seed
    gaps: bool = True  # whether trees look at the seconds since the user's last submit, start and end

    def __post_init__(self) -> None:
        whole = self.trees >= 1 and self.leaves >= 2 and self.leaf_jobs >= 1
        whole = whole and isinstance(self.gaps, bool)
        if not (whole and 0 < self.learning_rate <= 1 and 0 < self.share <= 1):
            raise UsageError(f"{self}: these trees cannot be grown")


def versions() -> dict[str, str]:
    """Return the versions that trees depend on."""
    found = {"python": platform.python_version(), "tracekit": tracekit.__version__}
    return found | {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn")}


def capped_run(trace: Trace) -> Floats:
    """Return run times, (jobs,), at most the limits and at least a second: a job that is killed says no more."""
    run, limit = trace.column("run_time"), trace.column("req_time")
    return np.asarray(np.maximum(np.fmin(run, np.where(limit > 0, limit, np.nan)), 1.0))


def goes_on(trace: Trace) -> bool:
    """Return whether the trace has jobs that have been submitted and have not ended, so that it reaches up to now."""
    known = ~np.isfinite(trace.column("submit_time")) | (trace.column("run_time") >= 0)
    if "status" in trace.jobs:  # what was cancelled in the queue never runs
        known |= trace.jobs["status"].ne("unknown").to_numpy()
    return not known.all()


def untrained() -> Predictor:
    """Return a predictor that has learnt nothing: a day, or the limit where that is shorter."""
    outputs = len(OUTPUTS)
    return Predictor(no_forest()._replace(first=np.zeros(outputs + 1, np.int64), base=np.full(outputs, np.log(A_DAY))))


def train(
    trace: Trace, settings: TreeSettings | None = None, *, seed: int = 0, outputs: Collection[str] = OUTPUTS
) -> Predictor:
    """Learn to predict the run times of a trace's jobs; same seed, same trees.

    Outputs that are left out stay as in `untrained`.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    settings = settings or TreeSettings()
    rows = np.flatnonzero(np.isfinite(trace.column("submit_time")) & (trace.column("run_time") >= 0))
    if len(rows) < FEWEST:
        raise TracekitError(f"{len(rows)} jobs with a submit time and a run time are too few; {FEWEST} are needed")
    seen, run = features_of(trace)[rows], capped_run(trace)[rows]
    if not settings.gaps:
        seen[:, [FEATURES.index(name) for name in GAPS]] = 0.0
    if goes_on(trace):
        seen[:, _ENDED] = np.minimum(seen[:, _ENDED], MOST_ENDED)
    seen[:, np.isnan(seen).all(axis=0)] = 0.0  # scikit-learn wants a value; no split can use such a column
    targets = dict.fromkeys(OUTPUTS, np.log(run)) | {"expected": run, "weight": BOUND / np.maximum(run, BOUND)}
    models: list[Any] = []
    with threadpool_limits(1):  # sums in another order would give other trees
        for name in OUTPUTS:
            if name not in outputs:
                models.append(np.log(A_DAY))
                continue
            model = HistGradientBoostingRegressor(
                **_LOSSES[name],
                max_iter=settings.trees,
                max_leaf_nodes=settings.leaves,
                min_samples_leaf=settings.leaf_jobs,
                learning_rate=settings.learning_rate,
                max_features=settings.share,
                early_stopping=False,
                random_state=seed,
            )
            models.append(model.fit(seen, targets[name]))
    return Predictor(forest_of(models), facts={"settings": dataclasses.asdict(settings)})
