"""What a schedule on hosts is worth: use of cores, memory and GPUs, fragmentation over time, pools.

Fragmentation at a moment has three definitions here: the share of idle GPUs (cores where there are none) that are on
partly used hosts; the number of partly used hosts (RLTune); and F of FGD, in `tracekit.sim.hosts.scores`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import pool_names
from tracekit.sim.compile import jit
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, UNLIMITED
from tracekit.sim.hosts.placements import Placements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def measure(placements: Placements, submit: Floats, start: Floats, run: Floats) -> dict[str, Any]:
    """Return the metrics of a schedule on hosts by name; None where the cluster has nothing of the kind."""
    model = placements
    need, span, log = placements.need[: len(start)], placements.span, placements.log
    total, gpus = model.total, model.fixed[:, 2]
    length = float((start + run).max() - submit.min()) if len(start) else 0.0
    held = {
        "core": need[:, CORES].astype(float),
        "memory": need[:, MEMORY].astype(float),
        "gpu": (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES].astype(float),
    }
    there = {
        "core": _sum(total[:, 0]),
        "memory": _sum(total[:, 1]),
        "gpu": float(gpus.sum() * MILLI_GPU) or None,
    }

    def share(kind: str, rows: Any = slice(None), capacity: float | None = None) -> float | None:
        size = capacity or there[kind]
        return None if size is None or length <= 0 else float((run[rows] * held[kind][rows]).sum() / (size * length))

    pool = model.fixed[log[span[: len(start), 0], 0], 0]
    pools = {}
    for number, name in enumerate(pool_names(model.demand.cluster)):
        rows, ours = pool == number, model.fixed[:, 0] == number
        kind = "gpu" if gpus[ours].any() else "core"
        size = float(gpus[ours].sum() * MILLI_GPU) if kind == "gpu" else _sum(total[ours, 0])
        pools[name or "all"] = {
            "jobs": int(rows.sum()),
            "mean_wait_s": float((start - submit)[rows].mean()) if rows.any() else None,
            "utilization": None if size is None else share(kind, rows, size),
        }
    times, frag = fragmentation_over_time(placements, start, run)
    return {
        "gpu_utilization": share("gpu"),
        "core_utilization": share("core"),
        "memory_utilization": share("memory"),
        "fragmentation": _time_mean(times, frag["share"], submit),
        "partly_used_hosts": _time_mean(times, frag["hosts"], submit),
        "pools": pools,
    }


def _sum(cells: Ints) -> float | None:
    """Return what hosts have together; None where one of them is not limited."""
    return None if (cells >= UNLIMITED).any() or not len(cells) else float(cells.sum()) or None


def _time_mean(times: Floats, values: Floats, submit: Floats) -> float | None:
    """Return the mean over time from the first submit to the last end; before the first start nothing is used."""
    if len(times) < 2 or times[-1] <= submit.min():
        return None
    return float((values[:-1] * np.diff(times)).sum() / (times[-1] - submit.min()))


def fragmentation_over_time(placements: Placements, start: Floats, run: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Return moments, and from each on ``share`` of idle units on partly used hosts, and ``hosts`` partly used."""
    model = placements
    events = np.concatenate((start, start + run))
    order = np.argsort(events, kind="stable").astype(np.int64)
    share, hosts = np.zeros(len(order)), np.zeros(len(order))
    by_gpus = bool(model.fixed[:, 2].any())
    capacity = model.fixed[:, 2] * MILLI_GPU if by_gpus else model.total[:, 0]
    need, span, log = placements.need, placements.span, placements.log
    each = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES] if by_gpus else need[:, CORES]
    _replay(order, len(start), capacity.copy(), capacity, each, need[:, PIECES].copy(), span, log, share, hosts)
    return events[order], {"share": share, "hosts": hosts}


@jit
def _replay(
    order: Ints,
    jobs: int,
    free: Ints,
    capacity: Ints,
    held: Ints,
    pieces: Ints,
    span: Ints,
    log: Ints,
    share: Floats,
    hosts: Floats,
) -> None:
    """Fill in the share of idle units on partly used hosts, and how many such hosts there are, after every event."""
    idle, partly, count = 0, 0, 0
    for h in range(len(free)):
        idle += free[h]
    for e in range(len(order)):
        job, sign = order[e], -1
        if job >= jobs:
            job, sign = job - jobs, 1
        for i in range(span[job, 0], span[job, 0] + span[job, 1]):
            part = sign * (log[i, 2] * held[job] // pieces[job])
            for h in range(log[i, 0], log[i, 1] + 1):
                if 0 < free[h] < capacity[h]:
                    partly -= free[h]
                    count -= 1
                free[h] += part
                idle += part
                if 0 < free[h] < capacity[h]:
                    partly += free[h]
                    count += 1
        share[e] = partly / idle if idle > 0 else 0.0
        hosts[e] = count
