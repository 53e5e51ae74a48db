"""What an agent can see of the hosts that a job may get: features by name, and observers, which are lists of them.

Every row is one host. Features of the job and of the queue are the same in all rows of a question. Shares are of the
host itself; "of the largest" is relative to the largest host of the cluster; x/(x + s) grows from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName
from tracekit.sim.hosts.demand import CORES, MEMORY, MILLI_GPU, PIECES, UNLIMITED, Demand
from tracekit.sim.jobs import Table

Floats = NDArray[np.float64]

#: Every feature, in the order of their codes, and what it is.
MEANING = {
    "free-cores": "free share of the host's cores",
    "free-memory": "free share of its memory; 1 where it is not limited",
    "free-gpus": "free share of its GPUs; 0 where it has none",
    "cores-now": "free cores, of the largest host",
    "memory-now": "free memory, of the largest host",
    "gpus-now": "free GPUs, of the largest host",
    "left-cores": "free share of cores after placing the job",
    "left-memory": "free share of memory after placing the job",
    "left-gpus": "free share of GPUs after placing the job",
    "host-cores": "cores, of the largest host",
    "host-memory": "memory, of the largest host",
    "jobs-there": "running jobs n, n/(n + 8)",
    "next-end": "time until the next job there ends by its estimate, x/(x + run)",
    "last-end": "time until all jobs there have ended by their estimates, x/(x + run)",
    "work-there": "core-seconds left by estimates per core, x/(x + run)",
    "stranded": "difference of the free shares of cores and memory after placing the job",
    "like-queue": "memory per core left on the host against memory per core of the queue, tanh of the log ratio",
    "outlasts": "by how much the job outlasts all that runs there, of its estimate",
    "job-cores": "the job's cores, of the largest host",
    "job-memory": "the job's memory, of the largest host",
    "job-gpus": "the job's GPUs, of the largest host",
    "job-run": "its estimate, x/(x + run)",
    "job-wait": "its wait so far, x/(x + run)",
    "queue": "jobs in the queue per host, x/(1 + x)",
    "core-pressure": "cores that the queue asks for against all cores, x/(1 + x)",
    "memory-pressure": "memory that the queue asks for against all memory, x/(1 + x)",
    "cluster-free": "free share of all cores",
    "choices": "share of the hosts that have room",
    "last-core-use": "LSF: use of cores when it was last sampled",
    "last-memory-use": "LSF: use of memory when it was last sampled",
    "last-free-cores": "LSF: free cores then, of the largest host",
    "last-free-memory": "LSF: free memory then, of the largest host",
    "lsf-cores": "LSF: the job's cores, of the largest job",
    "lsf-memory": "LSF: the job's memory, of the largest job",
    "lsf-run": "LSF: the job's run time (not its estimate), of the longest job",
    "deferred": "LSF: 1 after more than a second of waiting",
    "batch-place": "LSF: tanh(place in the cycle / hosts)",
    "batch-size": "LSF: tanh(jobs of the cycle / hosts)",
    "batch-cores": "LSF: cores of the cycle's jobs, of all cores",
    "batch-memory": "LSF: memory of the cycle's jobs, of all memory",
}
CODES = {name: code for code, name in enumerate(MEANING)}
_NAMES = tuple(MEANING)
OBSERVERS: dict[str, tuple[str, ...]] = {
    "default": _NAMES[: CODES["last-core-use"]],
    "lsf-4h2": ("last-core-use", "last-memory-use", "host-cores", "host-memory", "lsf-cores", "lsf-memory"),
    "lsf-2h8": (
        "last-free-cores",
        "last-free-memory",
        *("lsf-cores", "lsf-memory", "lsf-run", "deferred", "batch-place", "batch-size", "batch-cores", "batch-memory"),
    ),
}
#: How many features of an observer are of the host; the others are of the job and of the queue.
OF_HOST = {"default": CODES["job-cores"], "lsf-4h2": 4, "lsf-2h8": 2}

#: What features are divided by, in the order of `HostLanes.scales`: the largest host, the largest job, seconds.
CONSTANTS = (
    *("host_cores", "host_memory", "host_gpus", "job_cores", "job_memory", "job_run"),
    *("cores", "memory", "run_s"),
)


def features_of(observer: str) -> tuple[str, ...]:
    """Return the features of an observer, or of a list of features with commas."""
    if observer in OBSERVERS:
        return OBSERVERS[observer]
    names = tuple(part.strip() for part in observer.split(","))
    for name in names:
        if name not in CODES:
            raise UnknownName("observer or feature", name, [*OBSERVERS, *CODES])
    return names


def constants_of(table: Table) -> dict[str, float]:
    """Return the scales of a trace on a cluster; those that an agent was trained with take precedence."""
    assert table.demand is not None
    demand = table.demand
    need = demand.need[demand.reason == 0]
    request = np.where(table.limit > 0, table.limit, table.run)
    request, run = request[np.isfinite(request) & (request > 0)], table.run[np.isfinite(table.run)]
    pieces = np.maximum(need[:, PIECES], 1)
    return {
        **largest_host(demand),
        "job_cores": float(max((need[:, CORES] / pieces).max(initial=1), 1)) / demand.scale,
        "job_memory": float(max((need[:, MEMORY] / pieces).max(initial=1), 1)),
        "job_run": float(max(run.max(initial=1.0), 1.0)),
        "run_s": float(np.median(request)) if len(request) else 600.0,
    }


def largest_host(demand: Demand) -> dict[str, float]:
    """Return the constants that follow from the cluster alone; what is not limited counts as nothing."""
    groups = demand.cluster.groups
    cores, memory = [float(g.cores or 0) for g in groups], [float(int(g.memory or 0)) for g in groups]
    return {
        "host_cores": max(*cores, 1.0),
        "host_memory": max(*memory, 1.0),
        "host_gpus": float(max(*(g.gpus or 0 for g in groups), 1)),
        "cores": max(sum(c * g.count for c, g in zip(cores, groups, strict=True)), 1.0),
        "memory": max(sum(m * g.count for m, g in zip(memory, groups, strict=True)), 1.0),
    }


def scales_of(constants: Mapping[str, float], demand: Demand) -> Floats:
    """Return the constants as the compiled code needs them: cores in units, GPUs in thousandths."""
    factor: dict[str, Any] = dict.fromkeys(("host_cores", "job_cores", "cores"), demand.scale)
    factor |= {"host_gpus": MILLI_GPU}
    return np.array([constants[name] * factor.get(name, 1) for name in CONSTANTS])


def facts_of(total: NDArray[np.int64], gpus: NDArray[np.int64], scales: Floats) -> Floats:
    """Return what is fixed of each host, see `HostLanes.facts`, from its cells when it is idle and its GPUs."""
    size, limited = total[:, 0].astype(np.float64), total[:, 1] < UNLIMITED
    room, parts = np.maximum(total[:, 1], 1), np.maximum(gpus, 1) * MILLI_GPU
    most_cores, most_memory = scales[CONSTANTS.index("host_cores")], scales[CONSTANTS.index("host_memory")]
    return np.stack(
        [
            size,
            1.0 / np.maximum(size, 1.0),
            np.where(limited, 1.0 / room, 0.0),
            np.where(gpus > 0, 1.0 / parts, 0.0),
            np.minimum(size / most_cores, 1.0),
            np.where(limited, total[:, 1] / most_memory, 1.0),
        ],
        axis=1,
    )


def wanted_of(codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return what features with these codes need, see `HostLanes.wanted`."""
    first, last = CODES["last-core-use"], CODES["lsf-cores"]
    ours = (codes < CODES["job-cores"]) & (codes != CODES["host-cores"]) & (codes != CODES["host-memory"])
    sampled = (codes >= first) & (codes < last)
    return np.array([np.array_equal(codes, np.arange(first)), ours.any(), sampled.any()])
