"""Before a run: what it costs, and which differences it can tell, from a pilot on the real jobs alone.

The pilot sees how much two agents differ from window to window when nothing is wrong with what they learnt from, and,
where learning is cheap, how much halves of the real training jobs differ, as the run will. It sees the held-out
windows, but no model, so it cannot favour one (a blinded re-estimation of the sample size; Friede & Kieser, Stat. Med.
25, 2006).
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from evaluation.experiment.grid import OWN_METRICS, Plan
from evaluation.experiment.halves import halves
from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.prepared import Study
from evaluation.experiment.results import by_window
from evaluation.experiment.study import prepare
from evaluation.experiment.uses import Use
from evaluation.experiment.verdict import POWER, between_halves, estimate, spent
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Pairs of halves in the pilot, at most, and of which learners: seconds of one training.
PAIRS, CHEAP = 4, 10.0


def dry_run(plan: Plan, folder: str | Path, real: Trace | None = None, *, slots: int = 1) -> dict[str, Any]:
    """Return what a run would do (``tasks``, one row a kind), and what it could tell (``power``, one row a learner).

    Nothing is written into the run's folder.
    """
    with tempfile.TemporaryDirectory(prefix="tracekit-plan-") as scratch:
        study = prepare(plan, Path(folder), real, data=Path(scratch) / "data")
        rows: dict[str, dict[str, Any]] = {}
        for task in study.grid.tasks():
            row = rows.setdefault(task.kind, {"kind": task.kind, "tasks": 0, "done": 0, "seconds": 0.0})
            row["tasks"] += 1
            if study.store.result(task.key) is not None:
                row["done"] += 1
            else:
                row["seconds"] += task.cost / slots
        power = [_power(study, use, Path(scratch), slots) for use in study.uses]
        return {"tasks": list(rows.values()), "power": power}


def _power(study: Study, use: Use, scratch: Path, slots: int) -> dict[str, Any]:
    """Return the smallest difference that is found in four of five runs, and the chance to show that there is none."""
    own = use.metric in OWN_METRICS
    pairs = min(study.plan.verdict.halves, PAIRS) if use.seconds <= CHEAP else 0
    gaps = _between_halves(study, use, scratch, max(pairs, int(own))) if pairs or own else np.zeros((0, 0))
    parts = between_halves(gaps) if pairs else None
    if own:  # a half has twice the variance of all jobs
        basis, differences = "halves of the training jobs", gaps[np.argsort(gaps.var(axis=1))[len(gaps) // 2]]
        differences = (differences - differences.mean()) / math.sqrt(2)
    else:
        basis, differences = _between_heuristics(study, use)
    verdict = study.plan.verdict
    found = estimate(differences[None, None, :], draws=verdict.draws, seed=study.plan.seed, parts=parts)
    alpha = spent(verdict.alpha, verdict.looks, verdict.looks)
    quantile, other = scipy_stats.t(found.freedom), scipy_stats.t(found.other_freedom)
    needed = found.other_error * float(other.ppf(1 - alpha) + other.ppf(POWER))
    room = math.log1p(use.margin) / found.error if found.error > 0 else math.inf
    return {
        "learner": use.learner,
        "metric": use.metric,
        "margin": use.margin,
        "windows": len(differences),
        "windows_independent": found.independent,
        "detectable": math.expm1(needed),
        "equivalence_power": max(0.0, 2 * float(quantile.cdf(room - quantile.ppf(1 - alpha))) - 1),
        "real_parts_differ": math.expm1(math.sqrt(found.parts)) if pairs else None,
        "basis": basis,
        "seconds": sum(a.train.cost + a.evaluate.cost for a in study.grid.agents if a.learner == use.learner) / slots,
    }


def _between_halves(study: Study, use: Use, scratch: Path, pairs: int) -> Floats:
    """Return the differences of agents that learnt from two halves of the training jobs, (pairs, windows)."""
    learner = LEARNERS.get(use.learner)()
    heldout, logs = Heldout.of(study.parts.test, study.windows), []
    for number, (name, half) in enumerate(halves(study.parts.train, pairs, study.plan.seed)):
        folder = scratch / f"{use.learner}-{name}"
        jobs = schedulable(half, study.plan.hosts.get("allocate"))
        learner.train(
            jobs, folder, config=use.config, backfill=study.plan.windows.backfill, seed=number // 2, untrained=False
        )
        logs.append(by_window(learner.play(folder, heldout), use.metric, use.loads))
    sides = np.array(logs).reshape(pairs, 2, -1)
    return np.asarray(sides[:, 1] - sides[:, 0])


def _between_heuristics(study: Study, use: Use) -> tuple[str, Floats]:
    """Return the differences of the two heuristics that are best on windows of the training jobs."""
    windows = study.plan.windows
    jobs = schedulable(study.parts.train, study.plan.hosts.get("allocate"))
    earlier = {**study.windows, "starts": starts(len(jobs), windows.count, windows.jobs)}
    means = {
        policy: float(by_window(Heldout.of(jobs, earlier).play(policy), use.metric, use.loads).mean())
        for policy in windows.heuristics
    }
    best = sorted(means, key=lambda policy: means[policy])[:2]
    test = Heldout.of(study.parts.test, study.windows)
    sides = [by_window(test.play(policy), use.metric, use.loads) for policy in best]
    return " against ".join(best), np.asarray(sides[-1] - sides[0])
