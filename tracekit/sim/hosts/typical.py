"""Typical tasks of the allocator fgd: the most frequent shapes of the demands of the jobs that are simulated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, PIECES, TYPES, Demand

Ints = NDArray[np.int64]

#: The most frequent shapes are kept, up to this share of all jobs.
TYPICAL_SHARE = 0.95


def shapes_of(demand: Demand) -> tuple[Ints, Ints]:
    """Return the different shapes of tasks (cores, GPUs, thousandths, types) and how many jobs have each."""
    need = demand.need
    shape = np.stack([need[:, CORES] // need[:, PIECES], need[:, GPUS], need[:, MILLI], need[:, TYPES]], axis=1)
    return np.unique(shape, axis=0, return_counts=True)


def typical_tasks(demand: Demand) -> tuple[Ints, NDArray[np.float64]]:
    """Return the most frequent shapes of tasks and their shares, which sum to 1."""
    if not len(demand.need):
        return np.zeros((0, 4), np.int64), np.zeros(0)
    shapes, counts = shapes_of(demand)
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    kept = order[before < TYPICAL_SHARE * counts.sum()]
    return shapes[kept].astype(np.int64), counts[kept] / counts[kept].sum()
