"""Splits, batch by batch: which part each job belongs to, and what the history of a part says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.large.changes import labels_of
from tracekit.large.problems import LaterThan
from tracekit.large.source import Source, edges, whole_needed
from tracekit.trace import Trace
from tracekit.transform import splitting


@dataclass(frozen=True)
class Cut:
    """How a source is split: the part of each job (of a batch whose first job has a position), and what it is."""

    name: Callable[[Trace, int], NDArray[np.object_]]
    step: Callable[[str], str]  # what the history of a part says
    key: Callable[[str], Any] = str  # the order of parts

    def pieces(self, source: Source) -> Iterator[tuple[str, Trace]]:
        """Yield the jobs of each batch part by part."""
        first = 0
        for batch in source.batches():
            codes, names = pd.factorize(self.name(batch, first))
            for code, name in enumerate(names):
                yield str(name), batch.take(np.flatnonzero(codes == code))
            first += len(batch)


def by(source: Source, way: str) -> Cut:
    """Return how a source is split by week, month, label or into a number of parts, and the step of each part."""
    if way.isdigit():
        return _equal(source, int(way))
    if way in splitting.LABELS:
        known = labels_of(source, way)
        if not known:
            raise TracekitError(f"the trace has no {way}s")
        splitting.check_count(len(known), way)
    else:
        splitting.check_calendar(edges(source), way)
    return Cut(lambda batch, first: splitting.part_names(batch, way), lambda name: f"only {way} {name}")


def at(moments: Sequence[float]) -> Cut:
    """Return how a source is split at given seconds since the epoch."""
    cuts = sorted(set(moments))
    if not cuts:
        raise UsageError("give at least one moment to split at")
    names = np.array([f"part{number + 1}" for number in range(len(cuts) + 1)], dtype=object)

    def name(batch: Trace, first: int) -> NDArray[np.object_]:
        return np.asarray(names[np.searchsorted(cuts, batch.column("submit_time"), side="right")])

    return Cut(name, lambda part: f"part {part[4:]} of {len(cuts) + 1} by time", lambda part: int(part[4:]))


def _equal(source: Source, count: int) -> Cut:
    """Equal parts by submit time are cut by position, where the jobs are in order."""
    later, jobs, fine = LaterThan(), 0, True
    for batch in source.batches(["submit_time"]):
        fine = fine and not later(batch).any() and not np.isnan(batch.column("submit_time")).any()
        jobs += len(batch)
    splitting.check_equal(jobs, count)
    if not fine:
        raise whole_needed(source, "splitting jobs that are not in submit order into equal parts")
    sizes = np.full(count, jobs // count) + (np.arange(count) < jobs % count)
    ends, width = np.cumsum(sizes), len(str(count))
    names = np.array([f"part{number:0{width}d}" for number in range(1, count + 1)], dtype=object)

    def name(batch: Trace, first: int) -> NDArray[np.object_]:
        return np.asarray(names[np.searchsorted(ends, np.arange(first, first + len(batch)), side="right")])

    return Cut(name, lambda part: f"part {int(part[4:])} of {count} by submit time")
