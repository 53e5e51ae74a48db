"""The allocators: what each of them prefers, a few lines each; the highest score wins, of equals the first host.

Every score is of one host that has room for one task (``cores`` units, ``whole`` GPUs or ``milli`` thousandths of one).
"""

from __future__ import annotations

import numpy as np

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES
from tracekit.sim.hosts.sleep import is_awake
from tracekit.sim.hosts.state import (
    CELLS,
    HELD,
    IN_TIME,
    KINDS,
    MODE,
    MOST_CORES,
    MOST_GPUS,
    ROUNDED,
    RULE,
    SEED,
    TASKS,
    TOTAL,
    TOTAL_GPUS,
    TYPESETS,
    TYPICAL,
    Floats,
    Ints,
    fixed,
    level,
    need,
)

(
    FIRST_FIT,
    BEST_FIT,
    WORST_FIT,
    RANDOM,
    ROUND_ROBIN,
    DOT_PRODUCT,
    PACKING,
    CLUSTERING,
    FGD,
    LEXICOGRAPHIC,
    DEFRAG,
    LOAD_BALANCE,
    TIERS,
    LEAST_LOADED,
    LSF_ORDER,
    PACK_AND_SLEEP,
    ASKED,
) = range(17)


@jit_internal
def mixed(seed: int, job: int, number: int) -> int:
    """Return a pseudo-random number from 0 to 2⁶²: the same for the same arguments (splitmix64)."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(job) * np.uint64(0xBF58476D1CE4E5B9)
    x += np.uint64(number + 1) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((x ^ (x >> np.uint64(31))) >> np.uint64(2))


@jit_internal
def idle_gpus(m: Ints, f: Floats, row: Ints, h: int) -> int:
    """Return the free thousandths of all GPUs of a host."""
    found = 0
    for d in range(fixed(m, h, 2)):
        found += max(level(m, row, h, 2 + d), 0)
    return int(found)


@jit_internal
def devices(m: Ints, f: Floats, row: Ints, job: int, h: int) -> int:
    """Return the GPUs that one task takes on a host, as bits: best fit for a share, else the lowest idle ones.

    The allocator random takes any; fgd takes the share that fragments least.
    """
    whole, milli, rule = need(m, job, GPUS), need(m, job, MILLI), m[RULE]
    if whole == 0 and milli == 0:
        return 0
    if milli > 0 and rule == FGD:
        return _best_device(m, f, row, job, h)[1]
    found, least, best = 0, 2**62, -1
    for d in range(fixed(m, h, 2)):
        room = level(m, row, h, 2 + d)
        if whole > 0:
            if room >= MILLI_GPU and whole > 0 and rule != RANDOM:
                found |= 1 << d
                whole -= 1
                if whole == 0:
                    return int(found)
        elif room >= milli:
            value = mixed(m[SEED], job, d) if rule == RANDOM else room
            if value < least:
                least, best = value, d
    if whole > 0:  # any idle ones
        while whole > 0:
            least, best = 2**62, -1
            for d in range(fixed(m, h, 2)):
                room = level(m, row, h, 2 + d)
                if room >= MILLI_GPU and (found >> d) & 1 == 0 and mixed(m[SEED], job, d) < least:
                    least, best = mixed(m[SEED], job, d), d
            found |= 1 << best
            whole -= 1
        return int(found)
    return 1 << best


# ---- fragmentation: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
# Gradient Descent", USENIX ATC 2023


@jit_internal
def fragmentation(m: Ints, f: Floats, row: Ints, h: int, cores: int, taken: int, milli: int) -> float:
    """Return F of a host from which ``cores``, and ``milli`` of each of the GPUs ``taken`` (bits), have been taken."""
    left, idle, gpus = level(m, row, h, 0) - cores, 0, fixed(m, h, 2)
    for d in range(gpus):
        idle += max(level(m, row, h, 2 + d) - (milli if (taken >> d) & 1 else 0), 0)
    found = 0.0
    if idle == 0:
        return found
    for t in range(m[TASKS]):
        asked, whole, part = m[m[TYPICAL] + 4 * t], m[m[TYPICAL] + 4 * t + 1], m[m[TYPICAL] + 4 * t + 2]
        each = MILLI_GPU if whole > 0 else part
        kinds = m[m[TYPICAL] + 4 * t + 3]
        stuck = idle
        if (
            each > 0
            and left >= asked
            and (kinds < 0 or (fixed(m, h, 1) >= 0 and m[m[TYPESETS] + kinds * m[KINDS] + fixed(m, h, 1)] != 0))
        ):
            fit, scattered = 0, 0
            for d in range(gpus):
                room = level(m, row, h, 2 + d) - (milli if (taken >> d) & 1 else 0)
                if room >= each:
                    fit += 1
                else:
                    scattered += max(room, 0)
            if fit >= max(whole, 1):
                stuck = scattered
        found += f[t] * stuck
    return found


@jit_internal
def _gain(m: Ints, f: Floats, before: float, after: float) -> float:
    """Return FGD's score of a change of F: what F falls by, in millionths; as in openb, 0 to 100."""
    if not m[ROUNDED]:  # rounded, so that equals are equal
        return float(np.floor((before - after) * 1e6 + 0.5))
    return float(np.floor(100.0 / (1.0 + np.exp(-(before - after) / 1000.0))))


@jit_internal
def _best_device(m: Ints, f: Floats, row: Ints, job: int, h: int) -> tuple[float, int]:
    """Return FGD's best score of a share of a GPU on a host, and the GPU (a bit)."""
    cores, milli = need(m, job, CORES) // need(m, job, PIECES), need(m, job, MILLI)
    before = _now_fragmented(m, f, row, h)
    best, chosen, last = -np.inf, 0, -1
    for d in range(fixed(m, h, 2)):
        room = level(m, row, h, 2 + d)
        if room < milli or room == last:  # like the one before it
            continue
        last = room
        value = _gain(m, f, before, fragmentation(m, f, row, h, cores, 1 << d, milli))
        if value > best:
            best, chosen = value, 1 << d
    return best, chosen


@jit_internal
def _now_fragmented(m: Ints, f: Floats, row: Ints, h: int) -> float:
    """Return F of a host as it is; kept until the host changes."""
    if m[MODE] > IN_TIME:
        return fragmentation(m, f, row, h, 0, 0, 0)
    if np.isnan(f[m[TASKS] + h]):
        f[m[TASKS] + h] = fragmentation(m, f, row, h, 0, 0, 0)
    return float(f[m[TASKS] + h])


# ---- one score for each allocator ------------------------------------------------------------------------------------


@jit_internal
def score(m: Ints, f: Floats, row: Ints, job: int, h: int) -> float:
    """Return how much the allocator likes a host for one task of a job that has room there."""
    rule = m[RULE]
    pieces, whole, milli = need(m, job, PIECES), need(m, job, GPUS), need(m, job, MILLI)
    cores, gpus = need(m, job, CORES) // pieces, whole * MILLI_GPU + milli
    if rule == RANDOM:
        return float(mixed(m[SEED], job, h))
    if rule in (LEAST_LOADED, LSF_ORDER):
        unused = level(m, row, h, 0) / max(m[m[TOTAL] + h * m[CELLS]], 1)
        if rule == LEAST_LOADED:
            return float(unused)
        return float(np.floor(unused * 1e4) + min(level(m, row, h, 1), 2**34) / 2.0**35)  # exact up to 16 TB
    free, idle = level(m, row, h, 0), idle_gpus(m, f, row, h)
    most_cores, most_gpus = float(m[MOST_CORES]), float(max(m[MOST_GPUS], 1))
    if rule == PACK_AND_SLEEP:
        rest = (min(free, m[MOST_CORES]) - cores) * max(m[MOST_GPUS], 1) + (idle - gpus) * m[MOST_CORES]
        return float(wakefulness(m, f, row, h) - rest / (2.0 * most_cores * most_gpus))
    if rule in (BEST_FIT, WORST_FIT):  # Σ of the shares left over
        if not m[ROUNDED]:  # in whole numbers, so that equals are equal
            rest = float((free - cores) * max(m[MOST_GPUS], 1) + (idle - gpus) * m[MOST_CORES])
            return -rest if rule == BEST_FIT else rest
        left = 0.5 * (free - cores) / most_cores + 0.5 * (idle - gpus) / most_gpus
        return float(np.floor(100.0 * (1.0 - left if rule == BEST_FIT else left)))
    if rule == DOT_PRODUCT:  # Grandl et al., "Multi-resource packing for cluster schedulers", SIGCOMM 2014
        product = cores * float(free) / most_cores**2 + gpus * float(idle) / most_gpus**2
        return float(np.floor(100.0 * (1.0 - 0.5 * product))) if m[ROUNDED] else -np.floor(product * 1e12 + 0.5)
    if rule == PACKING:
        return _packing(m, f, row, job, h)
    if rule == CLUSTERING:
        return _clustering(m, f, idle, whole, milli, h)
    if rule == FGD:
        if milli > 0:
            return _best_device(m, f, row, job, h)[0]
        taken = devices(m, f, row, job, h)
        after = fragmentation(m, f, row, h, cores, taken, MILLI_GPU)
        return _gain(m, f, _now_fragmented(m, f, row, h), after)
    return _tiered(m, f, h, free, idle, cores, gpus)


@jit_internal
def wakefulness(m: Ints, f: Floats, row: Ints, h: int) -> int:
    """Return 2 for a host of which something is in use, 1 for an idle one that is awake, 0 for one that sleeps."""
    for c in range(m[CELLS]):
        if level(m, row, h, c) < m[m[TOTAL] + h * m[CELLS] + c]:
            return 2
    return 1 if is_awake(m, f, h) else 0


@jit_internal
def _packing(m: Ints, f: Floats, row: Ints, job: int, h: int) -> float:
    """Return the score of gpu-packing (Weng et al., USENIX ATC 2023): shared GPUs, then used hosts, then idle ones."""
    whole, milli, gpus = need(m, job, GPUS), need(m, job, MILLI), fixed(m, h, 2)
    if whole == 0 and milli == 0:
        return 0.0
    idle = 0
    for d in range(gpus):
        idle += level(m, row, h, 2 + d) >= MILLI_GPU
    if idle == gpus:
        return float(max(33 - idle, idle))
    opened, left = 0, 0
    if whole > 0:
        opened = whole
    else:
        least = 2**62
        for d in range(gpus):
            room = level(m, row, h, 2 + d)
            if milli <= room < least:
                least = room
        opened, left = (1, 0) if least >= MILLI_GPU else (0, least * 100 // MILLI_GPU)
    if opened > 0:
        return float(max(50 - opened, 33))
    return float(max(100 - left // 10, 50))


@jit_internal
def _clustering(m: Ints, f: Floats, idle: int, whole: int, milli: int, h: int) -> float:
    """Return the score of gpu-clustering: hosts that hold tasks of the same number of GPUs (or shares) come first.

    Xiao et al., "Gandiva: introspective cluster scheduling for deep learning", OSDI 2018; as scored by Weng et al.
    """
    if whole == 0 and milli == 0:
        return 0.0
    most = max(m[MOST_GPUS], 1)
    part = 25 * (most - idle) // most
    same, others = m[m[HELD] + h * (m[CELLS] - 1) + whole] > 0, 0
    for kind in range(m[CELLS] - 1):
        others += kind != whole and m[m[HELD] + h * (m[CELLS] - 1) + kind] > 0
    if same:
        return float(part + (75 if others == 0 else 50))
    return float(part + (25 if others == 0 else 0))


@jit_internal
def _tiered(m: Ints, f: Floats, h: int, free: int, idle: int, cores: int, gpus: int) -> float:
    """Return RLTune's scores of one host as one number: fewer partly used hosts, or the least used host, first."""
    whole = float(fixed(m, h, 2) * MILLI_GPU)
    used, left = whole - idle, idle - gpus
    if m[TOTAL_GPUS] == 0:  # cores in the place of GPUs
        whole = float(m[m[TOTAL] + h * m[CELLS]])
        used, left = whole - free, free - cores
    rule = m[RULE]
    if rule == LEXICOGRAPHIC:
        return 0.0
    partly = (1.0 if 0 < left < whole else 0.0) - (1.0 if 0 < used < whole else 0.0)
    waste = (whole - left if 0 < left < whole else 0.0) - (used if 0 < used < whole else 0.0)
    share = used / max(whole, 1.0)
    if rule == LOAD_BALANCE:
        return -share * 1e15 - partly * 1e7 - waste
    return -partly * 1e12 - waste * 1e3 - share * 100.0
