"""Predictions of run times that orders and backfilling go by, and their correction while a job outlives them.

Tsafrir, Etsion & Feitelson, "Backfilling using system-generated predictions", IEEE TPDS 18(6), 2007.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.running import Running, raise_limit
from tracekit.sim.policies.usage import UserAccounts, predict
from tracekit.sim.predict.history import History, no_history, note_submit, observe
from tracekit.sim.predict.index import index_of
from tracekit.sim.predict.trees import Forest, bounded_weight, evaluate, no_forest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What predictions are used for, bit by bit: orders, backfilling, or features of agents.
ORDER, BACKFILL, SHOW = 1, 2, 4
PREDICT_FOR = {"order": ORDER, "backfill": BACKFILL, "both": ORDER | BACKFILL}

#: How far a prediction is moved beyond its first value each time the job outlives it, in seconds: 1, 5, 15, 30 minutes,
#: 1, 2, 5, 10, 20, 50, 100 hours: increasing increments as in Tsafrir et al.; the values are ours.
CORRECTIONS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)


#: What backfilling goes by when it predicts: the seconds predicted at submit, how often that was corrected, and what
#: the user asked for, which no correction exceeds.
PREDICTION = np.dtype([("first", np.float64), ("corrected", np.int64), ("limit", np.float64)])
Predictions = NDArray[Any]  # (jobs,) PREDICTION, or (0,) where nothing is predicted


class Learned(NamedTuple):
    """A trained predictor in a simulation; the history is empty where there is none."""

    history: History
    forest: Forest
    use: Ints  # (5,) output for orders, for backfilling, and of the index: `tracekit.sim.predict.predictor.IN_INDEX`
    form: Floats  # (4,) of the index of policy `predicted-index`, as in `tracekit.sim.predict.index.Form`
    row: Floats  # (features,) scratch
    out: Floats  # (outputs,) scratch
    priority: Floats  # (jobs,) the value of policy predicted-index, from submit on
    shown: Floats  # (jobs, outputs) every output, from submit on, for agents; (0, 0) where none sees them


def nothing_learned() -> Learned:
    """Return what stands for no predictor."""
    none, shown = np.zeros(0), np.zeros((0, 0))
    return Learned(no_history(), no_forest(), np.zeros(4, np.int64), none, none, none, none, shown)


@jit_internal
def predicted(job: int, now: float, limit: float, accounts: UserAccounts, learned: Learned) -> tuple[float, float]:
    """Return the seconds predicted for a job that is submitted now, for orders and for backfilling.

    A predictor's are at least a second, and at most the limit where the job has one.
    """
    if len(learned.history.own) == 0:
        seconds = predict(accounts, job, limit)
        return seconds, seconds
    history, out, use = learned.history, learned.out, learned.use
    observe(history, job, now, learned.row)
    note_submit(history, job, now)
    evaluate(learned.forest, learned.row, out)
    ln_limit, ln_size = history.own[job, 0], history.own[job, 1]
    most = np.inf if np.isnan(ln_limit) else max(limit, 1.0)
    out[use[4]] = bounded_weight(out[use[4]], ln_limit)
    learned.priority[job] = index_of(out[use[2]], out[use[3]], out[use[4]], ln_limit, ln_size, learned.form)
    for output in range(learned.shown.shape[1]):
        learned.shown[job, output] = out[output]
    return min(max(np.exp(out[use[0]]), 1.0), most), min(max(np.exp(out[use[1]]), 1.0), most)


@jit_internal
def next_correction(running: Running, now: float) -> float:
    """Return when the next prediction runs out; infinity when none does."""
    i = running.tally[0].running - 1
    while i >= 0 and running.limits[i].time <= now:  # these have reached what their users asked for
        i -= 1
    return float(running.limits[i].time) if i >= 0 else np.inf


@jit_internal
def correct(now: float, running: Running, start: Floats, estimate: Floats, predictions: Predictions) -> None:
    """Give every running job that has outlived its prediction a longer one, at most what its user asked for."""
    i = running.tally[0].running - 1
    while i >= 0 and running.limits[i].time <= now:
        job = running.limits[i].job
        prediction = predictions[job]
        step = prediction.corrected
        if start[job] + prediction.limit <= now:  # beyond what was asked for: counts as ending now, as everywhere
            i -= 1
            continue
        believed = prediction.limit
        while step < len(CORRECTIONS):
            longer = min(prediction.first + CORRECTIONS[step], prediction.limit)
            step += 1
            if start[job] + longer > now:
                believed = longer
                break
        prediction.corrected = step
        estimate[job] = believed
        raise_limit(running, i, start[job] + believed)
