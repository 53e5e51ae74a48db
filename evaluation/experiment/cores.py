"""What each worker is given of a machine: a core, and one thread for it."""

from __future__ import annotations

import os

from evaluation.experiment.memory import PLAIN_ALLOCATION

#: One thread a task: as many tasks as cores run side by side, and sums come out the same everywhere.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    **PLAIN_ALLOCATION,
}


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
