"""RLTune's seven features of a waiting job on a cluster of GPU pools: as its code computes them, and a corrected set.

As coded there are two forms: `OWN_POOL` (Helios, Alibaba), where a job belongs to one pool, and `ALL_POOLS` (Philly),
which uses the sums over all pools for every job. In the corrected set "its pools" are those that the job may use.

| feature | as coded | corrected |
|---|---|---|
| wait | wait / 12 h, below 1 | the same |
| gpus | GPUs / GPUs of the largest host, below 1: larger jobs all look alike | / GPUs of its largest pool |
| demand | (GPUs / free GPUs) / GPUs of the pool | GPUs / free GPUs of its pools, at most 1 |
| availability | (free − demand of the pool's visible jobs + total) / (2 · total) | demand of jobs that share a pool |
| fragmentation | partly used hosts / hosts with a free GPU; `ALL_POOLS`: / all hosts | / all hosts of its pools |
| ways | tier-1 ways (0, 1, 2 for more) + 1 for tier 2, / 3; `OWN_POOL` without tier 2 | with tier 2, all its pools |
| start | 1 where a tier-1 way exists, 1.5 with two ways, else 0 (± 1e-5) | 1 tier 1, 0.5 only tier 2, 0 none |

Arya et al., "RLTune", SoCC 2025 (``build_observation`` of github.com/dshruti20/RLTune).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.hosts.tier_counts import count_ways, walk_words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NAMES = ("wait", "gpus", "demand", "availability", "fragmentation", "ways", "start")
#: Which set: as coded with a pool for each job, as coded with all pools for every job, corrected.
OWN_POOL, ALL_POOLS, CORRECTED = range(3)
#: A slot without a job, as coded.
EMPTY = (0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
LONGEST_WAIT = 12 * 3600.0
#: RLTune's Philly code: jobs of more GPUs use the pool of the largest hosts only.
SMALL_JOB = 4

_ALMOST_ZERO, _ALMOST_ONE = 1e-5, 1.0 - 1e-5
#: Columns of the sums over a pool.
_FREE, _TOTAL, _PARTLY, _OPEN, _HOSTS, _SIZE = range(6)


class Scratch(NamedTuple):
    """Scratch space of `observe`."""

    sums: Ints  # (2 · pools, …) sums over each pool; then its hosts by free GPUs
    walk: Ints


def scratch_for(pools: int, most: int) -> Scratch:
    """Return the scratch space that `observe` needs for so many pools and GPUs of a host."""
    return Scratch(np.zeros((2 * pools, max(most + 1, 6)), np.int64), np.zeros(walk_words(most), np.int64))


class Cluster(NamedTuple):
    """Hosts in their order, (hosts,) each."""

    free: Ints  # free GPUs
    pool: Ints  # number of the pool
    size: Ints  # GPUs


class Waiting(NamedTuple):
    """The visible jobs, (jobs,) each."""

    wait: Floats  # seconds
    gpus: Ints
    home: Ints  # the pool that the job must use; −1 = any one
    label: Ints  # as coded, jobs of one label count as one pool's demand


def features(hosts: Cluster, jobs: Waiting, kind: int = CORRECTED) -> Floats:
    """Return the features of jobs, (jobs, 7)."""
    pools, out = int(hosts.pool.max(initial=0)) + 1, np.zeros((len(jobs.wait), len(NAMES)))
    observe(hosts, jobs, kind, pools, scratch_for(pools, int(hosts.size.max(initial=1))), out)
    return out


@jit
def observe(hosts: Cluster, jobs: Waiting, kind: int, pools: int, scratch: Scratch, out: Floats) -> None:
    """Write the features of the visible jobs into ``out``, (jobs, 7); ``scratch`` comes from `scratch_for`."""
    _sum_up(hosts, pools, scratch)
    for i in range(len(jobs.wait)):
        if kind == CORRECTED:
            _corrected(jobs, i, pools, scratch, out)
        else:
            _as_coded(jobs, i, kind, pools, scratch, out)


@jit_internal
def _sum_up(hosts: Cluster, pools: int, scratch: Scratch) -> None:
    """Write the sums over each pool into the first rows, and its hosts by free GPUs into the next ones."""
    for p in range(2 * pools):
        for c in range(scratch.sums.shape[1]):
            scratch.sums[p, c] = 0
    for h in range(len(hosts.free)):
        sums, free, size = scratch.sums[hosts.pool[h]], hosts.free[h], hosts.size[h]
        sums[_FREE] += free
        sums[_TOTAL] += size
        sums[_PARTLY] += 0 < free < size
        sums[_OPEN] += free > 0
        sums[_HOSTS] += 1
        sums[_SIZE] = max(sums[_SIZE], size)
        if free > 0:
            scratch.sums[pools + hosts.pool[h], free] += 1


@jit_internal
def _ways_in(scratch: Scratch, pools: int, p: int, request: int, tier2: bool) -> int:
    """Return the ways of a tier in one pool: 0, 1, or 2 for more."""
    most = scratch.sums[p, _SIZE]
    if most == 0:
        return 0
    return int(count_ways(scratch.walk, scratch.sums[pools + p], most, request, tier2))


@jit_internal
def _as_coded(jobs: Waiting, i: int, kind: int, pools: int, scratch: Scratch, out: Floats) -> None:
    """Write one job's features as RLTune's code computes them."""
    gpus, home = jobs.gpus[i], jobs.home[i]
    free, total, partly, opened, largest, tier1, tier2 = 0, 0, 0, 0, 0, 0, 0
    for p in range(pools):
        largest = max(largest, scratch.sums[p, _SIZE])
        if kind == ALL_POOLS or p == home:
            free += scratch.sums[p, _FREE]
            total += scratch.sums[p, _TOTAL]
            partly += scratch.sums[p, _PARTLY]
            opened += scratch.sums[p, _HOSTS] if kind == ALL_POOLS else scratch.sums[p, _OPEN]
    for p in range(pools):
        if kind == OWN_POOL and p == home:
            tier1 += _ways_in(scratch, pools, p, gpus, False)
        elif kind == ALL_POOLS and (gpus <= SMALL_JOB or scratch.sums[p, _SIZE] == largest):
            tier1 += _ways_in(scratch, pools, p, gpus, False)
            tier2 += _ways_in(scratch, pools, p, gpus, True)
    ways = min(tier1, 2) + min(tier2, 1)
    demand = 0
    for j in range(len(jobs.gpus)):
        if kind == ALL_POOLS or jobs.label[j] == jobs.label[i]:
            demand += jobs.gpus[j]
    out[i, 0] = min(jobs.wait[i] / LONGEST_WAIT, _ALMOST_ONE)
    out[i, 1] = min(gpus / largest, _ALMOST_ONE)
    out[i, 2] = min(gpus / max(free, _ALMOST_ZERO) / max(total, 1), _ALMOST_ONE)
    out[i, 3] = max(0.0, min(_ALMOST_ONE, (free - demand + total) / (2.0 * total + 1e-5)))
    out[i, 4] = partly / max(opened, _ALMOST_ZERO)
    out[i, 5] = min(ways / 3.0, _ALMOST_ONE) if ways > 0 else _ALMOST_ZERO
    out[i, 6] = _ALMOST_ZERO if tier1 == 0 else _ALMOST_ONE * 1.5 if ways >= 2 else _ALMOST_ONE


@jit_internal
def _corrected(jobs: Waiting, i: int, pools: int, scratch: Scratch, out: Floats) -> None:
    """Write one job's features: all pools that it may use, both tiers, values within 0 … 1."""
    gpus, home = jobs.gpus[i], jobs.home[i]
    free, total, partly, hosts, largest, tier1, tier2 = 0, 0, 0, 0, 1, 0, 0
    for p in range(pools):
        if home < 0 or p == home:
            free += scratch.sums[p, _FREE]
            total += scratch.sums[p, _TOTAL]
            partly += scratch.sums[p, _PARTLY]
            hosts += scratch.sums[p, _HOSTS]
            largest = max(largest, scratch.sums[p, _TOTAL])
            tier1 += _ways_in(scratch, pools, p, gpus, False)
            tier2 += _ways_in(scratch, pools, p, gpus, True)
    demand = 0
    for j in range(len(jobs.gpus)):
        if home < 0 or jobs.home[j] < 0 or home == jobs.home[j]:
            demand += jobs.gpus[j]
    out[i, 0] = min(jobs.wait[i] / LONGEST_WAIT, 1.0)
    out[i, 1] = min(gpus / largest, 1.0)
    out[i, 2] = min(gpus / max(free, 1), 1.0)
    out[i, 3] = max(0.0, min(1.0, (free - demand + total) / max(2.0 * total, 1.0)))
    out[i, 4] = partly / max(hosts, 1)
    out[i, 5] = (min(tier1, 2) + min(tier2, 1)) / 3.0
    out[i, 6] = 1.0 if tier1 > 0 else 0.5 if tier2 > 0 else 0.0
