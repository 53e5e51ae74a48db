"""What jobs ask of hosts as RLTune's code understands its tables (``--compat rltune``).

A job asks for whole GPUs and nothing else. On a cluster with GPU types (Alibaba) its pool is the number of its type, on
a cluster of pools with equal hosts (Helios) that of its virtual cluster; both are the field with index 18 of a row,
whatever the row's length. Negative numbers count from the last pool, as in Python. On a cluster of
pools with different hosts (Philly) a job uses any one pool, one of more than four GPUs only the largest hosts.
Jobs that never fit are kept: they stop the queue until the cluster is empty and are then dropped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import gpu_types, pool_names
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import Machine
from tracekit.sim.hosts.demand import GPUS, PIECES, POOL, SPREAD, TYPES, Demand, demand_of
from tracekit.trace import Trace

Ints = NDArray[np.int64]

#: How a job finds its pool: by virtual cluster, by GPU type, or any one.
BY_CLUSTER, BY_TYPE, ANY_POOL = "virtual cluster", "GPU type", "any pool"
#: Jobs of more GPUs use the pool of the largest hosts only, where they may use any.
SMALL_JOB = 4
#: The pool of a job whose number is out of range.
NO_POOL = -2


class RLTuneStops(TracekitError):
    """RLTune's own code ends with an error here."""


def pools_by(cluster: Machine) -> str:
    """Return how jobs find their pool on a cluster."""
    if not cluster.gpus:
        raise UsageError(
            f"cluster {cluster.name or ''} has no GPUs: RLTune schedules GPU jobs; use another --cluster, "
            "such as rltune-helios"
        )
    if gpu_types(cluster):
        return BY_TYPE
    sizes = {group.gpus for group in cluster.groups if group.gpus}
    return BY_CLUSTER if len(sizes) == 1 else ANY_POOL


def rltune_demand(trace: Trace, cluster: Machine) -> Demand:
    """Read the demands of a trace's jobs as RLTune's code does."""
    kind = pools_by(cluster)
    gpus = np.ceil(np.nan_to_num(trace.sizes("gpus", "requested"), nan=0.0))
    gpus = np.maximum(gpus, 0).astype(np.int64)
    label, pool = np.zeros(len(trace), np.int64), np.full(len(trace), -1)
    if kind == ANY_POOL:
        pool = np.where(gpus > SMALL_JOB, _largest(cluster), -1)
    else:
        label, pool = _numbered(trace, cluster, kind)
    need = np.zeros((len(trace), 8), np.int64)
    need[:, PIECES] = np.maximum(gpus, 1)
    need[:, GPUS] = gpus > 0
    need[:, SPREAD] = gpus > 1
    need[:, TYPES], need[:, POOL] = -1, pool
    allowed = np.ones((1, max(len(gpu_types(cluster)), 1)), bool)
    nothing = np.zeros(len(trace), np.int64)
    return Demand(need, nothing, (), allowed, 1, np.full(len(trace), np.nan), cluster, label=label)


def _largest(cluster: Machine) -> int:
    """Return the number of the pool with the largest hosts."""
    most = max(group.gpus or 0 for group in cluster.groups)
    return pool_names(cluster).index(next(g.pool or "" for g in cluster.groups if g.gpus == most))


def _numbered(trace: Trace, cluster: Machine, kind: str) -> tuple[Ints, Ints]:
    """Return each job's label and pool, by the number in the trace, else by names of pools or types."""
    pools = pool_names(cluster)
    numbers = field_18(trace)
    if numbers is None:  # a trace of another format
        demand = demand_of(trace, cluster)
        usable = demand.need[:, POOL] if kind == BY_CLUSTER else _pool_of_type(demand, cluster)
        unknown = np.flatnonzero((usable < 0) & (trace.sizes("gpus", "requested") > 0))
        if len(unknown):
            job = trace.jobs["job_id"].iloc[unknown[0]]
            raise UsageError(
                f"{len(unknown):,} jobs (first: job {job}) name no pool of the cluster ({', '.join(pools)}); "
                "--pools hash assigns the trace's pools to the cluster's"
            )
        return usable, usable
    inside = (numbers >= -len(pools)) & (numbers < len(pools))
    return numbers, np.where(inside, np.mod(numbers, len(pools)), NO_POOL)


def _pool_of_type(demand: Demand, cluster: Machine) -> Ints:
    """Return the pool of the only GPU type that each job allows; −1 where it allows none or several."""
    pools, kinds = pool_names(cluster), gpu_types(cluster)
    of_type = np.array([pools.index(next(g.pool or "" for g in cluster.groups if g.gpu_type == k)) for k in kinds])
    allowed = np.vstack([demand.types, np.zeros(len(kinds), bool)])[demand.need[:, TYPES]]
    return np.where(allowed.sum(axis=1) == 1, of_type[allowed.argmax(axis=1)], -1)


def field_18(trace: Trace) -> Ints | None:
    """Return the field with index 18 of each row of RLTune's tables, −1 where it is unknown; None in other traces.

    Rows of 20 fields have a think time before it: there it is the virtual cluster, in rows of 19 the GPU type.
    """
    name = "partition" if "think_time" in trace.jobs.columns else "gpu_type"
    if name not in trace.jobs.columns:
        return np.full(len(trace), -1) if "x_status" in trace.jobs.columns else None
    labels = [str(label) for label in trace.jobs[name].cat.categories]
    if not all(_is_whole(label) for label in labels):
        return None
    return np.array([*(int(float(label)) for label in labels), -1])[trace.column(name)]


def _is_whole(label: str) -> bool:
    try:
        return float(label).is_integer()
    except ValueError:
        return False


def refuse(demand: Demand, job_id: Ints) -> None:
    """Raise an error where a job's number of a pool is out of range, at which RLTune's code stops."""
    outside = np.flatnonzero(demand.need[:, POOL] == NO_POOL)
    if len(outside):
        raise RLTuneStops(
            f"job {job_id[outside[0]]} names a {pools_by(demand.cluster)} that is not one of the cluster's "
            f"{len(pool_names(demand.cluster))}: RLTune's code stops with an IndexError"
        )
