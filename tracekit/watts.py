"""The electric power of jobs: how many nodes a job has, and what these can draw at most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.machine import MOST_HOSTS, HostGroup, Machine
from tracekit.trace import Trace

Floats = NDArray[np.float64]  # shape (jobs,)

#: Watts of one node, at most, where the machine's power is unknown: several times the largest nodes that are sold.
MOST_NODE_WATTS = 100_000.0


def node_watts(machine: Machine) -> float | None:
    """Return the most that one node of a machine can draw: all cores and GPUs busy, losses included.

    None if unknown: some group has no watts of busy cores or GPUs.
    """
    drawn = [_busy_watts(group) for group in machine.groups]
    known = [watts for watts in drawn if watts is not None]
    return max(known) if known and len(known) == len(drawn) else None


def _busy_watts(group: HostGroup) -> float | None:
    if group.core_watts is None and group.gpu_watts is None:
        return None
    idle = group.idle_watts if group.idle_watts is not None else group.power
    cores, gpus = group.cores or 0, group.gpus or 0
    watts = (idle or 0.0) + cores * (group.core_watts or 0.0)
    watts += gpus * ((group.gpu_idle_watts or 0.0) + (group.gpu_watts or 0.0))
    watts += (group.memory_watts or 0.0) + (group.nic_watts or 0.0) + (group.other_watts or 0.0)
    return (watts + (group.loss_constant or 0.0)) / (group.loss_efficiency or 1.0)


def most_nodes(trace: Trace) -> Floats:
    """Return how many nodes each job had at most: its nodes, else one for each processor or GPU, else all there are."""
    there = float(trace.machine.nodes or sum(group.count for group in trace.machine.groups) or MOST_HOSTS)
    spread = np.fmax(trace.sizes("procs", "max"), trace.sizes("gpus", "max"))
    spread = np.where(spread > 0, np.minimum(np.ceil(spread), there), there)
    nodes = trace.sizes("nodes", "max")
    return np.where(nodes > 0, nodes, spread)


def most_watts(trace: Trace, machine: Machine | None = None) -> Floats:
    """Return the watts that the nodes of each job can draw at most, on the trace's machine or another."""
    each = node_watts(machine or trace.machine)
    return most_nodes(trace) * (MOST_NODE_WATTS if each is None else each)
