"""Numbers about one trace: load, utilisation, sizes, users, quantiles, use over time.

Pure functions; NaN means unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import describe_groups
from tracekit.schema import COLUMNS
from tracekit.trace import Trace
from tracekit.units import coverage, left_out

Floats = NDArray[np.float64]

#: A calendar before 1980 means that the epoch is a placeholder (``UnixStartTime: 0``), not a date.
_OLDEST_LOG = 315_532_800.0
_LATEST_DATE = 9.2e9  # Unix seconds, in 2261; dates in nanoseconds end in 2262

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def span(trace: Trace) -> float:
    """Return the seconds from the first to the last submit; NaN for an empty trace."""
    submit = trace.column("submit_time")
    submit = submit[np.isfinite(submit)]
    return float(submit.max() - submit.min()) if len(submit) else float("nan")


def work(trace: Trace) -> Floats:
    """Return each job's size × run time in unit-seconds; a job with either unknown or negative counts as 0."""
    size, run = trace.sizes(), trace.column("run_time")
    return np.where((size > 0) & (run > 0), size * run, 0.0)


def mean_demand(trace: Trace) -> float:
    """Return the mean number of units that would be busy if no job had to wait; NaN if all arrive at once."""
    seconds = span(trace)
    return float(work(trace).sum() / seconds) if seconds > 0 else float("nan")


def offered_load(trace: Trace) -> float:
    """Return Σ size·run / (machine size · (last − first submit)); NaN when the machine's size is unknown."""
    size = trace.machine.size()
    return mean_demand(trace) / size if size else float("nan")


def utilization(trace: Trace) -> float:
    """Return Σ size·run / (machine size · (last end − first submit)); an unknown wait counts as none.

    Without any waits the end times are estimates; NaN if these would use more than the machine.
    """
    size, submit = trace.machine.size(), trace.column("submit_time")
    wait, run = trace.column("wait_time"), trace.column("run_time")
    end = submit + np.where(wait > 0, wait, 0.0) + np.where(run > 0, run, 0.0)
    end, submit = end[np.isfinite(end)], submit[np.isfinite(submit)]
    if not size or not len(end) or end.max() <= submit.min():
        return float("nan")
    used = float(work(trace).sum() / (size * (end.max() - submit.min())))
    return used if used <= 1 or np.isfinite(wait).any() else float("nan")


def has_calendar(trace: Trace) -> bool:
    """Return whether submit times can be read as dates: all that are known, from 1980 on and before 2261."""
    epoch, submit = trace.machine.epoch, trace.column("submit_time")
    known = submit[~np.isnan(submit)]
    if epoch is None or not len(known):
        return False
    return is_date(epoch + known.min()) and is_date(epoch + known.max())


def is_date(seconds: float) -> bool:
    """Return whether Unix seconds lie in the years of job logs: from 1980 on and before 2261."""
    return bool(_OLDEST_LOG < seconds < _LATEST_DATE)


def local_times(trace: Trace) -> pd.DatetimeIndex:
    """Return the submit times in the machine's time zone (UTC if unknown)."""
    seconds = np.floor(trace.column("submit_time") + (trace.machine.epoch or 0.0))
    seconds = np.where(np.abs(seconds) < _LATEST_DATE, seconds, np.nan)
    stamps = pd.DatetimeIndex(pd.to_datetime(seconds, unit="s", utc=True))
    return stamps.tz_convert(trace.machine.timezone or "UTC")


def hour_of_week(trace: Trace) -> NDArray[np.int64]:
    """Return each job's local hour of the week, 0 = Monday midnight … 167; only for traces with a calendar."""
    stamps = local_times(trace)
    return (stamps.day_of_week * 24 + stamps.hour).to_numpy().astype(np.int64)


def kinds(trace: Trace) -> NDArray[np.int64]:
    """Return each job's kind as a code: same size and same limit (or run time to a factor 1.1 without limits)."""
    limit, run = trace.column("req_time"), trace.column("run_time")
    length = limit if np.isfinite(limit).mean() > 0.5 else np.round(np.log(np.maximum(run, 1.0)) / np.log(1.1))
    table = pd.DataFrame({"size": np.nan_to_num(trace.sizes(), nan=-1), "length": np.nan_to_num(length, nan=-1)})
    return np.asarray(table.groupby(["size", "length"], sort=False).ngroup().to_numpy(), dtype=np.int64)


def steps(begin: Floats, end: Floats, amount: Floats | None = None) -> tuple[Floats, Floats]:
    """Return a sum of overlapping intervals as steps: (times, level from each time to the next).

    With start, end and processors that is the machine's usage, which power and energy are integrals of; with submit
    and start, the length of the queue. Between two times nothing changes; the last level is 0.
    """
    amount = np.ones(len(begin)) if amount is None else amount.astype(np.float64)
    times, where = np.unique(np.concatenate((begin, end)), return_inverse=True)
    change = np.bincount(where, weights=np.concatenate((amount, -amount)), minlength=len(times))
    return times, np.cumsum(change)


def binned(times: Floats, level: Floats, edges: Floats) -> Floats:
    """Return the time-average of a step function over each bin: ``level[i]`` holds from ``times[i]`` on, 0 before."""
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    at_edges = np.interp(edges, times, area)
    return np.diff(at_edges) / np.diff(edges)


def queue_met(submit: Floats, start: Floats) -> Floats:
    """Return how many jobs were waiting when each job was submitted, itself not counted."""
    times, level = steps(submit, start)
    before = np.searchsorted(times, submit, side="left") - 1
    return np.where(before >= 0, level[np.maximum(before, 0)], 0.0)


def describe(values: Floats) -> dict[str, float] | None:
    """Return mean, median, p90, p99 and maximum of the known values, or None if there are none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    mean, most = float(known.mean()), float(known.max())
    points = np.quantile(known, list(QUANTILES.values()), overwrite_input=True)  # `known` is a copy
    return {"mean": mean, **dict(zip(QUANTILES, map(float, points), strict=True)), "max": most}


def summary(trace: Trace) -> dict[str, Any]:
    """Return what `tracekit info` shows; None for what cannot be computed."""
    machine = trace.machine
    missing = {
        c.name: float(trace.jobs[c.name].isna().mean()) if c.name in trace.jobs.columns and len(trace) else 1.0
        for c in COLUMNS
    }
    first, last = (None, None)
    if has_calendar(trace):
        stamps = local_times(trace)
        first, last = str(stamps.min()), str(stamps.max())
    return {
        "jobs": len(trace),
        "users": int(trace.jobs["user"].nunique()) if trace.has("user") else None,
        "machine": {
            "name": machine.name,
            "procs": machine.procs,
            "nodes": machine.nodes,
            "gpus": machine.gpus,
            "unit": machine.unit,
            "timezone": machine.timezone,
            "groups": describe_groups(machine.groups),
        },
        "covered": coverage(trace),
        "left_out": left_out(trace),
        "first_submit": first,
        "last_submit": last,
        "span_s": none_if_nan(span(trace)),
        "offered_load": none_if_nan(offered_load(trace)),
        "utilization": none_if_nan(utilization(trace)),
        "mean_demand": none_if_nan(mean_demand(trace)),
        "run_time": describe(trace.column("run_time")),
        "procs": describe(trace.sizes()),
        "interarrival": describe(trace.interarrival()),
        "wait_time": describe(trace.column("wait_time")),
        "req_time": describe(trace.column("req_time")),
        "mean_watts": describe(trace.column("mean_watts")),
        "status": {str(k): int(v) for k, v in trace.jobs["status"].value_counts().items() if v}
        if trace.has("status")
        else {},
        "missing": missing,
        "history": list(trace.history),
    }


def none_if_nan(value: float) -> float | None:
    """Return None for NaN, which JSON cannot hold."""
    return None if np.isnan(value) else value
