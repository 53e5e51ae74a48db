"""Jobs that are not submitted yet: what a plan costs them, on average, until enough of the machine is free for them.

A later job that fits when it comes starts at once, as far as a plan for the present queue can tell. One that does not
waits until jobs end. If nothing of its size fits for a time T, those that come meanwhile wait for T / 2 on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Later(NamedTuple):
    """Classes of later jobs, (classes,) each."""

    size: Ints  # units
    rate: Floats  # arrivals per second × what one second of wait costs


NOBODY = Later(np.empty(0, np.int64), np.empty(0))


@jit_internal
def largest_later(later: Later) -> int:
    """Return the units of the largest class; 0 without any."""
    most = 0
    for k in range(len(later.size)):
        most = max(most, later.size[k])
    return most


@jit_internal
def cost_of_waiting(later: Later, since: Floats, free: int, until: float, freed: int) -> float:
    """Return what later jobs cost that can start at ``until``, when ``freed`` units are free, ``free`` before that.

    ``since``, (classes,), holds when each class could last have started; it is moved on.
    """
    cost = 0.0
    for k in range(len(later.size)):
        if later.size[k] <= free:
            since[k] = until
        elif later.size[k] <= freed:
            cost += 0.5 * later.rate[k] * (until - since[k]) ** 2
            since[k] = until
    return cost
