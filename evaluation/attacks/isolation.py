"""Singling out and inference for jobs, as anonymeter defines them.

The targets are real jobs: those of the fitted weeks, and as the control as many of the hold-out. Jobs of one week are
not independent, so weeks count, not jobs.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.spatial import cKDTree

from evaluation.attacks.distance import NO_HOLDOUT
from evaluation.attacks.rates import Count, Result
from evaluation.attacks.requests import requests
from evaluation.base import Score, Setting, absent
from evaluation.view import WEEK, Codes, Floats, View, weeks

WITHIN = 0.02  # of ln(run time): a predicate allows two per cent either way
NEAR_RUN = 0.05  # of ln(seconds): a guessed run time within a twentieth


class _OnJobs:
    """Common code: attack jobs of the fitted weeks, and as many of the hold-out."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of jobs"
    name: ClassVar[str]
    most: ClassVar[int]  # jobs of each group that are attacked

    def attacked(self, target: View, synth: View) -> np.ndarray:
        """Return which jobs of the target fall to the attack."""
        raise NotImplementedError

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Attack both groups."""
        key, holdout = f"privacy.{self.name}", setting.holdout
        if holdout is None:
            return {key: absent(NO_HOLDOUT)}
        if not all(view.has("run_time") and view.has(view.machine.unit) for view in (real, synth, holdout)):
            return {key: absent("needs sizes and run times")}
        most = min(len(real), len(holdout), self.most // (5 if setting.quick else 1))
        counts = []
        for view in (real, holdout):
            rows = np.sort(rng.permutation(len(view))[:most])
            hit = self.attacked(view.take(rows), synth)
            counts.append(Count.of(hit, weeks(view, view.submit)[rows]))
        return {key: Result(counts[0], counts[1], "the hold-out", "real jobs").score()}


class IsolatedJobs(_OnJobs):
    """privacy.isolated_jobs: share of real jobs that a synthetic job describes and no other real job fits.

    Predicate: the same size, the same limit, a run time within 2 %. One that exactly one job fits singles it out.
    """

    name = "isolated_jobs"
    most = 200_000

    def attacked(self, target: View, synth: View) -> np.ndarray:
        """Try the predicate of every synthetic job."""
        asked = np.concatenate([requests(target), requests(synth)])
        group = np.unique(asked, return_inverse=True)[1].astype(np.float64)
        run = np.concatenate([view.numbers["run_time"] for view in (target, synth)])
        place = group * 100.0 + np.log(np.maximum(run, 1.0))  # ln of any run time is far below 100
        mine, theirs = place[: len(target)], place[len(target) :]
        order = np.argsort(mine, kind="stable")
        ranked = mine[order]
        known = np.isfinite(theirs)
        low = np.searchsorted(ranked, theirs[known] - WITHIN, side="left")
        high = np.searchsorted(ranked, theirs[known] + WITHIN, side="right")
        hit = np.zeros(len(target), dtype=bool)
        hit[order[low[high - low == 1]]] = True
        return hit


class JobInference(_OnJobs):
    """privacy.inference_job: share of real jobs whose run time, within 5 %, is that of the nearest synthetic job.

    The attacker knows a job's size, limit and hour of the week.
    """

    name = "inference_job"
    most = 20_000

    def attacked(self, target: View, synth: View) -> np.ndarray:
        """Guess by the nearest synthetic job."""
        _, nearest = cKDTree(_known(synth)).query(_known(target), workers=-1)
        guess, truth = (np.log1p(np.maximum(view.numbers["run_time"], 0)) for view in (synth, target))
        return np.asarray(np.abs(guess[nearest] - truth) <= NEAR_RUN)


def _known(view: View) -> Floats:
    """Return what the attacker knows of each job: size and limit, and the hour of the week to tell equal ones apart."""
    hour: Floats | Codes = view.hour if view.hour is not None else (view.submit % WEEK) / 3600
    limit = view.numbers.get("req_time", np.full(len(view), np.nan))
    columns = [np.nan_to_num(np.log1p(np.maximum(part, 0)), nan=-1.0, posinf=-1.0) for part in (view.size, limit)]
    return np.column_stack([*columns, 0.01 * np.asarray(hour, dtype=np.float64) / 168])
