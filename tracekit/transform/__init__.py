"""Traces made from traces: a part of one, another load, another machine; merged, split, shaken."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.trace import Trace
from tracekit.transform.merging import Merged, merge
from tracekit.transform.scaling import forget_waits, scale_load, scale_procs
from tracekit.transform.shaking import shake
from tracekit.transform.splitting import split, split_at

__all__ = [
    "Merged",
    "forget_waits",
    "merge",
    "scale_load",
    "scale_procs",
    "shake",
    "split",
    "split_at",
    "window",
    "with_labels",
]


def with_labels(trace: Trace, column: str, labels: Sequence[str]) -> Trace:
    """Return the jobs whose ``column`` (user, queue …) is one of ``labels``; an unknown label is an error."""
    if not trace.has(column):
        raise TracekitError(f"the trace has no {column}s")
    check_labels(column, labels, [str(label) for label in trace.jobs[column].cat.categories])
    return trace.take(trace.jobs[column].isin(list(labels)).to_numpy(), step=labels_step(column, labels))


def check_labels(column: str, labels: Sequence[str], known: Sequence[str]) -> None:
    """Raise TracekitError for a label that is not among the known ones of a column."""
    for label in labels:
        if label not in known:
            raise TracekitError(str(UnknownName(column, label, known[:50])))


def labels_step(column: str, labels: Sequence[str]) -> str:
    """Return what the history says of a trace with some labels only."""
    return f"only {column} {', '.join(labels)}"


def window(trace: Trace, start: int, count: int) -> Trace:
    """Return ``count`` consecutive jobs of the file from 0-based position ``start``."""
    if start < 0 or count < 1:
        raise UsageError(f"a window needs a start from 0 and a count from 1, not {start}:{count}")
    return trace.take(slice(start, start + count), step=f"{count} jobs from position {start}")
