"""A limit to the longest wait: a multiple of what FCFS with EASY backfilling would have had on the same jobs.

The comparison is a simulation of FCFS with EASY beside the real one, on the jobs submitted so far and to its end. It
knows what a scheduler knows: jobs that have ended ran as long as they did, all others run as long as expected.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import Prepared
from tracekit.sim.orders.expected import History
from tracekit.sim.policies.protocol import State
from tracekit.sim.setup import Setup

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The comparison is repeated when so many more jobs (a share) have been submitted.
REPEAT = 0.02
#: How much of a wait counts that the comparison only foresees. What has been waited for by now counts in full.
FORESEEN = 0.5
#: A job is due before its time is over, because those before it may need all they asked for: earlier by the longest
#: estimate of any job, but at most by this share of the time it may wait.
RESERVE = 0.3


class WaitGuard:
    """Follows one simulation, and says by when each job should start."""

    def __init__(self, multiple: float, setup: Setup, history: History) -> None:
        self.multiple, self.setup, self.history = multiple, setup, history
        self.longest = 0.0  # wait of the comparison
        self.known = np.zeros(len(setup.ready.table), np.bool_)  # jobs that have been submitted …
        self.count, self.compared = 0, 0  # … how many, and how many the last comparison knew

    def due(self, queue: NDArray[np.intp], state: State) -> Floats:
        """Return by when each waiting job should start, in seconds from now, (jobs,)."""
        self.count += int(np.count_nonzero(~self.known[queue]))
        self.known[queue] = True
        if self.count >= self.compared * (1 + REPEAT) + 1:
            self.compared = self.count
            self._compare(queue, state)
        allowed = self.multiple * self.longest
        longest = max(state.estimate[queue].max(initial=0.0), state.estimate[state.running].max(initial=0.0))
        due: Floats = state.submit[queue] + allowed - min(longest, RESERVE * allowed) - state.now
        return due

    def _compare(self, queue: NDArray[np.intp], state: State) -> None:
        """Simulate FCFS with EASY on the jobs that have been submitted."""
        ready, known = self.setup.ready, np.flatnonzero(self.known)
        known = known[np.argsort(state.submit[known], kind="stable")]
        run = ready.run.copy()
        unknown = np.concatenate([queue, state.running])  # of the actual run times, only those of ended jobs are used
        elapsed = np.nan_to_num(state.now - state.start[unknown], nan=0.0)
        run[unknown] = elapsed + self.history.expected(unknown, state).left
        part = dataclasses.replace(
            ready,
            table=ready.table.take(known),
            run=run[known],
            estimate=np.maximum(state.estimate[known], run[known]),
            units=ready.units[known],
        )
        submit = state.submit[known]
        start = self._fcfs(dataclasses.replace(part, table=dataclasses.replace(part.table, submit=submit)), "easy")
        so_far = float((np.minimum(start, state.now) - submit).max())
        self.longest = so_far + FORESEEN * (float((start - submit).max()) - so_far)

    def _fcfs(self, ready: Prepared, backfill: str) -> Floats:
        """Return the starts of jobs under FCFS, (jobs,): on the hosts, if compiled code places jobs there."""
        switches = dataclasses.replace(
            self.setup.switches,
            dependencies=False,
            outages=(),
            predict=None,
            predict_for="backfill",
            cluster=None,
            sleep_after=None,
            commit=False,
            interval=0.0,
            reaction=0.0,
            group_ends=0.0,
            compat=None,
            ties="completions",
            estimates="requested",
        )
        counted = getattr(self.setup.machine, "asks", True)
        beside = Session(Setup(ready, backfill, switches, None if counted else self.setup.machine))
        beside.ranked(None)
        return beside.jobs.start

    def notes(self, wait: Floats) -> dict[str, Any]:
        """Return whether the limit was kept, when all is known; ``wait`` is that of all jobs, (jobs,)."""
        ready, longest = self.setup.ready, float(wait.max(initial=0.0))
        easy, plain = (float((self._fcfs(ready, b) - ready.table.submit).max(initial=0.0)) for b in ("easy", "none"))
        kept = longest <= self.multiple * easy
        found = {"multiple": self.multiple, "longest_wait_s": longest, "fcfs_easy_longest_wait_s": easy, "kept": kept}
        if self.setup.backfill == "none":  # where this is above the limit as well, the limit may be out of reach
            found["fcfs_longest_wait_s"] = plain
        return {"max_wait_guard": found}
