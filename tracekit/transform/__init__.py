"""Traces made from traces: a part of one, another load, another machine; merged, split, shaken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.schema import SIZE_COLUMNS, is_whole
from tracekit.stats import offered_load
from tracekit.trace import Trace
from tracekit.transform.merging import Merged, merge
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
    known = [str(label) for label in trace.jobs[column].cat.categories]
    for label in labels:
        if label not in known:
            raise TracekitError(str(UnknownName(column, label, known[:50])))
    return trace.take(trace.jobs[column].isin(list(labels)).to_numpy(), step=f"only {column} {', '.join(labels)}")


def window(trace: Trace, start: int, count: int) -> Trace:
    """Return ``count`` consecutive jobs of the file from 0-based position ``start``."""
    if start < 0 or count < 1:
        raise UsageError(f"a window needs a start from 0 and a count from 1, not {start}:{count}")
    return trace.take(slice(start, start + count), step=f"{count} jobs from position {start}")


def scale_load(trace: Trace, load: float) -> Trace:
    """Stretch or squeeze the inter-arrival times until the offered load is ``load``.

    Whole submit times stay whole. Recorded waits belong to the old load and become unknown.
    """
    if not load > 0 or not np.isfinite(load):
        raise UsageError(f"the load must be above 0, not {load:g}")
    before = offered_load(trace)
    if not before > 0:
        raise TracekitError(
            "the offered load is unknown or zero, so it cannot be scaled; give the machine's size with --procs"
        )
    submit = trace.column("submit_time")
    first = np.nanmin(submit)
    scaled = first + (submit - first) * (before / load)
    if is_whole(submit):
        scaled = np.round(scaled)
    return forget_waits(
        trace.assign({"submit_time": scaled}, step=f"inter-arrivals scaled: load {before:.4f} to {load:g}")
    )


def scale_procs(trace: Trace, procs: int) -> Trace:
    """Fit the jobs to a machine of another size: every job keeps its share of the machine, and at least one unit.

    Recorded waits belong to the old machine and become unknown.
    """
    size = trace.machine.size()
    if procs < 1:
        raise UsageError(f"a machine needs at least 1 processor, not {procs}")
    if size is None:
        raise TracekitError(
            f"the machine's size in {trace.machine.unit} is unknown; give it in a machine file (--machine)"
        )
    ratio = procs / size
    scaled = {}
    for name in SIZE_COLUMNS:
        if name in trace.jobs.columns:
            values = trace.column(name)
            scaled[name] = np.where(values > 0, np.maximum(np.round(values * ratio), 1.0), values)
    machine = trace.machine
    sizes = {unit: max(1, round(have * ratio)) for unit in ("procs", "nodes", "gpus") if (have := machine.size(unit))}
    machine = machine.replace(**{**sizes, machine.unit: procs})
    changed = trace.assign(scaled).replace(machine=machine, step=f"sizes scaled: {size} to {procs} {machine.unit}")
    return forget_waits(changed)


def forget_waits(trace: Trace) -> Trace:
    """Return the trace with its recorded waits unknown: they belong to other jobs than these."""
    return trace.assign({"wait_time": np.nan}) if "wait_time" in trace.jobs.columns else trace
