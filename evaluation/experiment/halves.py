"""Halves of the real training jobs: what two sets of real jobs of one machine teach differs, and by how much.

Their weeks (days, if there are few) are dealt out at random to two halves, several times, and an agent is trained on
each half; `verdict.between_halves` takes the variance from there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evaluation.experiment.interleave import interleaved
from tracekit.trace import Trace

#: Blocks that there should be at least. Few long ones: what users do lasts for days, so that short blocks differ less.
BLOCKS = 8


def halves(train: Trace, pairs: int, seed: int) -> Iterator[tuple[str, Trace]]:
    """Return two halves of the training jobs for each pair, by name."""
    for pair in range(pairs):
        rng = np.random.default_rng([seed, 0x68616C66, pair])
        for side, part in enumerate(interleaved(train, (0.5, 0.5), rng, blocks=BLOCKS)):
            yield name_of(pair, side), part


def name_of(pair: int, side: int) -> str:
    """Return the name of the data of one half."""
    return f"half-{pair}-{side}"
