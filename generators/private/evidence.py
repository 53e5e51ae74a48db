"""The strongest linear attack on the private model, for its audit: an attacker who sees the released numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from generators.private import statistics as exact
from generators.private.domain import LIMITS, RUNS, WEEKDAY_BLOCKS, WEEKEND_BLOCKS, Domain
from generators.private.model import Private
from generators.private.statistics import LENGTH, Facts
from generators.private.tables import Noisy, Released

Floats = NDArray[np.float64]


def evidence(model: Private, others: Facts, canary: Facts) -> float:
    """Return the logarithm of the likelihood ratio of "the canary's jobs were in" to "they were not".

    The attacker knows all jobs of all other users. With v the canary's part of a table, that is for Gaussian noise the
    sum over tables of ⟨released − others' part, v⟩ / variance − ⟨v, v⟩ / (2 variance).
    """
    released, domain = model.released, model.domain
    if released is None or domain is None:
        raise ValueError("the model is not fitted")
    total = 0.0
    for (noisy, known), (_, part) in zip(
        _tables(others, released, domain), _tables(canary, released, domain), strict=True
    ):
        total += float((noisy.values - known - part / 2) @ part) / noisy.noise**2
    return total


def _tables(facts: Facts, released: Released, domain: Domain) -> list[tuple[Noisy, Floats]]:
    """Return every released table with the exact one of some jobs, in the same unit."""
    cap, owner = released.cap, facts.owner
    classes = [
        np.array(cut)[cell] for cut, cell in zip(released.cuts, (facts.limit, facts.run, facts.size), strict=True)
    ]
    joint = np.ravel_multi_index(tuple(classes), tuple(max(cut) + 1 for cut in released.cuts))
    counted = [
        (released.limit, exact.table(owner, facts.limit, len(LIMITS) + 1, cap)),
        (released.run, exact.table(owner, facts.run, len(RUNS), cap)),
        (released.size, exact.table(owner, facts.size, len(domain.sizes), cap)),
        (released.joint, exact.table(owner, joint, len(released.joint.counts), cap)),
        (released.pairs, exact.pair_table(facts, cap)),
    ]
    if released.week is not None and facts.block is not None:
        counted.append((released.week, exact.table(owner, facts.block, WEEKDAY_BLOCKS + WEEKEND_BLOCKS, cap)))
    found = [(noisy, total * cap / LENGTH) for noisy, total in counted]
    load = exact.clipped_load(facts, domain.size * released.span, released.load_cap)
    found.append((released.load, load * released.load_cap / LENGTH))
    return [*found, (released.activity, exact.activity(facts).astype(np.float64))]
