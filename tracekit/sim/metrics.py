"""Metrics of a schedule: pure functions of arrays. Times in seconds, arrays of shape (jobs,), one entry per job.

Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001; fairness: Jain, Chiu & Hawe,
"A quantitative measure of fairness", DEC TR-301, 1984.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.stats import steps as steps

Floats = NDArray[np.float64]

#: Jobs that are looked at together where memory would grow with their number.
_PART = 1_000_000
#: Metrics of comparisons; all are better when lower, except the utilisation.
COMPARED = ("mean_wait_s", "mean_bsld", "p95_bsld", "utilization", "makespan_s")
#: Classes of `by_class`: upper bounds, inclusive; sizes as shares of the machine, lengths in seconds.
SIZE_CLASSES: tuple[tuple[str, float], ...] = (("small", 0.01), ("medium", 0.1), ("large", np.inf))
LENGTH_CLASSES: tuple[tuple[str, float], ...] = (("short", 600.0), ("middle", 4 * 3600.0), ("long", np.inf))


def wait(submit: Floats, start: Floats) -> Floats:
    """Return the seconds from submit to start."""
    return start - submit


def response(submit: Floats, start: Floats, run: Floats) -> Floats:
    """Return the seconds from submit to end."""
    return start - submit + run


def slowdown(waits: Floats, run: Floats) -> Floats:
    """Return (wait + run) / run; infinite for a job of no length that had to wait, 1 for one that had not."""
    total = waits + run
    return np.divide(total, run, out=np.where(total > 0, np.inf, 1.0), where=run > 0)


def bounded_slowdown(waits: Floats, run: Floats, bound: float = 10.0, procs: Floats | None = None) -> Floats:
    """Return max(1, (wait + run) / max(run, bound)); with ``procs``, per processor: the quotient divided by them.

    >>> bounded_slowdown(np.array([0.0, 90.0]), np.array([5.0, 10.0]))
    array([ 1., 10.])
    """
    quotient = waits + run
    quotient /= np.maximum(run, bound)
    if procs is not None:
        quotient /= procs
    return np.maximum(1.0, quotient, out=quotient)


def utilization(
    submit: Floats, start: Floats, run: Floats, procs: Floats, total: float, *, to_last_start: bool = False
) -> float:
    """Return used processor-seconds / (total × (last end − first submit)); NaN when that span is empty."""
    if not len(start):
        return float("nan")
    last = start.max() if to_last_start else (start + run).max()
    span = last - submit.min()
    return float((run * procs).sum() / (total * span)) if span > 0 else float("nan")


def makespan(submit: Floats, start: Floats, run: Floats) -> float:
    """Return the seconds from the first submit to the last end; NaN without jobs."""
    return float((start + run).max() - submit.min()) if len(start) else float("nan")


def queue_length(submit: Floats, start: Floats) -> tuple[float, int]:
    """Return the time-average over [first submit, last start] and the maximum of the number of waiting jobs."""
    if not len(start):
        return 0.0, 0
    span = max(start.max(), submit.max()) - min(start.min(), submit.min())
    if not span > 0:
        return 0.0, 0
    return float((start - submit).sum() / span), _most_waiting(submit, start)


def _most_waiting(submit: Floats, start: Floats) -> int:
    """Return the maximum of the number of waiting jobs; the same as that of `steps`, in less memory."""
    submitted = submit if np.all(submit[1:] >= submit[:-1]) else np.sort(submit)
    started, most = np.sort(start), 0
    for first in range(0, len(submit), _PART):  # it is reached when a job has just been submitted
        times = submitted[first : first + _PART]
        waiting = np.searchsorted(submitted, times, side="right") - np.searchsorted(started, times, side="right")
        most = max(most, int(waiting.max()))
    return most


def jain(values: Floats) -> float:
    """Return Jain's index (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has everything; NaN without values.

    >>> jain(np.array([2.0, 2.0])), jain(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    squares = float((values**2).sum())
    return float(values.sum() ** 2 / (len(values) * squares)) if squares > 0 else float("nan")


def per_user(values: Floats, user: NDArray[np.int64]) -> Floats:
    """Return the mean of ``values`` for each user that has jobs; jobs of unknown user (−1) are left out."""
    known = user >= 0
    if not known.all():
        user, values = user[known], values[known]
    counts = np.bincount(user)
    sums = np.bincount(user, weights=values)
    return sums[counts > 0] / counts[counts > 0]


def fairness(values: Floats, user: NDArray[np.int64]) -> dict[str, float]:
    """Return the mean and the maximum over users of each user's mean, and Jain's index of those means."""
    means = per_user(values, user)
    if not len(means):
        return {"user_mean": float("nan"), "user_max": float("nan"), "jain": float("nan")}
    return {"user_mean": float(means.mean()), "user_max": float(means.max()), "jain": jain(means)}


def by_class(values: Floats, procs: Floats, run: Floats, total: float) -> dict[str, dict[str, float]]:
    """Return jobs and mean of ``values`` by class of size × length, e.g. ``small/long``; empty classes are left out."""
    size_class = _class_of(procs / total, SIZE_CLASSES)
    length_class = _class_of(run, LENGTH_CLASSES)
    found: dict[str, dict[str, float]] = {}
    for i, (size, _) in enumerate(SIZE_CLASSES):
        for j, (length, _) in enumerate(LENGTH_CLASSES):
            rows = (size_class == i) & (length_class == j)
            if rows.any():
                found[f"{size}/{length}"] = {"jobs": int(rows.sum()), "mean": float(values[rows].mean())}
    return found


def _class_of(values: Floats, classes: tuple[tuple[str, float], ...]) -> NDArray[np.int8]:
    return np.searchsorted([edge for _, edge in classes], values).astype(np.int8)


def measured(submit: Floats, warmup: tuple[float, float], cooldown: tuple[float, float]) -> NDArray[np.bool_]:
    """Return which jobs count: all but the first and the last, each cut given as (share of the jobs, seconds).

    Shares go by the order of submit (ties by row); seconds from the first submit on, and up to the last.
    """
    count = len(submit)
    if not any((*warmup, *cooldown)):
        return np.ones(count, dtype=bool)
    place = np.empty(count, np.int64)
    place[np.argsort(submit, kind="stable")] = np.arange(count)
    keep: NDArray[np.bool_] = (place >= np.floor(warmup[0] * count)) & (place < count - np.floor(cooldown[0] * count))
    if count:
        keep &= (submit >= submit.min() + warmup[1]) & (submit <= submit.max() - cooldown[1])
    return keep


def _within(begin: Floats, end: Floats, first: float, last: float) -> Floats:
    """Return the seconds of each [begin, end) that lie in [first, last)."""
    inside: Floats = np.maximum(np.minimum(end, last) - np.maximum(begin, first), 0.0)
    return inside


def all_of(
    submit: Floats,
    start: Floats,
    run: Floats,
    procs: Floats,
    user: NDArray[np.int64],
    total: float,
    *,
    bound: float = 10.0,
    to_last_start: bool = False,
    warmup: tuple[float, float] = (0.0, 0.0),
    cooldown: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Any]:
    """Return every metric of one schedule by name; the keys that the command line prints come first.

    With a warm-up or cool-down the jobs submitted then are left out. Utilisation and the length of the queue are then
    those of the machine, with every job that is present, from the first submit that counts to the first that no longer
    does (the last end where nothing is cut).
    """
    keep = measured(submit, warmup, cooldown)
    if keep.all():
        return _all_of(submit, start, run, procs, user, total, bound=bound, to_last_start=to_last_start)
    found = _all_of(
        submit[keep], start[keep], run[keep], procs[keep], user[keep], total, bound=bound, to_last_start=to_last_start
    )
    if keep.any():
        first, newest = float(submit[keep].min()), submit[keep].max()
        after = submit[~keep & (submit >= newest)]
        last = float(after.min()) if len(after) else float((start + run)[keep].max())
        if last > first:
            used = (_within(start, start + run, first, last) * procs).sum()
            found["utilization"] = float(used / (total * (last - first)))
            found["mean_queue_length"] = float(_within(submit, start, first, last).sum() / (last - first))
    return found | {"measured_jobs": int(keep.sum())}


def _all_of(
    submit: Floats,
    start: Floats,
    run: Floats,
    procs: Floats,
    user: NDArray[np.int64],
    total: float,
    *,
    bound: float,
    to_last_start: bool,
) -> dict[str, Any]:
    waits = wait(submit, start)
    bsld = bounded_slowdown(waits, run, bound)
    queue_mean, queue_max = queue_length(submit, start)
    some = len(start) > 0
    nan = float("nan")
    return {
        "mean_wait_s": float(waits.mean()) if some else nan,
        "mean_bsld": float(bsld.mean()) if some else nan,
        "p95_bsld": float(np.quantile(bsld, 0.95)) if some else nan,
        "utilization": utilization(submit, start, run, procs, total, to_last_start=to_last_start),
        "makespan_s": makespan(submit, start, run),
        "median_wait_s": float(np.median(waits)) if some else nan,
        "max_wait_s": float(waits.max()) if some else nan,
        "mean_response_s": float((waits + run).mean()) if some else nan,
        "mean_slowdown": float(slowdown(waits, run).mean()) if some else nan,
        "mean_bsld_per_processor": float(bounded_slowdown(waits, run, bound, procs).mean()) if some else nan,
        "mean_queue_length": queue_mean,
        "max_queue_length": queue_max,
        "fairness_bsld": fairness(bsld, user),
        "fairness_wait": fairness(waits, user),
        "bsld_by_class": by_class(bsld, procs, run, total),
    }
