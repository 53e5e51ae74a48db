"""What an agent sees at this moment: the features that change, compiled. `features` defines them."""

from __future__ import annotations

import numpy as np

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.engine.capacity import (
    earliest_start,
    fits,
    free_units,
    job_fact,
    lane_of,
    stairs,
    total_units,
)
from tracekit.sim.engine.state import FILLING, Simulation
from tracekit.sim.hosts.demand import ABLE, FACTS, FRAGMENTATION, FREE_SHARE, MOST_WAYS, SOON, STARTS, WAYS
from tracekit.sim.tasks.jobgraph import LINK_UNIT
from tracekit.sim.tasks.pick_job.features import ALMOST_ONE, ALMOST_ZERO, CODES, PLACES, PREDICTED, RLTUNE
from tracekit.sim.tasks.pick_job.features_rltune import observe_rltune, write_rltune
from tracekit.sim.tasks.pick_job.lane_arrays import LaneArrays, PickRules, simulation_of
from tracekit.sim.tasks.pick_job.lane_predictions import write_predicted

_WAIT = CODES["wait"]
_LONG_WAIT = CODES["long-wait"]
_STRETCH = CODES["stretch"]
_STARTS_NOW = CODES["starts-now"]
_FILL = CODES["fill"]
_DELAY = CODES["delay"]
_FREE = CODES["free"]
_QUEUE = CODES["queue"]
_BACKLOG = CODES["backlog"]
_FILLING = CODES["filling"]
_SPARE = CODES["spare"]
_SHADOW = CODES["shadow"]
_IN_TIME = CODES["ends-in-time"]
_NEXT_END = CODES["next-end"]
_USER_AVERAGE = CODES["user-average"]
_WAIT_SHARE = CODES["wait-share"]
_CAN_START = CODES["can-start"]
_BASE_PLACE = CODES["base-place"]
_POOL_FREE = CODES["pool-free"]
_POOL_FRAGMENTATION = CODES["pool-fragmentation"]
_WAYS = CODES["ways"]
_SOON = CODES["soon"]
_LINK_FREE = CODES["link-free"]
_FIRST_PREDICTED, _LAST_PREDICTED = CODES[PREDICTED[0]], CODES[PREDICTED[-1]]
_PREDICTED_AREA, _PREDICTED_INDEX = CODES["predicted-area"], CODES["predicted-index"]
_FIRST_OF_RLTUNE = CODES[RLTUNE[0]]


@jit_internal
def observe_lane(lanes: LaneArrays, rules: PickRules, lane: int) -> None:
    """Write features and mask of the valid choices in a lane; a finished lane has none."""
    count, question, sim = lanes.count[lane], lanes.question[lane], simulation_of(lanes, rules, lane)
    out, mask, visible, fixed = lanes.features[lane], lanes.mask[lane], lanes.visible[lane], lanes.fixed[lane]
    waits, able, submit, now = lanes.waits[lane], lanes.able[lane], sim.jobs.submit, sim.state[0].now
    width, known = out.shape[1], rules.hosts
    if known:
        _look_at_hosts(lanes, lane, sim)
    for i in range(count):
        job = visible[i]
        mask[i] = True
        waits[i] = now - submit[job]
        able[i] = lanes.facts[lane, lanes.alike[lane, job], ABLE] > 0 if known else fits(sim.capacity, job)
        for f in range(width):
            out[i, f] = fixed[job, f]
    for i in range(count, question.filled):
        mask[i] = False
        for f in range(width):
            out[i, f] = 0.0
    if rules.skip:
        mask[rules.slots] = question.may_skip
    question.filled = count
    if count > 0:
        observe_rltune(lanes.rltune, lanes, lane, sim)
        _write_changing(lanes, rules, lane, sim)


@jit_merged
def _look_at_hosts(lanes: LaneArrays, lane: int, sim: Simulation) -> None:
    """Write the facts about the hosts of the jobs on offer, once for all jobs of the same demand."""
    visible, alike, facts, seen = lanes.visible[lane], lanes.alike[lane], lanes.facts[lane], lanes.seen[lane]
    question, now = lanes.question[lane], sim.state[0].now
    question.watched += 1
    for i in range(lanes.count[lane]):
        job = visible[i]
        kind = alike[job]
        if seen[kind] == question.watched:
            continue
        seen[kind] = question.watched
        facts[kind, ABLE] = 1.0 if fits(sim.capacity, job) else 0.0
        if lanes.wanted[STARTS] and facts[kind, ABLE] == 0.0:
            scratch, stair = lane_of(lanes.scratch, lane), lanes.stair[lane]
            facts[kind, STARTS] = earliest_start(sim.capacity, scratch, now, job, sim.running, stair)
        for what in range(FREE_SHARE, FACTS):
            if lanes.wanted[what]:
                until = now + lanes.constants[0].short_s
                facts[kind, what] = job_fact(sim.capacity, what, until, job, sim.running)


@jit_merged
def _write_fact(lanes: LaneArrays, lane: int, f: int, what: int, scale: float) -> None:
    """Write a fact about the hosts of each job on offer as feature ``f``."""
    out, visible = lanes.features[lane], lanes.visible[lane]
    for i in range(lanes.count[lane]):
        out[i, f] = lanes.facts[lane, lanes.alike[lane, visible[i]], what] * scale


@jit_merged
def _write_changing(lanes: LaneArrays, rules: PickRules, lane: int, sim: Simulation) -> None:
    """Write the features that change; one loop over the slots for each, all in one function: calls would cost more."""
    count, out, visible = lanes.count[lane], lanes.features[lane], lanes.visible[lane]
    waits, able, capacity, constant = lanes.waits[lane], lanes.able[lane], sim.capacity, lanes.constants[0]
    state, size, estimate, now = sim.state[0], sim.jobs.size, sim.jobs.estimate, sim.state[0].now
    short, long, longest = constant.short_s, constant.long_s, constant.wait_s
    filling = state.phase == FILLING
    for f in range(out.shape[1]):
        code = lanes.codes[f]
        if code == 0:
            continue
        if code == _WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + short)
        elif code == _LONG_WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + long)
        elif code == _STRETCH:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + max(estimate[visible[i]], rules.bound))
        elif code == _WAIT_SHARE:
            for i in range(count):
                out[i, f] = min(waits[i] / longest, ALMOST_ONE)
        elif code == _STARTS_NOW:
            for i in range(count):
                out[i, f] = 1.0 if able[i] else 0.0
        elif code == _CAN_START:
            for i in range(count):
                out[i, f] = ALMOST_ONE if able[i] else ALMOST_ZERO
        elif code == _FILL:
            free = free_units(capacity)
            for i in range(count):
                out[i, f] = size[visible[i]] / free if able[i] else 1.0
        elif code == _DELAY:
            scratch, stair = lane_of(lanes.scratch, lane), lanes.stair[lane]
            if not rules.hosts:
                stairs(capacity, sim.running, stair)
            for i in range(count):
                if able[i]:
                    out[i, f] = 0.0
                    continue
                if rules.hosts:
                    time = lanes.facts[lane, lanes.alike[lane, visible[i]], STARTS]
                else:
                    time = earliest_start(capacity, scratch, now, visible[i], sim.running, stair)
                ahead = max(time - now, 0.0)
                out[i, f] = ahead / (ahead + short) if ahead < np.inf else 1.0
        elif code == _IN_TIME:
            for i in range(count):
                out[i, f] = 1.0 if filling and now + estimate[visible[i]] <= state.shadow else 0.0
        elif code == _BASE_PLACE:  # the fixed column has the place among all jobs
            fixed = lanes.fixed[lane]
            for i in range(count):
                before = 0
                for k in range(count):
                    if fixed[visible[k], f] < fixed[visible[i], f]:
                        before += 1
                out[i, f] = before / (before + PLACES)
        elif code == _POOL_FREE:
            _write_fact(lanes, lane, f, FREE_SHARE, 1.0)
        elif code == _POOL_FRAGMENTATION:
            _write_fact(lanes, lane, f, FRAGMENTATION, 1.0)
        elif code == _WAYS:
            _write_fact(lanes, lane, f, WAYS, 1.0 / MOST_WAYS)
        elif code == _SOON:
            _write_fact(lanes, lane, f, SOON, 1.0)
        elif code >= _FIRST_OF_RLTUNE:
            write_rltune(lanes.rltune, lanes, lane, f, code - _FIRST_OF_RLTUNE)
        elif _FIRST_PREDICTED <= code <= _LAST_PREDICTED:
            scale = np.log1p(constant.log_time_s)
            if code == _PREDICTED_AREA:
                scale = np.log1p(constant.log_time_s * total_units(capacity))
            elif code == _PREDICTED_INDEX:
                scale = 2.0 * scale
            write_predicted(lanes.predicted, lanes, lane, f, code - _FIRST_PREDICTED, scale)
        elif code == _USER_AVERAGE:
            _write_user_averages(lanes, lane, f)
        else:
            value = _of_the_machine(code, sim, short, long, constant.queue_jobs)
            for i in range(count):
                out[i, f] = value


@jit_merged
def _of_the_machine(code: int, sim: Simulation, short: float, long: float, many: float) -> float:
    """Return a feature that is the same for every job."""
    state, queue, running = sim.state[0], sim.queue, sim.running.tally[0].running
    total = total_units(sim.capacity)
    if code == _FREE:
        return float(free_units(sim.capacity) / total)
    if code == _LINK_FREE:
        return float(free_units(sim.capacity) * LINK_UNIT)
    if code == _QUEUE:
        return float(queue.length[0] / (queue.length[0] + many))
    if code == _BACKLOG:
        work = 0.0
        for i in range(queue.length[0]):
            work += sim.jobs.estimate[queue.job[i]] * sim.jobs.size[queue.job[i]]
        return float(work / (work + long * total))
    if code == _NEXT_END:
        if running == 0:
            return 1.0
        ahead = max(sim.running.limits[running - 1].time - state.now, 0.0)
        return float(ahead / (ahead + short))
    if state.phase == FILLING and code == _FILLING:
        return 1.0
    if state.phase == FILLING and code == _SPARE:
        return float(free_units(sim.at_shadow) / total)
    if state.phase == FILLING and code == _SHADOW:
        ahead = max(state.shadow - state.now, 0.0)
        return float(ahead / (ahead + short))
    return 0.0


@jit_internal
def _write_user_averages(lanes: LaneArrays, lane: int, f: int) -> None:
    by_user, user, out, visible = lanes.by_user[lane], lanes.user[lane], lanes.features[lane], lanes.visible[lane]
    largest = 0.0
    for each in range(len(by_user)):
        if by_user[each, 1] > 0:
            largest = max(largest, by_user[each, 0] / by_user[each, 1])
    for i in range(lanes.count[lane]):
        each = user[visible[i]]
        out[i, f] = by_user[each, 0] / by_user[each, 1] / largest if by_user[each, 1] > 0 else 0.0
