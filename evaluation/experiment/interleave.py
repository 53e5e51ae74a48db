"""Parts of a trace that lie side by side in time, so that a change of the workload is in all of them.

Cut by time, the test part is the future: a trace that happens to resemble it looks better than the jobs of the past.
Here the trace is cut into many blocks of equal duration that are dealt out to the parts in turn. Within a part blocks
are laid end to end, so the load stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracekit.errors import TracekitError
from tracekit.trace import Trace

DAY, WEEK = 86400.0, 7 * 86400.0
#: Blocks that there should be at least; weeks if there are so many, else days, else shares of the span.
BLOCKS = 20


def interleaved(
    trace: Trace, shares: Sequence[float], rng: np.random.Generator | None = None, *, blocks: int = BLOCKS
) -> list[Trace]:
    """Return a part for each share of the blocks; the shares add up to 1.

    ``rng``: blocks are dealt out at random. ``blocks``: how many there should be at least.
    """
    submit = trace.column("submit_time")
    known = np.isfinite(submit)
    if not known.any() or not np.ptp(submit[known]) > 0:
        raise TracekitError("all jobs arrive at one instant: there is nothing to divide by time")
    origin, span = float(submit[known].min()), float(np.ptp(submit[known]))
    unit = block_length(span, blocks)
    block = np.where(known, (submit - origin) // unit, 0).astype(np.int64)
    owner = dealt(int(block.max()) + 1, shares)
    owner = owner if rng is None else rng.permutation(owner)
    found = []
    for part in range(len(shares)):
        place = np.cumsum(owner == part) - 1  # of every block within its part
        rows = owner[block] == part
        moved = submit + (place[block] - block) * unit
        found.append(trace.assign({"submit_time": moved}).take(rows, step=f"part {part + 1} of interleaved blocks"))
    return found


def block_length(span: float, blocks: int = BLOCKS) -> float:
    """Return the duration of a block: a week, whole days, or a share of a short trace.

    >>> block_length(50 * WEEK) / WEEK, block_length(8 * WEEK) / DAY, block_length(DAY) / 3600
    (1.0, 2.0, 1.2)
    """
    if span >= blocks * WEEK:
        return WEEK
    return math.floor(span / blocks / DAY) * DAY if span >= blocks * DAY else span / blocks


def dealt(blocks: int, shares: Sequence[float]) -> np.ndarray:
    """Return the part of every block: at any time each part has had its share, up to one block.

    >>> dealt(10, (0.5, 0.1, 0.4)).tolist()
    [0, 2, 0, 2, 0, 1, 2, 0, 2, 0]
    """
    had = np.zeros(len(shares))
    found = np.zeros(blocks, dtype=np.int64)
    for number in range(blocks):
        behind = np.asarray(shares) * (number + 1) - had
        found[number] = int(np.argmax(behind))
        had[found[number]] += 1
    return found
