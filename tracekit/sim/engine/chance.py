"""Random numbers for compiled code: a stream is a key, and its numbers are hashes, so that no state is kept."""

from __future__ import annotations

import numpy as np

from tracekit.sim.compile import jit


@jit
def uniform(key: np.uint64, turn: int) -> float:
    """Return the ``turn``-th number in [0, 1) of a stream.

    Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (the finaliser of SplitMix64).
    """
    z = np.uint64(key) + np.uint64(turn + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
