"""RLTune's choice for a job that spreads over hosts by its GPUs, compiled; `tracekit.sim.hosts.ways` is its definition.

A way takes some of the hosts with equally much room (the first ones) and uses them up, the last such group excepted,
which gets every division of what is left. Tier 1 has as few hosts as an idle pool needs, tier 2 one more.
"""

from __future__ import annotations

import math

import numpy as np

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.demand import GPUS, MILLI_GPU, PIECES, SPREAD
from tracekit.sim.hosts.scores import DEFRAG, LEXICOGRAPHIC, LOAD_BALANCE, TIERS, idle_gpus
from tracekit.sim.hosts.state import (
    AT,
    COMMON,
    HOSTS,
    LAYER,
    MODE,
    ROW,
    RULE,
    SLOTS,
    TIERED,
    TOTAL,
    WAYS,
    Floats,
    Ints,
    fixed,
    host_slots,
    look,
    need,
)

#: Most GPUs of a host, and one: values of the room on it.
ROOMS = 33
#: Ways that are looked at for one job at most; hosts of 8 GPUs have a few hundred at most.
MOST_WAYS = 200_000
#: Rules whose spreading jobs follow the tiers.
TIERED_RULES = (LEXICOGRAPHIC, DEFRAG, LOAD_BALANCE, TIERS)
#: Scratch of ``WAYS``: hosts by room, where they begin in the order, how many are taken; then scores of the best way …
_NUMBER, _FIRST, _TAKE, _BEST = 0, ROOMS, 2 * ROOMS, 3 * ROOMS
FRAGMENTS, WASTE, EVENNESS, HIGH, LOOKED = range(_BEST, _BEST + 5)
_USED, _SHARES = _BEST + 5, _BEST + 6
Scores = tuple[int, int, int, int]
_LISTS = _BEST + 7  # … and lists: hosts in order, parts of the last group, the way, the best way


def scratch_words(hosts: int) -> int:
    """Return the length of the scratch for so many hosts."""
    return _LISTS + hosts + (hosts + 1) + 4 * (hosts + 1)


@jit_internal
def is_tiered(m: Ints, job: int) -> bool:
    """Return whether a job is placed by RLTune's tiers: one that spreads by its GPUs."""
    return bool(m[TIERED] > 0 and need(m, job, SPREAD) > 0 and need(m, job, GPUS) > 0)


@jit_internal
def write_idle_slots(m: Ints, job: int) -> None:
    """Write how many pieces of a job each host has room for when it is idle into the second row of ``SLOTS``."""
    at, mode = m[AT], m[MODE]
    look(m, m[TOTAL], ROW, m[LAYER])
    for h in range(m[HOSTS]):
        m[m[SLOTS] + m[HOSTS] + h] = host_slots(m, m, job, h)
    look(m, at, mode, m[LAYER])


# ---- one pool's hosts by their room ----------------------------------------------------------------------------------


@jit_internal
def _sort_hosts(m: Ints, f: Floats, row: Ints, pool: int) -> None:
    """Order the hosts of a pool by their room (``SLOTS``), most first, of equals by number; sum up their use."""
    w = m[WAYS]
    for v in range(ROOMS):
        m[w + _NUMBER + v] = 0
    m[w + _USED] = m[w + _SHARES] = 0
    for h in range(m[HOSTS]):
        room = m[m[SLOTS] + h]
        if fixed(m, h, 0) == pool and room > 0:
            m[w + _NUMBER + room] += 1
            m[w + _USED] += 1
            m[w + _SHARES] += (fixed(m, h, 2) * MILLI_GPU - idle_gpus(m, f, row, h)) * m[COMMON] // fixed(m, h, 2)
    begin = 0
    for v in range(ROOMS - 1, 0, -1):
        m[w + _FIRST + v] = begin
        begin += m[w + _NUMBER + v]
    for h in range(m[HOSTS]):
        room = m[m[SLOTS] + h]
        if fixed(m, h, 0) == pool and room > 0:
            m[w + _LISTS + m[w + _FIRST + room]] = h
            m[w + _FIRST + room] += 1
    for v in range(1, ROOMS):
        m[w + _FIRST + v] -= m[w + _NUMBER + v]


@jit_internal
def _possible(m: Ints, v: int, rest: int, hosts: int) -> bool:
    """Return whether so many hosts with room ``v`` or less can take the rest, each at least one GPU of it."""
    if rest < hosts:
        return False
    room = 0
    for u in range(v, 0, -1):
        used = min(m[m[WAYS] + _NUMBER + u], hosts)
        room += used * u
        hosts -= used
    return hosts == 0 and room >= rest


# ---- all ways on a number of hosts -----------------------------------------------------------------------------------


@jit_internal
def best_way(m: Ints, f: Floats, row: Ints, job: int, pool: int, hosts: int, rule: int, tier: int) -> bool:
    """Find the best way of a job on exactly so many hosts of a pool; return whether there is one.

    Leaves the pairs (host, GPUs) in `chosen`, by host, and the scores in ``WAYS``.
    """
    w = m[WAYS]
    _sort_hosts(m, f, row, pool)
    m[w + LOOKED] = 0
    rest, left, v = need(m, job, PIECES), hosts, ROOMS - 1
    if not _possible(m, v, rest, left):
        return False
    m[w + _TAKE + v] = min(m[w + _NUMBER + v], left) + 1
    while True:
        m[w + _TAKE + v] -= 1
        taken = m[w + _TAKE + v]
        if taken < 0:  # all tried: one group back
            v += 1
            if v == ROOMS:
                break
            rest += m[w + _TAKE + v] * v
            left += m[w + _TAKE + v]
        elif taken * v >= rest:
            if taken == left and rest >= taken:
                _divide(m, f, row, v, rest, hosts, rule, tier)
        elif _possible(m, v - 1, rest - taken * v, left - taken):
            rest -= taken * v
            left -= taken
            v -= 1
            m[w + _TAKE + v] = min(m[w + _NUMBER + v], left) + 1
        if m[w + LOOKED] >= MOST_WAYS:
            break
    return bool(m[w + LOOKED] > 0)


@jit_internal
def _divide(m: Ints, f: Floats, row: Ints, v: int, rest: int, hosts: int, rule: int, tier: int) -> None:
    """Look at every division of the rest between the hosts taken of the last group: descending, largest first."""
    w, count = m[WAYS], m[m[WAYS] + _TAKE + v]
    parts = w + _LISTS + m[HOSTS]
    _fill(m, parts, 0, count, rest, v)
    while m[w + LOOKED] < MOST_WAYS:
        _look_at(m, f, row, v, hosts, rule, tier)
        behind, i = 0, count - 1
        while i >= 0:  # the last part that can be one less, with the rest behind it no larger than it
            behind += m[parts + i]
            less = m[parts + i] - 1
            if less >= 1 and behind - less <= (count - i - 1) * less:
                break
            i -= 1
        if i < 0:
            return
        _fill(m, parts, i, count, behind, m[parts + i] - 1)


@jit_internal
def _fill(m: Ints, parts: int, first: int, count: int, rest: int, most: int) -> None:
    """Divide the rest between the parts from ``first`` on, 1 to ``most`` each, the first ones largest."""
    for i in range(first, count):
        m[parts + i] = min(most, rest - (count - i - 1))
        rest -= m[parts + i]


@jit_internal
def _look_at(m: Ints, f: Floats, row: Ints, last: int, hosts: int, rule: int, tier: int) -> None:
    """Score a way, and keep it if it is the best so far."""
    w = m[WAYS]
    parts = w + _LISTS + m[HOSTS]
    way = parts + m[HOSTS] + 1
    best = way + 2 * (m[HOSTS] + 1)
    fragments, waste, squares, shares, length = 0, 0, 0, 0, 0
    for v in range(ROOMS - 1, last - 1, -1):
        for i in range(m[w + _TAKE + v]):
            h = m[w + _LISTS + m[w + _FIRST + v] + i]
            taken = v if v > last else m[parts + i]
            _insert(m, way, length, h, taken)
            length += 1
            gpus = fixed(m, h, 2)
            whole, idle = gpus * MILLI_GPU, idle_gpus(m, f, row, h)
            after = idle - taken * MILLI_GPU
            fragments += (1 if 0 < after < whole else 0) - (1 if 0 < idle < whole else 0)
            waste += (whole - after if 0 < after < whole else 0) - (whole - idle if 0 < idle < whole else 0)
            share, more = (whole - idle) * m[COMMON] // gpus, taken * MILLI_GPU * m[COMMON] // gpus
            squares += more * (2 * share + more)
            shares += more
    high = 1 if tier == 2 and fragments > 0 else 0
    evenness = m[w + _USED] * squares - shares * (2 * m[w + _SHARES] + shares)  # the variance times the hosts squared
    if m[w + LOOKED] == 0 or _is_better(m, rule, hosts, way, best, (high, fragments, waste, evenness)):
        m[w + HIGH], m[w + FRAGMENTS], m[w + WASTE], m[w + EVENNESS] = high, fragments, waste, evenness
        for i in range(2 * hosts):
            m[best + i] = m[way + i]
    m[w + LOOKED] += 1


@jit_internal
def _insert(m: Ints, way: int, length: int, h: int, taken: int) -> None:
    """Insert a host into a way, which is sorted by host."""
    i = way + 2 * length
    while i > way and m[i - 2] > h:
        m[i], m[i + 1] = m[i - 2], m[i - 1]
        i -= 2
    m[i], m[i + 1] = h, taken


@jit_internal
def _is_better(m: Ints, rule: int, hosts: int, way: int, best: int, scores: Scores) -> bool:
    """Return whether a way comes before the best one so far in the order of a rule."""
    w, (high, fragments, waste, evenness) = m[WAYS], scores
    if high != m[w + HIGH]:
        return bool(high < m[w + HIGH])
    if rule == LOAD_BALANCE and evenness != m[w + EVENNESS]:
        return bool(evenness < m[w + EVENNESS])
    if rule in (DEFRAG, TIERS, LOAD_BALANCE):
        if fragments != m[w + FRAGMENTS]:
            return bool(fragments < m[w + FRAGMENTS])
        if waste != m[w + WASTE]:
            return bool(waste < m[w + WASTE])
        if evenness != m[w + EVENNESS]:
            return bool(evenness < m[w + EVENNESS])
    step = 2 if rule in (DEFRAG, TIERS, LOAD_BALANCE) else 1  # of equals the first hosts; lexicographic: and GPUs
    for i in range(0, 2 * hosts, step):
        if m[way + i] != m[best + i]:
            return bool(m[way + i] < m[best + i])
    return False


# ---- both tiers ------------------------------------------------------------------------------------------------------


@jit_internal
def chosen(m: Ints) -> int:
    """Return where in the array the best way begins: hosts and GPUs in turn."""
    return m[WAYS] + _LISTS + m[HOSTS] + 3 * (m[HOSTS] + 1)  # type: ignore[no-any-return]


@jit_internal
def tiered_hosts(m: Ints, f: Floats, row: Ints, job: int, pool: int, fewest: int) -> int:
    """Find the way that the allocator chooses in a pool where it exists; return how many hosts it has, or 0.

    Tier 1 comes first. ``tiers`` prefers a way of tier 2 that leaves fewer hosts partly used.
    """
    rule, w = m[RULE], m[WAYS]
    found = best_way(m, f, row, job, pool, fewest, rule, 1)
    if found and (rule != TIERS or m[TIERED] == 1):
        return fewest
    before = m[w + FRAGMENTS]
    more = m[TIERED] > 1 and best_way(m, f, row, job, pool, fewest + 1, rule, 2)
    if more and (not found or m[w + FRAGMENTS] < before):
        return fewest + 1
    if found and m[TIERED] > 1:
        best_way(m, f, row, job, pool, fewest, rule, 1)  # once more: its way was overwritten
    return fewest if found else 0


def common_multiple(gpus: Ints) -> int:
    """Return the least common multiple of the hosts' numbers of GPUs, or 840 where that is larger."""
    return min(math.lcm(*(int(count) for count in np.unique(gpus) if count > 0)), 840)
