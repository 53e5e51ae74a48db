"""The compiled part of the environment: many episodes side by side, each stopped where a job has to be chosen.

A *lane* is one simulation. `proceed` makes a choice and runs to the next one by the engine's own event loop and pass,
and records which jobs may be chosen there. It does not decide *which* job is best; everything else (events,
reservations, backfilling) is the code that the heuristics run on.

All functions take `LaneArrays`, with one row per lane, and a lane's number, so that other compiled code (a network,
a rollout) can call them too::

    @jit
    def rollout(lanes, rules, lane, ...):
        while not lanes.done[lane]:
            action = act(lanes.features[lane], lanes.count[lane], ...)
            step_lane(lanes, rules, lane, action)

Nothing here allocates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal, jit_merged
from tracekit.sim.engine.backfill import ASKED, STARTED, drop_started, fill, fill_gaps, may_fill, place
from tracekit.sim.engine.capacity import clear, fits
from tracekit.sim.engine.events import happen, next_event, resume_jobs
from tracekit.sim.engine.loop import next_pass
from tracekit.sim.engine.start import any_fits
from tracekit.sim.engine.state import (
    BETWEEN,
    EASY,
    FILLING,
    FINISHED,
    NONE,
    PICKING,
    Simulation,
)
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.tasks.objectives import job_cost
from tracekit.sim.tasks.pick_job.features_compiled import observe_lane
from tracekit.sim.tasks.pick_job.lane_arrays import LaneArrays, PickRules, simulation_of
from tracekit.sim.tasks.pick_job.lane_predictions import dynamics_of


@jit_internal
def _open(lanes: LaneArrays, rules: PickRules, lane: int) -> None:
    """Reset a lane to the start of its episode."""
    sim = simulation_of(lanes, rules, lane)
    state, question, tally = lanes.state[lane], lanes.question[lane], sim.running.tally[0]
    clear(sim.capacity)
    tally.running, tally.started = 0, 0
    state.now, state.origin, state.due = lanes.opening[lane], -np.inf, np.inf
    state.arrived, state.phase = 0, BETWEEN
    state.blocked, state.reserved, state.placing, state.placed = NO_JOB, False, NO_JOB, NO_JOB
    sim.queue.length[0] = 0
    question.cost, question.asked, question.drawn, question.may_skip = 0.0, 0, 0, False
    lanes.done[lane] = False
    for job in range(lanes.length[lane]):
        lanes.mark[lane, job] = -1
    for user in range(lanes.by_user.shape[1]):
        lanes.by_user[lane, user, 0], lanes.by_user[lane, user, 1] = 0.0, 0.0
    resume_jobs(sim, lanes.begun[lane][: lanes.begun_count[lane]])


@jit_internal
def ask_lane(lanes: LaneArrays, rules: PickRules, lane: int) -> None:
    """Ask for a pick at the moment when a lane's episode opens, whether or not any job could start then."""
    _open(lanes, rules, lane)
    sim = simulation_of(lanes, rules, lane)
    happen(lanes.opening[lane], sim, dynamics_of(lanes.predicted, lane))
    sim.state[0].phase = PICKING
    lanes.question[lane].asked += 1
    lanes.count[lane] = _show(lanes, rules, lane, sim)


@jit_internal
def chosen_job(lanes: LaneArrays, rules: PickRules, lane: int, action: int) -> int:
    """Return the job that an action means; −1 = do nothing until the next event; −2 = the action is invalid."""
    if 0 <= action < lanes.count[lane]:
        return int(lanes.visible[lane, action])
    return -1 if action == rules.slots and lanes.question[lane].may_skip else -2


@jit_internal
def proceed(lanes: LaneArrays, rules: PickRules, lane: int, job: int) -> None:
    """Choose a job (−1: none until the next event) and run to the next choice, or to the end; forced ones are made.

    Returns early where Python has to place a job first (``state.placing``): call again with that job.
    """
    sim = simulation_of(lanes, rules, lane)
    state, question, engine = sim.state[0], lanes.question[lane], rules.engine
    dynamics = dynamics_of(lanes.predicted, lane)
    if job == NO_JOB:
        state.phase = BETWEEN
    while True:
        if job != NO_JOB:
            started = sim.running.tally[0].started
            whole = _choose(sim, dynamics, job)
            if sim.running.tally[0].started > started or sim.jobs.start[job] == np.inf:  # or dropped, as RLTune does
                _account(lanes, rules, lane, sim)
            if not whole:
                return
            job = NO_JOB

        if state.phase == BETWEEN:
            if not next_pass(sim, dynamics):
                state.phase, question.may_skip = FINISHED, False
                lanes.count[lane] = 0
                lanes.done[lane] = True
                return
            if engine.commit and state.blocked != NO_JOB:  # nothing to choose: the earlier pick is tried again
                idle = engine.drops and sim.running.tally[0].running == 0
                if engine.backfill != NONE or idle or fits(sim.capacity, state.blocked):
                    job = state.blocked
                else:
                    state.phase = BETWEEN
                continue

        if state.phase == PICKING and not engine.commit and not any_fits(sim):
            state.phase = BETWEEN  # a pick that cannot start now would be forgotten at the next event
            continue
        found = _show(lanes, rules, lane, sim)
        if found == 0:
            state.phase = BETWEEN
            continue
        # Skipping when nothing else will ever happen would end the simulation with jobs still waiting.
        may_skip = rules.skip and next_event(sim, dynamics) < np.inf
        # A single candidate leaves nothing to decide: taking it here saves a round trip in training.
        if found > 1 or may_skip or rules.ask_forced or question.asked == 0:  # the first choice is always asked for
            lanes.count[lane] = found
            question.may_skip = may_skip
            question.asked += 1
            return
        job = lanes.visible[lane, 0]


@jit_merged
def _choose(sim: Simulation, dynamics: Any, job: int) -> bool:
    """Start or reserve the chosen job; return False where Python has to place a job first."""
    state, backfill = sim.state[0], sim.rules.backfill
    if state.phase == FILLING and backfill == EASY:
        return fill(sim, dynamics, job)
    if state.phase != FILLING:
        outcome = place(sim, dynamics, job)
        if outcome == ASKED:
            return False
        state.phase = PICKING if outcome == STARTED else BETWEEN if backfill == NONE else FILLING
    if state.phase == FILLING and backfill != EASY:  # under these rules backfilling is automatic
        if fill_gaps(sim, dynamics) != NO_JOB:
            return False
        state.phase = BETWEEN
    return True


@jit_merged
def _account(lanes: LaneArrays, rules: PickRules, lane: int, sim: Simulation) -> None:
    """Record the cost of the jobs that just started, and remove them from the queue."""
    by_user, jobs, queue, question = lanes.by_user[lane], sim.jobs, sim.queue, lanes.question[lane]
    for i in range(queue.length[0]):
        job = queue.job[i]
        if jobs.start[job] < np.inf:  # neither waits nor was dropped
            wait, run = jobs.start[job] - jobs.submit[job], jobs.run[job]
            question.cost += job_cost(lanes.weights, rules.bound, wait, run) / question.counted
            if len(by_user) > 1:
                by_user[lanes.user[lane, job], 0] += max(1.0, (wait + run) / max(run, rules.bound))
                by_user[lanes.user[lane, job], 1] += 1.0
    drop_started(sim)


@jit_merged
def _show(lanes: LaneArrays, rules: PickRules, lane: int, sim: Simulation) -> int:
    """Write which jobs may be chosen into ``visible``, by submit time, or by the rule where there are too many.

    To pick: every waiting job. To backfill: every job that does not delay the reservation. Returns how many.
    """
    visible, queue, state = lanes.visible[lane], sim.queue, sim.state[0]
    filling, found = state.phase == FILLING, 0
    if rules.orders == 0:
        return _show_classes(lanes, rules, lane, sim)
    if filling:
        for i in range(queue.length[0]):
            job = queue.job[i]
            if job != state.blocked and may_fill(sim, (), job):
                if found < rules.slots:
                    visible[found] = job
                found += 1
    else:
        found = queue.length[0]
        for i in range(min(found, rules.slots)):
            visible[i] = queue.job[i]
    if found > rules.slots or rules.sorted:
        found = min(found, rules.slots)
        _show_some(lanes, rules, lane, sim, found)
    return found


@jit_internal
def _show_classes(lanes: LaneArrays, rules: PickRules, lane: int, sim: Simulation) -> int:
    """Show the first job of every class that may be chosen; return how many."""
    visible, mark, group, state = lanes.visible[lane], lanes.mark[lane], lanes.order[lane, 0], sim.state[0]
    lanes.question[lane].drawn += 1
    drawn, found = lanes.question[lane].drawn, 0
    for i in range(sim.queue.length[0]):
        job = sim.queue.job[i]
        if mark[group[job]] == drawn or found == rules.slots:
            continue
        if state.phase == FILLING and (job == state.blocked or not may_fill(sim, (), job)):
            continue
        mark[group[job]] = drawn
        visible[found] = job
        found += 1
    return found


@jit_internal
def _show_some(lanes: LaneArrays, rules: PickRules, lane: int, sim: Simulation, wanted: int) -> None:
    """Fill so many slots from one order, or from two in turn."""
    visible, mark, order = lanes.visible[lane], lanes.mark[lane], lanes.order[lane]
    jobs, state = sim.jobs, sim.state[0]
    filling = state.phase == FILLING
    # `mark` holds the number of the drawing that showed a job last, so it need not be cleared each time.
    lanes.question[lane].drawn += 1
    drawn = lanes.question[lane].drawn
    found, turn, first, second = 0, 0, 0, 0
    while found < wanted:
        at = first if turn == 0 else second
        # Ends without a test: the caller has counted at least as many jobs that qualify.
        while True:
            job = order[turn, at]
            at += 1
            if job < state.arrived and np.isnan(jobs.start[job]):
                if not filling:
                    break
                if job != state.blocked and may_fill(sim, (), job):
                    break
        if turn == 0:
            first = at
        else:
            second = at
        if mark[job] != drawn:
            mark[job] = drawn
            visible[found] = job
            found += 1
        if rules.orders == 2:
            turn = 1 - turn


# ---- one decision, in one lane and in many: what an environment or a rollout is made of ------------------------------


@jit_internal
def step_lane(lanes: LaneArrays, rules: PickRules, lane: int, action: int) -> bool:
    """Make one choice, run to the next one and observe it; False: the action was invalid, nothing changed.

    Afterwards ``lanes.done[lane]`` is whether the episode is over, ``lanes.question[lane].cost`` the cost of the jobs
    that started since the last choice, by additive objectives (forced starts before the first choice count in
    the first step). Where ``lanes.state[lane].placing`` is a job, it must be placed before `go_on`.
    """
    job = chosen_job(lanes, rules, lane, action)
    if job < -1:
        return False
    if lanes.question[lane].asked > 1:
        lanes.question[lane].cost = 0.0
    proceed(lanes, rules, lane, job)
    observe_lane(lanes, rules, lane)
    return True


@jit
def step_lanes(lanes: LaneArrays, rules: PickRules, actions: NDArray[np.int64], first: int, last: int) -> None:
    """Step the lanes [first, last) that are not done; their actions must be valid."""
    for lane in range(first, last):
        if not lanes.done[lane]:
            step_lane(lanes, rules, lane, actions[lane])


@jit
def begin_lanes(lanes: LaneArrays, rules: PickRules, chosen: NDArray[np.int64]) -> None:
    """Begin the episodes of some lanes, run them to their first choice and observe it."""
    for lane in chosen:
        _open(lanes, rules, lane)
        proceed(lanes, rules, lane, NO_JOB)
        observe_lane(lanes, rules, lane)


@jit
def go_on(lanes: LaneArrays, rules: PickRules, lane: int) -> None:
    """Continue a lane whose job Python has placed."""
    proceed(lanes, rules, lane, lanes.state[lane].placed)
    observe_lane(lanes, rules, lane)


@jit
def ask(lanes: LaneArrays, rules: PickRules) -> None:
    """Observe the first lane at the moment when its episode opens: what an agent sees of a machine that is not ours."""
    ask_lane(lanes, rules, 0)
    observe_lane(lanes, rules, 0)
