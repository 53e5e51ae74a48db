"""The one place where torch is seeded, and libraries that draw from global generators are kept in check."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: The order of floating-point sums depends on the number of threads, so it is the same everywhere. One is enough for
#: networks of this size, and far faster than two on a machine that others use too.
THREADS = 1


def torch_seed(seed: int, purpose: str) -> int:
    """Return a 63-bit seed for one purpose ("fit", "sample" …), so that none repeats another's draws."""
    words = [seed, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """Run a block with every global generator (random, NumPy, torch) seeded; afterwards they are as before."""
    import torch

    number = torch_seed(seed, purpose)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (what libraries use)
    threads = torch.get_num_threads()
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002
    torch.manual_seed(number)
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
        torch.set_num_threads(threads)
