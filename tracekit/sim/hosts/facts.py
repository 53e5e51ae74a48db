"""Facts about the hosts that a job may use, compiled: what agents see of a cluster.

*Its hosts* are those that the job may use by its pool and GPU type. Where it asks for GPUs, GPUs are counted, else
cores. Jobs of the same demand have the same facts.
"""

from __future__ import annotations

from typing import Any

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.calls import c_function, floats_at, ints_at
from tracekit.sim.hosts.choose import candidate
from tracekit.sim.hosts.demand import (
    CORES,
    FRAGMENTATION,
    FREE_SHARE,
    GPUS,
    MILLI,
    MILLI_GPU,
    MOST_WAYS,
    PIECES,
    UNLIMITED,
    WAYS,
)
from tracekit.sim.hosts.state import (
    CELLS,
    COUNT,
    FREE,
    HOSTS,
    LOG,
    NOW,
    POOLS,
    SPAN,
    TOTAL,
    TREE,
    Floats,
    Ints,
    fixed,
    host_slots,
    look,
    may_use,
    need,
)


@jit_internal
def wants_gpus(m: Ints, job: int) -> bool:
    """Return whether a job asks for GPUs."""
    return need(m, job, GPUS) > 0 or need(m, job, MILLI) > 0


@jit_internal
def host_total(m: Ints, job: int, h: int) -> int:
    """Return the thousandths of GPUs, or the units of cores, of a host; 0 where cores are not limited."""
    if wants_gpus(m, job):
        return fixed(m, h, 2) * MILLI_GPU
    total = m[m[TOTAL] + h * m[CELLS]]
    return 0 if total >= UNLIMITED else total


@jit_internal
def host_free(m: Ints, job: int, h: int) -> int:
    """Return what is free of that."""
    if wants_gpus(m, job):
        return m[m[TREE] + 2 * h + 1]  # type: ignore[no-any-return]
    return max(m[m[FREE] + h * m[CELLS]], 0)  # type: ignore[no-any-return]


@jit_internal
def free_share(m: Ints, job: int, more: int) -> float:
    """Return the free share of a job's hosts, with so many more units; 1 where nothing is limited."""
    free, total = more, 0
    for h in range(m[HOSTS]):
        room = host_total(m, job, h)
        if room > 0 and may_use(m, job, h):
            free, total = free + host_free(m, job, h), total + room
    return min(free / total, 1.0) if total > 0 else 1.0


@jit_internal
def fragmentation(m: Ints, job: int) -> float:
    """Return the share of what is free on a job's hosts that is on partly used hosts."""
    free, stuck = 0, 0
    for h in range(m[HOSTS]):
        room = host_total(m, job, h)
        if room > 0 and may_use(m, job, h):
            left = host_free(m, job, h)
            free += left
            if left < room:
                stuck += left
    return stuck / free if free > 0 else 0.0


@jit_internal
def ways(m: Ints, f: Floats, job: int) -> int:
    """Return how many hosts have room for a job; of several pieces, how often it fits into one pool; capped."""
    look(m, m[FREE], NOW, 0)
    found, h = 0, 0
    if need(m, job, PIECES) == 1:
        while found < MOST_WAYS:
            h = candidate(m, f, m, job, h, -1, True)
            if h < 0:
                break
            found, h = found + 1, h + 1
        return found
    for p in range(m[POOLS]):
        m[m[COUNT] + p] = 0
    for h in range(m[HOSTS]):
        m[m[COUNT] + fixed(m, h, 0)] += host_slots(m, m, job, h)
    for p in range(m[POOLS]):
        found = max(found, m[m[COUNT] + p] // need(m, job, PIECES))
    return min(found, MOST_WAYS)


@jit_internal
def given_back(m: Ints, job: int, until: float, limits: Any, running: int) -> int:
    """Return what running jobs give back of a job's hosts by a time, by estimates."""
    units, i = 0, running - 1
    while i >= 0 and limits[0][2 * i] <= until:
        ended = limits[1][2 * i + 1]
        each = need(m, ended, GPUS) * MILLI_GPU + need(m, ended, MILLI)
        begin = m[m[SPAN] + 2 * ended]
        for e in range(begin, begin + m[m[SPAN] + 2 * ended + 1]):
            entry = m[LOG] + 4 * e
            held = m[entry + 2] * (each if wants_gpus(m, job) else need(m, ended, CORES) // need(m, ended, PIECES))
            for h in range(m[entry], m[entry + 1] + 1):
                if may_use(m, job, h):
                    units += held
        i -= 1
    return units


@c_function("float64(int64, int64, int64, float64, int64, int64, int64)")
def fact(data: int, real: int, what: int, until: float, job: int, limits: int, running: int) -> float:
    """Return a fact about the hosts of a job; ``limits`` are times and jobs in turn, ``until`` is for `SOON`."""
    m, f, ends = ints_at(data), floats_at(real), (floats_at(limits), ints_at(limits))
    if what == FREE_SHARE:
        return free_share(m, job, 0)
    if what == FRAGMENTATION:
        return fragmentation(m, job)
    if what == WAYS:
        return float(ways(m, f, job))
    return free_share(m, job, given_back(m, job, until, ends, running))
