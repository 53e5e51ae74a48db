"""Privacy of jobs without a hold-out: attacks that find the slightly changed real trace in the synthetic one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evaluation.attacks.distance import row_keys
from evaluation.attacks.rates import Count, Result
from evaluation.base import Score, Setting, absent
from evaluation.joint import shared_labels, shared_numbers
from evaluation.view import Codes, View, weeks

FEWEST_JOBS = 100
PEOPLE = ("user", "group", "project", "app")
TOLERANCE = 0.05  # of the run time, or one second


class InStep:
    """privacy.in_step: share of jobs with the size and run time (within 5 %) of the real job at the same position.

    Both traces are taken in submit order, so shuffled rows and shifted dates have no effect. The control is the same
    share after shuffling the real jobs.
    """

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of jobs"
    name: ClassVar[str] = "in_step"

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare job by job, up to the length of the shorter trace."""
        count = min(len(real), len(synth))
        (size, run), (other, time) = (
            (v.size[:count], v.numbers.get("run_time", np.empty(0))[:count]) for v in (real, synth)
        )
        if count < FEWEST_JOBS or not all(np.isfinite(part).any() for part in (size, run, other, time)):
            return {"privacy.in_step": absent(f"needs {FEWEST_JOBS} jobs with size and run time in both traces")}

        week = weeks(synth, synth.submit)[:count]

        def alike(order: np.ndarray) -> Count:
            near = np.abs(run[order] - time) <= np.maximum(TOLERANCE * run[order], 1.0)
            return Count.of(near & (size[order] == other), week)

        found, chance = alike(np.arange(count)), alike(rng.permutation(count))
        return {"privacy.in_step": Result(found, chance, "the real jobs shuffled", "jobs").score()}


class SameNumbers:
    """privacy.same_numbers: share of synthetic jobs that equal a real one in every number, labels of people aside.

    The control is the share that equals one of as many hold-out jobs: short jobs of one processor equal each other
    anyway. Without a hold-out it is the share of real jobs that equal a real job of another week.
    """

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of jobs"
    name: ClassVar[str] = "same_numbers"

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Search for every synthetic job among the real ones, and for every real job among those of other weeks."""
        numbers = shared_numbers(real, synth)
        if not numbers:
            return {"privacy.same_numbers": absent("the two traces have no numeric column in common")}
        labels = [name for name in shared_labels(real, synth) if name not in PEOPLE]
        ours, theirs = row_keys([real, synth], numbers, labels)
        over = f"over {', '.join(numbers + labels)}"
        week, theirs_week = weeks(real, real.submit), weeks(synth, synth.submit)
        holdout = setting.holdout
        if holdout is None or not all(map(holdout.has, [*numbers, *labels])):
            found, control = Count.of(np.isin(theirs, ours), theirs_week), Count.of(_in_other_weeks(ours, week), week)
            source = f"real jobs that equal one of another week; {over}"
            return {"privacy.same_numbers": Result(found, control, source, "synthetic jobs").score()}
        fresh = row_keys([holdout], numbers, labels)[0]
        rows = min(len(ours), len(fresh))
        found, control = (
            Count.of(np.isin(theirs, rng.permutation(part)[:rows]), theirs_week) for part in (ours, fresh)
        )
        source = f"the same jobs and as many hold-out jobs; {over}"
        return {"privacy.same_numbers": Result(found, control, source, "synthetic jobs").score()}


def _in_other_weeks(keys: NDArray[np.uint64], week: Codes) -> NDArray[np.bool_]:
    """Return for each job whether a job of another week has the same key."""
    _, code = np.unique(keys, return_inverse=True)
    low, high = np.full(code.max() + 1, week.max()), np.zeros(code.max() + 1, dtype=np.int64)
    np.minimum.at(low, code, week)
    np.maximum.at(high, code, week)
    return np.asarray(low[code] != high[code])
