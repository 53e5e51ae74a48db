"""The events, in their order at one instant: jobs end, service changes, predictions run out, jobs arrive.

With ``rules.arrivals_first`` (a compatibility mode) there is one event at a time, of equals an arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal, jit_merged
from tracekit.sim.engine.capacity import give, overdrawn, take, tick, withdraw
from tracekit.sim.engine.dependencies import Followers, next_follower, release
from tracekit.sim.engine.outages import DRAIN, KILL, change_now, next_outage_change
from tracekit.sim.engine.predictions import BACKFILL, ORDER, correct, next_correction, predicted
from tracekit.sim.engine.running import Running, add, pop_ended, remove_last_started
from tracekit.sim.engine.state import Queue, Simulation
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.usage import hold, predict, record_run
from tracekit.sim.predict.history import note_end, note_requeue

Floats = NDArray[np.float64]


@jit_internal
def resume_jobs(sim: Simulation, started: NDArray[np.int64]) -> None:
    """Put the jobs that have ``started``, in that order, back onto the machine where they have not ended by now."""
    jobs = sim.jobs
    for job in started:
        end = jobs.start[job] + jobs.run[job]
        if end > sim.state[0].now:
            take(sim.capacity, job)
            add(sim.running, job, end, jobs.start[job] + jobs.estimate[job])


@jit
def resume_from_python(sim: Simulation, started: NDArray[np.int64]) -> None:
    """Do the same, from Python."""
    resume_jobs(sim, started)


@jit_internal
def next_arrival_or_end(state: Any, submit: Floats, running: Running) -> float:
    """Return when the next job arrives or ends; infinity when none does."""
    time = submit[state.arrived] if state.arrived < len(submit) else np.inf
    if running.tally[0].running > 0 and running.ends[0].key < time:
        time = running.ends[0].key
    return float(max(time, state.now))


@jit_merged
def next_event(sim: Simulation, dynamics: Any) -> float:
    """Return the time of the next event; infinity when there is none."""
    state, submit = sim.state[0], sim.jobs.submit
    if len(dynamics) > 0 and len(dynamics.followers.link) > 0:
        while state.arrived < len(submit) and dynamics.followers.link[state.arrived].predecessor != NO_JOB:
            state.arrived += 1  # submitted when another job ends
    time = next_arrival_or_end(state, submit, sim.running)
    if len(dynamics) > 0:
        if dynamics.followers.tally[0].ahead > 0:
            time = min(time, dynamics.followers.submits[0].key)
        time = min(time, next_outage_change(dynamics.outages))
        if sim.rules.predicts & BACKFILL:
            time = min(time, next_correction(sim.running, state.now))
    return float(max(time, state.now))


@jit_internal
def arrival_is_first(now: float, arrived: int, submit: Floats, running: Running) -> bool:
    """Return whether, one event at a time, an arrival is the next one."""
    if arrived >= len(submit) or submit[arrived] > now:
        return False
    return bool(running.tally[0].running == 0 or submit[arrived] <= running.ends[0].key)


@jit_merged
def happen(now: float, sim: Simulation, dynamics: Any) -> None:
    """Move the clock to ``now`` and let everything happen that happens then, except for the scheduling pass."""
    state, jobs = sim.state[0], sim.jobs
    state.now = now
    tick(sim.capacity, now)
    if sim.rules.arrivals_first and arrival_is_first(now, state.arrived, jobs.submit, sim.running):
        _submit(state.arrived, sim, dynamics)
        state.arrived += 1
        return
    while sim.running.tally[0].running > 0 and sim.running.ends[0].key <= now:
        _end(now, pop_ended(sim.running, jobs.start, jobs.estimate), sim, dynamics)
        if sim.rules.arrivals_first:
            return
    if len(dynamics) > 0:
        _change_service(now, sim, dynamics)
        if sim.rules.predicts & BACKFILL:
            correct(now, sim.running, jobs.start, jobs.estimate, dynamics.predictions)
    while state.arrived < len(jobs.submit):
        if len(dynamics) > 0 and _waits_for_another(state.arrived, dynamics.followers):
            state.arrived += 1
            continue
        if jobs.submit[state.arrived] > now:
            break
        _submit(state.arrived, sim, dynamics)
        state.arrived += 1
    if len(dynamics) > 0:
        while dynamics.followers.tally[0].ahead > 0 and dynamics.followers.submits[0].key <= now:
            submit = dynamics.followers.submits[0].key
            job = next_follower(dynamics.followers)
            jobs.submit[job] = submit
            _submit(job, sim, dynamics)


@jit_merged
def _end(now: float, job: int, sim: Simulation, dynamics: Any) -> None:
    """A job, which is no longer among the running ones, ends: its room, its user's account, its followers."""
    give(sim.capacity, job)
    if len(dynamics) > 0:
        if len(dynamics.accounts.user) > 0:
            hold(dynamics.accounts, job, now, -sim.jobs.size[job])
            record_run(dynamics.accounts, job, sim.jobs.run[job])
        if len(dynamics.learned.history.own) > 0:
            note_end(dynamics.learned.history, job, now, sim.jobs.run[job])
        if len(dynamics.followers.link) > 0:
            release(dynamics.followers, now, job)


@jit_internal
def _change_service(now: float, sim: Simulation, dynamics: Any) -> None:
    """Take units out of service or put them back; jobs that no longer fit are stopped unless they may finish."""
    units = change_now(now, dynamics.outages)
    if units != 0:
        withdraw(sim.capacity, units)
    if units <= 0 or sim.rules.outage_mode == DRAIN:
        return
    jobs = sim.jobs
    while overdrawn(sim.capacity) and sim.running.tally[0].running > 0:  # idle units go first, then the latest start
        job = remove_last_started(sim.running, jobs.start, jobs.estimate, sim.capacity)
        done = now - jobs.start[job]
        if sim.rules.outage_mode == KILL:
            dynamics.stopped[job].killed = True
            jobs.run[job] = done
            _end(now, job, sim, dynamics)
        else:
            _requeue(now, job, sim, dynamics)
            sim.state[0].lost += done * jobs.size[job]


@jit_internal
def _requeue(now: float, job: int, sim: Simulation, dynamics: Any) -> None:
    """Send a job that was stopped back to the queue, as if it had never started; it says nothing about run times."""
    give(sim.capacity, job)
    if len(dynamics.accounts.user) > 0:
        hold(dynamics.accounts, job, now, -sim.jobs.size[job])
    dynamics.stopped[job].restarts += 1
    sim.jobs.start[job] = np.nan
    if len(dynamics.learned.history.own) > 0:
        note_requeue(dynamics.learned.history, job)
    if sim.rules.predicts & BACKFILL:
        sim.jobs.estimate[job] = dynamics.predictions[job].first
        dynamics.predictions[job].corrected = 0
    _enter(job, sim.queue)


@jit_internal
def _waits_for_another(job: int, followers: Followers) -> bool:
    return len(followers.link) > 0 and followers.link[job].predecessor != NO_JOB


@jit_merged
def _submit(job: int, sim: Simulation, dynamics: Any) -> None:
    """Put a job that is submitted now into the queue, unless it was running when the simulation began."""
    jobs = sim.jobs
    if np.isnan(jobs.start[job]):
        if len(dynamics) > 0 and sim.rules.last_two:
            jobs.estimate[job] = predict(dynamics.accounts, job, jobs.estimate[job])
        if len(dynamics) > 0 and sim.rules.predicts > 0:
            _predict(job, sim, dynamics)
        _enter(job, sim.queue)


@jit_internal
def _predict(job: int, sim: Simulation, dynamics: Any) -> None:
    """Predict the run time of a job that is submitted now, and let orders and backfilling go by it."""
    jobs, prediction = sim.jobs, dynamics.predictions[job]
    prediction.limit = jobs.asked[job]
    order, backfill = predicted(job, sim.state[0].now, jobs.asked[job], dynamics.accounts, dynamics.learned)
    if sim.rules.predicts & ORDER:
        jobs.asked[job] = order
    if sim.rules.predicts & BACKFILL:
        prediction.first = backfill
        jobs.estimate[job] = backfill


@jit_internal
def _enter(job: int, queue: Queue) -> None:
    """Put a job into the queue, which is ordered by job number, so that ties go to the earlier recorded submit."""
    i = queue.length[0]
    queue.length[0] = i + 1
    while i > 0 and queue.job[i - 1] > job:
        queue.job[i] = queue.job[i - 1]
        i -= 1
    queue.job[i] = job
