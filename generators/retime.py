"""What can be changed about a made trace after sampling, whatever the model: its load, its machine, its start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from generators.clock import Clock
from generators.quantile import grain_of
from tracekit import stats
from tracekit.errors import UsageError
from tracekit.machine import UNITS
from tracekit.readings import read_date
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace

Floats = NDArray[np.float64]


def _gaps(trace: Trace) -> tuple[Floats, Clock | None]:
    """Return the gaps of a sorted trace, on its own operational clock if it has a calendar."""
    submit, clock = trace.column("submit_time"), Clock.fit(trace)
    passed = clock.operational(submit) if clock else submit
    return np.diff(passed, prepend=passed[0]), clock


def _submits(start: float, gaps: Floats, clock: Clock | None, grain: float) -> Floats:
    submit = clock.wall(start, gaps) if clock else start + np.concatenate([[0.0], np.cumsum(gaps[1:])])
    if grain:
        submit = np.round(np.round(submit / grain) * grain, 9)
    return np.maximum.accumulate(submit)


def in_order(trace: Trace) -> Trace:
    """Return the jobs by submit time; a trace that is in order already comes back as it is."""
    submit = trace.column("submit_time")
    return trace if bool((np.diff(submit) >= 0).all()) else trace.take(trace.order())


def match_load(trace: Trace, demand: float, *, tolerance: float = 0.002) -> tuple[Trace, float]:
    """Stretch the gaps until the mean demand (busy units) is ``demand``; return the trace and the stretch.

    With a calendar the gaps are stretched in operational time, so that rush hours stay where they are.
    """
    made = in_order(trace)
    if not stats.span(made) > 0 or not 0 < stats.work(made).sum() < np.inf:
        return made, 1.0
    gaps, clock = _gaps(made)
    start, grain = float(made.column("submit_time")[0]), grain_of(made.column("submit_time"))
    wanted_span = stats.work(made).sum() / demand
    stretch = float(wanted_span / stats.span(made))
    low, high = 0.0, np.inf  # stretches known to be too short and too long: the span never falls with the stretch
    for turn in range(60):
        submit = _submits(start, gaps * stretch, clock, grain)
        reached = float(submit[-1] - submit[0]) / wanted_span
        if abs(reached - 1) <= tolerance:
            break
        low, high = (stretch, high) if reached < 1 else (low, stretch)
        guess = stretch / reached if reached > 0 else 2 * stretch
        middle = (low + high) / 2 if np.isfinite(high) else 2 * low
        stretch = guess if low < guess < high and turn < 8 else middle
    return made.assign({"submit_time": submit}), stretch


def move_start(trace: Trace, start: str) -> Trace:
    """Let the trace begin at a date (of the machine's own time zone), with its week in step with the new calendar."""
    try:
        stamp = read_date(start)
        zone = trace.machine.timezone or "UTC"
        stamp = stamp.tz_localize(zone) if stamp.tzinfo is None else stamp.tz_convert(zone)
    except (ValueError, TypeError) as error:
        raise UsageError(f"--start {start}: not a date such as 2025-03-01 or 2025-03-01T08:00 ({error})") from None
    made = in_order(trace)
    gaps, clock = _gaps(made)
    epoch = float(stamp.timestamp())
    if clock:
        clock = clock.at(epoch, trace.machine.timezone)
    submit = _submits(0.0, gaps, clock, grain_of(made.column("submit_time")))
    return made.replace(jobs=made.jobs.assign(submit_time=submit), machine=made.machine.replace(epoch=epoch))


def scale_machine(trace: Trace, procs: int) -> tuple[Trace, float]:
    """Scale every job to a machine of ``procs`` processors; return the trace and the factor.

    After Ernemann, Song and Yahyapour (Scaling of workload traces, JSSPP 2003): each job keeps its share of the
    machine in whole units, at least one and at most all; run times stay. The ratios between a job's processors, nodes
    and GPUs stay what they were, and so do shares of a GPU. Jobs of one unit cannot shrink, so the load is to be
    matched afterwards. Groups of hosts are not scaled: the new machine has none.
    """
    machine, unit = trace.machine, trace.machine.unit
    if procs < 1:
        raise UsageError(f"--machine-procs needs a whole number from 1, not {procs}")
    before = machine.procs or machine.size()
    if not before:
        raise UsageError(
            "--machine-procs needs a trace whose machine's size is known; give it with --procs or --machine"
        )
    factor = procs / before
    capacity: dict[str, int | None] = {}
    for u in UNITS:
        had = machine.size(u)
        capacity[u] = max(1, round(had * factor)) if had else None
    if machine.procs:
        capacity["procs"] = procs
    elif unit != "procs":
        capacity[unit] = procs
    limit = capacity[unit] or np.inf
    first = next((c for c in (f"req_{unit}", f"alloc_{unit}") if trace.has(c)), None)
    if first is None:
        raise UsageError(f"--machine-procs needs sizes in {unit}, which this trace does not have")
    size = trace.column(first)
    scaled = np.where(size < 1, size, np.clip(np.round(size * factor), 1, limit))  # a share of a GPU stays one
    columns: dict[str, Any] = {}
    for name in (*SIZE_COLUMNS, "tasks"):
        if trace.has(name):
            values = trace.column(name)
            with np.errstate(invalid="ignore", divide="ignore"):
                new = np.where(
                    np.isfinite(size) & (size > 0), np.round(values / size * scaled), np.round(values * factor)
                )
            new = np.where(values >= 1, np.maximum(new, 1), values)
            new = np.where((size > 0) & (scaled == size), values, new)
            most = None if name == "tasks" else capacity[name.split("_")[1]]
            columns[name] = new if most is None else np.minimum(new, most)
    grown = machine.replace(procs=capacity["procs"], nodes=capacity["nodes"], gpus=capacity["gpus"], groups=())
    return trace.replace(jobs=trace.jobs.assign(**columns), machine=grown), factor
