"""Jobs in submit order, for models that look at them batch by batch: of a trace in memory, or one read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd

from generators.common import check_enough, check_jobs
from generators.hosts import REQUESTS, Mask, never_placed
from tracekit import stats
from tracekit.large.amounts import Total
from tracekit.large.runs import Runs
from tracekit.large.source import Source
from tracekit.machine import Machine
from tracekit.schema import SIZE_COLUMNS, status_codes
from tracekit.trace import Trace
from tracekit.units import left_out


class InOrder(Protocol):
    """Jobs with a known submit time that the hosts can hold, as often as needed."""

    machine: Machine
    history: tuple[str, ...]
    count: int  # of them and of those without a submit time
    requests: tuple[str, ...]  # columns of requests in which some job of the whole trace has a value

    def batches(self) -> Iterator[Trace]:
        """Yield the jobs in submit order."""
        ...


class Whole:
    """The jobs of a trace in memory, in one batch."""

    def __init__(self, name: str, trace: Trace, usable: Trace) -> None:
        self.machine, self.history, self.count = trace.machine, trace.history, len(usable)
        self.requests = tuple(name for name in REQUESTS if trace.has(name))
        self.trace = check_jobs(name, usable)

    def batches(self) -> Iterator[Trace]:
        """Yield all jobs."""
        yield self.trace


class Able:
    """The jobs of a source that its machine's hosts can hold, in the order of the file. Made in one pass."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.jobs = self.count = self.timed = 0  # all jobs, those that can be held, those that have a submit time, too
        self.sorted = True
        self.requests: set[str] = set()  # columns in which some job of the source has a value
        self._reasons: dict[str, int] = {}
        last = -np.inf
        for batch in source.batches(self._read(["submit_time", *REQUESTS])):
            self.jobs += len(batch)
            self.requests |= {name for name in REQUESTS if name not in self.requests and batch.has(name)}
            for reason, rows in never_placed(batch).items():
                self._reasons[reason] = self._reasons.get(reason, 0) + int(rows.sum())
            submit = batch.column("submit_time")[self.held(batch)]
            self.count += len(submit)
            submit = submit[np.isfinite(submit)]
            self.timed += len(submit)
            if len(submit):
                self.sorted = self.sorted and submit[0] >= last and bool((np.diff(submit) >= 0).all())
                last = submit[-1]

    def _read(self, columns: Iterable[str]) -> Iterable[str] | None:
        return None if self.source.machine.groups else columns  # hosts look at all columns

    @property
    def notes(self) -> list[str]:
        """How many jobs the hosts cannot hold, and why; as `generators.hosts.placeable` says it."""
        return [f"{count} jobs not learnt from: {reason}" for reason, count in self._reasons.items()]

    def held(self, batch: Trace) -> Mask:
        """Return which jobs the hosts can hold."""
        reasons = never_placed(batch)
        return ~np.logical_or.reduce(list(reasons.values())) if reasons else np.ones(len(batch), dtype=bool)

    def batches(self, columns: Iterable[str]) -> Iterator[Trace]:
        """Yield the jobs that have a submit time, in the order of the file."""
        for batch in self.source.batches(self._read(columns)):
            rows = self.held(batch) & np.isfinite(batch.column("submit_time"))
            yield batch if rows.all() else batch.take(rows)

    def facts(self) -> tuple[float, float, int]:
        """Return the span of all jobs, the mean demand of those that can be held, and how many jobs have no size."""
        ends, able, work, missing = np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf]), Total(self.count), 0
        for batch in self.source.batches(self._read(["submit_time", "run_time", *SIZE_COLUMNS])):
            missing += left_out(batch)
            held, submit = self.held(batch), batch.column("submit_time")
            work.add(stats.work(batch)[held])
            for seen, times in ((ends, submit), (able, submit[held])):
                times = times[np.isfinite(times)]
                seen[0], seen[1] = min(seen[0], times.min(initial=np.inf)), max(seen[1], times.max(initial=-np.inf))
        span = float(ends[1] - ends[0]) if np.isfinite(ends[0]) else float("nan")
        seconds = float(able[1] - able[0])
        return span, float(work.value / seconds) if seconds > 0 else float("nan"), missing


class Streamed:
    """The jobs of a source in submit order: as they come where they are in order, else sorted on disk.

    ``columns`` are numbers, or the status. A context manager, because of the disk.
    """

    def __init__(self, name: str, able: Able, columns: Sequence[str]) -> None:
        self.able, source = able, able.source
        self.machine, self.history, self.count = source.machine, source.history, able.count
        self.requests = tuple(name for name in REQUESTS if name in able.requests)
        self.columns = [name for name in columns if name in source.columns and name != "submit_time"]
        check_enough(name, able.timed)
        self._folder: TemporaryDirectory[str] | None = None
        self._runs: Runs | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def batches(self) -> Iterator[Trace]:
        """Yield the jobs in submit order."""
        if self.able.sorted:
            yield from self.able.batches(self.columns)
            return
        runs = self._runs = self._runs or self._sorted()
        for submit, values in runs.blocks():
            assert values is not None
            columns: dict[str, Any] = {"job_id": np.arange(len(submit)), "submit_time": submit, "run_time": np.nan}
            columns |= {name: values[:, k] for k, name in enumerate(self.columns)}
            if "status" in columns:
                columns["status"] = status_codes(columns["status"].astype(np.intp))
            yield Trace(pd.DataFrame(columns), self.machine)

    def _sorted(self) -> Runs:
        self._folder = TemporaryDirectory(prefix="tracekit-")
        runs = Runs(Path(self._folder.name))
        for batch in self.able.batches(self.columns):
            values = [batch.column(name).astype(np.float64) for name in self.columns]
            runs.add(batch.column("submit_time"), np.column_stack(values))
        return runs
