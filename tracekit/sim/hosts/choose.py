"""Where a job goes: candidates in the order of the hosts, the allocator's score, all tasks or none.

A choice is written into ``pick``, and nothing else changes. It can be made on what is free now, beside a reservation,
at the reservation (`tracekit.sim.hosts.state`), or on any row of cells, as conservative backfilling has them.
"""

from __future__ import annotations

import numpy as np

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, SPREAD
from tracekit.sim.hosts.scores import (
    ASKED,
    BEST_FIT,
    FIRST_FIT,
    LEXICOGRAPHIC,
    PACK_AND_SLEEP,
    ROUND_ROBIN,
    devices,
    score,
    wakefulness,
)
from tracekit.sim.hosts.state import (
    AT,
    BESIDE,
    CELLS,
    COUNT,
    CURSOR,
    FREE_CORES,
    HOSTS,
    IN_TIME,
    MODE,
    NOW,
    PICK,
    PICKS,
    POOLS,
    RULE,
    SHADOW,
    SLOTS,
    TASKS,
    TIERED,
    Floats,
    Ints,
    fixed,
    host_fits,
    host_slots,
    level,
    need,
    next_host,
)
from tracekit.sim.hosts.tiers import chosen, is_tiered, tiered_hosts, write_idle_slots


@jit_internal
def candidate(m: Ints, f: Floats, row: Ints, job: int, h: int, pool: int, indexed: bool) -> int:
    """Return the first host from ``h`` on that has room for one task of a job (in a pool, unless −1), or −1."""
    pieces = need(m, job, PIECES)
    cores = need(m, job, CORES) // pieces
    gpus = need(m, job, GPUS) * MILLI_GPU + need(m, job, MILLI)
    while True:
        if indexed:
            h = next_host(m, h, cores, gpus)
        if h < 0 or h >= m[HOSTS]:
            return -1
        if (pool < 0 or fixed(m, h, 0) == pool) and host_fits(m, row, job, h):
            return h
        h += 1


@jit_internal
def best_host(m: Ints, f: Floats, row: Ints, job: int, h: int, pool: int, indexed: bool) -> int:
    """Return the host that the allocator chooses for one task of a job, from ``h`` on, or −1."""
    rule = m[RULE]
    if rule == ROUND_ROBIN:
        found = candidate(m, f, row, job, m[CURSOR], pool, indexed)
        return found if found >= 0 else candidate(m, f, row, job, 0, pool, indexed)
    found = candidate(m, f, row, job, h, pool, indexed)
    if found < 0 or rule in (FIRST_FIT, LEXICOGRAPHIC, ASKED):
        return found
    if rule == BEST_FIT and m[CELLS] == 2:
        return _least_cores(m, f, row, job, found, pool)
    best, most = found, score(m, f, row, job, found)
    while True:
        found = candidate(m, f, row, job, found + 1, pool, indexed)
        if found < 0:
            return best
        value = score(m, f, row, job, found)
        if value > most:
            best, most = found, value


@jit_internal
def _least_cores(m: Ints, f: Floats, row: Ints, job: int, first: int, pool: int) -> int:
    """Return what best fit chooses where there are no GPUs: the host with the fewest cores left."""
    asked = need(m, job, CORES) // need(m, job, PIECES)
    best, least = first, level(m, row, first, 0)
    for h in range(first + 1, m[HOSTS]):
        if least == asked:
            break
        free = level(m, row, h, 0)
        if asked <= free < least and (pool < 0 or fixed(m, h, 0) == pool) and host_fits(m, row, job, h):
            best, least = h, free
    return best


# ---- several pieces --------------------------------------------------------------------------------------------------


@jit_internal
def pool_for(m: Ints, f: Floats, row: Ints, job: int) -> int:
    """Return a pool that has room for all pieces of a job, or −1; leaves each host's room in ``slots``.

    Tasks go to the first such pool; a job that spreads goes to the one where it needs the fewest hosts. By RLTune's
    tiers, these are as few as if the pool were idle, or one more.
    """
    pieces, tiered = need(m, job, PIECES), is_tiered(m, job)
    if m[MODE] <= IN_TIME and need(m, job, CORES) > m[FREE_CORES]:
        return -1
    for p in range(m[POOLS]):
        m[m[COUNT] + p] = 0
    for h in range(m[HOSTS]):
        found = host_slots(m, row, job, h)
        m[m[SLOTS] + h] = found
        m[m[COUNT] + fixed(m, h, 0)] += found
    if tiered:
        write_idle_slots(m, job)
    best, fewest = -1, 2**62
    for p in range(m[POOLS]):
        if m[m[COUNT] + p] >= pieces:
            needed = hosts_needed(m, f, 0, p, pieces) if need(m, job, SPREAD) else 0
            if tiered and needed > hosts_needed(m, f, 1, p, pieces) + m[TIERED] - 1:
                continue
            if needed < fewest:
                best, fewest = p, needed
    return best


@jit_internal
def fullest_below(m: Ints, f: Floats, idle: int, pool: int, below: int) -> int:
    """Return the most pieces that a host of a pool could take (``idle`` 0: as it is), if fewer than ``below``."""
    found, slots = 0, m[SLOTS] + idle * m[HOSTS]
    for h in range(m[HOSTS]):
        if fixed(m, h, 0) == pool and found < m[slots + h] < below:
            found = m[slots + h]
    return int(found)


@jit_internal
def hosts_needed(m: Ints, f: Floats, idle: int, pool: int, pieces: int) -> int:
    """Return how few hosts of a pool can take all pieces, as they are (``idle`` 0) or if they were idle (1)."""
    needed, most, slots = 0, 2**62, m[SLOTS] + idle * m[HOSTS]
    while pieces > 0:
        most = fullest_below(m, f, idle, pool, most)
        if most == 0:
            return 2**62
        alike = 0
        for h in range(m[HOSTS]):
            alike += fixed(m, h, 0) == pool and m[slots + h] == most
        used = min(alike, (pieces + most - 1) // most)
        needed += used
        pieces -= used * most
    return int(needed)


@jit_internal
def lowest_devices(m: Ints, f: Floats, row: Ints, h: int, wanted: int) -> int:
    """Return the lowest idle GPUs of a host, as bits."""
    found = 0
    for d in range(fixed(m, h, 2)):
        if wanted > 0 and level(m, row, h, 2 + d) >= MILLI_GPU:
            found |= 1 << d
            wanted -= 1
    return int(found)


@jit_internal
def note_pick(m: Ints, f: Floats, first: int, pieces: int, held: int) -> None:
    """Add a host to the placement that is being made; a run of alike hosts without GPUs is one entry."""
    count, end = m[PICKS], m[PICK] + 4 * m[PICKS]
    if count > 0:
        begin, last, alike, before = m[end - 4], m[end - 3], m[end - 2], m[end - 1]
        if before == 0 and held == 0 and last + 1 == first and alike == pieces:
            m[end - 3] = first
            return
        if begin == first and last == first and before & held == 0:
            m[end - 2], m[end - 1] = alike + pieces, before | held
            return
    m[end], m[end + 1], m[end + 2], m[end + 3] = first, first, pieces, held
    m[PICKS] = count + 1


@jit_internal
def _spread(m: Ints, f: Floats, row: Ints, job: int, pool: int) -> None:
    """Put a job on as few hosts of a pool as possible: those with the most room first, of equals the first host.

    A reservation takes, of equals, hosts that do not have this room now before those that do; a job that ends in time
    for it takes hosts that do not have this room beside it first. So both leave as much as they can to jobs beside it.
    The allocator pack-and-sleep takes, of hosts that are still equal, those that are awake first.
    """
    left, most, mode = need(m, job, PIECES), 2**62, m[MODE]
    choosy, packs = mode in (IN_TIME, SHADOW), m[RULE] == PACK_AND_SLEEP
    while left > 0:
        most = fullest_below(m, f, 0, pool, most)
        turns = 3 if packs else 1
        for turn in range(2 * turns if choosy else turns):
            for h in range(m[HOSTS]):
                if left == 0 or fixed(m, h, 0) != pool or m[m[SLOTS] + h] != most:
                    continue
                if packs and wakefulness(m, f, row, h) != 2 - turn % turns:
                    continue
                if choosy:
                    m[MODE] = NOW if mode == SHADOW else BESIDE
                    useful = host_slots(m, row, job, h) >= most
                    m[MODE] = mode
                    if useful == (turn < turns):
                        continue
                used = min(most, left)
                held = lowest_devices(m, f, row, h, used) if need(m, job, GPUS) > 0 else 0
                note_pick(m, f, h, used, held)
                left -= used


@jit_internal
def _spread_by_tiers(m: Ints, f: Floats, row: Ints, job: int, pool: int) -> None:
    """Put a job on the hosts of a pool that RLTune's rule chooses."""
    fewest = hosts_needed(m, f, 1, pool, need(m, job, PIECES))
    count, way = tiered_hosts(m, f, row, job, pool, fewest), chosen(m)
    for i in range(way, way + 2 * count, 2):
        note_pick(m, f, m[i], m[i + 1], lowest_devices(m, f, row, m[i], m[i + 1]))


@jit_internal
def hold(m: Ints, row: Ints, at: int, job: int, h: int, pieces: int, held: int, sign: int) -> None:
    """Add what so many pieces of a job, with their GPUs, hold of a host to its cells, times ``sign``."""
    base, parts = at + h * m[CELLS], need(m, job, PIECES)
    row[base] += sign * (pieces * need(m, job, CORES) // parts)
    row[base + 1] += sign * (pieces * need(m, job, MEMORY) // parts)
    each = MILLI_GPU if need(m, job, GPUS) > 0 else need(m, job, MILLI)
    d = 0
    while held >> d:
        if (held >> d) & 1:
            row[base + 2 + d] += sign * each
        d += 1


@jit_internal
def _gang(m: Ints, f: Floats, row: Ints, job: int, pool: int) -> bool:
    """Put the tasks of a job on hosts of a pool, one after the other, each where the allocator likes it best."""
    start = 0
    follows = m[RULE] == FIRST_FIT or m[RULE] == LEXICOGRAPHIC
    cursor, placed = m[CURSOR], 0
    while placed < need(m, job, PIECES):
        h = best_host(m, f, row, job, start, pool, False)
        if h < 0:
            break
        held = devices(m, f, row, job, h)
        hold(m, row, m[AT], job, h, 1, held, -1)
        f[m[TASKS] + h] = np.nan
        note_pick(m, f, h, 1, held)
        placed += 1
        start = h if follows else 0
        m[CURSOR] = h + 1
    m[CURSOR] = cursor
    for i in range(m[PICKS]):
        for h in range(m[m[PICK] + 4 * i], m[m[PICK] + 4 * i + 1] + 1):
            hold(m, row, m[AT], job, h, m[m[PICK] + 4 * i + 2], m[m[PICK] + 4 * i + 3], 1)
            f[m[TASKS] + h] = np.nan
    return placed == need(m, job, PIECES)


# ---- any job ---------------------------------------------------------------------------------------------------------


@jit_internal
def has_room(m: Ints, f: Floats, row: Ints, job: int) -> bool:
    """Return whether a job fits: all its tasks in one pool, or none."""
    if need(m, job, PIECES) == 1:
        indexed = m[MODE] in (NOW, IN_TIME, BESIDE)
        return candidate(m, f, row, job, 0, -1, indexed) >= 0
    return pool_for(m, f, row, job) >= 0


@jit_internal
def choose(m: Ints, f: Floats, row: Ints, job: int) -> bool:
    """Write the allocator's choice for a job into ``pick``; return False where it does not fit."""
    m[PICKS] = 0
    if need(m, job, PIECES) == 1:
        indexed = m[MODE] in (NOW, IN_TIME, BESIDE)
        h = best_host(m, f, row, job, 0, -1, indexed)
        if h < 0:
            return False
        note_pick(m, f, h, 1, devices(m, f, row, job, h))
        return True
    pool = pool_for(m, f, row, job)
    if pool < 0:
        return False
    if is_tiered(m, job):
        _spread_by_tiers(m, f, row, job, pool)
        return True
    if need(m, job, SPREAD):
        _spread(m, f, row, job, pool)
        return True
    return _gang(m, f, row, job, pool)
