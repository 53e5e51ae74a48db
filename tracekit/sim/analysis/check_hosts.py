"""Is a schedule possible on the hosts of a cluster? For any schedule with a ``hosts`` column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import cluster_of, gpu_types, host_names, pool_names
from tracekit.errors import FormatError
from tracekit.machine import Machine
from tracekit.sim.analysis.check import Violation
from tracekit.sim.hosts.demand import (
    CORES,
    GPUS,
    MEMORY,
    MILLI,
    MILLI_GPU,
    PIECES,
    POOL,
    SPREAD,
    TYPES,
    demand_of,
)
from tracekit.sim.hosts.parse import parse_hosts
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_NEAR = 1e-6
_MOST_STEPS = 2_000


def check_hosts(schedule: pd.DataFrame, trace: Trace, cluster: str | Machine) -> list[Violation]:
    """Return the first violation of each kind: over-commitment, pool mixing, split gangs, wrong hosts, too little."""
    machine = cluster_of(cluster)
    if "hosts" not in schedule.columns:
        raise FormatError("the schedule", "has no column hosts", hint="simulate --cluster writes host:cores/gpus+…")
    parts = parse_hosts(schedule["hosts"].fillna("").astype(str), host_names(machine))
    job_id = schedule["job_id"].to_numpy().astype(np.int64)
    ids = trace.column("job_id")
    order = np.argsort(ids, kind="stable")
    slot = np.minimum(np.searchsorted(ids[order], job_id), max(len(ids) - 1, 0))
    demand = demand_of(trace, machine)
    need = demand.need[order[slot]] if len(ids) else np.zeros((len(job_id), 8), np.int64)
    found: list[Violation] = []

    def note(kind: str, rows: NDArray[np.bool_], words: Any) -> None:
        if rows.any():
            first = int(np.flatnonzero(rows)[0])
            found.append(Violation(kind, int(rows.sum()), f"job {job_id[first]} {words(first)}"))

    unknown = np.zeros(len(job_id), bool)
    unknown[parts.row[parts.host < 0]] = True
    note("unknown-host", unknown, lambda row: f"runs on {parts.strange}, which is not in the cluster")
    known = parts.host >= 0
    row, host = parts.row[known], parts.host[known]
    fixed = _fixed(machine)
    cores, gpus = parts.cores[known], parts.gpus[known]
    count = len(job_id)
    total_cores = np.bincount(row, weights=cores, minlength=count)
    total_gpus = np.bincount(row, weights=gpus, minlength=count)
    scale, pieces = demand.scale, need[:, PIECES]
    asked_cores = need[:, CORES] / scale
    asked_gpus = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * pieces / MILLI_GPU
    placed = np.bincount(row, minlength=count) > 0
    note("not-placed", ~placed & ~unknown, lambda i: "names no host")
    note(
        "too-little",
        placed & ((total_cores < asked_cores - 1e-3 * pieces) | (total_gpus < asked_gpus - _NEAR)),
        lambda i: (
            f"holds {total_cores[i]:g} cores and {total_gpus[i]:g} GPUs but asks for {asked_cores[i]:g} and "
            f"{asked_gpus[i]:g}"
        ),
    )
    low, high = np.full(count, 2**31), np.full(count, -1)
    np.minimum.at(low, row, fixed[host, 0])
    np.maximum.at(high, row, fixed[host, 0])
    pools = [name or "all" for name in pool_names(machine)]
    note("pool-mixing", placed & (low < high), lambda i: f"runs in the pools {pools[low[i]]} and {pools[high[i]]}")
    wanted = need[:, POOL]
    note(
        "wrong-pool",
        placed & (wanted >= 0) & (low == high) & (low != wanted),
        lambda i: f"runs in the pool {pools[low[i]]} but belongs to {pools[wanted[i]]}",
    )
    note("wrong-gpu-type", _wrong_type(demand, machine, need, row, host, fixed), lambda i: "runs on another GPU type")
    note("split-gang", _split(need, scale, row, cores, gpus, count), lambda i: "has a task divided between hosts")
    found += _over(schedule, machine, need, row, host, cores, gpus)
    if not any(violation.kind == "over-committed-gpus" for violation in found):
        found += _over_devices(schedule, machine, need, row, host, gpus)
    return found


def _fixed(machine: Machine) -> Ints:
    """Return (hosts, 2): pool and GPU type (−1 none)."""
    pools, types = pool_names(machine), gpu_types(machine)
    rows = [(pools.index(g.pool or ""), types.index(g.gpu_type) if g.gpu_type in types else -1) for g in machine.groups]
    return np.repeat(np.array(rows, np.int64), [g.count for g in machine.groups], axis=0)


def _wrong_type(demand: Any, machine: Machine, need: Ints, row: Ints, host: Ints, fixed: Ints) -> NDArray[np.bool_]:
    wrong = np.zeros(len(need), bool)
    types = need[row, TYPES]
    wants = (need[row, GPUS] > 0) | (need[row, MILLI] > 0)
    if not gpu_types(machine):
        return wrong
    allowed = demand.types[np.maximum(types, 0), np.maximum(fixed[host, 1], 0)] & (fixed[host, 1] >= 0)
    wrong[row[wants & (types >= 0) & ~allowed]] = True
    return wrong


def _split(need: Ints, scale: int, row: Ints, cores: Floats, gpus: Floats, count: int) -> NDArray[np.bool_]:
    """Return the jobs of which some host holds part of a task; jobs that may spread have none."""
    pieces = need[row, PIECES]
    each_cores = need[row, CORES] / pieces / scale
    each_gpus = (need[row, GPUS] * MILLI_GPU + need[row, MILLI]) / MILLI_GPU
    with np.errstate(divide="ignore", invalid="ignore"):
        by_cores = np.where(each_cores > 0, cores / each_cores, np.nan)
        by_gpus = np.where(each_gpus > 0, gpus / each_gpus, np.nan)
    tasks = np.where(np.isnan(by_gpus), by_cores, by_gpus)
    other = np.where(np.isnan(by_cores), tasks, by_cores)
    whole = (np.abs(tasks - np.round(tasks)) < 1e-2) & (np.round(tasks) >= 1) & (other > np.round(tasks) - 1e-2)
    split = np.zeros(count, bool)
    split[row[~whole & (need[row, SPREAD] == 0)]] = True
    return split


def _over(
    schedule: pd.DataFrame, machine: Machine, need: Ints, row: Ints, host: Ints, cores: Floats, gpus: Floats
) -> list[Violation]:
    """Return the first moment at which a host holds more cores, memory or GPUs than it has."""
    start, end = (schedule[name].to_numpy(dtype=np.float64)[row] for name in ("start_time", "end_time"))
    totals = np.bincount(row, weights=cores, minlength=len(need)), np.bincount(row, weights=gpus, minlength=len(need))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(totals[0][row] > 0, cores / totals[0][row], gpus / totals[1][row])
    memory = need[row, MEMORY] * np.nan_to_num(part)
    counts = [g.count for g in machine.groups]
    names = host_names(machine)
    found = []
    for kind, held, most in (
        ("cores", cores, [np.inf if g.cores is None else g.cores for g in machine.groups]),
        ("memory", memory, [np.inf if g.memory is None else g.memory for g in machine.groups]),
        ("gpus", gpus, [g.gpus or 0 for g in machine.groups]),
    ):
        size = np.repeat(np.array(most, dtype=np.float64), counts)
        over = _first_over(host, start, end, held, size, 4.0 if kind == "memory" else 1e-3)
        if over is not None:
            times, at, h, used = over
            words = f"at time {at:.15g}, {names[h]} holds {used:g} of {size[h]:g} {'KB' if kind == 'memory' else kind}"
            found.append(Violation(f"over-committed-{kind}", times, words))
    return found


def _first_over(
    host: Ints, start: Floats, end: Floats, held: Floats, size: Floats, slack: float
) -> tuple[int, float, int, float] | None:
    """Return how often, when, where and by how much a host first holds more than it has."""
    long = (end > start) & (held > 0)
    host, start, end, held = host[long], start[long], end[long], held[long]
    hosts = np.concatenate((host, host))
    times = np.concatenate((start, end))
    change = np.concatenate((held, -held))
    order = np.lexsort((change, times, hosts))  # of one moment, what ends comes first
    hosts, times, change = hosts[order], times[order], change[order]
    used = np.cumsum(change)
    first = np.concatenate(([True], hosts[1:] != hosts[:-1])) if len(hosts) else np.zeros(0, bool)
    before = np.where(first, used - change, 0.0)
    used -= before[np.maximum.accumulate(np.where(first, np.arange(len(used)), 0))]
    over = used > size[hosts] * (1 + 1e-9) + slack
    if not over.any():
        return None
    at = np.flatnonzero(over)[np.argmin(times[over])]
    return int(over.sum()), float(times[at]), int(hosts[at]), float(used[at])


# ---- shared GPUs -----------------------------------------------------------------------------------------------------


def _over_devices(
    schedule: pd.DataFrame, machine: Machine, need: Ints, row: Ints, host: Ints, gpus: Floats
) -> list[Violation]:
    """Return the first moment at which the shares that a host holds cannot be on its GPUs, one GPU each.

    The file does not say which GPU a share is on: only what no division between the GPUs allows is found.
    """
    start, end = (schedule[name].to_numpy(dtype=np.float64)[row] for name in ("start_time", "end_time"))
    devices = np.repeat([g.gpus or 0 for g in machine.groups], [g.count for g in machine.groups])
    share = need[row, MILLI]
    number = np.where(share > 0, np.round(gpus * MILLI_GPU / np.maximum(share, 1)), np.ceil(gpus - _NEAR)).astype(int)
    size = np.where(share > 0, share, MILLI_GPU)
    times, first = 0, (np.inf, -1)
    there = np.flatnonzero((end > start) & (number > 0))
    there = there[np.argsort(host[there], kind="stable")]
    edges = np.flatnonzero(np.diff(host[there])) + 1
    for rows in np.split(there, edges):
        if not len(rows) or not (share[rows] > 0).any():
            continue
        h, held = int(host[rows[0]]), dict.fromkeys(size[rows].tolist(), 0)
        for at, change, milli in _changes(start[rows], end[rows], number[rows], size[rows]):
            held[milli] += change
            if change > 0 and not fits_devices(held, int(devices[h])):
                times += 1
                first = min(first, (at, h))
    if not times:
        return []
    at, h = first
    words = f"at time {at:.15g}, the shares on {host_names(machine)[h]} do not fit on {devices[h]} GPUs, each on one"
    return [Violation("over-committed-devices", times, words)]


def _changes(start: Floats, end: Floats, number: Ints, size: Ints) -> list[tuple[float, int, int]]:
    """Return (time, tasks more or fewer, thousandths of a GPU of each) on a host; of one moment, ends come first."""
    begun = zip(start.tolist(), number.tolist(), size.tolist(), strict=True)
    ended = zip(end.tolist(), (-number).tolist(), size.tolist(), strict=True)
    return sorted([*begun, *ended])


def fits_devices(held: dict[int, int], devices: int) -> bool:
    """Return whether shares (thousandths → how many) can be placed on so many GPUs, each on one GPU.

    True where a search of `_MOST_STEPS` steps finds neither a way nor that there is none.
    """
    items = sorted((milli for milli, count in held.items() for _ in range(count)), reverse=True)
    if sum(items) > devices * MILLI_GPU or sum(2 * milli > MILLI_GPU for milli in items) > devices:
        return False
    failed: set[tuple[int, ...]] = set()  # free thousandths of the GPUs, after which the rest does not fit
    steps = [_MOST_STEPS]

    def place(number: int, free: tuple[int, ...]) -> bool:
        if number == len(items) or steps[0] <= 0:
            return True
        if (number, *free) in failed:
            return False
        steps[0] -= 1
        for d, room in enumerate(free):  # the fullest first; of equals one
            if room < items[number] or (d > 0 and free[d - 1] == room):
                continue
            left = tuple(sorted((*free[:d], room - items[number], *free[d + 1 :])))
            if place(number + 1, left):
                return True
        failed.add((number, *free))
        return False

    return place(0, (MILLI_GPU,) * devices)
