"""A simulation that follows one named policy after another, compiled between two questions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.engine.backfill import drop_started, schedule
from tracekit.sim.engine.loop import evaluate, next_pass
from tracekit.sim.engine.session import Session
from tracekit.sim.engine.state import Simulation
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.formulas import values_for
from tracekit.sim.setup import Setup

#: Why `_follow` returned: every job has started; a question is due; Python has to place a job.
OVER, ASK, PLACING = range(3)


@jit
def _follow(
    sim: Simulation, dynamics: Any, code: int, given: NDArray[np.float64], until: float, passes: NDArray[np.int64]
) -> int:
    """Make the pass that is due, and all further ones up to the next question, by one policy.

    A question is due at the first pass at which two or more jobs wait, ``until`` has come and ``passes`` (1,), which
    counts down, has run out.
    """
    going_on = sim.state[0].placed != NO_JOB
    while True:
        if not going_on:
            evaluate(sim, dynamics, code, given)
        going_on = False
        if schedule(sim, dynamics) != NO_JOB:
            return PLACING
        drop_started(sim)
        if not next_pass(sim, dynamics):
            return OVER
        passes[0] -= 1
        if sim.queue.length[0] > 1 and sim.state[0].now >= until and passes[0] <= 0:
            return ASK


@jit
def _first_pass(sim: Simulation, dynamics: Any) -> bool:
    """Go to the first pass; False when there is none."""
    return next_pass(sim, dynamics)


class PolicyRun(Session):
    """One simulation, and the policies that it can follow."""

    def __init__(self, setup: Setup, policies: tuple[str, ...]) -> None:
        super().__init__(setup)
        self._make_room()
        jobs = len(self.ready.table)
        self.codes = np.empty(len(policies), np.int64)  # (policies,)
        self.given = np.zeros((len(policies), jobs))  # (policies, jobs) values, where they do not change
        for row, policy in enumerate(policies):
            code, given = values_for(policy, self.ready, self.switches)
            self.prepare_policy(code)
            self.codes[row], self.given[row] = code, self.jobs.submit if given is None else given
        self._passes = np.zeros(1, np.int64)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return float(self.sim.state["now"][0])

    def begin(self) -> bool:
        """Go to the first question; False when there is none."""
        if not _first_pass(self.sim, self.dynamics):
            return False
        return int(self.sim.queue.length[0]) > 1 or self.follow(0, -np.inf, 1)  # a single job leaves no choice

    def follow(self, policy: int, until: float, passes: int) -> bool:
        """Follow a policy, by its number, to the next question; False when every job has started."""
        self._passes[0] = passes
        found = PLACING
        while found == PLACING:
            given = self.given[policy]
            found = _follow(self.sim, self.dynamics, self.codes[policy], given, until, self._passes)
            if found == PLACING:
                self._place()
        return bool(found == ASK)
