"""What is free on every host: the state that compiled allocators and the engine share.

All whole numbers are in one array (a call with few arrays is fast to make and to compile): a head of scalars and of
the places where the parts begin. A host has cells: free cores (in units), free memory (KB), and the free thousandths of
each of its GPUs. A reservation is kept as differences to what is free now (``OVER``), for the hosts that it touches
only: the stamps of other hosts are of an earlier reservation.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, POOL, TYPES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Scalars in the head of the array.
(
    HOSTS,  # how many hosts
    CELLS,  # cells of a host: 2 + the most GPUs of one host
    WIDTH,  # cells of all hosts
    RULE,  # the allocator's code
    SEED,
    EPOCH,  # number of the last reservation
    SCRATCH_EPOCH,  # the same, where only the time is wanted
    CURSOR,  # where round-robin goes on
    TAIL,  # entries of the log in use
    PICKS,  # entries of the placement that is being made
    BOUND,  # 0: none; 1: no job needs more than one host; 2: the free units of all hosts are the bound
    UNIT,  # what sizes are counted in: 0 cores, 1 GPUs
    SCALE,  # units in one core or GPU
    FREE_CORES,
    FREE_GPUS,  # in thousandths
    TOTAL_CORES,
    TOTAL_GPUS,
    DOWN,  # which outages are going on, one bit each
    OUTAGES,  # how many outages there are
    POOLS,  # how many pools
    KINDS,  # GPU types
    MOST_CORES,  # of one host, in units
    MOST_GPUS,  # of one host, in thousandths
    ROUNDED,  # scores are whole numbers out of 100, as openb's are
    FULL,  # whether the log was too short
    COUNTABLE,  # whether hosts are all alike and jobs take whole ones, so that plans can count them
    TASKS,  # typical tasks of fgd
    ENTRIES,  # length of the log
    AT,  # where in a row of cells one looks …
    MODE,  # … and how
    LAYER,  # 0: the reservation; 1: a look at another one
    ARGUMENT,  # of the call that is being made
    DO,  # address of the compiled code …
    WHEN,  # … and of that for reservations
    FACT,  # … and of that for what agents see
    TIERED,  # jobs that spread by GPUs follow RLTune's tiers: 0 no, 1 tier 1 only, 2 both tiers
    COMMON,  # a common multiple of the hosts' numbers of GPUs, to compare their use in whole numbers
    SLEEP,  # where the real numbers of hosts that sleep begin (`tracekit.sim.hosts.sleep`); 0: hosts do not sleep
    LEVELS,  # levels of the tree; their beginnings follow
) = range(39)
_PARTS = LEVELS + 10
#: Where the parts begin, by their place in the head.
(
    FREE,  # (hosts · cells) free now
    TOTAL,  # (hosts · cells)
    FIXED,  # (hosts, 3) pool, GPU type (−1 none), GPUs
    OVER,  # (2, hosts · cells) differences at the reservation, and for a look at another one
    STAMP,  # (2, hosts) the number of the reservation that they belong to
    TREE,  # (nodes, 2) most free cores and GPU-thousandths of one host below each node; the leaves first
    NEED,  # (jobs, 8) see `tracekit.sim.hosts.demand`
    TYPESETS,  # (sets, types) GPU types that a set allows
    SPAN,  # (jobs, 2) where in the log a job's last placement begins, and how many entries it has
    LOG,  # (entries, 4) first host, last host, pieces on each, GPUs held (bits): every placement ever made
    PICK,  # (most, 4) the same of the placement that is being made
    SLOTS,  # (2, hosts) scratch: pieces that a host could take; that it could take if it were idle
    COUNT,  # (pools) scratch
    HELD,  # (hosts, most GPUs + 1) running tasks by number of GPUs, 0 = a share; for clustering
    TYPICAL,  # (tasks, 4) cores, whole GPUs, thousandths, types of typical tasks; for fgd
    DOWNS,  # (outages, hosts) the hosts of each outage
    WAYS,  # scratch of `tracekit.sim.hosts.tiers`
    LABEL,  # (jobs) as RLTune's code has it: jobs of one label share a virtual cluster or GPU type; else 0
    FILLED,  # (jobs) whether a job was started to fill a gap; kept by `tracekit.sim.hosts.rltune`
) = range(_PARTS, _PARTS + 19)
HEAD = _PARTS + 19
PARTS = range(_PARTS, HEAD)

#: Where a free level is looked at: now; now, by a job that ends in time for the reservation; in another row of cells;
#: now and beside the reservation; at the reservation.
NOW, IN_TIME, ROW, BESIDE, SHADOW = range(5)
#: Children of a node of the tree.
FAN = 16


class Hosts(NamedTuple):
    """The hosts of a cluster and the demands of jobs; with a leading axis of lanes for agents."""

    data: Ints  # the head, then the parts
    real: Floats  # shares of typical tasks; then the fragmentation of each host, NaN = to be worked out; then sleep


class AskedHosts(NamedTuple):
    """The same; Python writes the placement down before a job starts."""

    data: Ints
    real: Floats


def parts_of(data: Ints, shapes: dict[int, tuple[int, ...]]) -> SimpleNamespace:
    """Return views of the parts of one lane's array, by their names in lower case."""
    names = {FREE: "free", TOTAL: "total", FIXED: "fixed", TREE: "tree", NEED: "need", TYPESETS: "typesets"}
    names |= {
        LABEL: "label",
        FILLED: "filled",
        SPAN: "span",
        LOG: "log",
        SLOTS: "slots",
        TYPICAL: "typical",
        DOWNS: "downs",
        STAMP: "stamp",
    }
    found = SimpleNamespace()
    for part, name in names.items():
        begin, shape = int(data[part]), shapes[part]
        setattr(found, name, data[begin : begin + int(np.prod(shape))].reshape(shape))
    return found


@jit_merged
def need(m: Ints, job: int, c: int) -> int:
    """Return a number of a job's demand."""
    return m[m[NEED] + job * 8 + c]  # type: ignore[no-any-return]


@jit_merged
def fixed(m: Ints, h: int, c: int) -> int:
    """Return the pool (0), GPU type (1) or number of GPUs (2) of a host."""
    return m[m[FIXED] + h * 3 + c]  # type: ignore[no-any-return]


@jit_merged
def look(m: Ints, at: int, mode: int, layer: int) -> None:
    """Choose what is looked at from now on: a row of cells from ``at`` on, and how."""
    m[AT], m[MODE], m[LAYER] = at, mode, layer


@jit_merged
def level(m: Ints, row: Ints, h: int, c: int) -> int:
    """Return what is free of cell ``c`` of host ``h`` in ``row[AT:]``, as `look` was told."""
    place = h * m[CELLS] + c
    found = row[m[AT] + place]
    if m[MODE] >= BESIDE and m[m[STAMP] + m[LAYER] * m[HOSTS] + h] == m[EPOCH + m[LAYER]]:
        change = m[m[OVER] + m[LAYER] * m[WIDTH] + place]
        if m[MODE] == SHADOW or change < 0:
            found += change
    return found  # type: ignore[no-any-return]


@jit_internal
def may_use(m: Ints, job: int, h: int) -> bool:
    """Return whether a job may use a host by its pool and GPU type, and as far as it asks for GPUs at all."""
    pool, kinds = need(m, job, POOL), need(m, job, TYPES)
    if pool >= 0 and fixed(m, h, 0) != pool:
        return False
    if need(m, job, GPUS) == 0 and need(m, job, MILLI) == 0:
        return True
    if fixed(m, h, 2) == 0:
        return False
    return kinds < 0 or (fixed(m, h, 1) >= 0 and m[m[TYPESETS] + kinds * m[KINDS] + fixed(m, h, 1)] != 0)


@jit_internal
def pieces_in(room: int, asked: int, pieces: int) -> int:
    """Return how many of ``pieces`` equal parts of ``asked`` units have room; n parts hold ⌊n · asked / pieces⌋."""
    if room < 0:
        return 0
    if asked <= room:
        return pieces
    return ((room + 1) * pieces - 1) // asked


@jit_internal
def host_slots(m: Ints, row: Ints, job: int, h: int) -> int:
    """Return how many pieces of a job a host has room for, at most all of them."""
    if not may_use(m, job, h):
        return 0
    pieces = need(m, job, PIECES)
    found = pieces_in(level(m, row, h, 0), need(m, job, CORES), pieces)
    if found > 0 and need(m, job, MEMORY) > 0:
        found = min(found, pieces_in(level(m, row, h, 1), need(m, job, MEMORY), pieces))
    whole, milli = need(m, job, GPUS), need(m, job, MILLI)
    if found > 0 and (whole > 0 or milli > 0):
        idle = 0
        for d in range(fixed(m, h, 2)):
            room = level(m, row, h, 2 + d)
            if whole > 0:
                if room >= MILLI_GPU:
                    idle += 1
            elif room > 0:
                idle += room // milli
        found = min(found, idle // whole if whole > 0 else idle)
    return found


@jit_internal
def host_fits(m: Ints, row: Ints, job: int, h: int) -> bool:
    """Return whether a host has room for one piece of a job."""
    if not may_use(m, job, h):
        return False
    pieces = need(m, job, PIECES)
    if level(m, row, h, 0) < need(m, job, CORES) // pieces:
        return False
    if level(m, row, h, 1) < need(m, job, MEMORY) // pieces:
        return False
    whole, milli = need(m, job, GPUS), need(m, job, MILLI)
    if whole == 0 and milli == 0:
        return True
    idle = 0
    for d in range(fixed(m, h, 2)):
        room = level(m, row, h, 2 + d)
        if whole > 0:
            if room >= MILLI_GPU:
                idle += 1
        elif room >= milli:
            return True
    return whole > 0 and idle >= whole


# ---- the index: a tree of the most that one host has free ------------------------------------------------------------


@jit_internal
def refresh(m: Ints, h: int) -> None:
    """Bring the index up to date after what a host has free has changed."""
    tree, cells = m[TREE], m[CELLS]
    cores, gpus = m[m[FREE] + h * cells], 0
    for d in range(fixed(m, h, 2)):
        gpus += max(m[m[FREE] + h * cells + 2 + d], 0)
    before_cores, before_gpus = m[tree + 2 * h], m[tree + 2 * h + 1]
    m[tree + 2 * h], m[tree + 2 * h + 1] = cores, gpus
    child, i = 0, h
    for depth in range(1, m[LEVELS]):
        first, i = child + (i & ~(FAN - 1)), i >> 4
        child = m[LEVELS + 1 + depth]
        node = tree + 2 * (child + i)
        most_cores, most_gpus = m[node], m[node + 1]
        if (cores >= before_cores or before_cores < most_cores) and (gpus >= before_gpus or before_gpus < most_gpus):
            most_cores, most_gpus = max(most_cores, cores), max(most_gpus, gpus)
        else:
            most_cores, most_gpus = -(2**62), 0
            for j in range(first, first + FAN):
                most_cores, most_gpus = max(most_cores, m[tree + 2 * j]), max(most_gpus, m[tree + 2 * j + 1])
        before_cores, before_gpus = m[node], m[node + 1]
        if most_cores == before_cores and most_gpus == before_gpus:
            return
        m[node], m[node + 1] = most_cores, most_gpus
        cores, gpus = most_cores, most_gpus


@jit_internal
def next_host(m: Ints, h: int, cores: int, gpus: int) -> int:
    """Return the first host from ``h`` on with so many cores and GPU-thousandths free, or −1."""
    depth, i, top = 0, h, m[LEVELS] - 1
    if h >= m[HOSTS]:
        return -1
    while True:
        base, end = m[TREE] + 2 * m[LEVELS + 1 + depth], (i | (FAN - 1)) + 1
        while i < end and (m[base + 2 * i] < cores or m[base + 2 * i + 1] < gpus):
            i += 1
        if i < end:
            if depth == 0:
                return i
            depth -= 1
            i <<= 4
        else:
            while i & (FAN - 1) == 0:
                if depth == top:
                    return -1
                depth += 1
                i >>= 4


def tree_levels(hosts: int) -> list[int]:
    """Return where each level of the tree begins, and the number of nodes at the end."""
    widths = [max(hosts, 1)]
    while widths[-1] > FAN:
        widths.append((widths[-1] + FAN - 1) // FAN)
    padded = [(width + FAN - 1) // FAN * FAN for width in widths]
    return [0, *np.cumsum(padded).tolist()]


def build_tree(data: Ints, parts: Any) -> None:
    """Write the index of one lane from what is free."""
    count, cells, levels = int(data[HOSTS]), int(data[CELLS]), int(data[LEVELS])
    free, tree = parts.free.reshape(count, cells), parts.tree
    tree[:, 0], tree[:, 1] = -(2**62), -1
    tree[:count, 0], tree[:count, 1] = free[:, 0], np.maximum(free[:, 2:], 0).sum(axis=1)
    begin = data[LEVELS + 1 : LEVELS + 2 + levels]
    for depth in range(1, levels):
        below = tree[begin[depth - 1] : begin[depth]].reshape(-1, FAN, 2).max(axis=1)
        tree[begin[depth] : begin[depth] + len(below)] = below


def moved(before: Ints, made: Ints, lengths: dict[int, int]) -> None:
    """Copy the arrays of all lanes, (lanes, …), into longer ones; ``lengths`` are those of the parts before."""
    entries = made[0, ENTRIES]
    made[:, : PARTS.start] = before[:, : PARTS.start]
    made[:, ENTRIES] = entries
    for part, length in lengths.items():
        old, new = int(before[0, part]), int(made[0, part])
        made[:, new : new + length] = before[:, old : old + length]


def fixed_parts(head: Ints) -> tuple[slice, slice, slice]:
    """Return the parts of a lane that are the same for all jobs: what comes before them, GPU types, what is held."""
    need, typesets, span = int(head[NEED]), int(head[TYPESETS]), int(head[SPAN])
    return slice(0, need), slice(typesets, span), slice(int(head[HELD]), int(head[WAYS]))


def fill_again(one: Any, needs: Ints, labels: Any, idle: list[Ints]) -> None:
    """Write demands and idle hosts into one lane's arrays; ``idle`` are the fixed parts of a lane as long as it."""
    data, jobs = one.data, len(needs)
    for part, values in zip(fixed_parts(data), idle, strict=True):
        data[part] = values
    at, label = int(data[NEED]), int(data[LABEL])
    data[at : at + 8 * jobs] = needs.ravel()
    data[label : label + jobs] = labels
    one.real[:] = np.nan
