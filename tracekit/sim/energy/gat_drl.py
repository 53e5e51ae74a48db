"""The energy model of GAT-DRL (github.com/myandelaepu/graph-augmented-hpc-scheduler, ``gatdrlscheduler.py``), as coded.

u = min(used cores / cores, 1). Compute: u^k·base·nodes + 0.3·base·nodes + GPUs, GPUs: min(1.2·u, 1)·300 W each; memory:
40·u·nodes; network: (20 + 30·a)·nodes, a = min(nodes of jobs on several nodes / (24·nodes), 1), or 0.1 without any;
cooling: (PUE − 1) of all that. Without jobs nothing is drawn. It is here for comparison: u^k of the whole machine's
utilisation makes the same jobs cheaper or dearer by when they run, which no machine does (`docs/energy.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.machine import Machine
from tracekit.sim.energy.held import Held
from tracekit.sim.energy.integrate import COMPUTE, COOLING, GPU, KWH, MEMORY, NETWORK, PARTS, Energy, Load
from tracekit.sim.energy.model import GroupPower

Floats = NDArray[np.float64]

NAME = "gat-drl"
#: Watts per node, exponent k and PUE of its three systems.
SYSTEMS = {"polaris": (350.0, 2.8, 1.1), "mira": (160.0, 2.5, 1.2), "cooley": (280.0, 3.0, 1.15)}
#: What it counts as cores are threads on these systems, so many per core.
THREADS = {"polaris": 2}


@dataclass(frozen=True)
class GatDrl:
    """Its model for one machine."""

    nodes: float
    cores: float  # of a node
    gpus: float  # of a node
    base: float  # watts of a node
    exponent: float
    pue: float

    def watts(self, cores: Floats, nodes: Floats, several: Floats, running: Floats) -> Floats:
        """Return the watts, (steps, parts), of used cores, nodes of jobs on several nodes, and counts of jobs.

        ``several`` is how many jobs run on several nodes, ``running`` how many run at all; all (steps,). Its compute
        part is ours and the GPUs together.
        """
        used = np.minimum(cores / (self.nodes * self.cores), 1.0)
        active = np.where(several > 0, np.minimum(nodes / (24 * self.nodes), 1.0), 0.1)
        found = np.zeros((len(used), len(PARTS)))
        found[:, COMPUTE] = (used**self.exponent + 0.3) * self.base * self.nodes
        found[:, GPU] = np.minimum(1.2 * used, 1.0) * 300.0 * self.gpus * self.nodes
        found[:, MEMORY] = used * 40.0 * self.nodes
        found[:, NETWORK] = (20.0 + 30.0 * active) * self.nodes
        found[:, COOLING] = found.sum(axis=1) * (self.pue - 1.0)
        found[running <= 0] = 0.0
        return found


def is_gat_drl(power: str) -> bool:
    """Return whether ``--power`` names this model: gat-drl, or gat-drl:SYSTEM."""
    return power.partition(":")[0] == NAME


def system_of(power: str, machine: Machine) -> str:
    """Return whose watts are meant: ``gat-drl:mira`` has those of Mira, whatever the machine is called."""
    system = power.partition(":")[2] or machine.name.lower()
    if system not in SYSTEMS:
        raise UsageError(
            f"gat-drl has watts for {', '.join(SYSTEMS)}, not for '{system or 'a machine without a name'}'; "
            "choose one, such as --power gat-drl:mira"
        )
    return system


def gat_drl(system: str, groups: Sequence[GroupPower]) -> GatDrl:
    """Return its model with the watts of a system, for the nodes of some groups."""
    nodes = sum(group.hosts for group in groups)
    cores = sum(group.hosts * (group.cores or 0.0) for group in groups)
    if cores <= 0:
        raise UsageError("gat-drl needs the cores of hosts, which this cluster does not state")
    return GatDrl(nodes, cores / nodes, sum(group.hosts * group.gpus for group in groups) / nodes, *SYSTEMS[system])


def counted(system: str, group: GroupPower) -> GroupPower:
    """Return the hosts of a counter of processors, with as many of them per host as the model counts cores."""
    threads = THREADS.get(system, 1)
    return replace(group, hosts=group.hosts / threads, cores=(group.cores or 1.0) * threads)


def in_cores(held: Held, system: str, size: Floats, machine: Machine, cluster: Machine) -> Held:
    """Return what jobs hold of a cluster in cores, where their sizes count threads.

    They do if the trace's machine has as many processors as the cluster has threads, or a job more than it has cores.
    """
    threads, cores = THREADS.get(system, 1), cluster.procs or 0
    if threads > 1 and (machine.procs == threads * cores or float(size.max(initial=0.0)) > cores):
        return replace(held, cores=held.cores / threads)
    return held


def integrate(model: GatDrl, load: Load) -> Energy:
    """Integrate its model over what ran; power is divided among the running jobs by their cores."""
    begin, end = load.inside
    count = len(begin)
    cores = np.bincount(load.held.job, load.held.cores, count).astype(np.float64)
    nodes = np.maximum(np.ceil(np.round(cores / model.cores, 9)), 1.0)
    several = np.where(nodes > 1, 1.0, 0.0)
    times, place = np.unique(np.concatenate((begin, end, [load.begin, load.until])), return_inverse=True)
    place = place[: 2 * count]

    def level(column: Floats) -> Floats:
        """Return the sum of a column over the running jobs, (steps,)."""
        return np.asarray(np.cumsum(np.bincount(place, np.concatenate((column, -column)), len(times)))[:-1])

    used: Floats = np.round(level(cores), 6)
    watts = model.watts(used, level(nodes * several), level(several), level(np.ones(count)))
    per_core = np.divide(watts.sum(axis=1), used, out=np.zeros(len(used)), where=used > 0)
    until = np.append(0.0, np.cumsum(per_core * np.diff(times)))
    return Energy(NAME, times, watts, cores * (until[place[count:]] - until[place[:count]]) / KWH)
