"""The strongest linear attack on the private model, for its audit: an attacker who sees the released numbers."""

from __future__ import annotations

import numpy as np

from generators.private import statistics as exact
from generators.private.domain import GAPS, LIMITS, RUNS, STATES, WEEKDAY_BLOCKS, WEEKEND_BLOCKS
from generators.private.model import Private
from generators.private.statistics import LENGTH, Facts
from tracekit.trace import Trace


def evidence(model: Private, canary: Trace) -> float:
    """Return the logarithm of the likelihood ratio of "the canary's jobs were in" to "they were not", up to a constant.

    For Gaussian noise that is the sum over releases of ⟨released, the canary's part⟩ / variance.
    """
    released, domain = model.released, model.domain
    if released is None or domain is None:
        raise ValueError("the model is not fitted")
    facts = Facts.of(canary.replace(machine=canary.machine), domain, model.unit)
    cap = released.cap
    classes = [
        np.array(cut)[cell] for cut, cell in zip(released.cuts, (facts.limit, facts.run, facts.size), strict=True)
    ]
    joint = np.ravel_multi_index(tuple(classes), tuple(max(cut) + 1 for cut in released.cuts))
    parts = [
        (released.limit, exact.table(facts.owner, facts.limit, len(LIMITS) + 1, cap)),
        (released.run, exact.table(facts.owner, facts.run, len(RUNS), cap)),
        (released.size, exact.table(facts.owner, facts.size, len(domain.sizes), cap)),
        (released.joint, exact.table(facts.owner, joint, len(released.joint.counts), cap)),
        (released.pairs, exact.pair_table(facts, cap)),
    ]
    assert len(released.pairs.counts) == STATES * (len(GAPS) + 1)
    if released.week is not None and facts.block is not None:
        blocks = WEEKDAY_BLOCKS + WEEKEND_BLOCKS
        parts.append((released.week, exact.table(facts.owner, facts.block, blocks, cap)))
    total = sum(float(noisy.values @ part) * cap / LENGTH / noisy.noise**2 for noisy, part in parts)
    activity = released.activity
    total += float(activity.values @ exact.activity(facts)) / activity.noise**2
    share = exact.clipped_load(facts, domain.size * released.span, released.load_cap)[0]
    load = float(share) * released.load_cap / LENGTH
    return total + released.load.counts[0] * load / released.load.noise**2
