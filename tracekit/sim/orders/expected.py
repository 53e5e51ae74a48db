"""What a forecast expects, learnt from the jobs of the same simulation that have ended: run times, and later jobs.

Users ask for several times what their jobs need (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001), and the mean slowdown
belongs to jobs that end far earlier than that. A job is taken to use that share of its estimate which jobs with similar
estimates used, above all those of the same user.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.orders.later import NOBODY, Later
from tracekit.sim.policies.protocol import State
from tracekit.sim.setup import Setup
from tracekit.sim.tasks.objectives import objective

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: So many ended jobs are remembered …
MEMORY = 256
#: … and a job of the same user counts as much as so many others; each earlier one of theirs this much less.
SAME_USER, FADING = 10.0, 0.7
#: Estimates that differ by this factor or more have nothing in common.
FACTOR = 8.0
#: Shares of the users' estimates before any job has ended, and how many ended jobs they count for.
FIRST_SHARES = np.array([0.01, 0.05, 0.15, 0.3, 0.5, 0.75, 1.0, 1.0])
FIRST_WEIGHT = 5.0
#: Later jobs come as fast as this many last ones; there are so many classes of sizes, once enough jobs have ended.
RECENT, CLASSES, ENOUGH = 128, 3, 8
#: The shortest time that arrivals are counted over, in seconds.
SHORTEST_SPAN = 600.0


class Expected(NamedTuple):
    """What is expected of some jobs, (jobs,) each."""

    left: Floats  # seconds until they end, from now or from their start
    inverse: Floats  # of 1 / max(run time, bound)


class History:
    """Follows one simulation, and says what to expect of it."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.seen = np.empty(0, np.int64)  # jobs that waited or ran at the last pass
        self.submitted = np.empty(0)  # (up to RECENT,) the last submit times
        self.ended = np.empty(0, np.int64)  # (up to MEMORY,) jobs that have ended, the last one at the end
        with_limits = setup.switches.estimates == "requested"
        self.first = FIRST_SHARES if with_limits else np.ones(1)

    def look(self, queue: NDArray[np.intp], state: State) -> None:
        """Take notice of what has happened since the last pass."""
        end = state.start[self.seen] + self.setup.ready.run[self.seen]  # NaN = has not started
        over = end <= state.now  # of the actual run times, only those of jobs that have ended are used
        if over.any():
            latest = self.seen[over][np.argsort(end[over], kind="stable")]
            self.ended = np.concatenate([self.ended, latest])[-MEMORY:]
        new = queue[~np.isin(queue, self.seen)]
        self.submitted = np.concatenate([self.submitted, state.submit[new]])[-RECENT:]
        self.seen = np.concatenate([queue, state.running])

    def expected(self, jobs: Ints, state: State) -> Expected:
        """Return what is expected of jobs that wait or run."""
        elapsed = np.nan_to_num(state.now - state.start[jobs], nan=0.0)
        found = Expected(np.empty(len(jobs)), np.empty(len(jobs)))
        ran = Ran(
            np.log(np.maximum(state.estimate[self.ended], 1.0)),
            self.setup.ready.run[self.ended] / np.maximum(state.estimate[self.ended], 1.0),
            state.user[self.ended],
            self.first,
        )
        _expect(state.estimate[jobs], elapsed, state.user[jobs], ran, self.setup.switches.bound, found)
        return found

    def later(self, goal: str, state: State) -> Later:
        """Return the jobs that may still come: as many as lately, like those that have ended."""
        if len(self.ended) < ENOUGH:
            return NOBODY
        per_second = cost_per_second(goal, self.setup.ready.run[self.ended], self.setup.switches.bound)
        if not per_second.any():
            return NOBODY
        speed = len(self.submitted) / max(state.now - float(self.submitted.min()), SHORTEST_SPAN)
        size = np.round(state.procs[self.ended] * self.setup.ready.scale)
        by_size = np.argsort(size, kind="stable")
        place = np.cumsum(per_second[by_size]) / per_second.sum()
        # classes of equal cost, each with the mean of its sizes
        group = np.minimum(np.ceil(place * CLASSES - 1e-9).astype(np.int64) - 1, CLASSES - 1).clip(0)
        cost = np.bincount(group, per_second[by_size], CLASSES)
        units = np.bincount(group, (per_second * size)[by_size], CLASSES)
        there = cost > 0
        rate = speed * cost[there] / len(per_second)
        return Later(np.round(units[there] / cost[there]).astype(np.int64), rate)


def cost_per_second(goal: str, run: Floats, bound: float) -> Floats:
    """Return what one more second of wait adds to the sum over jobs, (jobs,), for jobs with these run times."""
    each = {
        "wait": np.ones(len(run)),
        "response": np.ones(len(run)),
        "slowdown": 1.0 / np.maximum(run, 1.0),
        "bsld": 1.0 / np.maximum(run, bound),
        "fair-mean": 1.0 / np.maximum(run, bound),
    }
    cost = np.zeros(len(run))
    for name, number in objective(goal).terms:
        cost += number * each.get(name, 0.0)
    return cost


class Ran(NamedTuple):
    """Jobs that have ended, (ended,) each, the last one at the end."""

    size: Floats  # logarithm of the estimate
    share: Floats  # run time / estimate
    user: Ints  # −1 = unknown
    first: Floats  # (shares,) what is believed before


@jit
def _expect(estimate: Floats, elapsed: Floats, user: Ints, ran: Ran, bound: float, found: Expected) -> None:
    """Write what is expected; shares that a running job has exceeded are left out."""
    reach = np.log(FACTOR)
    for job in range(len(estimate)):
        weight = left = inverse = 0.0
        for k in range(len(ran.first)):
            run = ran.first[k] * estimate[job]
            if run > elapsed[job]:
                alike = FIRST_WEIGHT / len(ran.first)
                weight += alike
                left += alike * (run - elapsed[job])
                inverse += alike / max(run, bound)
        size, own = np.log(max(estimate[job], 1.0)), SAME_USER
        for k in range(len(ran.share) - 1, -1, -1):
            alike = 1.0 - abs(ran.size[k] - size) / reach
            if alike <= 0.0:
                continue
            if ran.user[k] == user[job] and user[job] >= 0:
                alike *= max(own, 1.0)
                own *= FADING
            run = ran.share[k] * estimate[job]
            if run > elapsed[job]:
                weight += alike
                left += alike * (run - elapsed[job])
                inverse += alike / max(run, bound)
        if weight > 0.0:
            found.left[job], found.inverse[job] = left / weight, inverse / weight
        else:  # it has outlived all of them
            found.left[job] = max(estimate[job] - elapsed[job], 0.0)
            found.inverse[job] = 1.0 / max(estimate[job], bound)
