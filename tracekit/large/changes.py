"""Slices and scaled traces, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from tracekit import transform
from tracekit.errors import TracekitError
from tracekit.large.source import Changed, Source
from tracekit.large.summary import Load
from tracekit.schema import BY_NAME, is_whole
from tracekit.trace import Trace
from tracekit.transform.scaling import load_ratio, stretched


def between(source: Source, after: float, before: float) -> Source:
    """Keep the jobs submitted in ``[after, before)``, in seconds since the machine's epoch."""
    step = empty(source).between(after, before).history[-1]
    return Changed(source, lambda jobs: (batch.between(after, before) for batch in jobs), source.machine, step)


def empty(source: Source) -> Trace:
    """Return a trace without jobs, for what the history says."""
    none = pd.DataFrame({"job_id": [], "submit_time": [], "run_time": [], "req_procs": []}, dtype=np.float64)
    return Trace(none, source.machine)


def with_labels(source: Source, column: str, labels: Sequence[str]) -> Source:
    """Keep the jobs whose ``column`` (user, queue …) is one of ``labels``; an unknown label is an error."""
    known = labels_of(source, column)
    if not known:
        raise TracekitError(f"the trace has no {column}s")
    transform.check_labels(column, labels, sorted(known))

    def chosen(batches: Iterator[Trace]) -> Iterator[Trace]:
        for batch in batches:
            yield batch.take(batch.jobs[column].isin(list(labels)).to_numpy())

    return Changed(source, chosen, source.machine, transform.labels_step(column, labels))


def labels_of(source: Source, column: str) -> set[str]:
    """Return the labels that occur in a column."""
    assert BY_NAME[column].kind == "label"
    found: set[str] = set()
    for batch in source.batches([column]) if column in source.columns else ():
        found.update(batch.jobs[column].cat.remove_unused_categories().cat.categories)
    return found


def window(source: Source, start: int, count: int) -> Source:
    """Keep ``count`` consecutive jobs from 0-based position ``start``; nothing is read beyond them."""
    step = transform.window(empty(source), start, count).history[-1]

    def cut(batches: Iterator[Trace]) -> Iterator[Trace]:
        at = 0
        for batch in batches:
            yield batch.take(slice(max(0, start - at), max(0, start + count - at)))
            at += len(batch)
            if at >= start + count:
                return

    return Changed(source, cut, source.machine, step)


def scale_procs(source: Source, procs: int) -> Source:
    """Fit the jobs to a machine of another size, as `tracekit.transform.scale_procs`."""
    model = transform.scale_procs(empty(source), procs)
    return Changed(
        source,
        lambda jobs: (transform.scale_procs(batch, procs) for batch in jobs),
        model.machine,
        *model.history,
    )


def scale_load(source: Source, load: float) -> Source:
    """Stretch or squeeze the inter-arrival times to a load, as `tracekit.transform.scale_load`; one pass before."""
    before, whole = Load(), True
    for batch in source.batches():
        before.add(batch)
        whole = whole and is_whole(batch.column("submit_time"))
    ratio, step = load_ratio(lambda: before.offered(source.machine.size()), load)
    first = before.known[0]
    return Changed(
        source, lambda jobs: (stretched(batch, ratio, first, whole=whole) for batch in jobs), source.machine, step
    )
