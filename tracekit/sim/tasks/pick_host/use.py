"""How much of the hosts is in use: shares of cores and memory, and the samples of the LSF RL scheduler."""

from __future__ import annotations

import math

import numpy as np

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.hosts.demand import UNLIMITED
from tracekit.sim.hosts.state import CELLS, FREE, HOSTS, TOTAL, Ints
from tracekit.sim.tasks.pick_host.arrays import HostLanes


@jit_merged
def share_used(m: Ints, h: int, cell: int) -> float:
    """Return the share of a host's cores (cell 0) or memory (1) in use; 0 where it has none, or is not limited."""
    total = m[m[TOTAL] + h * m[CELLS] + cell]
    if total <= 0 or total >= UNLIMITED:
        return 0.0
    return 1.0 - m[m[FREE] + h * m[CELLS] + cell] / total  # type: ignore[no-any-return]


@jit_internal
def count_use(lanes: HostLanes, lane: int) -> None:
    """Work out the sums of the hosts' shares of cores in use, and of their squares."""
    m, state = lanes.data[lane], lanes.state[lane]
    state.use = state.use_squares = 0.0
    for h in range(m[HOSTS]):
        share = share_used(m, h, 0)
        state.use += share
        state.use_squares += share * share


@jit_merged
def imbalance(lanes: HostLanes, lane: int) -> float:
    """Return the standard deviation of the hosts' shares of cores in use."""
    state, hosts = lanes.state[lane], lanes.data[lane][HOSTS]
    mean = state.use / hosts
    return math.sqrt(max(state.use_squares / hosts - mean * mean, 0.0))


@jit_internal
def mean_use(lanes: HostLanes, lane: int, sampled: bool) -> float:
    """Return the mean over hosts of (core use + memory use) / 2, now or when it was last sampled."""
    m, found = lanes.data[lane], 0.0
    for h in range(m[HOSTS]):
        if sampled:
            found += (float(lanes.last[lane, h, 0]) + float(lanes.last[lane, h, 1])) / 2.0
        else:
            found += (share_used(m, h, 0) + share_used(m, h, 1)) / 2.0
    found /= m[HOSTS]
    return float(np.float32(found)) if sampled else found


@jit_internal
def sample(lanes: HostLanes, lane: int) -> None:
    """Sample the use of all hosts, in single precision as the LSF RL scheduler does."""
    m, state, last = lanes.data[lane], lanes.state[lane], lanes.last[lane]
    hosts, one = m[HOSTS], np.float32(1.0)
    sums = (np.float32(0.0), np.float32(0.0))
    for h in range(hosts):
        for cell in range(2):
            total = m[m[TOTAL] + h * m[CELLS] + cell]
            free = m[m[FREE] + h * m[CELLS] + cell]
            limited = 0 < total < UNLIMITED
            last[h, cell] = one - np.float32(free) / np.float32(total) if limited else np.float32(0.0)
        sums = (np.float32(sums[0] + last[h, 0]), np.float32(sums[1] + last[h, 1]))
    state.core_sum += float(np.float32(sums[0] / np.float32(hosts)))
    state.memory_sum += float(np.float32(sums[1] / np.float32(hosts)))
    state.samples += 1
    state.sampled = state.now
