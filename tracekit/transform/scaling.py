"""Another load, another machine: arrivals and sizes scaled, and waits forgotten where they no longer hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracekit.errors import TracekitError, UsageError
from tracekit.schema import SIZE_COLUMNS, is_whole
from tracekit.stats import offered_load
from tracekit.trace import Trace


def scale_load(trace: Trace, load: float) -> Trace:
    """Stretch or squeeze the inter-arrival times until the offered load is ``load``.

    Whole submit times stay whole. Recorded waits belong to the old load and become unknown.
    """
    ratio, step = load_ratio(lambda: offered_load(trace), load)
    return stretch(trace, ratio, step=step)


def load_ratio(offered: Callable[[], float], load: float) -> tuple[float, str]:
    """Return the factor of the inter-arrival times that leads to a load, and what the history says."""
    if not load > 0 or not np.isfinite(load):
        raise UsageError(f"the load must be above 0, not {load:g}")
    before = offered()
    if not before > 0:
        raise TracekitError(
            "the offered load is unknown or zero, so it cannot be scaled; give the machine's size with --procs"
        )
    return before / load, f"inter-arrivals scaled: load {before:.4f} to {load:g}"


def stretch(trace: Trace, ratio: float, *, step: str) -> Trace:
    """Multiply the inter-arrival times; ``step`` says so in the trace's history.

    Whole submit times stay whole. Recorded waits become unknown.
    """
    submit = trace.column("submit_time")
    return stretched(trace, ratio, float(np.nanmin(submit)), whole=is_whole(submit)).replace(step=step)


def stretched(trace: Trace, ratio: float, first: float, *, whole: bool) -> Trace:
    """Multiply the times since ``first``; ``whole``: to whole seconds. Recorded waits become unknown."""
    scaled = first + (trace.column("submit_time") - first) * ratio
    if whole:
        scaled = np.round(scaled)
    scaled = np.round(scaled, 6)  # a product of seconds has no finer meaning
    return forget_waits(trace.assign({"submit_time": scaled}))


def scale_procs(trace: Trace, procs: int) -> Trace:
    """Fit the jobs to a machine of another size: every job keeps its share of the machine, and at least one unit.

    A job's mean power follows its size in the scheduled unit. Recorded waits belong to the old machine and become
    unknown.
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
    if "mean_watts" in trace.jobs.columns:
        before, after = trace.sizes(), trace.assign(scaled).sizes()
        share = np.divide(after, before, out=np.full(len(trace), ratio), where=before > 0)
        scaled["mean_watts"] = trace.column("mean_watts") * share
    machine = trace.machine
    sizes = {unit: max(1, round(have * ratio)) for unit in ("procs", "nodes", "gpus") if (have := machine.size(unit))}
    machine = machine.replace(**{**sizes, machine.unit: procs})
    changed = trace.assign(scaled).replace(machine=machine, step=f"sizes scaled: {size} to {procs} {machine.unit}")
    return forget_waits(changed)


def forget_waits(trace: Trace) -> Trace:
    """Return the trace with its recorded waits unknown: they belong to other jobs than these."""
    return trace.assign({"wait_time": np.nan}) if "wait_time" in trace.jobs.columns else trace
