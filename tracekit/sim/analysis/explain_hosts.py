"""Why a job waited on a cluster of hosts: at which moments it had no room, and whether only because of fragmentation.

Amounts are counted on the hosts that the job may use, in one pool. A moment belongs to fragmentation when enough is
free there in all, but not on hosts where the tasks of the job fit. Schedules state how much of its GPUs a host gives,
not which of them: shares of GPUs are counted in sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import host_names, pool_names
from tracekit.errors import FormatError
from tracekit.machine import Machine
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, Demand, demand_of, usable_groups
from tracekit.sim.hosts.parse import Parts, parse_hosts
from tracekit.sim.switches import Outage
from tracekit.trace import SizeFrom, Trace

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_NEAR = 1e-6
_NAMES = ("cores", "GB of memory", "GPUs")
#: What causes are counted as, in the order of `tracekit.sim.analysis.explain.PARTS`, then fragmentation.
FULL, OUTAGE, AHEAD, OVERTAKEN, HELD_BACK, FRAGMENTED = range(6)


@dataclass(frozen=True, eq=False)
class HostRoom:
    """The hosts of a schedule and what its jobs hold of them; (…, 3) are cores, memory (KB) and GPUs."""

    size: Floats  # (hosts, 3) of idle hosts, inf = not limited
    pool: NDArray[np.int64]  # (hosts,)
    parts: Parts  # rows of the schedule
    held: Floats  # (parts, 3)
    demand: Demand  # of the rows of the schedule
    names: list[str]

    def job(self, row: int) -> JobRoom:
        """Return the demand of one job."""
        need = self.demand.need[row].astype(np.float64)
        gpus = need[GPUS] + need[MILLI] / MILLI_GPU
        each = np.array([need[CORES] / need[PIECES] / self.demand.scale, need[MEMORY] / need[PIECES], gpus])
        groups = usable_groups(self.demand.take([row]))[:, 0]
        counts = [group.count for group in self.demand.cluster.groups]
        usable = np.repeat(groups, counts) & ((self.size[:, 2] > 0) | (gpus == 0))
        return JobRoom(each, int(need[PIECES]), usable, self.pool, int(self.pool.max()) + 1)

    def away(self, outages: tuple[Outage, ...], times: Floats, ahead: float) -> list[Flags]:
        """Return which hosts are out of service at each of the times, or within ``ahead`` seconds of it."""
        groups = np.repeat([g.name for g in self.demand.cluster.groups], [g.count for g in self.demand.cluster.groups])
        names = np.array(self.names)
        found = [np.zeros(len(names), bool) for _ in times]
        for begin, end, which in outages:
            if isinstance(which, str):
                wanted = which.split("+")
                down = np.isin(names, wanted) | np.isin(groups, wanted)
                for i in np.flatnonzero((times < end) & ((times >= begin) | (times + ahead > begin))):
                    found[i] = found[i] | down
        return found

    def causes(
        self, row: int, times: Floats, span: tuple[Floats, Floats], kinds: tuple[Flags, ...], away: list[Flags]
    ) -> tuple[NDArray[np.int64], Flags, list[str]]:
        """Return the cause of each moment, whether the job had room first in line, and words for fragmentation.

        ``span`` are starts and ends of all rows; ``kinds`` are the rows that ran before, came before, and overtook.
        """
        job = self.job(row)
        begin, end = span[0][self.parts.row], span[1][self.parts.row]
        first, last = np.searchsorted(times, begin, side="left"), np.searchsorted(times, end, side="left")
        free = [self.size.copy() for _ in kinds]  # after the first kind, the first two, all three
        changes: list[list[tuple[int, int, int]]] = [[] for _ in range(len(times) + 1)]
        for kind, rows in enumerate(kinds):
            for part in np.flatnonzero(rows[self.parts.row] & (last > first) & (self.parts.host >= 0)).tolist():
                changes[first[part]].append((kind, part, -1))
                changes[last[part]].append((kind, part, 1))
        cause, able, words = np.zeros(len(times), np.int64), np.zeros(len(times), bool), [""] * len(times)
        for i in range(len(times)):
            for kind, part, sign in changes[i]:
                for level in free[kind:]:
                    level[self.parts.host[part]] += sign * self.held[part]
            up = ~away[i]
            enough = [job.in_all(free[0], True), *(job.in_all(level, up) for level in free)]
            cause[i] = int(np.argmin(enough)) if not all(enough) else HELD_BACK
            able[i] = job.fits(free[0], up)
            if cause[i] == HELD_BACK and not job.fits(free[-1], up):
                cause[i], words[i] = FRAGMENTED, job.words(free[-1], up)
        return cause, able, words


@dataclass(frozen=True, eq=False)
class JobRoom:
    """What one job needs of hosts."""

    each: Floats  # (3,) of one task
    pieces: int
    usable: Flags  # (hosts,)
    pool: NDArray[np.int64]
    pools: int

    def in_all(self, free: Floats, up: Any) -> bool:
        """Return whether some pool has enough in all."""
        there = np.where((self.usable & up)[:, None], np.maximum(free, 0.0), 0.0)
        sums = np.stack([np.bincount(self.pool, weights=there[:, c], minlength=self.pools) for c in range(3)], axis=1)
        return bool((sums >= self.each * self.pieces - _NEAR).all(axis=1).any())

    def slots(self, free: Floats, up: Any) -> Floats:
        """Return how many tasks each host has room for."""
        found = np.where(self.usable & up, float(self.pieces), 0.0)
        for c in (0, 1):
            if self.each[c] > 0:
                found = np.minimum(found, np.floor((free[:, c] + _NEAR) / self.each[c]))
        gpus = self.each[2]
        if gpus >= 1:
            found = np.minimum(found, np.floor((np.floor(free[:, 2] + _NEAR) + _NEAR) / gpus))
        elif gpus > 0:
            whole = np.floor(free[:, 2] + _NEAR)
            shares = whole * np.floor((1 + _NEAR) / gpus) + np.floor((free[:, 2] - whole + _NEAR) / gpus)
            found = np.minimum(found, shares)
        return np.maximum(found, 0.0)

    def fits(self, free: Floats, up: Any) -> bool:
        """Return whether all tasks fit in one pool."""
        by_pool = np.bincount(self.pool, weights=self.slots(free, up), minlength=self.pools)
        return bool((by_pool >= self.pieces).any())

    def words(self, free: Floats, up: Any) -> str:
        """Return what is free and what no host has."""
        ours = np.where((self.usable & up)[:, None], np.maximum(free, 0.0), 0.0) / [1, 1024**2, 1]
        each, asked = self.each / [1, 1024**2, 1], [c for c in (2, 0, 1) if self.each[c] > 0]
        if self.pieces > 1:
            slots = int(np.bincount(self.pool, weights=self.slots(free, up), minlength=self.pools).max())
            return f"{_amount(ours[:, asked[0]].sum(), asked[0])} are free, {slots} of {self.pieces} tasks have room"
        for c in asked:
            if (ours[:, c] < each[c] - _NEAR).all():
                return f"{_amount(ours[:, c].sum(), c)} are free, no host has {each[c]:.4g}"
        together = " and ".join(_amount(each[c], c) for c in asked)
        return f"{_amount(ours[:, asked[0]].sum(), asked[0])} are free, no host has {together} together"


def _amount(value: float, kind: int) -> str:
    return f"{value:.6g} {_NAMES[kind]}"


def room_of(schedule: pd.DataFrame, trace: Trace, machine: Machine, source: SizeFrom = "requested") -> HostRoom:
    """Read the column ``hosts`` of a schedule; all its rows count."""
    if "hosts" not in schedule.columns:
        raise FormatError("the schedule", "has no column hosts", hint="leave out --cluster")
    names = host_names(machine)
    parts = parse_hosts(schedule["hosts"].fillna("").astype(str), names)
    ids = pd.Index(trace.column("job_id"))
    slot = ids.drop_duplicates().get_indexer(pd.Index(schedule["job_id"].to_numpy().astype(np.int64)))
    demand = demand_of(trace, machine, source).take(np.flatnonzero(~ids.duplicated())[slot])
    totals = [np.bincount(parts.row, weights=held, minlength=len(schedule)) for held in (parts.cores, parts.gpus)]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(
            totals[0][parts.row] > 0, parts.cores / totals[0][parts.row], parts.gpus / totals[1][parts.row]
        )
    memory = np.where(slot[parts.row] >= 0, demand.need[parts.row, MEMORY], 0) * np.nan_to_num(share)
    rows = [
        [np.inf if g.cores is None else g.cores, np.inf if g.memory is None else g.memory, g.gpus or 0]
        for g in machine.groups
    ]
    counts, pools = [g.count for g in machine.groups], pool_names(machine)
    return HostRoom(
        np.repeat(np.array(rows, dtype=np.float64), counts, axis=0),
        np.repeat(np.array([pools.index(g.pool or "") for g in machine.groups], dtype=np.int64), counts),
        parts,
        np.stack([parts.cores, memory, parts.gpus], axis=1),
        demand,
        names,
    )
