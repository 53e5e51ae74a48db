"""Hosts as RLTune's code uses them (``--compat rltune``), behind the same interface as all hosts.

A job fits where exactly as many hosts as it needs at least have the GPUs, and takes the lexicographically smallest way
(tier 1, `tracekit.sim.hosts.tiers`). When the blocked job can start is worked out from the running jobs of its own
virtual cluster or type only.
"""

from __future__ import annotations

from typing import Any

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.calls import c_function, floats_at, ints_at
from tracekit.sim.hosts.choose import hold, lowest_devices, note_pick
from tracekit.sim.hosts.demand import GPUS, MILLI_GPU, PIECES, POOL
from tracekit.sim.hosts.operations import (
    FITS,
    FITS_BESIDE,
    GIVE,
    IDLE,
    START,
    START_BESIDE,
    TAKE,
    TAKE_BESIDE,
    TAKE_IN_TIME,
    commit,
    make_idle,
    release,
    touch,
)
from tracekit.sim.hosts.scores import LEXICOGRAPHIC
from tracekit.sim.hosts.state import (
    EPOCH,
    FILLED,
    FREE,
    HOSTS,
    LABEL,
    LOG,
    NOW,
    OVER,
    PICKS,
    POOLS,
    SHADOW,
    SLOTS,
    SPAN,
    WAYS,
    Floats,
    Ints,
    fixed,
    level,
    look,
    need,
)
from tracekit.sim.hosts.tiers import ROOMS, best_way, chosen


@jit_internal
def _count(m: Ints, pool: int) -> int:
    """Write the idle GPUs of a pool's hosts into ``SLOTS``, and the hosts by idle GPUs into ``WAYS``.

    Returns the GPUs of the pool's largest host. Hosts of other pools count as full.
    """
    most = 0
    for v in range(ROOMS):
        m[m[WAYS] + v] = 0
    for h in range(m[HOSTS]):
        idle = 0
        if fixed(m, h, 0) == pool:
            most = max(most, fixed(m, h, 2))
            for d in range(fixed(m, h, 2)):
                idle += level(m, m, h, 2 + d) >= MILLI_GPU
        m[m[SLOTS] + h] = idle
        m[m[WAYS] + idle] += 1
    return most


@jit_internal
def _fits_in(m: Ints, job: int, pool: int) -> bool:
    """Return whether as few hosts of a pool as a job needs have its GPUs."""
    request, most = need(m, job, PIECES), _count(m, pool)
    if most == 0 or need(m, job, GPUS) == 0:
        return False
    hosts = (request + most - 1) // most
    for free in range(most, 0, -1):
        used = min(hosts, m[m[WAYS] + free])
        hosts -= used
        request -= used * free
        if request <= 0:
            return True
    return False


@jit_internal
def pool_for(m: Ints, job: int) -> int:
    """Return the first pool in which a job fits, or −1."""
    pool = need(m, job, POOL)
    for p in range(m[POOLS]):
        if (pool == -1 or pool == p) and _fits_in(m, job, p):
            return p
    return -1


@jit_internal
def place_first(m: Ints, f: Floats, job: int) -> None:
    """Write the lexicographically smallest way of a job that fits into ``pick``."""
    m[PICKS] = 0
    pool = pool_for(m, job)
    if pool < 0:
        return
    most = _count(m, pool)
    hosts = (need(m, job, PIECES) + most - 1) // most
    best_way(m, f, m, job, pool, hosts, LEXICOGRAPHIC, 1)
    way = chosen(m)
    for i in range(way, way + 2 * hosts, 2):
        note_pick(m, f, m[i], m[i + 1], lowest_devices(m, f, m, m[i], m[i + 1]))


@jit_internal
def _earliest(m: Ints, f: Floats, now: float, job: int, limits: Any, running: int) -> float:
    """Return the end of the running job of the same label after which a job fits; of the last one where none does."""
    m[EPOCH] += 1
    look(m, m[FREE], SHADOW, 0)
    found = now
    for i in range(running - 1, -1, -1):
        other = limits[1][2 * i + 1]
        if m[m[LABEL] + other] != m[m[LABEL] + job]:
            continue
        begin = m[m[SPAN] + 2 * other]
        for e in range(begin, begin + m[m[SPAN] + 2 * other + 1]):
            entry = m[LOG] + 4 * e
            for h in range(m[entry], m[entry + 1] + 1):
                touch(m, f, 0, h)
                hold(m, m, m[OVER], other, h, m[entry + 2], m[entry + 3], 1)
        found = limits[0][2 * i]
        if pool_for(m, job) >= 0:
            break
    return found


@c_function("int64(int64, int64, int64, int64, int64, int64)")
def do(data: int, real: int, code: int, job: int, cells: int, claims: int) -> int:
    """Do what a code of `tracekit.sim.hosts.operations` says for a job."""
    m, f = ints_at(data), floats_at(real)
    look(m, m[FREE], NOW, 0)
    if code in (FITS, FITS_BESIDE):
        return 1 if pool_for(m, job) >= 0 else 0
    if code in (TAKE, TAKE_IN_TIME, TAKE_BESIDE):
        place_first(m, f, job)
        m[m[FILLED] + job] = code != TAKE
    if code in (TAKE, TAKE_IN_TIME, TAKE_BESIDE, START, START_BESIDE):
        commit(m, f, job, False)
    elif code == GIVE:
        release(m, f, job)
    elif code == IDLE:
        make_idle(m, f)
    return 1


@c_function("float64(int64, int64, int64, float64, int64, int64, int64)")
def when(data: int, real: int, layer: int, now: float, job: int, limits: int, running: int) -> float:
    """Return when a job could start; ``limits`` are times and jobs in turn."""
    m, f, ends = ints_at(data), floats_at(real), (floats_at(limits), ints_at(limits))
    return _earliest(m, f, now, job, ends, running)
