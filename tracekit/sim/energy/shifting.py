"""Shifting: jobs are held back to hours of less carbon, or of a lower price, by at most so many seconds each.

A held-back job joins the queue at its release, as a job of Slurm does with ``--begin``: at the begin of the cheapest
stretch of its estimated length that starts at most ``max_extra_wait`` after its submit. Jobs are planned in the order
of their submit times (at one instant those of the most work first), each into what the plans before it leave of the
machine; a job that finds no room joins the queue at once. Only what is known at its submit counts, so this can be done
before the simulation. After its release a job waits as any other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.energy.series import Series, read_series
from tracekit.sim.jobs import Prepared
from tracekit.sim.switches import Switches

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def release_times(ready: Prepared, switches: Switches) -> Floats:
    """Return when each job joins the queue, (jobs,) seconds."""
    machine = None if ready.table.trace is None else ready.table.trace.machine
    series = series_of(switches).in_trace_time(None if machine is None else machine.epoch)
    submit = ready.table.submit
    series.check_covers(float(submit[0]), float(submit[-1]))
    return planned(ready, series, switches.max_extra_wait)


def series_of(switches: Switches) -> Series:
    """Return what jobs are shifted by: carbon where it is given, else the price."""
    if switches.carbon is not None:
        return read_series(Path(switches.carbon), "carbon")
    return read_series(Path(str(switches.price)), "price")


def planned(ready: Prepared, series: Series, extra: float) -> Floats:
    """Return the releases of jobs on a series in the trace's time; the last value holds for ever in plans."""
    submit, estimate = ready.table.submit, np.maximum(ready.estimate, 0.0)
    edges = series.times.copy()
    edges[0] = min(edges[0], submit[0])
    total = np.append(0.0, np.cumsum(series.values[:-1] * np.diff(edges)))
    order = np.lexsort((-ready.units * estimate, submit))
    release = submit.copy()
    step = np.zeros(len(edges))
    plan_releases(order, release, estimate, ready.units, (edges, series.values, total, step), extra, ready.total)
    return release


@jit_internal
def _place(edges: Floats, time: float) -> int:
    """Return the step that a time is in."""
    low, high = 0, len(edges)
    while high - low > 1:
        middle = (low + high) >> 1
        if edges[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@jit_internal
def _cost(series: tuple[Floats, Floats, Floats, Floats], begin: float, length: float) -> float:
    """Return the integral of the values over a stretch."""
    edges, values, total, _ = series
    first, last = _place(edges, begin), _place(edges, begin + length)
    after = total[last] + values[last] * (begin + length - edges[last])
    return float(after - total[first] - values[first] * (begin - edges[first]))


@jit_internal
def _walk(
    series: tuple[Floats, Floats, Floats, Floats], begin: float, length: float, units: int, most: int, book: bool
) -> bool:
    """Return whether a stretch has room for so many units beside the plans so far, step by step; or plan it."""
    edges, _, _, used = series
    for k in range(_place(edges, begin), len(edges)):
        until = edges[k + 1] if k + 1 < len(edges) else np.inf
        inside = min(begin + length, until) - max(begin, edges[k])
        if inside <= 0 or until == np.inf:  # beyond the series nothing is planned
            break
        if book:
            used[k] += units * inside
        elif used[k] + units * inside > most * (until - edges[k]):
            return False
    return True


@jit_internal
def _better(
    series: tuple[Floats, Floats, Floats, Floats],
    begin: float,
    length: float,
    units: int,
    most: int,
    best: float,
    least: float,
) -> tuple[float, float]:
    """Return the better of two begins and its cost: the cheaper one that has room, of equals the earlier."""
    cost = _cost(series, begin, length)
    if (cost < least or (cost == least and begin < best)) and _walk(series, begin, length, units, most, False):
        return begin, cost
    return best, least


@jit
def plan_releases(
    order: Ints,
    release: Floats,
    estimate: Floats,
    units: Ints,
    series: tuple[Floats, Floats, Floats, Floats],
    extra: float,
    most: int,
) -> None:
    """Move each job's ``release``, its submit time at first, to its cheapest begin; as the module says.

    ``series`` is edges, values, the integral up to each edge, and unit-seconds planned in each step, (steps,) each.
    """
    edges = series[0]
    for job in order:
        submit, length, size = release[job], estimate[job], units[job]
        best, least = submit, np.inf
        if _walk(series, submit, length, size, most, False):
            least = _cost(series, submit, length)
        # the cost is linear between the moments at which the begin (0) or the end (length) is at an edge
        for back in (0.0, length):
            k = _place(edges, submit + back) + 1
            while k < len(edges) and edges[k] - back <= submit + extra:
                best, least = _better(series, edges[k] - back, length, size, most, best, least)
                k += 1
        best, least = _better(series, submit + extra, length, size, most, best, least)
        _walk(series, best, length, size, most, True)
        release[job] = best
