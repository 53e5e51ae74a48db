"""What fitting the Lublin–Feitelson model needs of the jobs, counted batch by batch.

Memory grows with the different sizes, limits and cells of run times (2 % wide), not with the jobs. Counts are whole
numbers, and sums are added up as numpy adds all jobs at once: the fit does not depend on the batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.in_order import InOrder
from generators.lublin_model import BUCKET, BUCKETS, DAY, Floats, JobType, day_weights, to_busy
from tracekit import stats
from tracekit.errors import TracekitError
from tracekit.large.amounts import PASSES, Amount, Total
from tracekit.schema import SIZE_COLUMNS, STATUSES
from tracekit.trace import Trace

#: A limit counts as reached from this many seconds below it on: schedulers look only once in a while.
REACHED_WITHIN = 60.0
#: Width of the cells of ln(run), and more cells than there are of one size.
CELL, CELLS = 0.02, 100_000
#: Columns that are looked at.
COLUMNS = ("submit_time", "run_time", "req_time", "status", *SIZE_COLUMNS)


@dataclass
class Distinct:
    """How often each value occurs; both of shape (values,), by value."""

    values: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, values: NDArray[Any]) -> None:
        """Count some more."""
        fresh, count = np.unique(values, return_counts=True)
        if not len(self.values):
            self.values, self.counts = fresh, count
            return
        both, place = np.unique(np.concatenate([self.values, fresh]), return_inverse=True)
        counts = np.zeros(len(both), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, count]))
        self.values, self.counts = both, counts


def known_jobs(jobs: InOrder) -> Iterator[Trace]:
    """Yield the jobs of known size and run time.

    Jobs that use none of the scheduled resource (e.g. no GPU), or of unknown size, are not part of this model.
    """
    for batch in jobs.batches():
        size, run = batch.sizes(), batch.column("run_time")
        known = (size >= 1) & (run >= 0) & np.isfinite(size) & np.isfinite(run)
        if known.any():
            yield batch if known.all() else batch.take(known)


@dataclass
class Look:
    """The first look: how many jobs there are, what divides all sizes, when they begin, which columns have values."""

    jobs: int = 0
    grain: int = 0
    first: float = np.nan
    last: float = np.nan
    midnight: float = np.nan
    calendar: bool = False
    columns: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, jobs: InOrder) -> Look:
        """Look at the jobs once."""
        look, head = cls(), None
        for batch in known_jobs(jobs):
            head = head or batch.take([0])
            look.jobs += len(batch)
            look.grain = int(np.gcd(look.grain, np.gcd.reduce(np.round(batch.sizes()).astype(np.int64))))
            look.last = float(batch.column("submit_time")[-1])
            look.columns |= {name for name in COLUMNS if name not in look.columns and batch.has(name)}
        if head is None or look.jobs < 2:
            raise TracekitError("lublin: needs at least 2 jobs with known size and run time to learn from")
        look.first = look.midnight = float(head.column("submit_time")[0])
        ends = {"job_id": [1, 2], "submit_time": [look.first, look.last], "run_time": 0.0, "req_procs": 1}
        look.calendar = stats.has_calendar(Trace(pd.DataFrame(ends), jobs.machine))
        if look.calendar:
            stamp = stats.local_times(head)[0]
            look.midnight = look.first - (stamp.hour * 3600 + stamp.minute * 60 + stamp.second)
        return look

    def size_columns(self, unit: str) -> tuple[str, list[str]]:
        """Return the column that sizes are read from, and the others that have values."""
        main = f"req_{unit}" if f"req_{unit}" in self.columns else f"alloc_{unit}"
        return main, [name for name in SIZE_COLUMNS if name != main and name in self.columns]


class Ratio:
    """What one column is of another; ``value`` is None unless it is the same in every job."""

    def __init__(self) -> None:
        self.low, self.high, self.first = np.inf, -np.inf, np.nan

    def add(self, ratio: Floats) -> None:
        """Take the ratios of some jobs; unknown ones say nothing."""
        ratio = ratio[np.isfinite(ratio)]
        if len(ratio):
            self.first = float(ratio[0]) if np.isnan(self.first) else self.first
            self.low, self.high = min(self.low, float(ratio.min())), max(self.high, float(ratio.max()))

    @property
    def value(self) -> float | None:
        """The ratio."""
        return self.first if self.low == self.high else None


class Counts:
    """Sizes, run times, limits, statuses and half-hours of the known jobs."""

    def __init__(self, jobs: InOrder, look: Look) -> None:
        self.jobs = look.jobs
        self.sizes, self.cells, self.limits = Distinct(), Distinct(), Distinct()
        self.longest, self.run, self.work = 0.0, Total(look.jobs), Total(look.jobs)
        self.limited = self.reached = 0
        self.statuses = np.zeros((2, len(STATUSES)), dtype=np.int64)  # of jobs that did not reach their limit, that did
        self.half_hours = np.zeros(BUCKETS, dtype=np.int64)
        main, others = look.size_columns(jobs.machine.unit)
        self.ratios = {name: Ratio() for name in others}
        most = jobs.machine.size()
        largest = max(most // look.grain, 1) if most else np.inf  # none larger than the machine
        for batch in known_jobs(jobs):
            size, run = np.minimum(np.round(batch.sizes()) / look.grain, largest), batch.column("run_time")
            self._runs(size, run)
            self._ends(run, batch.column("req_time"), batch.column("status"))
            clock = batch.column("submit_time") - look.midnight
            if look.calendar:
                self.half_hours += np.bincount(((clock % DAY) // BUCKET).astype(np.int64), minlength=BUCKETS)[:BUCKETS]
            whole = batch.column(main)
            for name, ratio in self.ratios.items():
                ratio.add((batch.column(name) / np.where(whole > 0, whole, np.nan))[whole > 0])

    def _runs(self, size: Floats, run: Floats) -> None:
        self.sizes.add(size)
        step = np.round(np.log(np.maximum(run, 1.0) + 0.5) / CELL).astype(np.int64)
        self.cells.add(size.astype(np.int64) * CELLS + step)
        self.longest = max(self.longest, float(run.max()))
        self.run.add(run)
        self.work.add(size * run)

    def _ends(self, run: Floats, limit: Floats, status: NDArray[np.int64]) -> None:
        known = np.isfinite(limit) & (limit > 0)
        reached = known & (run >= np.maximum(limit - REACHED_WITHIN, 0.9 * np.where(known, limit, 1.0)))
        self.limits.add(limit[known])
        self.limited += int(known.sum())
        self.reached += int(reached.sum())
        status = np.where(status < 0, STATUSES.index("unknown"), status)
        kinds = self.statuses.size
        self.statuses += np.bincount(reached * len(STATUSES) + status, minlength=kinds).reshape(self.statuses.shape)


class Gaps:
    """The gaps between the known jobs on the clock of busy and quiet half-hours, in seconds."""

    def __init__(self, jobs: InOrder, look: Look, kind: JobType) -> None:
        self.jobs, self.look, self.weights = jobs, look, day_weights(kind)

    def batches(self) -> Iterator[Floats]:
        """Yield the gaps."""
        last = np.empty(0)
        for batch in known_jobs(self.jobs):
            busy = to_busy(batch.column("submit_time") - self.look.midnight, self.weights)
            yield np.diff(np.concatenate([last, busy]))
            last = busy[-1:]

    def mean(self) -> float:
        """Return the mean gap."""
        total = Total(self.look.jobs - 1)
        for gaps in self.batches():
            total.add(gaps)
        return total.mean

    def logarithms(self, unit: float) -> tuple[float, float, Amount]:
        """Return of the logarithms of gaps, in a unit: their mean, the mean of their logarithms, and their median."""
        plain, logs, amount = Total(self.look.jobs - 1), Total(self.look.jobs - 1), Amount((0.5,))
        for number in range(PASSES):
            for gaps in self.batches():
                x = np.log(np.maximum(gaps / unit, 1.0) + 0.5)
                amount.add(x)
                if not number:
                    plain.add(x)
                    logs.add(np.log(x))
            amount.next_pass()
        return plain.mean, logs.mean, amount
