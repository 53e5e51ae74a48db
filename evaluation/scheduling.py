"""Scheduling fidelity: whether one would choose the same policy, and see the same waits, from the synthetic trace.

Both traces are cut into windows of consecutive jobs, each simulated on an empty machine of the real trace's size, by
the same engine that `tracekit simulate` uses. f1 … f4 depend on the submit time itself, so a synthetic window is moved
to where the real window of the same number starts. ``matched``: the synthetic trace's submit times are stretched so
that its offered load is the real one, which separates a wrong load from wrong behaviour under load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from evaluation.base import Score, Setting, absent
from evaluation.marginal import ks, w1
from evaluation.spreads import log_seconds
from evaluation.validity import OfferedLoad
from evaluation.view import Floats, View
from tracekit.machine import Machine
from tracekit.trace import Trace

POLICIES = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "f2", "f4")
BACKFILLS = ("none", "easy")
BOUND = 10.0  # seconds, of the bounded slowdown
_MIN_JOBS = 20  # in a window
_BINS = np.linspace(0.0, np.log1p(1e9), 400)


@dataclass(frozen=True)
class Simulated:
    """What the windows of one trace went through under one policy and backfill."""

    wait: list[Floats]  # one array of seconds a window
    slowdown: list[Floats]  # bounded, ≥ 1

    @cached_property
    def mean_slowdown(self) -> Floats:
        """Return each window's mean bounded slowdown, shape (windows,)."""
        return np.array([window.mean() for window in self.slowdown])


Runs = dict[tuple[str, str], Simulated]  # (policy, backfill) -> what happened


@dataclass(frozen=True)
class Job:
    """The jobs of a view that a scheduler can take, as it sees them; all of shape (jobs,)."""

    submit: Floats
    run: Floats
    limit: Floats
    size: Floats
    refused: int

    @classmethod
    def of(cls, view: View) -> Job:
        """Round sizes up to whole units; leave out jobs without a run time or size, or larger than the machine."""
        run, size = view.numbers["run_time"], np.ceil(view.size)
        limit = view.numbers.get("req_time", np.full(len(view), np.nan))
        with np.errstate(invalid="ignore"):
            fits = np.isfinite(run) & (run >= 0) & (size >= 1) & (size <= view.machine.capacity)
        limit = np.where(limit > 0, limit, np.nan)
        return cls(view.submit[fits], run[fits], limit[fits], size[fits], int((~fits).sum()))

    def window(self, start: int, count: int, begin: float, stretch: float) -> Job:
        """Return some consecutive jobs, the first submitted at ``begin`` and the others stretched after it."""
        part = slice(start, start + count)
        submit = begin + (self.submit[part] - self.submit[start]) * stretch
        return Job(submit, self.run[part], self.limit[part], self.size[part], 0)

    def trace(self, capacity: float) -> Trace:
        """Return the jobs as a trace of a machine of so many processors."""
        jobs = pd.DataFrame(
            {
                "job_id": np.arange(1, len(self.submit) + 1),
                "submit_time": self.submit,
                "run_time": self.run,
                "req_time": self.limit,
                "req_procs": pd.array(self.size.astype(np.int64), dtype="Int64"),
            }
        )
        return Trace(jobs, Machine(procs=int(capacity)))


def starts(jobs: int, setting: Setting) -> tuple[list[int], int]:
    """Return evenly spaced first positions of windows, and the jobs in each; they overlap only in short traces."""
    windows, most = setting.windows
    count = min(most, max(_MIN_JOBS, jobs // windows))
    return [int(p) for p in np.linspace(0, jobs - count, windows)], count


def run_windows(
    jobs: Job, begins: Floats | None, capacity: float, stretch: float, setting: Setting
) -> tuple[Runs, Floats]:
    """Simulate every window under every policy and backfill; return the runs and when each window begins."""
    from tracekit.sim.jobs import extract_jobs
    from tracekit.sim.metrics import bounded_slowdown
    from tracekit.sim.runs import Run, run_all
    from tracekit.sim.switches import Switches

    places, count = starts(len(jobs.submit), setting)
    begins = jobs.submit[places] if begins is None else begins
    switches = Switches(bound=BOUND)
    tables = [
        extract_jobs(jobs.window(place, count, begin, stretch).trace(capacity), switches)
        for place, begin in zip(places, begins, strict=True)
    ]
    kinds = [(policy, backfill) for backfill in BACKFILLS[1 if setting.quick else 0 :] for policy in POLICIES]
    results = iter(run_all(Run(part, policy, backfill, switches) for policy, backfill in kinds for part in tables))
    runs: Runs = {}
    for kind in kinds:
        done = [next(results) for _ in tables]
        runs[kind] = Simulated([r.wait for r in done], [bounded_slowdown(r.wait, r.run, BOUND) for r in done])
    return runs, begins


def tau(real: Runs, synth: Runs, picked: tuple[np.ndarray, np.ndarray] | None = None) -> float:
    """Return Kendall's τ-b between the rankings of policies by mean bounded slowdown, averaged over the backfills."""
    values = []
    for backfill in dict.fromkeys(b for _, b in real):
        means = []
        for side, runs in enumerate((real, synth)):
            table = np.array([runs[policy, backfill].mean_slowdown for policy in POLICIES])  # policies × windows
            means.append((table if picked is None else table[:, picked[side]]).mean(axis=1))
        if all(np.ptp(m) > 1e-12 for m in means):
            values.append(float(scipy_stats.kendalltau(*means).statistic))
    return round(float(np.mean(values)), 12) if values else float("nan")


class _Histograms:
    """Waits or slowdowns of every window in fine bins of ln(1 + x), so that resampling windows is cheap."""

    def __init__(self, runs: Runs, what: str) -> None:
        self.counts = np.array(
            [[np.histogram(log_seconds(window), _BINS)[0] for window in getattr(run, what)] for run in runs.values()],
            dtype=np.float64,
        )  # runs × windows × bins

    def cumulated(self, picked: np.ndarray) -> Floats:
        """Return the distribution functions, shape (runs, bins), of the picked windows together."""
        total = self.counts[:, picked].sum(axis=1)
        return np.asarray(np.cumsum(total, axis=1) / total.sum(axis=1, keepdims=True))


def compare(real: Runs, synth: Runs, prefix: str, note: str, times: int, rng: np.random.Generator) -> dict[str, Score]:
    """Return τ and the distances between waits and slowdowns, means over all runs, with intervals over windows."""
    windows = len(next(iter(real.values())).wait)
    draws = [(rng.integers(0, windows, windows), rng.integers(0, windows, windows)) for _ in range(times)]
    scores = {}
    value = tau(real, synth)
    if np.isnan(value):
        scores["kendall_tau"] = absent("no policy makes a difference: hardly any job waits", "higher")
    else:
        drawn = np.array([tau(real, synth, pick) for pick in draws])
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        low, high = min(float(low), value), max(float(high), value)
        scores["kendall_tau"] = Score(value, "higher", low=low, high=high, note=note)
    for what, short in (("wait", "wait"), ("slowdown", "bsld")):
        pooled = {key: [np.concatenate(getattr(runs[key], what)) for runs in (real, synth)] for key in real}
        bins = [_Histograms(runs, what) for runs in (real, synth)]
        gaps = np.array([np.abs(bins[0].cumulated(a) - bins[1].cumulated(b)) for a, b in draws])  # draws × runs × bins
        step = float(_BINS[1] - _BINS[0])
        for key, distances, spread in (
            (f"{short}_ks", {k: ks(a, b) for k, (a, b) in pooled.items()}, gaps.max(axis=2).mean(axis=1).std()),
            (
                f"log_{short}_w1",
                {k: w1(log_seconds(a), log_seconds(b)) for k, (a, b) in pooled.items()},
                (gaps.sum(axis=2) * step).mean(axis=1).std(),
            ),
        ):
            mean = float(np.mean(list(distances.values())))
            detail = {f"{policy}+{backfill}": distance for (policy, backfill), distance in distances.items()}
            half = 1.96 * float(spread)
            scores[key] = Score(mean, low=max(0.0, mean - half), high=mean + half, note=note, detail=detail)
    return {f"{prefix}.{key}": score for key, score in scores.items()}


class Scheduling:
    """scheduling.*: rankings of eight policies, waits and bounded slowdowns, with and without backfilling.

    kendall_tau: τ-b between the rankings, mean over none and easy. wait_ks, bsld_ks: KS distance; log_wait_w1,
    log_bsld_w1: W1 of ln(1 + x); each the mean over all policies × backfills. scheduling.matched.*: the same with the
    synthetic trace's load made equal to the real one. mean_wait: seconds under fcfs with easy.
    """

    name: ClassVar[str] = "scheduling"
    family: ClassVar[str] = "scheduling"
    unit: ClassVar[str] = "τ; share; ln seconds; seconds"
    resampled: ClassVar[bool] = False
    _done: ClassVar[WeakKeyDictionary[View, dict[bool, tuple[Runs, Floats]]]] = WeakKeyDictionary()

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Simulate both traces, at the raw load and at the real one."""
        capacity = real.machine.capacity
        keys = [
            f"scheduling.{middle}{key}"
            for middle in ("", "matched.")
            for key in ("kendall_tau", "wait_ks", "log_wait_w1", "bsld_ks", "log_bsld_w1")
        ]
        ours, theirs = Job.of(real), Job.of(synth)
        if not capacity >= 1 or min(len(ours.submit), len(theirs.submit)) < 2 * _MIN_JOBS:
            reason = f"fewer than {2 * _MIN_JOBS} jobs that a scheduler could run in one of the traces"
            scores = {key: absent(reason, "higher" if "tau" in key else "lower") for key in keys}
            return scores | {"scheduling.mean_wait": absent(reason, "real")}
        done = self._done.setdefault(real, {})
        if setting.quick not in done:
            done[setting.quick] = run_windows(ours, None, capacity, 1.0, setting)
        real_runs, begins = done[setting.quick]
        note = "; ".join(
            filter(None, [real.machine.note, f"{theirs.refused:,} synthetic jobs cannot run" if theirs.refused else ""])
        )
        synth_runs, _ = run_windows(theirs, begins, capacity, 1.0, setting)
        scores = compare(real_runs, synth_runs, "scheduling", note, setting.draws, rng)
        ours_w, theirs_w = (np.array([w.mean() for w in runs["fcfs", "easy"].wait]) for runs in (real_runs, synth_runs))
        half = 1.96 * float(np.sqrt((ours_w.var() + theirs_w.var()) / len(ours_w)))  # both are samples of windows
        mean = float(theirs_w.mean())
        scores["scheduling.mean_wait"] = Score(
            mean, "real", real=float(ours_w.mean()), low=max(0.0, mean - half), high=mean + half, note=note
        )
        loads = [OfferedLoad().measure(view)["offered_load"] for view in (real, synth)]
        if isinstance(loads[0], str) or isinstance(loads[1], str) or not min(loads[0], loads[1]) > 0:
            reason = "one of the traces offers no load that could be matched"
            return scores | {
                key: absent(reason, "higher" if "tau" in key else "lower") for key in keys if ".matched." in key
            }
        stretch = loads[1] / loads[0]
        matched, _ = run_windows(theirs, begins, capacity, stretch, setting)
        note = "; ".join(filter(None, [note, f"submit times stretched by {stretch:.3g}"]))
        return scores | compare(real_runs, matched, "scheduling.matched", note, setting.draws, rng)
