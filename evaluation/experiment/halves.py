"""Halves of the real training jobs: what two sets of real jobs of one machine teach differs, and by how much.

Their time is cut into a few long blocks of equal length. Each pair of halves deals out all of them, and an agent is
trained on each half; `verdict.between_halves` takes the variance from there. Pairs are *balanced*: half of the blocks
that one pair puts together are apart in any other (rows of a Hadamard matrix; McCarthy, Rev. Int. Stat. Inst. 37,
1969), so each pair says something that the others do not. Pairs drawn independently of each other repeat themselves:
four pairs of nine blocks say as much as three.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import hadamard

from evaluation.experiment.interleave import equal_blocks, laid, spanned
from tracekit.trace import Trace

#: Blocks that there should be at least. Few long ones: what users do lasts for days, so that short blocks differ less.
BLOCKS = 8


def halves(train: Trace, pairs: int, seed: int) -> Iterator[tuple[str, Trace]]:
    """Return two halves of the training jobs for each pair, by name."""
    if not pairs:
        return
    owners = balanced(pairs, np.random.default_rng([seed, 0x68616C66]))
    edges = equal_blocks(spanned(train)[1], owners.shape[1])
    for pair, owner in enumerate(owners):
        for side, part in enumerate(laid(train, edges, owner, 2)):
            yield name_of(pair, side), part


def balanced(pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Return the half of every block in every pair, (pairs, blocks), 0 or 1; all that is left to chance is drawn."""
    blocks = BLOCKS
    while blocks <= pairs:
        blocks *= 2
    signs = hadamard(blocks)[1:]  # the first row has all blocks in one half
    chosen = rng.permutation(signs)[:pairs][:, rng.permutation(blocks)]
    return np.asarray((1 - chosen) // 2)


def name_of(pair: int, side: int) -> str:
    """Return the name of the data of one half."""
    return f"half-{pair}-{side}"
