"""What is read in batches: a trace too large for memory, or one that is changed on the way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from tracekit.errors import TracekitError
from tracekit.machine import Machine
from tracekit.trace import Trace


class Source(Protocol):
    """Jobs in batches, as often as needed; `swf.parts.Parts` is one."""

    machine: Machine
    history: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the jobs."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether a trace read whole has its labels in their usual order, and not in that of the file."""
        ...

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield the jobs in the order of the file, without history; ``columns`` are the ones that are needed."""
        ...

    def bytes_whole(self) -> int:
        """Return about how much memory the whole trace would take."""
        ...


class Loaded:
    """A trace in memory, for what otherwise reads batches; in submit order."""

    ordered = True

    def __init__(self, trace: Trace) -> None:
        self.trace = Trace(trace.jobs.iloc[trace.order()].reset_index(drop=True), trace.machine)
        self.machine, self.history = trace.machine, trace.history
        self.columns: tuple[str, ...] = tuple(map(str, trace.jobs.columns))

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield all jobs at once."""
        yield self.trace

    def bytes_whole(self) -> int:
        """Return how much memory the trace takes."""
        return int(self.trace.jobs.memory_usage(index=False).sum())


class Changed:
    """A source whose batches are changed one by one. ``columns``: what the change itself looks at; None = all."""

    def __init__(
        self, source: Source, change: Callable[[Iterator[Trace]], Iterator[Trace]], machine: Machine, *steps: str
    ) -> None:
        self.source, self.change, self.machine = source, change, machine
        self.history = (*source.history, *steps)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the jobs."""
        return self.source.columns

    @property
    def ordered(self) -> bool:
        """Whether a trace read whole has its labels in their usual order."""
        return self.source.ordered

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield the changed jobs; all columns are read, because the change may look at any."""
        for batch in self.change(self.source.batches()):
            yield Trace(batch.jobs, batch.machine)

    def bytes_whole(self) -> int:
        """Return about how much memory the whole trace would take."""
        return self.source.bytes_whole()


def edges(source: Source) -> Trace:
    """Return a trace of two jobs that has the machine and the first and last submit time; NaN if any is unknown."""
    low, high = np.inf, -np.inf
    for batch in source.batches(["submit_time"]):
        submit = batch.column("submit_time")
        if len(submit):
            low, high = np.minimum(low, submit.min()), np.maximum(high, submit.max())
    jobs = pd.DataFrame({"job_id": [1, 2], "submit_time": [low, high], "run_time": np.nan, "req_procs": np.nan})
    return Trace(jobs, source.machine)


def gigabytes(size: float) -> str:
    """Return a size in words.

    >>> gigabytes(2.5e9), gigabytes(3e6)
    ('2.5 GB', '0.01 GB')
    """
    return f"{max(size / 1e9, 0.01):.2g} GB" if size < 9.95e9 else f"{size / 1e9:,.0f} GB"


def check_disk(folder: Path, needed: float, what: str) -> None:
    """Raise an error before any work if so many bytes do not fit on the disk of the temporary folder."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TracekitError(
            f"{folder}: {what} keeps about {gigabytes(needed)} there for a while, and {gigabytes(free)} are free; "
            "TMPDIR=FOLDER chooses another disk"
        )


def whole_needed(source: Source, what: str, instead: str = "") -> TracekitError:
    """Return the error for something that needs the whole trace in memory, with the size that takes."""
    more = f"; {instead}" if instead else ""
    size = gigabytes(source.bytes_whole())
    return TracekitError(f"{what} needs the whole trace in memory, about {size}: use --whole if there is as much{more}")


def in_memory(source: Source) -> Trace:
    """Return all jobs of a source as one trace, labels in the usual order."""
    batches = list(source.batches())
    if not batches:
        return Trace(pd.DataFrame({"job_id": [], "submit_time": [], "run_time": [], "req_procs": []}), source.machine)
    table = pd.concat([batch.jobs.astype(_as_texts(batch)) for batch in batches], ignore_index=True)
    return Trace(table, source.machine, source.history)


def _as_texts(batch: Trace) -> dict[str, type]:
    return {str(name): object for name in batch.jobs.columns if batch.jobs[name].dtype == "category"}
