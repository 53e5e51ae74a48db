"""A job starts: it is given its room, and Python may be asked first where that is to be."""

from __future__ import annotations

from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.capacity import asks, fits, largest_startable, take, take_beside
from tracekit.sim.engine.running import add
from tracekit.sim.engine.state import Simulation
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.usage import hold


@jit_merged
def start(sim: Simulation, job: int, until: float) -> bool:
    """Start a job that fits; return False, and do nothing yet, where Python is to place it first.

    By estimate it ends at ``until``, or leaves the reservation its room; infinity: no reservation is in its way.
    """
    state, jobs = sim.state[0], sim.jobs
    beside = state.now + jobs.estimate[job] > until
    if asks(sim.capacity):
        if state.placed != job:
            state.placing, state.beside = job, beside
            return False
        state.placing, state.placed = NO_JOB, NO_JOB
    if beside:
        take_beside(sim.capacity, sim.at_shadow, job)
    else:
        take(sim.capacity, job)
    now = state.now
    jobs.start[job] = now
    add(sim.running, job, now + jobs.run[job], now + jobs.estimate[job])
    if len(sim.accounts.user) > 0:
        hold(sim.accounts, job, now, jobs.size[job])
    return True


@jit_merged
def any_fits(sim: Simulation) -> bool:
    """Return whether some waiting job could start at all."""
    largest, size, queue = largest_startable(sim.capacity), sim.jobs.size, sim.queue
    for i in range(queue.length[0]):  # noqa: SIM110  # compiled
        if size[queue.job[i]] <= largest and fits(sim.capacity, queue.job[i]):
            return True
    return False
