"""What jobs ask of hosts: cores, memory, GPUs, tasks, GPU types and pools, and which jobs can never fit and why.

Demands are job totals. With several tasks they are divided evenly, and the tasks are placed all at once within one
pool. A job whose number of tasks is missing is one task; if it has more cores or GPUs than any host that it may use, it
may spread over hosts, as few as possible.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import gpu_types, pool_names
from tracekit.machine import HostGroup, Machine, Unit
from tracekit.trace import SizeFrom, Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Columns of `Demand.need`.
CORES, MEMORY, PIECES, GPUS, MILLI, SPREAD, TYPES, POOL = range(8)
#: What agents see of a job on hosts (`tracekit.sim.hosts.facts`): whether it fits now (0 or 1); when it could start by
#: estimates if nothing else started, seconds; free share of the hosts that it may use; share of what is free there that
#: is on partly used hosts; ways to place it now, at most `MOST_WAYS`; share that is free or becomes free by a time.
ABLE, STARTS, FREE_SHARE, FRAGMENTATION, WAYS, SOON = range(6)
FACTS = 6
MOST_WAYS = 4
#: Units of one GPU; fractions of a GPU and of a core are counted in thousandths.
MILLI_GPU = 1000
#: Free cores or memory (KB) of a host whose group does not state them.
UNLIMITED = 2**40
#: Different names that are not in the cluster are told apart up to this number.
_MOST_NAMES = 20


@dataclass(frozen=True, eq=False)
class Demand:
    """What the jobs of a table ask of the hosts of a cluster."""

    need: Ints  # (jobs, 8) in the order of the constants above: totals in units, KB; per piece: whole GPUs, milli-GPUs
    reason: Ints  # (jobs,) 0, or 1 + the position in `words` of why the job can never fit
    words: tuple[str, ...]
    types: NDArray[np.bool_]  # (sets, GPU types) which types a set allows; a job's TYPES is its row, −1 any
    scale: int  # units in one core
    least_size: Floats  # (jobs,) size in cores or GPUs where the trace has none; NaN: it asks for nothing
    cluster: Machine
    label: Ints | None = None  # (jobs,) as RLTune's code reads them: jobs of one label share a part of the cluster

    def take(self, rows: Any) -> Demand:
        """Return the demands of some jobs."""
        label = None if self.label is None else self.label[rows]
        kept = {"need": self.need[rows], "reason": self.reason[rows], "least_size": self.least_size[rows]}
        return replace(self, **kept, label=label)

    @property
    def as_coded(self) -> bool:
        """Whether these are demands as RLTune's code reads them: jobs that never fit are kept, and dropped later."""
        return self.label is not None

    @property
    def gpus(self) -> Floats:
        """GPUs of each job, (jobs,)."""
        need = self.need
        return (need[:, GPUS] + need[:, MILLI] / MILLI_GPU) * need[:, PIECES]

    def reasons(self) -> dict[str, NDArray[np.bool_]]:
        """Return which jobs can never fit, by reason."""
        present = np.unique(self.reason)
        return {self.words[code - 1]: self.reason == code for code in present.tolist() if code > 0}


def unit_of(trace: Trace, cluster: Machine) -> Unit:
    """Return what sizes are counted in on a cluster: processors where cluster and trace know them, else GPUs."""
    if cluster.procs is not None and (trace.has("req_procs") or trace.has("alloc_procs")):
        return "procs"
    if cluster.gpus is not None and (trace.has("req_gpus") or trace.has("alloc_gpus")):
        return "gpus"
    return "procs" if cluster.procs is not None else trace.machine.unit


def demand_of(trace: Trace, cluster: Machine, source: SizeFrom = "requested") -> Demand:
    """Read the demands of a trace's jobs on a cluster's hosts."""
    cores, nodes, tasks = trace.sizes("procs", source), trace.sizes("nodes", source), trace.column("tasks")
    gpus = np.nan_to_num(trace.sizes("gpus", "requested"), nan=0.0)
    whole = np.isnan(cores) & (nodes > 0) & (gpus == 0)  # sizes in nodes: whole hosts
    smallest = min((group.cores or 1) for group in cluster.groups)
    cores = np.where(whole, nodes * smallest, np.nan_to_num(cores, nan=0.0))
    tasks = np.where(whole & np.isnan(tasks), nodes, tasks)
    memory = np.nan_to_num(trace.column("req_mem"), nan=0.0) * np.maximum(cores, 0)
    given = tasks >= 1
    pieces = np.where(given, tasks, 1.0)
    parts = np.where(given, pieces, np.maximum(np.ceil(gpus), 1.0))  # a job without tasks may spread by its GPUs
    scale = 1 if np.all(np.mod(cores, parts) == 0) else 1000
    types, allowed, unknown_type = _types(trace, cluster)
    pool, unknown_pool = _pools(trace, cluster)
    need = np.zeros((len(trace), 8), np.int64)
    need[:, CORES] = np.ceil(np.round(cores * scale, 6))
    need[:, MEMORY] = np.ceil(np.round(memory, 3))
    need[:, PIECES] = pieces
    each = np.round(gpus / pieces, 9)
    need[:, GPUS] = np.where(each >= 1, np.ceil(each), 0)
    need[:, MILLI] = np.where((each > 0) & (each < 1), np.maximum(np.floor(np.round(each * MILLI_GPU, 6)), 1), 0)
    need[:, TYPES], need[:, POOL] = types, pool
    nothing = (need[:, CORES] <= 0) & (need[:, GPUS] == 0) & (need[:, MILLI] == 0)
    least = np.where(nothing, np.nan, np.where(cores > 0, cores, np.where(gpus > 0, 1.0 / scale, np.nan)))
    made = Demand(need, np.zeros(len(trace), np.int64), (), allowed, scale, least, cluster)
    return _judged(made, cluster, given, unknown_type, unknown_pool)


Unknown = tuple[Ints, list[str]]  # (jobs,) 0 or 1 + the position of a reason


def _types(trace: Trace, cluster: Machine) -> tuple[Ints, NDArray[np.bool_], Unknown]:
    """Return each job's set of GPU types (−1 any), the sets, and the jobs that name only types that are not there."""
    known = gpu_types(cluster)
    none: Unknown = (np.zeros(len(trace), np.int64), [])
    if not known or not trace.has("gpu_type"):
        return np.full(len(trace), -1), np.zeros((1, max(len(known), 1)), bool), none
    labels = [str(label) for label in trace.jobs["gpu_type"].cat.categories]
    allowed = np.array([[kind in label.split("|") for kind in known] for label in labels])
    codes = trace.column("gpu_type")
    return codes, allowed, _unknown(codes, labels, np.asarray(allowed.any(axis=1)), "GPU type", known)


def _pools(trace: Trace, cluster: Machine) -> tuple[Ints, Unknown]:
    """Return each job's pool (−1 any) and the jobs whose pool is not there; a partition that is no pool is ignored."""
    known = pool_names(cluster)
    unknown: Unknown = (np.zeros(len(trace), np.int64), [])
    pool = np.full(len(trace), -1)
    if known == [""]:
        return pool, unknown
    for name in ("partition", "pool"):
        if name in trace.jobs.columns:
            labels = [str(label) for label in trace.jobs[name].cat.categories]
            place = np.array([known.index(label) if label in known else -1 for label in labels] + [-1])
            codes = trace.column(name)
            pool = np.where(codes >= 0, place[codes], pool)
            if name == "pool":
                unknown = _unknown(codes, labels, place[:-1] >= 0, "pool", known)
    return pool, unknown


def _unknown(codes: Ints, labels: list[str], good: NDArray[np.bool_], kind: str, known: list[str]) -> Unknown:
    """Return which jobs have a label that is not good, and a reason with the nearest known name for each label."""
    present = [c for c in np.unique(codes).tolist() if c >= 0 and not good[c]]
    words, code_of = [], np.zeros(len(labels) + 1, np.int64)
    for number, code in enumerate(present):
        if number < _MOST_NAMES:
            close = difflib.get_close_matches(labels[code].split("|")[0], known, n=1, cutoff=0.5)
            words.append(f"no such {kind}: {labels[code]}" + (f" (did you mean {close[0]}?)" if close else ""))
        elif number == _MOST_NAMES:
            words.append(f"no such {kind}: others")
        code_of[code] = len(words)
    return code_of[codes], words


TOO_LARGE, TOO_LARGE_POOL, NO_GPUS = (
    "too large for any host",
    "too large for any pool",
    "needs GPUs, and no host that it may use has any",
)


def _judged(demand: Demand, cluster: Machine, given: NDArray[np.bool_], types: Unknown, pools: Unknown) -> Demand:
    """Return the demands with the jobs that may spread marked, and the reasons of those that can never fit."""
    need = demand.need.copy()
    groups = cluster.groups
    usable = usable_groups(demand)
    wants_gpu = (need[:, GPUS] > 0) | (need[:, MILLI] > 0)
    cores = np.array([UNLIMITED if g.cores is None else g.cores * demand.scale for g in groups])[:, None]
    gpus = np.array([g.gpus or 0 for g in groups])[:, None]
    most_cores, most_gpus = (np.where(usable, most, 0).max(axis=0) for most in (cores, gpus))
    spread = ~given & ((need[:, CORES] > most_cores) | (need[:, GPUS] > most_gpus)) & usable.any(axis=0)
    spread &= ~wants_gpu | ((most_gpus > 0) & (need[:, MILLI] == 0))  # a share of a GPU is on one host
    need[spread, SPREAD] = 1
    cores_in = need[:, CORES] // np.where(need[:, CORES] % demand.scale == 0, demand.scale, 1)  # whole cores, if any
    need[spread, PIECES] = np.where(need[:, GPUS] > 0, need[:, GPUS], cores_in)[spread]
    need[spread & wants_gpu, GPUS] = 1
    for column in (CORES, MEMORY):  # tasks are alike: whole units each
        need[:, column] = np.where(spread, need[:, column], need[:, column] // need[:, PIECES] * need[:, PIECES])
    slots = np.stack([_slots(need, demand.scale, group) for group in groups]) * usable
    by_pool = np.stack(
        [
            sum((slots[k] * g.count for k, g in enumerate(groups) if (g.pool or "") == pool), np.zeros(len(need)))
            for pool in pool_names(cluster)
        ]
    )
    fits = (by_pool >= need[:, PIECES]).any(axis=0)
    words = [*types[1], *pools[1], NO_GPUS, TOO_LARGE, TOO_LARGE_POOL]
    first = len(types[1]) + len(pools[1])
    reason = np.where(fits, 0, np.where((slots > 0).any(axis=0), first + 3, first + 2))
    reason = np.where(~fits & wants_gpu & (most_gpus == 0), first + 1, reason)
    reason = np.where(pools[0] > 0, len(types[1]) + pools[0], reason)
    reason = np.where((types[0] > 0) & wants_gpu, types[0], reason)
    return replace(demand, need=need, reason=reason.astype(np.int64), words=tuple(words))


def usable_groups(demand: Demand) -> NDArray[np.bool_]:
    """Return which jobs may use the hosts of each group, (groups, jobs), by pool and GPU type."""
    return np.stack([_usable(demand, demand.cluster, group) for group in demand.cluster.groups])


def _usable(demand: Demand, cluster: Machine, group: HostGroup) -> NDArray[np.bool_]:
    """Return which jobs may use hosts of a group, by pool and GPU type, whatever they ask for."""
    pool, types = demand.need[:, POOL], demand.need[:, TYPES]
    ours: NDArray[np.bool_] = (pool < 0) | (pool == pool_names(cluster).index(group.pool or ""))
    known = gpu_types(cluster)
    if not known:
        return ours
    allowed = np.append(
        demand.types[:, known.index(group.gpu_type)] if group.gpu_type in known else np.zeros(len(demand.types), bool),
        True,
    )
    wants = (demand.need[:, GPUS] > 0) | (demand.need[:, MILLI] > 0)
    ours &= ~wants | allowed[types]
    return ours


def _slots(need: Ints, scale: int, group: HostGroup) -> Floats:
    """Return how many pieces of each job an idle host of a group holds."""
    pieces = need[:, PIECES].astype(np.float64)
    cores = np.inf if group.cores is None else group.cores * scale
    memory = np.inf if group.memory is None else group.memory
    found = pieces.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        for column, room in ((CORES, cores), (MEMORY, memory)):
            asked = need[:, column]
            if np.isfinite(room):
                part = np.ceil((np.floor(room) + 1) * pieces / np.maximum(asked, 1)) - 1
                found = np.where(asked <= room, found, np.minimum(found, part))
    devices = float(group.gpus or 0)
    found = np.where(need[:, GPUS] > 0, np.minimum(found, devices // np.maximum(need[:, GPUS], 1)), found)
    shares = devices * (MILLI_GPU // np.maximum(need[:, MILLI], 1))
    return np.where(need[:, MILLI] > 0, np.minimum(found, shares), found)
