"""Fitting the EDA model to a trace: quantiles by kind of job, shares of sizes, and arrivals; nothing random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from generators.common import check_jobs
from generators.eda_model import KINDS, LARGE_FROM, SMALL, SMALL_BELOW, Arrivals, Floats, Ints, Jobs
from tracekit.errors import TracekitError
from tracekit.machine import Machine
from tracekit.trace import Trace

#: Knots of a fitted distribution, and the fewest jobs of a kind that it is fitted to.
KNOTS, FEWEST = 41, 5
#: Different sizes and limits that are kept; more are thinned to so many quantiles.
MOST_VALUES = 200
#: Where the share of the memory range parts compile from synthesis, and synthesis from timing, among small jobs.
_PARTS = (0.2, 0.45)


def fit_jobs(trace: Trace) -> tuple[Jobs, Arrivals, Trace, list[str]]:
    """Return the parameters of the jobs and arrivals, the jobs that they were fitted to, and notes."""
    trace = check_jobs("eda", trace)
    size, run = trace.sizes(), trace.column("run_time")
    known = (size >= 1) & (run >= 0) & np.isfinite(size) & np.isfinite(run)
    if known.sum() < 2:
        raise TracekitError("eda: needs at least 2 jobs with known size and run time to learn from")
    trace = trace if known.all() else trace.take(known)
    cores = np.round(trace.sizes()).astype(np.int64)
    if most := trace.machine.size():
        cores = np.minimum(cores, most)
    run, notes = trace.column("run_time"), list[str]()
    values, shares = _values(cores.astype(float))
    memory, share = _memory(trace, cores, notes)
    kind = _kinds(cores, share)
    counts = np.bincount(kind, minlength=len(KINDS))
    default = Jobs()
    mix = counts[:SMALL] / counts[:SMALL].sum() if counts[:SMALL].sum() else np.array(default.mix)
    limits, limit_shares, unlimited = _limits(trace.column("req_time"))
    jobs = Jobs(
        cores=tuple(int(value) for value in values),
        core_shares=tuple(float(s) for s in shares),
        memory=memory,
        mix=tuple(float(s) for s in mix),
        bands=tuple(_knots(share, kind == k, default.bands[k]) for k in range(len(KINDS))),
        run_times=tuple(_knots(run, kind == k, _grid(run)) for k in range(len(KINDS))),
        limits=limits,
        limit_shares=limit_shares,
        unlimited=unlimited,
    )
    return jobs, fit_arrivals(trace.column("submit_time")), trace, notes


def _grid(values: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in np.quantile(values, np.linspace(0, 1, KNOTS)))


def _knots(values: Floats, rows: NDArray[np.bool_], otherwise: tuple[float, ...]) -> tuple[float, ...]:
    """Return the quantiles of some jobs, or ``otherwise`` where there are too few or the values are unknown."""
    some = values[rows & np.isfinite(values)]
    return _grid(some) if len(some) >= FEWEST else otherwise


def _values(values: Floats) -> tuple[Floats, Floats]:
    """Return the different values and their shares; many are thinned to quantiles of equal share."""
    found, counts = np.unique(values, return_counts=True)
    if len(found) > MOST_VALUES:
        levels = np.linspace(0, 1, MOST_VALUES)
        found, counts = np.unique(np.quantile(values, levels, method="nearest"), return_counts=True)
    return found, counts / counts.sum()


def _memory(trace: Trace, cores: Ints, notes: list[str]) -> tuple[tuple[float, float], Floats]:
    """Return least and most memory of a job (KB), and every job's share of that range; NaN = unknown."""
    column = next((name for name in ("req_mem", "used_mem") if (trace.column(name) > 0).any()), None)
    if column is None:
        notes.append("the trace has no memory: the memory of the jobs is by the model's defaults")
        low, high = Jobs().memory
        high = min([high, *(group.memory for group in trace.machine.groups if group.memory)])
        return (min(low, high), high), np.full(len(cores), np.nan)
    if column == "used_mem":
        notes.append("the trace has no requested memory: what the jobs used is taken for it")
    memory = trace.column(column) * cores
    memory = np.where(memory > 0, memory, np.nan)
    low, high = float(np.nanmin(memory)), float(np.nanmax(memory))
    share = np.asarray((memory - low) / max(high - low, 1.0), np.float64)
    return (low, high), share


def _kinds(cores: Ints, share: Floats) -> Ints:
    """Return each job's position in `KINDS`; small jobs are told apart by their memory."""
    size = (cores - cores.min()) / max(int(cores.max() - cores.min()), 1)
    known = np.nan_to_num(share, nan=0.0)
    small = np.where(known < _PARTS[0], 0, np.where(known < _PARTS[1], 2, 1))
    return np.where(size < SMALL_BELOW, small, np.where(size < LARGE_FROM, 3, 4)).astype(np.int64)


def _limits(limit: Floats) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Return the values of limits, their shares, and the share of jobs without one."""
    known = limit > 0
    if not known.any():
        return (), (), 1.0
    values, shares = _values(limit[known])
    return tuple(map(float, values)), tuple(map(float, shares)), float(1 - known.mean())


def fit_arrivals(submit: Floats) -> Arrivals:
    """Return steps of four jobs each on average: the share without jobs, and the skew of the others."""
    span = float(submit[-1] - submit[0])
    if not span > 0:
        return Arrivals(every=1.0, most=1)
    steps = max(len(submit) // 4, 1)
    counts = np.bincount(np.minimum(((submit - submit[0]) / span * steps).astype(np.int64), steps - 1), minlength=steps)
    busy = counts[counts > 0]
    most = int(busy.max())
    mean = float((busy - 1).mean() / max(most - 1, 1))
    skew = float(np.clip(mean / max(1 - mean, 1e-9), 0.01, 100.0))
    return Arrivals(span / steps, most, skew if skew != 1.0 else 1.0 + 1e-9, float(1 - len(busy) / steps))


def fit_to_hosts(memory: Floats, cores: Ints, machine: Machine) -> tuple[Floats, Ints]:
    """Return memory and cores reduced so far that some host has room for the job, where the machine has hosts."""
    groups = [group for group in machine.groups if group.cores]
    if not groups:
        return memory, cores
    sizes = np.array([group.cores for group in groups], np.float64)
    room = np.array([group.memory if group.memory is not None else np.inf for group in groups])
    cores = np.minimum(cores, int(sizes.max()))
    fits = cores[:, None] <= sizes[None, :]
    most = np.where(fits, room[None, :], 0.0).max(axis=1)
    return np.minimum(memory, most), cores
