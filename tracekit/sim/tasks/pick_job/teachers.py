"""Policies written in Python as teachers: they decide in an environment in place of a network.

A policy is asked once in each scheduling pass, as in a simulation. Of the jobs that the agent is shown, the one that
comes first in the policy's order is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.engine.session import answer_of, seen_by_policies
from tracekit.sim.policies.builtin import POLICIES, find
from tracekit.sim.policies.protocol import BuiltIn, Policy
from tracekit.sim.setup import PerSimulation, Scheduler
from tracekit.sim.windows import Window

#: Chooses a slot: batch, lane -> slot.
Choice = Callable[[Any, int], int]


def teachers_of(batch: Any, windows: Sequence[Window], name: str) -> list[Choice] | None:
    """Return what decides on each window by a policy written in Python; None where the name does not mean one."""
    if name not in POLICIES and ":" not in name:
        return None
    policy = find(name)
    if isinstance(policy, BuiltIn):
        return None
    if isinstance(policy, Scheduler):
        raise UsageError(f"{name} schedules job by job itself and cannot be imitated; to go on from it: --init {name}")
    return [PolicyTeacher(policy, batch, window).choose for window in windows]


class PolicyTeacher:
    """One policy in one window."""

    def __init__(self, policy: Policy, batch: Any, window: Window) -> None:
        episode = batch.source.episode(window)
        self.policy = policy.started(batch.source.setup(episode)) if isinstance(policy, PerSimulation) else policy
        self.ready = episode.ready
        self.asked = -np.inf  # when the policy was asked last …
        self.value = np.full(len(episode.ready.table), np.nan)  # (jobs,) … and what it answered

    def choose(self, batch: Any, lane: int) -> int:
        """Return the slot of the first job in the policy's order."""
        now, shown = batch.now(lane), batch.shown(lane)
        if now != self.asked or np.isnan(self.value[shown]).any():
            self.asked = now
            self._ask(batch.arrays, lane, now)
        return int(np.lexsort((shown, self.value[shown]))[0])

    def _ask(self, arrays: Any, lane: int, now: float) -> None:
        """Ask the policy for the values of all waiting jobs, shown or not."""
        count = len(self.value)
        jobs = type(arrays.jobs)(*(column[lane, :count] for column in arrays.jobs))
        running, capacity = (type(part)(*(a[lane] for a in part)) for part in (arrays.running, arrays.capacity))
        waiting: NDArray[np.int64] = arrays.queue.job[lane, : arrays.queue.length[lane, 0]]
        waiting = waiting[np.isnan(jobs.start[waiting])]
        self.value[waiting] = answer_of(
            self.policy, waiting, seen_by_policies(self.ready, jobs, running, now, capacity)
        )
