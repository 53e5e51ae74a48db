"""A job starts: it takes its processors; Python may be asked first where to place it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.capacity import (
    asks,
    begins,
    fits,
    largest_startable,
    take,
    take_beside,
    take_claimed,
    take_in_time,
)
from tracekit.sim.engine.running import add
from tracekit.sim.engine.state import RLSCHEDULER, Simulation
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.usage import hold
from tracekit.sim.predict.history import note_start


@jit_merged
def start(sim: Simulation, dynamics: Any, job: int, until: float) -> bool:
    """Start a job that fits; return False, and do nothing yet, where Python is to place it first.

    By estimate it ends at ``until``, or leaves the reservation its room; infinity: no reservation is in its way.
    """
    beside = sim.state[0].now + sim.jobs.estimate[job] > until
    if _asks_first(sim, job, beside):
        return False
    # only a job that runs beyond the shadow time uses up extra processors; one that ends in time leaves them
    if beside:
        take_beside(sim.capacity, sim.at_shadow, job)
    elif until < np.inf and sim.rules.backfill != RLSCHEDULER:  # whose reservation may be an old one
        take_in_time(sim.capacity, sim.at_shadow, job)
    else:
        take(sim.capacity, job)
    _begin(sim, dynamics, job)
    return True


@jit_merged
def start_claimed(sim: Simulation, dynamics: Any, job: int) -> bool:
    """Start a job on the cells that it has claimed in the profile; returns as `start` does."""
    if _asks_first(sim, job, False):
        return False
    if asks(sim.capacity):
        take(sim.capacity, job)  # where Python has put it
    else:
        take_claimed(sim.capacity, job, sim.profile.claimed)
    _begin(sim, dynamics, job)
    return True


@jit_merged
def _asks_first(sim: Simulation, job: int, beside: bool) -> bool:
    """Return whether Python is still to be asked where a job goes, and write the question down."""
    state = sim.state[0]
    if not asks(sim.capacity):
        return False
    if state.placed != job:
        state.placing, state.beside = job, beside
        return True
    state.placing, state.placed = NO_JOB, NO_JOB
    return False


@jit_merged
def _begin(sim: Simulation, dynamics: Any, job: int) -> None:
    """Record that a job has its room from now on, and when it runs."""
    now, jobs = sim.state[0].now, sim.jobs
    begin = begins(sim.capacity, job, now, jobs.run[job])
    jobs.start[job] = begin
    add(sim.running, job, begin + jobs.run[job], begin + jobs.estimate[job])
    if len(dynamics) > 0 and len(dynamics.accounts.user) > 0:
        hold(dynamics.accounts, job, now, jobs.size[job])
    if len(dynamics) > 0 and len(dynamics.learned.history.own) > 0:
        note_start(dynamics.learned.history, job, now)


@jit_merged
def any_fits(sim: Simulation) -> bool:
    """Return whether some waiting job could start at all."""
    largest, size, queue = largest_startable(sim.capacity), sim.jobs.size, sim.queue
    for i in range(queue.length[0]):  # noqa: SIM110  # compiled
        if size[queue.job[i]] <= largest and fits(sim.capacity, queue.job[i]):
            return True
    return False
