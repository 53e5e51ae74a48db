"""The event loop. Compiled policies, policies written in Python and agents all go from pass to pass by `next_pass`.

The one exception is the faster loop for static orders, `tracekit.sim.engine.ranked`, which a test keeps equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal, jit_merged
from tracekit.sim.engine.backfill import drop_started, schedule
from tracekit.sim.engine.capacity import fits
from tracekit.sim.engine.events import happen, next_event
from tracekit.sim.engine.outages import DRAIN
from tracekit.sim.engine.start import any_fits
from tracekit.sim.engine.state import NONE, PICKING, Simulation
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.formulas import ADAPTIVE, BUSY, FCFS, GIVEN, MULTIFACTOR, PREDICTED, SMALLEST, formula
from tracekit.sim.policies.usage import multifactor

#: What `step` came to: the end; an event after which no pass is due; a scheduling pass.
OVER, EVENT, PASS = range(3)


@jit_merged
def next_pass(sim: Simulation, dynamics: Any) -> bool:
    """Let events happen up to the next scheduling pass; False when every job has started, for good."""
    while True:
        found = step(sim, dynamics)
        if found != EVENT:
            return found == PASS


@jit_merged
def step(sim: Simulation, dynamics: Any) -> int:
    """Process the next event; return whether a scheduling pass is due after it."""
    state, rules, queue = sim.state[0], sim.rules, sim.queue
    if queue.length[0] == 0:
        state.due = np.inf
    time = min(next_event(sim, dynamics), state.due)
    if time == np.inf or (state.arrived == len(sim.jobs.submit) and queue.length[0] == 0 and _for_good(sim, dynamics)):
        return OVER
    if state.origin == -np.inf:  # passes at intervals are counted from the first event, or from the reaction to it
        state.origin = time + rules.reaction
    happen(time, sim, dynamics)
    if queue.length[0] == 0:
        return EVENT
    if rules.interval > 0:
        state.due = tick_from(time, state.origin, rules.interval)
        if state.due > time:
            return EVENT
        state.due = tick_from(np.nextafter(time, np.inf), state.origin, rules.interval)
    elif rules.reaction > 0:
        if state.due == np.inf:
            state.due = time + rules.reaction
        if state.due > time:
            return EVENT
        state.due = np.inf
    if (rules.commit and state.blocked == NO_JOB) or (_retries(sim) if rules.drops else any_fits(sim)):
        state.phase = PICKING
        return PASS
    return EVENT


@jit_merged
def _retries(sim: Simulation) -> bool:
    """Return whether the blocked job is tried again, as RLTune does: it fits, others may fill, or nothing runs."""
    if sim.rules.backfill != NONE or sim.running.tally[0].running == 0:
        return True
    return fits(sim.capacity, sim.state[0].blocked)


@jit_internal
def _for_good(sim: Simulation, dynamics: Any) -> bool:
    """Return whether no follower is still to be submitted, and no outage can send a running job back to the queue."""
    if len(dynamics) > 0:
        if dynamics.followers.tally[0].ahead > 0 or dynamics.followers.tally[0].held > 0:
            return False
        over = dynamics.outages.now[0].place >= len(dynamics.outages.change)
        return bool(sim.rules.outage_mode == DRAIN or over or sim.running.tally[0].running == 0)
    return True


@jit_internal
def tick_from(time: float, origin: float, interval: float) -> float:
    """Return the first tick (origin + whole multiples of ``interval``) that is not before ``time``."""
    turn = max(np.floor((time - origin) / interval), 0.0)
    while turn > 0 and origin + (turn - 1) * interval >= time:  # the quotient may have been rounded up …
        turn -= 1
    while origin + turn * interval < time:  # … or down
        turn += 1
    return float(origin + turn * interval)


@jit_internal
def _units_in_use(sim: Simulation) -> int:
    """Return the units that running jobs hold."""
    held = 0
    for i in range(sim.running.tally[0].running):
        held += sim.jobs.size[sim.running.ends[i].item]
    return held


@jit_merged
def evaluate(sim: Simulation, dynamics: Any, code: int, given: NDArray[np.float64]) -> None:
    """Fill in ``queue.value`` for every waiting job by a formula, or by the values ``given`` (jobs,)."""
    jobs, queue, now = sim.jobs, sim.queue, sim.state[0].now
    if code == ADAPTIVE:
        code = SMALLEST if _units_in_use(sim) > BUSY * sim.rules.total else FCFS
    for i in range(queue.length[0]):
        job = queue.job[i]
        wait, units = now - jobs.submit[job], jobs.size[job]
        if code == GIVEN:
            queue.value[i] = given[job]
        else:
            queue.value[i] = formula(code, jobs.submit[job], wait, jobs.asked[job], units / sim.rules.scale)
            if len(dynamics) > 0 and code == MULTIFACTOR:
                queue.value[i] = multifactor(dynamics.accounts, now, job, wait, units)
            if len(dynamics) > 0 and code == PREDICTED:
                queue.value[i] = dynamics.learned.priority[job]


@jit
def run(sim: Simulation, dynamics: Any, code: int, given: NDArray[np.float64]) -> int:
    """Simulate until every job has started; fills in ``jobs.start``. Returns `NO_JOB`, or as `schedule` does.

    Where Python has just placed a job, the interrupted pass continues first.
    """
    going_on = sim.state[0].placed != NO_JOB
    while going_on or next_pass(sim, dynamics):
        if not going_on:
            evaluate(sim, dynamics, code, given)
        going_on = False
        job = schedule(sim, dynamics)
        if job != NO_JOB:
            return job
        drop_started(sim)
    return NO_JOB


# ---- the same, one call at a time, for policies and hooks written in Python ------------------------------------------


@jit
def step_from_python(sim: Simulation, dynamics: Any) -> int:
    """Let the next event happen; returns `OVER`, `EVENT` or `PASS`."""
    return step(sim, dynamics)


@jit
def evaluate_from_python(sim: Simulation, dynamics: Any, code: int, given: NDArray[np.float64]) -> None:
    """Fill in the values of a built-in policy."""
    evaluate(sim, dynamics, code, given)


@jit
def schedule_from_python(sim: Simulation, dynamics: Any) -> int:
    """Make a pass by ``queue.value`` and take started jobs out of the queue; returns as `schedule` does."""
    job = schedule(sim, dynamics)
    if job == NO_JOB:
        drop_started(sim)
    return job


@jit
def last_ends_from_python(sim: Simulation, dynamics: Any) -> float:
    """Let the next event happen after every job has started, and return when that was."""
    now = next_event(sim, dynamics)
    happen(now, sim, dynamics)
    return now
