"""A limit to the longest wait: a multiple of what FCFS with EASY backfilling would have had on the same jobs.

The comparison is a simulation of FCFS with EASY beside the real one. It knows what a scheduler knows: jobs that have
ended ran as long as they did, all others are taken to run for their estimate times the mean share of the estimate that
ended jobs used.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine.session import Session
from tracekit.sim.orders.evaluate import Case, begin, cost_of, room_for
from tracekit.sim.policies.protocol import State
from tracekit.sim.setup import Setup

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The comparison is repeated when so many more jobs (a share) have been submitted.
REPEAT = 0.02


class WaitGuard:
    """Follows one simulation, and says which jobs must not be overtaken any more."""

    def __init__(self, multiple: float, setup: Setup) -> None:
        self.multiple, self.setup = multiple, setup
        self.longest = 0.0  # wait of the comparison
        self.compared = 0  # jobs that the last comparison knew

    def urgent_first(self, order: Ints, case: Case, queue: NDArray[np.intp], state: State) -> Ints:
        """Return the order with the jobs in front that would else wait too long, by submit time."""
        # The queue is by submit time. If it were served in that order from now on, these would be the waits.
        room = room_for(case)
        begin(case, room)
        cost_of(case, np.arange(len(queue)), room, 0, np.inf, False)
        wait = state.now - state.submit[queue] + room.start
        if wait.max() <= self.multiple * self.longest:
            return order
        self._compare(state)
        urgent = wait > self.multiple * self.longest
        return np.concatenate([np.flatnonzero(urgent), order[~urgent[order]]])

    def _compare(self, state: State) -> None:
        """Simulate FCFS with EASY on the jobs that have been submitted, if there are enough new ones."""
        known = int(np.searchsorted(state.submit, state.now, side="right"))
        if known < self.compared * (1 + REPEAT) + 1:
            return
        self.compared = known
        ready = self.setup.ready
        estimate = np.maximum(state.estimate[:known], 1.0)
        elapsed = np.nan_to_num(state.now - state.start[:known], nan=0.0)
        done = ready.run[:known] <= elapsed  # of the actual run times, only those of jobs that have ended are used
        share = float(ready.run[:known][done].sum() / estimate[done].sum()) if done.any() else 1.0
        run = np.where(done, ready.run[:known], np.maximum(estimate * min(share, 1.0), elapsed))
        part = dataclasses.replace(
            ready,
            table=ready.table.take(slice(0, known)),
            run=run,
            estimate=np.maximum(estimate, run),
            units=ready.units[:known],
        )
        switches = dataclasses.replace(
            self.setup.switches, dependencies=False, outages=(), predict=None, cluster=None, commit=False, interval=0.0
        )
        beside = Session(Setup(part, "easy", switches))
        beside.ranked(None)
        # what has been waited for by now; the rest of the comparison is guesswork
        self.longest = float((beside.jobs.start - part.table.submit).max())
