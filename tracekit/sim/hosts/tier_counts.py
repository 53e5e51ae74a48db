"""How many of RLTune's ways of placing a job there are, compiled; `tracekit.sim.hosts.ways` defines the ways.

Observations ask this of every waiting job, so no way is written down: the hosts of one pool are counted by their free
GPUs, and the ways are walked through as numbers of hosts taken from each group of equally free hosts. All groups of a
way but the last one are used up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal

Ints = NDArray[np.int64]

#: Rows of the scratch space, by free GPUs: hosts taken from each group; GPUs that are left to place, and hosts in use,
#: before it.
TAKEN, LEFT, USED = range(3)


def walk_words(most: int) -> int:
    """Return how many whole numbers of scratch space a walk needs on hosts of ``most`` GPUs."""
    return 3 * (most + 1)


@jit_internal
def begin_walk(walk: Ints, request: int, most: int) -> int:
    """Prepare the walk through the ways of a request; return the level at which it begins.

    ``walk`` is scratch space of `walk_words`; ``most`` is the number of GPUs of a host.
    """
    row = most + 1
    walk[TAKEN * row + most], walk[LEFT * row + most], walk[USED * row + most] = -1, request, 0
    return most


@jit_internal
def next_way(walk: Ints, counts: Ints, most: int, hosts: int, level: int) -> int:
    """Go on to the next way on exactly ``hosts`` hosts; return its last group (free GPUs of a host), or 0 at the end.

    ``counts`` (most + 1,) are the hosts by free GPUs. Row ``TAKEN`` of ``walk``, from the last group on, is the number
    of hosts taken from each group; row ``LEFT`` of the last group is what its hosts share.
    """
    row = most + 1
    while level <= most:
        walk[TAKEN * row + level] += 1
        taken, left, used = walk[TAKEN * row + level], walk[LEFT * row + level], walk[USED * row + level]
        if taken > min(counts[level], hosts - used) or taken > left:
            level += 1
            continue
        left -= min(taken * level, left)
        used += taken
        if left == 0:
            if used == hosts:
                return level
        elif level > 1 and (hosts - used) * (level - 1) >= left:
            level -= 1
            walk[TAKEN * row + level], walk[LEFT * row + level], walk[USED * row + level] = -1, left, used
    return 0


@jit_internal
def count_ways(walk: Ints, counts: Ints, most: int, request: int, tier2: bool) -> int:
    """Return how many ways of a tier there are: 0, 1, or 2 for more; tier 2 must not leave more hosts partly used."""
    if request <= 0:
        return 0
    row = most + 1
    hosts = (request + most - 1) // most + tier2
    found, level = 0, next_way(walk, counts, most, hosts, begin_walk(walk, request, most))
    while level > 0 and found < 2:
        taken, shared = walk[TAKEN * row + level], walk[LEFT * row + level]
        if not tier2:
            short, spare = taken * level - shared, shared - taken
            found += 2 if level > 2 and short >= 2 and spare >= 2 and taken >= 2 else 1
        elif _fragments(walk, most, level) <= 0:
            found += 1
        level = next_way(walk, counts, most, hosts, level)
    return min(found, 2)


@jit_internal
def _fragments(walk: Ints, most: int, last: int) -> int:
    """Return by how many partly used hosts the best form of a way adds to those there are."""
    row = most + 1
    taken, shared = walk[TAKEN * row + last], walk[LEFT * row + last]
    partly = 0
    if shared < taken * last:
        partly = taken - (shared - taken) // (last - 1)
    for level in range(last, most):
        partly -= walk[TAKEN * row + level]
    return partly
