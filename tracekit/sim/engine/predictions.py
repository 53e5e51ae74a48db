"""Predictions of run times that backfilling goes by, and their correction while a job outlives them.

Tsafrir, Etsion & Feitelson, "Backfilling using system-generated predictions", IEEE TPDS 18(6), 2007.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.running import Running, raise_limit

Floats = NDArray[np.float64]

#: How far a prediction is moved beyond its first value each time the job outlives it, in seconds: 1, 5, 15, 30 minutes,
#: 1, 2, 5, 10, 20, 50, 100 hours: increasing increments as in Tsafrir et al.; the values are ours.
CORRECTIONS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)


#: What backfilling goes by when it predicts: the seconds predicted at submit, and how often that was corrected.
PREDICTION = np.dtype([("first", np.float64), ("corrected", np.int64)])
Predictions = NDArray[Any]  # (jobs,) PREDICTION, or (0,) where backfilling does not predict


@jit_internal
def next_correction(running: Running, now: float) -> float:
    """Return when the next prediction runs out; infinity when none does."""
    i = running.tally[0].running - 1
    while i >= 0 and running.limits[i].time <= now:  # these have reached what their users asked for
        i -= 1
    return float(running.limits[i].time) if i >= 0 else np.inf


@jit_internal
def correct(
    now: float, running: Running, start: Floats, estimate: Floats, asked: Floats, predictions: Predictions
) -> None:
    """Give every running job that has outlived its prediction a longer one, at most what its user asked for.

    Without predictions it does nothing.
    """
    i = running.tally[0].running - 1 if len(predictions) > 0 else -1
    while i >= 0 and running.limits[i].time <= now:
        job = running.limits[i].job
        prediction = predictions[job]
        step = prediction.corrected
        if start[job] + asked[job] <= now:  # beyond what was asked for: counts as ending now, as everywhere
            i -= 1
            continue
        believed = asked[job]
        while step < len(CORRECTIONS):
            longer = min(prediction.first + CORRECTIONS[step], asked[job])
            step += 1
            if start[job] + longer > now:
                believed = longer
                break
        prediction.corrected = step
        estimate[job] = believed
        raise_limit(running, i, start[job] + believed)
