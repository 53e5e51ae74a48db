"""Parts of a trace that lie side by side in time, so that a change of the workload is in all of them.

Cut by time, the test part is the future: a trace that happens to resemble it looks better than the jobs of the past.
Here the trace is cut into many blocks of equal duration that are dealt out to the parts in turn. Within a part blocks
are laid end to end, so the load stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.trace import Trace

Floats = NDArray[np.float64]

DAY, WEEK = 86400.0, 7 * 86400.0
#: Blocks that there should be at least; weeks if there are so many, else days, else shares of the span.
BLOCKS = 20


def interleaved(trace: Trace, shares: Sequence[float], rng: np.random.Generator | None = None) -> list[Trace]:
    """Return a part for each share of the blocks; the shares add up to 1. ``rng``: blocks are dealt out at random."""
    _, span = spanned(trace)
    unit = block_length(span)
    owner = dealt(int(span // unit) + 1, shares)
    edges = np.arange(len(owner) + 1, dtype=np.float64) * unit
    return laid(trace, edges, owner if rng is None else rng.permutation(owner), len(shares))


def spanned(trace: Trace) -> tuple[float, float]:
    """Return the first submit time and the seconds to the last one."""
    submit = trace.column("submit_time")
    known = submit[np.isfinite(submit)]
    if not known.size or not np.ptp(known) > 0:
        raise TracekitError("all jobs arrive at one instant: there is nothing to divide by time")
    return float(known.min()), float(np.ptp(known))


def laid(trace: Trace, edges: Floats, owner: NDArray[np.int64], parts: int) -> list[Trace]:
    """Return every part's blocks end to end.

    ``edges``: where blocks begin, and the last one ends, in seconds since the first submit, (blocks + 1,); ``owner``:
    the part of each block, (blocks,). Jobs without a submit time go with the first block.
    """
    origin, _ = spanned(trace)
    submit = trace.column("submit_time")
    since = np.where(np.isfinite(submit), submit - origin, 0.0)
    block = np.clip(np.searchsorted(edges, since, side="right") - 1, 0, len(owner) - 1)
    found = []
    for part in range(parts):
        own = np.where(owner == part, np.diff(edges), 0.0)
        begins = np.cumsum(own) - own  # of every block within its part
        moved = submit + (begins - edges[:-1])[block]
        rows = owner[block] == part
        found.append(trace.assign({"submit_time": moved}).take(rows, step=f"part {part + 1} of interleaved blocks"))
    return found


def equal_blocks(span: float, count: int) -> Floats:
    """Return the edges of so many blocks, (count + 1,): whole days, up to one day alike, if there are so many days.

    >>> (equal_blocks(10.5 * DAY, 4) / DAY).tolist(), equal_blocks(100.0, 4).tolist()
    ([0.0, 3.0, 5.0, 8.0, 11.0], [0.0, 25.0, 50.0, 75.0, 100.0])
    """
    edges = np.linspace(0.0, span, count + 1)
    if span < count * DAY:
        return edges
    edges = np.round(edges / DAY) * DAY
    edges[-1] = math.ceil(span / DAY) * DAY
    return np.asarray(edges)


def block_length(span: float) -> float:
    """Return the duration of a block: a week, whole days, or a share of a short trace.

    >>> block_length(50 * WEEK) / WEEK, block_length(8 * WEEK) / DAY, block_length(DAY) / 3600
    (1.0, 2.0, 1.2)
    """
    if span >= BLOCKS * WEEK:
        return WEEK
    return math.floor(span / BLOCKS / DAY) * DAY if span >= BLOCKS * DAY else span / BLOCKS


def dealt(blocks: int, shares: Sequence[float]) -> NDArray[np.int64]:
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
