"""Conservative backfilling: every waiting job is planned into the profile, in order, each at its earliest fit.

Mu'alem & Feitelson, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.engine.capacity import asks, fits, fits_claimed, largest_startable
from tracekit.sim.engine.heap import heapify, pop
from tracekit.sim.engine.profile import accumulate, book, earliest, first_without, fits_until
from tracekit.sim.engine.start import start_claimed
from tracekit.sim.engine.state import Simulation
from tracekit.sim.jobs import NO_JOB

_LARGE = np.iinfo(np.int64).max


@jit_internal
def plan(sim: Simulation, dynamics: Any) -> int:
    """Plan the waiting jobs into the profile and start those planned for now; returns as `schedule` does.

    Plans are recomputed at every event, so only those that decide about a start now are needed: after 1, 2, 4, 8 …
    plans we look whether any job further back could still start now, and stop when none could, since more plans only
    leave less room. A job planned for now behind a running job that is past its estimate has to wait until there is
    really room.

    On a counter, a time at which less is free than the smallest waiting job needs is a *wall*: no plan reaches over it,
    so what is planned behind it cannot change what starts now, and is left out.
    """
    state, jobs, queue, profile = sim.state[0], sim.jobs, sim.queue, sim.profile
    heap, waiting, smallest = queue.heap, 0, _LARGE
    for i in range(queue.length[0]):
        if np.isnan(jobs.start[queue.job[i]]):
            # A committed pick goes first, whatever its value is now.
            picked = sim.rules.commit and queue.job[i] == state.blocked
            heap[waiting].key = -np.inf if picked else queue.value[i]
            heap[waiting].tie = heap[waiting].item = queue.job[i]
            smallest = min(smallest, jobs.size[queue.job[i]])
            waiting += 1
    wall = first_without(sim.capacity, profile, 0, smallest, np.inf)
    heapify(heap, waiting)  # seldom is more of the order needed than its beginning

    first_left, planned, look_at = NO_JOB, 0, 1
    while waiting > 0:
        job = pop(heap, waiting)
        waiting -= 1
        estimate = jobs.estimate[job]
        # Planned once: the jobs behind are planned into what this plan leaves.
        step = earliest(sim.capacity, profile, job, estimate, wall)
        if step >= 0:
            book(sim.capacity, profile, step, estimate)
            wall = first_without(sim.capacity, profile, step, smallest, wall)
        if step == 0 and _is_free(sim, job):
            if not start_claimed(sim, dynamics, job):
                return job
        elif first_left == NO_JOB:
            first_left = job
        planned += 1
        # A look goes through all remaining jobs; doubling the distance keeps looks rare.
        if planned == look_at:
            if not _any_could_start(sim, waiting):
                break
            look_at *= 2
    if first_left == NO_JOB and waiting > 0:
        first_left = heap[0].item
    state.blocked = first_left
    return NO_JOB


@jit_merged
def _is_free(sim: Simulation, job: int) -> bool:
    """Return whether a job planned for now can really start: on its planned cells, or wherever Python may put it."""
    if asks(sim.capacity):
        return fits(sim.capacity, job)
    return fits_claimed(sim.capacity, job, sim.profile.claimed)


@jit_internal
def _any_could_start(sim: Simulation, waiting: int) -> bool:
    """Return whether the profile, as planned so far, would let one of the remaining jobs start now."""
    jobs, queue, profile = sim.jobs, sim.queue, sim.profile
    largest, now = largest_startable(sim.capacity), sim.state[0].now
    accumulate(sim.capacity, profile)
    for i in range(waiting):
        job = queue.heap[i].item
        if jobs.size[job] <= largest and fits_until(sim.capacity, profile, job, now + jobs.estimate[job]):
            return True
    return False
