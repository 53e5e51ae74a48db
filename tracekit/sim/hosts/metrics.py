"""What a schedule on hosts is worth: use of cores, memory and GPUs, fragmentation over time, pools and GPU types.

Fragmentation at a moment has four measures, all of GPUs (of cores where the cluster has no GPUs): ``share`` of the idle
ones that are on partly used hosts; ``hosts`` partly used (partial nodes of RLTune); ``waste``, the share of all GPUs
that are in use on such hosts (RLTune); and ``f``, F of FGD as a share of all GPUs (`tracekit.sim.hosts.scores`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import gpu_types, pool_names
from tracekit.sim.compile import jit
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, UNLIMITED
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.hosts.scores import fragmentation
from tracekit.sim.hosts.state import CELLS, FREE, NOW, TASKS, look

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Names of the measures of fragmentation in results.
FRAGMENTATION = {
    "fragmentation": "share",
    "fragmentation_partial_hosts": "hosts",
    "fragmentation_waste": "waste",
    "fragmentation_fgd": "f",
}
#: F is left out above this many devices × typical tasks × changes of a host: it would take longer than the simulation.
MOST_LOOKS = 2_000_000_000
#: What GPUs without a type are called beside those with one.
UNTYPED = "untyped"


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
    found = {
        "gpu_utilization": share("gpu"),
        "core_utilization": share("core"),
        "memory_utilization": share("memory"),
    }
    found |= {key: _time_mean(times, frag[name], submit) for key, name in FRAGMENTATION.items()}
    return found | {"pools": pools, "gpu_types": by_gpu_type(placements, submit, start, run, length)}


def by_gpu_type(
    placements: Placements, submit: Floats, start: Floats, run: Floats, length: float
) -> dict[str, dict[str, Any]]:
    """Return jobs, mean wait and utilization of the GPUs of each type; a job with GPUs of two types counts for both.

    Empty where the cluster states no type; GPUs without one are `UNTYPED`. Utilization is over ``length`` seconds.
    """
    known, gpus = gpu_types(placements.demand.cluster), placements.fixed[:, 2]
    if not known:
        return {}
    need = placements.need[: len(start)]
    owner, entry = placements.entries(len(start))
    each = np.where(need[:, GPUS] > 0, need[:, GPUS] * MILLI_GPU, need[:, MILLI])
    found = {}
    for number, name in [*enumerate(known), (-1, UNTYPED)]:
        ours = (placements.fixed[:, 1] == number) & (gpus > 0)
        if not ours.any():
            continue
        before = np.append(0, np.cumsum(ours))  # hosts of the type before each host
        hosts = before[entry[:, 1] + 1] - before[entry[:, 0]]
        held = np.bincount(owner, weights=hosts * entry[:, 2] * each[owner], minlength=len(start))
        rows, size = held > 0, float(gpus[ours].sum() * MILLI_GPU)
        found[name] = {
            "jobs": int(rows.sum()),
            "mean_wait_s": float((start - submit)[rows].mean()) if rows.any() else None,
            "utilization": float((run * held).sum() / (size * length)) if length > 0 else None,
        }
    return found


def _sum(cells: Ints) -> float | None:
    """Return what hosts have together; None where one of them is not limited."""
    return None if (cells >= UNLIMITED).any() or not len(cells) else float(cells.sum()) or None


def _time_mean(times: Floats, values: Floats, submit: Floats) -> float | None:
    """Return the mean over time from the first submit to the last end; before the first start nothing is used."""
    if len(times) < 2 or times[-1] <= submit.min() or np.isnan(values).any():
        return None
    return float((values[:-1] * np.diff(times)).sum() / (times[-1] - submit.min()))


def fragmentation_over_time(
    placements: Placements, start: Floats, run: Floats, *, fgd: bool = True
) -> tuple[Floats, dict[str, Floats]]:
    """Return moments, and from each on ``share``, ``hosts``, ``waste`` and ``f`` as the module says.

    ``f`` is NaN without ``fgd``, where there are no GPUs, and where it would take too long.
    """
    model = placements
    events = np.concatenate((start, start + run))
    order = np.argsort(events, kind="stable").astype(np.int64)
    found = np.full((4, len(order)), np.nan)
    by_gpus = bool(model.fixed[:, 2].any())
    capacity = model.fixed[:, 2] * MILLI_GPU if by_gpus else model.total[:, 0]
    need, span, log = placements.need, placements.span, placements.log
    each = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES] if by_gpus else need[:, CORES]
    state = np.zeros(0, np.int64), np.zeros(0)
    if fgd and by_gpus and len(start):
        state = _state(placements, len(start))
    _replay(order, len(start), capacity.copy(), capacity, each, need, span, log, *state, found)
    return events[order], dict(zip(FRAGMENTATION.values(), found, strict=True))


def _state(placements: Placements, jobs: int) -> tuple[Ints, Floats]:
    """Return idle hosts on which F can be worked out; empty arrays where that would take too long."""
    _, log = placements.entries(jobs)
    model = HostModel(placements.demand)
    looks = 2.0 * float((log[:, 1] - log[:, 0] + 1).sum()) * len(model.share) * float(model.fixed[:, 2].max())
    if looks > MOST_LOOKS:
        return np.zeros(0, np.int64), np.zeros(0)
    hosts = model.idle_hosts(placements.demand.take(slice(0, 0)), seed=0)
    return hosts.data, hosts.real


@jit
def _replay(
    order: Ints,
    jobs: int,
    free: Ints,
    capacity: Ints,
    held: Ints,
    need: Ints,
    span: Ints,
    log: Ints,
    m: Ints,
    f: Floats,
    found: Floats,
) -> None:
    """Fill in the four measures after every event; F only where ``m`` holds idle hosts."""
    idle, partly, used, count, size, stuck = 0, 0, 0, 0, 0, 0.0
    for h in range(len(free)):
        idle += free[h]
    size = idle
    if len(m):
        look(m, m[FREE], NOW, 0)
        for h in range(len(free)):
            f[m[TASKS] + h] = fragmentation(m, f, m, h, 0, 0, 0)
            stuck += f[m[TASKS] + h]
    for e in range(len(order)):
        job, sign = order[e], -1
        if job >= jobs:
            job, sign = job - jobs, 1
        for i in range(span[job, 0], span[job, 0] + span[job, 1]):
            part = sign * (log[i, 2] * held[job] // need[job, PIECES])
            for h in range(log[i, 0], log[i, 1] + 1):
                if 0 < free[h] < capacity[h]:
                    partly -= free[h]
                    used -= capacity[h] - free[h]
                    count -= 1
                free[h] += part
                idle += part
                if 0 < free[h] < capacity[h]:
                    partly += free[h]
                    used += capacity[h] - free[h]
                    count += 1
                if len(m) and capacity[h] > 0:
                    cell = m[FREE] + h * m[CELLS]
                    m[cell] += sign * (log[i, 2] * need[job, CORES] // need[job, PIECES])
                    d, bits = 0, log[i, 3]
                    while bits >> d:
                        if (bits >> d) & 1:
                            m[cell + 2 + d] += sign * (MILLI_GPU if need[job, GPUS] > 0 else need[job, MILLI])
                        d += 1
                    stuck -= f[m[TASKS] + h]
                    f[m[TASKS] + h] = fragmentation(m, f, m, h, 0, 0, 0)
                    stuck += f[m[TASKS] + h]
        found[0, e] = partly / idle if idle > 0 else 0.0
        found[1, e] = count
        found[2, e] = used / size if size > 0 else 0.0
        if len(m):
            found[3, e] = max(stuck, 0.0) / size
