"""The scheduling pass: start jobs in order, reserve for the first that does not fit, fill the gaps before it.

none, EASY, EASY with the shortest job first, and RLScheduler's rule are here; conservative backfilling, which plans
every waiting job, is in `tracekit.sim.engine.conservative`. The compiled loop, policies written in Python and agents
all run on the functions below. Static orders have a faster pass of the same definitions, in
`tracekit.sim.engine.ranked`.

EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem & Feitelson, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.engine.capacity import fits, fits_beside, fits_claimed, reserve, shares_pool
from tracekit.sim.engine.conservative import plan
from tracekit.sim.engine.heap import heapify, pop
from tracekit.sim.engine.predictions import ORDER
from tracekit.sim.engine.profile import book, earliest, fits_from_now, unroll
from tracekit.sim.engine.running import as_seen
from tracekit.sim.engine.start import start, start_claimed
from tracekit.sim.engine.state import (
    BETWEEN,
    CONSERVATIVE,
    EASY_SJF,
    FILLING,
    NONE,
    RLSCHEDULER,
    RLTUNE,
    RLTUNE_SKIPS,
    Simulation,
)
from tracekit.sim.jobs import NO_JOB

#: What became of a job whose turn it was: it started; it did not fit; Python is asked first where to place it.
STARTED, BLOCKED, ASKED = range(3)


@jit_merged
def schedule(sim: Simulation, dynamics: Any) -> int:
    """Start whatever may start now, by ``queue.value``. Started jobs stay in the queue until `drop_started`.

    Returns `NO_JOB`, or a job that Python has to place (``state.placed``) before calling again to continue the pass.
    """
    state, rules = sim.state[0], sim.rules
    if rules.backfill == CONSERVATIVE:
        unroll(state.now, sim.capacity, sim.running, sim.profile, dynamics)
        return plan(sim, dynamics)
    if len(dynamics) > 0 and len(dynamics.outages.outage) > 0 and state.phase != FILLING:
        unroll(state.now, sim.capacity, as_seen(sim.running, rules.grouped), sim.profile, dynamics)
    if state.phase != FILLING:
        picked = state.blocked if rules.commit else NO_JOB
        while True:
            job = picked if picked != NO_JOB else first_in_order(sim)
            if job == NO_JOB:
                state.blocked, state.reserved = NO_JOB, False
                return NO_JOB
            outcome = place(sim, dynamics, job)
            if outcome == ASKED:
                return job
            if outcome == BLOCKED:
                break
            picked = NO_JOB
        if rules.backfill == NONE:
            return NO_JOB
        state.phase = FILLING
    job = fill_gaps(sim, dynamics)
    if job == NO_JOB:
        state.phase = BETWEEN
    return job


@jit_merged
def first_in_order(sim: Simulation) -> int:
    """Return the waiting job of the smallest value (of equals the earliest), or `NO_JOB`."""
    queue, starts = sim.queue, sim.jobs.start
    best, least = NO_JOB, np.inf
    for i in range(queue.length[0]):
        job = queue.job[i]
        if np.isnan(starts[job]) and (best == NO_JOB or queue.value[i] < least):
            best, least = job, queue.value[i]
    return best


@jit_merged
def place(sim: Simulation, dynamics: Any, job: int) -> int:
    """Start the job whose turn it is (`STARTED`); if it does not fit, it gets the reservation (`BLOCKED`)."""
    state, rules = sim.state[0], sim.rules
    if len(dynamics) > 0 and len(dynamics.outages.outage) > 0:
        if _fits_around_outages(sim, job):
            _start_around_outages(sim, dynamics, job)
            state.blocked, state.reserved = NO_JOB, False
            return STARTED
    elif fits(sim.capacity, job):
        if not start(sim, dynamics, job, np.inf):
            return ASKED
        state.blocked, state.reserved = NO_JOB, False
        return STARTED
    if rules.drops and sim.running.tally[0].running == 0:  # as RLTune: it never fits
        sim.jobs.start[job] = np.inf
        state.blocked, state.reserved = NO_JOB, False
        return STARTED
    # RLScheduler computes a reservation once for a committed pick, even when jobs end early; so does RLTune
    known = rules.backfill >= RLSCHEDULER and rules.commit and state.reserved and job == state.blocked
    state.blocked = job
    if rules.backfill != NONE and not known:
        if len(dynamics) > 0 and len(dynamics.outages.outage) > 0:
            _reserve_around_outages(sim, job)
        else:
            make_reservation(sim, job)
    return BLOCKED


@jit_merged
def make_reservation(sim: Simulation, job: int) -> None:
    """Reserve for a job at the earliest time at which it fits by estimates."""
    state, rule = sim.state[0], sim.rules.backfill
    # RLScheduler's reservation may lie in the past, where a running job has outlived its estimate
    now = -np.inf if rule == RLSCHEDULER else state.now
    state.shadow = reserve(sim.capacity, sim.at_shadow, now, job, as_seen(sim.running, sim.rules.grouped))
    # RLScheduler's and RLTune's backfilled jobs must end before the reservation, not at it
    state.fill_until = np.nextafter(state.shadow, -np.inf) if rule >= RLSCHEDULER else state.shadow
    state.fill_until -= sim.rules.waking  # a backfilled job may have to wait for its hosts
    state.reserved, state.present = True, state.arrived


@jit_merged
def may_fill(sim: Simulation, dynamics: Any, job: int) -> bool:
    """Return whether a job fits now and does not delay the reservation: it ends in time, or fits beside it."""
    if not fits(sim.capacity, job):
        return False
    if len(dynamics) > 0 and len(dynamics.outages.outage) > 0:
        return _fits_around_outages(sim, job)
    state = sim.state[0]
    if state.now + sim.jobs.estimate[job] <= state.fill_until:
        return True
    return bool(sim.rules.backfill < RLSCHEDULER and fits_beside(sim.capacity, sim.at_shadow, job))


@jit_merged
def fill(sim: Simulation, dynamics: Any, job: int) -> bool:
    """Start a job that `may_fill`; return False where Python is to place it first."""
    if len(dynamics) > 0 and len(dynamics.outages.outage) > 0:
        _start_around_outages(sim, dynamics, job)
        return True
    return start(sim, dynamics, job, sim.state[0].fill_until)


@jit_merged
def fill_gaps(sim: Simulation, dynamics: Any) -> int:
    """Start the others that may fill the gaps, in order; returns as `schedule` does.

    A job that does not qualify now cannot qualify after further starts, so one look at each is enough.
    """
    state, jobs, queue, rule = sim.state[0], sim.jobs, sim.queue, sim.rules.backfill
    heap, count = queue.heap, 0
    if rule >= RLTUNE:
        return fill_as_rltune(sim, dynamics)
    for i in range(queue.length[0]):
        job = queue.job[i]
        if job == state.blocked or not np.isnan(jobs.start[job]):
            continue
        if may_fill(sim, dynamics, job):
            shortest = jobs.asked[job] if sim.rules.predicts & ORDER else jobs.estimate[job]
            heap[count].key = shortest if rule == EASY_SJF else 0.0 if rule == RLSCHEDULER else queue.value[i]
            heap[count].tie = heap[count].item = job
            count += 1
    # Collected first and ordered afterwards: few of many waiting jobs qualify, so few are sorted.
    heapify(heap, count)
    while count > 0:
        job = pop(heap, count)
        count -= 1
        if may_fill(sim, dynamics, job) and not fill(sim, dynamics, job):
            return job
    return NO_JOB


@jit_merged
def fill_as_rltune(sim: Simulation, dynamics: Any) -> int:
    """Start the others of the blocked job's pool that end before the reservation; returns as `schedule` does.

    By submit time; of equal ones those come first that were there when the blocked job was picked, in the order of the
    policy. Its Helios code takes started jobs out of the list that it walks through, so the next job is passed over.
    """
    state, jobs, queue = sim.state[0], sim.jobs, sim.queue
    begin, skip = 0, False
    while begin < queue.length[0]:
        end, submit = begin, jobs.submit[queue.job[begin]]
        while end < queue.length[0] and jobs.submit[queue.job[end]] == submit:
            queue.heap[end].item = 0
            end += 1
        for _ in range(begin, end):
            i = _next_of_equals(sim, begin, end)
            job = queue.job[i]
            queue.heap[i].item = 1
            if not np.isnan(jobs.start[job]) or not shares_pool(sim.capacity, state.blocked, job):
                continue
            if skip:
                skip = False
            elif job != state.blocked and _ends_in_time(sim, job) and fits(sim.capacity, job):
                if not fill(sim, dynamics, job):
                    return int(job)
                skip = sim.rules.backfill == RLTUNE_SKIPS
        begin = end
    return NO_JOB


@jit_internal
def _ends_in_time(sim: Simulation, job: int) -> bool:
    return bool(sim.state[0].now + sim.jobs.estimate[job] <= sim.state[0].fill_until)


@jit_internal
def _next_of_equals(sim: Simulation, begin: int, end: int) -> int:
    """Return the place in the queue of the next job, of those [begin, end) that were submitted at one time."""
    queue, best = sim.queue, -1
    present = sim.state[0].present if len(queue.value) > 0 else 0  # agents have no order of their own
    for i in range(begin, end):
        if queue.heap[i].item == 1:
            continue
        if best < 0 or (queue.job[i] < present and queue.value[i] < queue.value[best]):
            best = i
    return best


@jit_merged
def drop_started(sim: Simulation) -> None:
    """Remove started jobs from the queue, keeping the order of the others."""
    queue, starts = sim.queue, sim.jobs.start
    kept = 0
    for i in range(queue.length[0]):
        job = queue.job[i]
        if np.isnan(starts[job]):
            queue.job[kept] = job
            kept += 1
    queue.length[0] = kept


# ---- around outages: the same pass, with the profile in the place of `at_shadow` -------------------------------------
# The reservation is booked into the profile. "Ends by the shadow time, or needs no more than is left beside the
# reservation" then becomes "fits into the profile until its estimated end", which is the same where nothing is out.


@jit_internal
def _fits_around_outages(sim: Simulation, job: int) -> bool:
    profile = sim.profile
    if not fits_from_now(sim.capacity, profile, job, sim.jobs.estimate[job]):
        return False
    return bool(fits_claimed(sim.capacity, job, profile.claimed))


@jit_internal
def _start_around_outages(sim: Simulation, dynamics: Any, job: int) -> None:
    book(sim.capacity, sim.profile, 0, sim.jobs.estimate[job])
    start_claimed(sim, dynamics, job)


@jit_internal
def _reserve_around_outages(sim: Simulation, job: int) -> None:
    estimate, profile = sim.jobs.estimate[job], sim.profile
    step = earliest(sim.capacity, profile, job, estimate, np.inf)
    if step >= 0:
        instant = np.nextafter(profile.time[step], np.inf) - profile.time[step]
        book(sim.capacity, profile, step, max(estimate, instant))  # a job of no length has its moment, too
