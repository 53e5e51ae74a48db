"""What no order, and no schedule at all, can be better than: bounds by squashed areas.

Cut every job into pieces of one unit width and let it run on the whole machine: a job of area a then takes a / P.
Jobs in the order of area per weight give the least Σ weight × end. Adding half of what each job is longer than its
squashed self keeps it a bound (Eastman, Even & Isaacs, Management Science 11, 1964; for parallel jobs Turek et al.,
SPAA 1994).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.orders.evaluate import Case, is_sum
from tracekit.sim.orders.on_hosts import HostCase

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


#: A value at most this much above a bound (relative) counts as equal to it.
SAME = 1e-9


def lower_bound(case: Case | HostCase) -> float:
    """Return a lower bound of the cost of any schedule of a case; −infinity for objectives without one.

    On hosts every resource gives a bound: all hosts together count as one machine.
    """
    if isinstance(case, HostCase):
        return max(_bound(case.counted, share) for share in case.shares)
    return _bound(case, case.size / float(case.free + case.held.sum()))


def least_cost(case: Case | HostCase) -> float:
    """Return the cost if every job started now; −infinity for objectives that are no sums over jobs."""
    counted = case.counted if isinstance(case, HostCase) else case
    if not is_sum(counted):
        return -np.inf
    return float((counted.fixed + np.maximum(counted.least, counted.offset)).sum())


def _bound(case: Case, share: Floats) -> float:
    """Return the bound by what jobs hold of the whole machine, (jobs,)."""
    area = case.run * share
    if case.worst_user != 0.0:
        return float(case.least.max(initial=0.0)) * case.worst_user
    if not is_sum(case):
        ends = max(float(area.sum()), float(case.run.max(initial=0.0)))
        span, at_best = ends + case.oldest, float((case.fixed + np.maximum(case.least, case.offset)).sum())
        return at_best - case.utilization / max(span, 1e-300) + case.makespan * span
    # a cost is at least its value at a start now, and at least its line, with all jobs together on the machine
    slope, at_zero = case.linear + case.rate, case.fixed + case.offset
    together = weighted_ends(area, case.run, slope) - float((slope * case.run).sum()) + float(at_zero.sum())
    return max(together, least_cost(case))


def weighted_ends(area: Floats, run: Floats, weight: Floats) -> float:
    """Return a lower bound of Σ weight × end; areas are run times on the whole machine."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(weight > 0, area / weight, np.inf), kind="stable")
    ends = np.cumsum(area[order])
    return float((weight[order] * ends).sum() + (weight * (run - area)).sum() / 2)
