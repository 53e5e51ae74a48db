"""How good a predictor is: its error on jobs that it has not seen, and what its predictions do to waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.history import FEATURES
from tracekit.sim.predict.predictor import Predictor
from tracekit.sim.predict.training import A_DAY
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import PREDICT_FOR, Switches
from tracekit.sim.windows import Span, spans
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: What a predictor is compared with; a job without what they need falls back to the next one, then to a day.
BASELINES = ("limit", "last-two", "user mean")
#: What is reported of every schedule.
SHOWN = ("mean_bsld", "mean_wait_s", "p95_bsld", "utilization")


def fingerprint_of(trace: Trace) -> str:
    """Return the SHA-256 of a trace's jobs as the simulator sees them."""
    return fingerprint(extract_jobs(trace, Switches()))


def split_of(trace: Trace, share: float) -> tuple[Span, Span]:
    """Return the positions to train on, the first ``share`` in time, and the later ones."""
    first, second = spans(trace.column("submit_time"), (share, 1 - share))
    return first, second


def later_jobs(predictor: Predictor, trace: Trace) -> tuple[Span, str]:
    """Return the jobs that a predictor has not seen, and which they are: the later ones of its own trace, or all."""
    learnt = predictor.facts.get("trace", {})
    if learnt.get("fingerprint") != fingerprint_of(trace):
        return (0, len(trace)), "all jobs of another trace than the training's"
    first = int(learnt["jobs"])
    if first >= len(trace):
        raise TracekitError("the agent was trained on all jobs of this trace; evaluate it on another one")
    return (first, len(trace)), f"the {len(trace) - first:,} jobs after those of the training"


def baselines(seen: Floats, limit: Floats) -> dict[str, Floats]:
    """Return the predictions, (jobs,) in seconds, that need no training; none is above the limit."""
    cap = np.where(limit > 0, np.maximum(limit, 1.0), np.nan)
    found = {"limit": np.nan_to_num(cap, nan=A_DAY)}
    for name, feature in (("last-two", "user_last_two"), ("user mean", "user_mean")):
        mean = np.exp(seen[:, FEATURES.index(feature)])
        found[name] = np.fmin(np.where(np.isnan(mean), found["limit"], mean), cap)
    return found


def ln_errors(predicted: Floats, run: Floats) -> Floats:
    """Return ln predicted − ln run time, (jobs,); shorter run times than a second count as one."""
    return np.asarray(np.log(predicted) - np.log(np.maximum(run, 1.0)))


def errors(predictor: Predictor, trace: Trace, part: Span) -> dict[str, dict[str, float]]:
    """Return the errors of a predictor and of the baselines on a part of a trace, by name, in ln seconds.

    ``error`` is the mean of |ln predicted − ln run|, ``bias`` the mean of the difference, ``outlived`` the share of
    jobs that ran longer than predicted.
    """
    first, last = part
    seen = features_of(trace)[first:last]
    run, limit = (trace.column(name)[first:last] for name in ("run_time", "req_time"))
    known = (run >= 0) & np.isfinite(trace.column("submit_time")[first:last])
    if not known.any():
        raise TracekitError("no job with a run time is left to evaluate the predictions on")
    seen, run, limit = seen[known], run[known], limit[known]
    predictions = {"agent": predictor.seconds(seen, limit, predictor.order)} | baselines(seen, limit)
    found = {}
    for name, predicted in predictions.items():
        gaps = ln_errors(predicted, run)
        found[name] = {
            "error": float(np.abs(gaps).mean()),
            "bias": float(gaps.mean()),
            "outlived": float((run > predicted).mean()),
            "jobs": len(run),
        }
    return found


def waits(
    folder: str, trace: Trace, part: Span, policies: Sequence[str], backfills: Sequence[str]
) -> list[dict[str, Any]]:
    """Return what a schedule of a part of a trace is like by limits, predictions and true run times, one row each."""
    agent = f"agent:{folder.removeprefix('agent:')}"
    ways: list[tuple[str, Mapping[str, str]]] = [("limits", {})]
    for name, predict in (("last-two", "last-two"), ("agent", agent)):
        ways += [(f"{name}, {use}", {"predict": predict, "predict_for": use}) for use in PREDICT_FOR]
    ways.append(("true run times", {"estimates": "actual"}))
    jobs = extract_jobs(trace, Switches()).window(part[0], part[1] - part[0])
    plan = [(policy, backfill, way) for policy in policies for backfill in backfills for way in ways]
    made = run_all(
        [Run(jobs, policy, backfill, Switches(**way[1])) for policy, backfill, way in plan]  # type: ignore[arg-type]
    )
    return [
        {"policy": policy, "backfill": backfill, "estimates": way[0], **{key: result.metrics[key] for key in SHOWN}}
        for (policy, backfill, way), result in zip(plan, made, strict=True)
    ]
