"""Allocators by name: which hosts a job gets among those that have room for it.

Compiled ones are a code for `tracekit.sim.hosts.scores`. An allocator of your own is a class with a name and `choose`,
named as ``module:Class``, or offered by a package under the entry point ``tracekit.allocators``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.registry import Registry, imported, own

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Compiled:
    """An allocator of this package."""

    name: str
    code: int  # as in `tracekit.sim.hosts.scores`
    title: str


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What an allocator written in Python sees of the hosts, (hosts,) each, and of the job to be placed."""

    names: list[str]
    free_cores: NDArray[np.float64]
    free_memory: NDArray[np.float64]  # KB
    free_gpus: NDArray[np.float64]  # (hosts, most GPUs of one host) free share of each GPU, NaN where there is none
    total_cores: NDArray[np.float64]
    total_memory: NDArray[np.float64]
    gpus: Ints
    pool: Ints  # number of the pool
    fits: Ints  # how many of the job's pieces the host has room for, beside any reservation; 0 = not allowed
    job: int  # its number in the simulation
    pieces: int  # tasks to be placed, or parts of a job that spreads over hosts
    spreads: bool
    fewest: Ints  # (pools,) of a job that spreads: how few hosts of each pool could take it if all were idle
    cores: float  # of the whole job, as memory (KB) and job_gpus
    memory: float
    job_gpus: float
    upcoming: NDArray[np.float64]  # (jobs, 3) GPUs, cores and memory (KB) of the next waiting jobs, in policy order
    ahead: int  # how many of these come before the job to be placed, which was picked earlier
    filling: bool  # whether the job is started to fill a gap


@runtime_checkable
class Allocator(Protocol):
    """Your own allocator."""

    name: str

    def choose(self, hosts: Snapshot, /) -> Any:
        """Return the number of a host, or for several tasks one number for each.

        For a job that spreads: hosts in the order in which to fill them, or pairs (host, pieces). A class attribute
        ``tiered = True`` makes such jobs of whole GPUs wait until a way of RLTune's tiers exists.
        """
        ...


_TITLES = {
    "first-fit": "the first host with room",
    "best-fit": "the host with the least left over, cores and GPUs counted alike",
    "worst-fit": "the host with the most left over",
    "random": "any host with room, by --seed",
    "round-robin": "the next host with room after the last one used",
    "dot-product": "the smallest product of what is free and what is asked for (Tetris, SIGCOMM 2014)",
    "packing": "shared GPUs first, then used hosts, then idle ones (as in Weng et al., ATC 2023)",
    "clustering": "hosts that hold tasks of the same number of GPUs (Gandiva, OSDI 2018)",
    "fgd": "the least growth of fragmentation (Weng et al., ATC 2023)",
    "lexicographic": "RLTune's greedy choice: the first host, on as few hosts as can be",
    "defrag": "RLTune: the fewest partly used hosts (SoCC 2025)",
    "load-balance": "RLTune: the most even use of hosts (SoCC 2025)",
    "tiers": "RLTune: as few hosts as can be, one more if that fragments less; then as defrag",
    "least-loaded": "the host with the smallest share of its cores in use",
    "lsf-order": "LSF's order[ut:mem]: the smallest share of cores in use, of equals the most free memory",
    "pack-and-sleep": "hosts in use, then awake ones, then those that sleep; of equals as best-fit",
}
#: Written in Python, with options after a colon.
_PROGRAMS = {"milp": "tracekit.sim.hosts.milp:Milp", "milp-exact": "tracekit.sim.hosts.milp:exact"}
COMPILED = {name: Compiled(name, code, title) for code, (name, title) in enumerate(_TITLES.items())}
ALLOCATORS = Registry[Any](
    "allocator",
    {name: f"tracekit.sim.hosts.allocators:COMPILED.{name}" for name in _TITLES} | _PROGRAMS,
    group="tracekit.allocators",
)


def find_allocator(given: str | Allocator | Compiled) -> Compiled | Allocator:
    """Return the allocator that is meant by a name, ``module:Class``, or an object of your own."""
    if isinstance(given, Compiled):
        return given
    if isinstance(given, str):
        if given in COMPILED:
            return COMPILED[given]
        if given.startswith("agent:"):
            return imported("tracekit.sim.agents.allocator:AgentAllocator")(given.removeprefix("agent:"))  # type: ignore[no-any-return]
        if given.partition(":")[0] in _PROGRAMS and ":" in given:
            found = imported("tracekit.sim.hosts.milp:parsed")(given)
        else:
            found = own("allocator", given, ("agent",)) if ":" in given else ALLOCATORS.get(given)
        if isinstance(found, type) or given in _PROGRAMS:
            found = found()
    else:
        found = given
    if not isinstance(found, Allocator):
        raise UsageError(f"allocator {given!r} has no choose(hosts); see tracekit.sim.hosts.allocators.Allocator")
    return found


def allocator_name(given: str | Allocator | Compiled) -> str:
    """Return the name under which results show an allocator."""
    return given if isinstance(given, str) else str(given.name)


def renamed(allocator: Compiled, name: str) -> Compiled:
    """Return a compiled allocator under another name."""
    return replace(allocator, name=name)
