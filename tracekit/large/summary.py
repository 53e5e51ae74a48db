"""What `info` shows, from batches: the same numbers as `tracekit.stats.summary` of the whole trace.

Counts, extremes and quantiles are equal, and so are sums and means of whole numbers; those of fractions agree to 15
digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import stats
from tracekit.clusters import describe_groups
from tracekit.large.amounts import PASSES, Amount
from tracekit.large.runs import Runs
from tracekit.large.source import Source
from tracekit.machine import UNITS
from tracekit.schema import COLUMNS, SIZE_COLUMNS
from tracekit.trace import Trace
from tracekit.units import coverage, left_out

Floats = NDArray[np.float64]
#: What is described by mean, quantiles and maximum, and where it comes from.
AMOUNTS: dict[str, Callable[[Trace], Floats]] = {
    "run_time": lambda batch: batch.column("run_time"),
    "procs": lambda batch: batch.sizes(),
    "wait_time": lambda batch: batch.column("wait_time"),
    "req_time": lambda batch: batch.column("req_time"),
    "mean_watts": lambda batch: batch.column("mean_watts"),
}
_NEEDED = ("submit_time", "run_time", "wait_time", "req_time", "mean_watts", *SIZE_COLUMNS)


class Gaps:
    """The seconds between consecutive submits of batches that are in submit order; ``sorted`` tells if they are."""

    def __init__(self) -> None:
        self.last, self.sorted = np.nan, True

    def of(self, batch: Trace) -> Floats:
        """Return the gaps of a batch, the one before its first job included."""
        submit = batch.column("submit_time")
        submit = submit[np.isfinite(submit)]
        if not len(submit):
            return submit
        known = submit if np.isnan(self.last) else np.concatenate(([self.last], submit))
        gaps = np.diff(known)
        self.last = float(submit[-1])
        self.sorted = self.sorted and not (gaps < 0).any()
        return gaps


class Load:
    """The load of a trace, from its batches: work, first and last submit, last end."""

    def __init__(self) -> None:
        self.jobs, self.waits = 0, False
        self.work, self.submit, self.known, self.end = Amount(), Amount(), [np.inf, -np.inf], -np.inf

    def add(self, batch: Trace) -> None:
        """Take one batch."""
        submit, wait, run = (batch.column(name) for name in ("submit_time", "wait_time", "run_time"))
        self.jobs += len(batch)
        self.work.total += stats.work(batch).sum(dtype=np.longdouble)
        self.submit.add(submit)
        there = submit[~np.isnan(submit)]
        if len(there):
            self.known = [min(self.known[0], there.min()), max(self.known[1], there.max())]
        end = submit + np.where(wait > 0, wait, 0.0) + np.where(run > 0, run, 0.0)
        self.end = max(self.end, float(end[np.isfinite(end)].max(initial=-np.inf)))
        self.waits = self.waits or bool(np.isfinite(wait).any())

    def over(self, batches: Iterator[Trace]) -> Iterator[Trace]:
        """Yield the batches, taking each."""
        for batch in batches:
            self.add(batch)
            yield batch

    @property
    def span(self) -> float:
        """The seconds from the first to the last submit."""
        return self.submit.high - self.submit.low if self.submit.count else float("nan")

    @property
    def demand(self) -> float:
        """The mean number of units that would be busy if no job had to wait."""
        return float(self.work.total) / self.span if self.span > 0 else float("nan")

    def offered(self, size: int | None) -> float:
        """Return the offered load of a machine."""
        return self.demand / size if size else float("nan")

    def utilization(self, size: int | None) -> float:
        """Return the utilisation of a machine; the same rule as `tracekit.stats.utilization`."""
        if not size or not np.isfinite(self.end) or not self.end > self.submit.low:
            return float("nan")
        used = float(self.work.total) / (size * (self.end - self.submit.low))
        return used if used <= 1 or self.waits else float("nan")


class _Counts:
    """What is counted in the first pass."""

    def __init__(self) -> None:
        self.load = Load()
        self.users: set[str] = set()
        self.status: Any = 0
        self.missing = dict.fromkeys((column.name for column in COLUMNS), 0)
        self.covered = dict.fromkeys(UNITS, 0)
        self.left_out = 0

    def add(self, batch: Trace) -> None:
        jobs = batch.jobs
        self.load.add(batch)
        self.left_out += left_out(batch)
        for unit, count in coverage(batch).items():
            self.covered[unit] += count
        for name in self.missing:
            self.missing[name] += int(jobs[name].isna().sum()) if name in jobs.columns else len(batch)
        if "user" in jobs.columns:
            self.users.update(jobs["user"].cat.remove_unused_categories().cat.categories)
        if "status" in jobs.columns:
            self.status = self.status + jobs["status"].value_counts(sort=False)


def summary(source: Source) -> dict[str, Any]:
    """Return what `tracekit info` shows of a trace that is read in batches, in as many passes as quantiles need."""
    counts, made = _Counts(), {name: Amount(stats.QUANTILES.values()) for name in AMOUNTS}  # type: ignore[arg-type]
    gaps, in_order = Amount(tuple(stats.QUANTILES.values())), True
    for number in range(PASSES):
        between = Gaps()
        for batch in source.batches(_NEEDED if number else None):
            if not number:
                counts.add(batch)
            for name, amount in made.items():
                amount.add(AMOUNTS[name](batch))
            if in_order:
                gaps.add(between.of(batch))
        in_order = in_order and between.sorted
        for amount in (*made.values(), gaps):
            amount.next_pass()
    described = {name: _described(amount) for name, amount in {**made, "interarrival": gaps}.items()}
    if not in_order:
        described["interarrival"] = _described(_sorted_gaps(source))
    return _facts(source, counts, described)


def _sorted_gaps(source: Source) -> Amount:
    """Return the gaps of jobs that are not in submit order, which are sorted on disk."""
    gaps = Amount(tuple(stats.QUANTILES.values()))
    with TemporaryDirectory(prefix="tracekit-") as folder:
        runs = Runs(Path(folder))
        for batch in source.batches(["submit_time"]):
            submit = batch.column("submit_time")
            runs.add(submit[np.isfinite(submit)])
        for _ in range(PASSES):
            last = np.empty(0)
            for submit, _ in runs.blocks():
                gaps.add(np.diff(np.concatenate((last, submit))))
                last = submit[-1:]
            gaps.next_pass()
    return gaps


def _described(amount: Amount) -> dict[str, float] | None:
    """Return mean, quantiles and maximum as `tracekit.stats.describe` does."""
    if not amount.count:
        return None
    points = dict(zip(stats.QUANTILES, amount.quantiles(), strict=True))
    return {"mean": amount.mean, **points, "max": amount.high}


def _facts(source: Source, counts: _Counts, described: dict[str, Any]) -> dict[str, Any]:
    machine, load = source.machine, counts.load
    size, known = machine.size(), np.array(load.known)
    calendar = pd.DataFrame({"job_id": [1, 2], "submit_time": known, "run_time": np.nan, "req_procs": np.nan})
    ends = Trace(calendar, machine)
    first, last = (None, None)
    if load.known[0] <= load.known[1] and stats.has_calendar(ends):
        stamps = stats.local_times(ends)
        first, last = str(stamps.min()), str(stamps.max())
    status = counts.status.sort_values(ascending=False) if isinstance(counts.status, pd.Series) else pd.Series()
    return {
        "jobs": load.jobs,
        "users": len(counts.users) if counts.users else None,
        "machine": {
            "name": machine.name,
            "procs": machine.procs,
            "nodes": machine.nodes,
            "gpus": machine.gpus,
            "unit": machine.unit,
            "timezone": machine.timezone,
            "groups": describe_groups(machine.groups),
        },
        "covered": counts.covered,
        "left_out": counts.left_out,
        "first_submit": first,
        "last_submit": last,
        "span_s": stats.none_if_nan(load.span),
        "offered_load": stats.none_if_nan(load.offered(size)),
        "utilization": stats.none_if_nan(load.utilization(size)),
        "mean_demand": stats.none_if_nan(load.demand),
        "run_time": described["run_time"],
        "procs": described["procs"],
        "interarrival": described["interarrival"],
        "wait_time": described["wait_time"],
        "req_time": described["req_time"],
        "mean_watts": described["mean_watts"],
        "status": {str(word): int(count) for word, count in status.items() if count},
        "missing": {name: count / load.jobs if load.jobs else 1.0 for name, count in counts.missing.items()},
        "history": list(source.history),
    }
