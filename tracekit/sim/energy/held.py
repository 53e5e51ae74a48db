"""What jobs hold of a machine's groups of hosts: by placements, by the hosts column of a schedule, or by sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import host_names
from tracekit.errors import TracekitError
from tracekit.machine import Machine, Unit
from tracekit.sim.energy.model import GroupPower
from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES
from tracekit.sim.hosts.parse import parse_hosts
from tracekit.sim.hosts.placements import Placements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Held:
    """Cores and GPUs that jobs hold while they run; a job has an entry, or several, for each group that it uses."""

    job: Ints  # (entries,)
    group: Ints  # (entries,)
    cores: Floats  # (entries,)
    gpus: Floats  # (entries,)


def held_on_hosts(hosts: Sequence[str], cluster: Machine) -> Held:
    """Return what jobs hold by where they ran, one text ``host:cores/gpus+…`` for each job."""
    edges = np.append(0, np.cumsum([group.count for group in cluster.groups]))
    if isinstance(hosts, Placements):
        return _placed(hosts, edges)
    parts = parse_hosts(hosts, host_names(cluster))
    if parts.strange is not None:
        raise TracekitError(f"the schedule names host {parts.strange}, which is not in cluster {cluster.name}")
    return Held(parts.row, np.searchsorted(edges, parts.host, side="right") - 1, parts.cores, parts.gpus)


def _placed(placements: Placements, edges: Ints) -> Held:
    """Return what jobs hold by the log of their placements: ranges of hosts, each with the same share of the job."""
    need = placements.need[: len(placements)]
    job, entry = placements.entries(len(placements))
    pieces = entry[:, 2]
    cores = pieces * need[job, CORES] // need[job, PIECES] / placements.demand.scale
    gpus = pieces * np.where(need[job, GPUS] > 0, need[job, GPUS], need[job, MILLI] / MILLI_GPU)
    found = []
    for group, (first, last) in enumerate(itertools.pairwise(edges.tolist())):
        hosts = np.minimum(entry[:, 1] + 1, last) - np.maximum(entry[:, 0], first)
        ours = np.flatnonzero(hosts > 0)
        found.append((job[ours], np.full(len(ours), group), (hosts * cores)[ours], (hosts * gpus)[ours]))
    return Held(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def held_by_size(size: Floats, unit: Unit, group: GroupPower) -> Held:
    """Return what jobs hold of hosts that are all alike, by their size in processors, nodes or GPUs.

    A unit is a share of a host: a job of half the cores of a host holds half of its GPUs.
    """
    cores, gpus = group.cores or 0.0, group.gpus
    of_host = {"procs": cores or 1.0, "nodes": 1.0, "gpus": gpus or 1.0}[unit]
    hosts = size / of_host
    return Held(np.arange(len(size)), np.zeros(len(size), np.int64), hosts * cores, hosts * gpus)
