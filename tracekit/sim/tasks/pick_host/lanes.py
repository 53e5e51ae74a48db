"""The compiled environment of pick-host: cycles, decisions, deferrals, ends of jobs. `arrays` has its state.

In a cycle every waiting job, in the queue's order, gets one decision: the host that it starts on. A job that fits
nowhere is deferred to the next cycle, and counted. Cycles are made at events, or every so many seconds; a cycle
in which nothing can have changed is not played, but its deferrals are counted.

The two versions of the LSF RL scheduler differ from this in their clock (`_tick`): one cycle a second, and
jobs that end in a second release their hosts only after its first decision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal, jit_merged
from tracekit.sim.hosts.choose import note_pick
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, PIECES, POOL
from tracekit.sim.hosts.operations import FITS, IDLE, START_BESIDE, TAKE
from tracekit.sim.hosts.scores import devices
from tracekit.sim.hosts.state import CELLS, FREE, HOSTS, NOW, PICKS, RULE, host_fits, look, need
from tracekit.sim.tasks.pick_host.ahead import fetch_question, fetch_state
from tracekit.sim.tasks.pick_host.arrays import (
    ASKING,
    BETWEEN,
    CYCLE,
    DEFER,
    HEAD,
    IMBALANCE,
    MAKESPAN,
    OLD,
    OURS,
    OVER,
    STEP,
    UTILIZATION,
    HostLanes,
    Ints,
    Rules,
)
from tracekit.sim.tasks.pick_host.changes import advance, arrive, call, end_jobs, job_started
from tracekit.sim.tasks.pick_host.rows import observe, survey_host
from tracekit.sim.tasks.pick_host.use import imbalance, mean_use, sample


@jit_merged
def _begin_cycle(lanes: HostLanes, lane: int) -> None:
    """Begin to walk down the queue."""
    state = lanes.state[lane]
    state.phase, state.place, state.kept = CYCLE, 0, 0
    state.cycles += 1
    state.batch, state.batch_cores, state.batch_memory = state.waiting, state.wait_cores, state.wait_memory


@jit_merged
def _end_cycle(lanes: HostLanes, rules: Rules, lane: int) -> None:
    """Keep the jobs that still wait, and give the rewards of a cycle."""
    state, queue = lanes.state[lane], lanes.queue[lane]
    for i in range(state.place, state.waiting):  # after an early end
        queue[state.kept] = queue[i]
        state.kept += 1
    state.waiting, state.phase = state.kept, BETWEEN
    for i in range(state.freed):
        lanes.freed[lane, lanes.freed_hosts[lane, i]] = False
    state.freed = 0
    if rules.weights[UTILIZATION] != 0.0:
        state.reward += rules.weights[UTILIZATION] * mean_use(lanes, lane, rules.version != OURS)
    if rules.weights[IMBALANCE] != 0.0:
        state.reward -= rules.weights[IMBALANCE] * imbalance(lanes, lane)


@jit_internal
def _step_second(lanes: HostLanes, lane: int) -> None:
    """Count a step of the LSF RL scheduler: once a second a sample, then the ends of this second."""
    state = lanes.state[lane]
    state.steps += 1
    if state.now > state.sampled:
        sample(lanes, lane)
    end_jobs(lanes, lane)


@jit_merged
def _tick(lanes: HostLanes, rules: Rules, lane: int) -> bool:
    """Go on to the next cycle; return False where there is none."""
    state = lanes.state[lane]
    if rules.version != OURS:
        if state.cycles > 0:
            advance(lanes, rules, lane, state.now + 1.0)
        elif lanes.length[lane] > 0 and lanes.submit[lane, 0] <= state.now:
            state.steps += 1  # the first step of 4H+2 decides nothing, and time stays
        if state.now >= state.horizon:
            return False
        arrive(lanes, lane)
        _begin_cycle(lanes, lane)
        return True
    if state.arrived == lanes.length[lane] and state.waiting == 0:
        return False
    time = np.inf
    if state.arrived < lanes.length[lane]:
        time = lanes.submit[lane, state.arrived]
    if state.running > 0:
        time = min(time, lanes.heap[lane][0].key)
    if time == np.inf:
        return False  # jobs that fit nowhere
    if rules.cycle > 0.0:  # the first cycle at or after the next event; those in between change nothing
        number = math.ceil((time - state.opening) / rules.cycle)
        if state.opening + number * rules.cycle < time:
            number += 1
        behind = round((state.now - state.opening) / rules.cycle)
        if state.cycles > 0 and number <= behind:
            number = behind + 1
        if state.cycles > 0 and number - behind > 1:
            state.deferred += (number - behind - 1) * state.waiting
            state.reward -= rules.weights[DEFER] * (number - behind - 1) * state.waiting / lanes.length[lane]
        time = state.opening + number * rules.cycle
    if time >= state.horizon:
        advance(lanes, rules, lane, state.horizon)
        end_jobs(lanes, lane)
        return False
    advance(lanes, rules, lane, max(time, state.now))
    end_jobs(lanes, lane)
    arrive(lanes, lane)
    _begin_cycle(lanes, lane)
    return True


@jit_merged
def _defer(lanes: HostLanes, rules: Rules, lane: int, job: int) -> None:
    """Keep a job that fits nowhere in the queue, and count it."""
    state = lanes.state[lane]
    if rules.version == OLD and not lanes.possible[lane, job]:
        state.failed += 1
        state.wait_cores -= need(lanes.data[lane], job, CORES)
        state.wait_memory -= need(lanes.data[lane], job, MEMORY)
        return
    lanes.tried[lane, job] = rules.version == OURS  # elsewhere jobs end in the middle of a cycle
    lanes.queue[lane, state.kept] = job
    state.kept += 1
    if rules.version == OURS or lanes.possible[lane, job]:  # HEAD skips jobs that can never fit without counting them
        state.deferred += 1
        state.reward -= rules.weights[DEFER] / lanes.length[lane]


@jit_merged
def _put(lanes: HostLanes, lane: int, job: int, host: int) -> None:
    """Start a job of one piece on a host that has room for it."""
    m, f = lanes.data[lane], lanes.real[lane]
    look(m, m[FREE], NOW, 0)
    m[PICKS] = 0
    note_pick(m, f, host, 1, devices(m, f, m, job, host))
    call(lanes, lane, START_BESIDE, job)  # there are no reservations


@jit_merged
def _decided(lanes: HostLanes, rules: Rules, lane: int, job: int, started: bool) -> None:
    """Finish the decision on the job at ``place``: record it, and go on to the next job."""
    state = lanes.state[lane]
    state.place += 1
    if started:
        job_started(lanes, rules, lane, job)
    else:
        _defer(lanes, rules, lane, job)
    if rules.version != OURS:
        _step_second(lanes, lane)
    if state.place < state.waiting:
        state.reward -= rules.weights[STEP]
    else:
        _end_cycle(lanes, rules, lane)


@jit_internal
def _sort(rows: Ints, count: int) -> None:
    """Sort a few numbers."""
    for i in range(1, count):
        value, place = rows[i], i
        while place > 0 and rows[place - 1] > value:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = value


@jit_merged
def _may_fit(lanes: HostLanes, lane: int, job: int) -> bool:
    """Return False where a job that fitted nowhere cannot fit now either: no host that it may use has been freed."""
    m, state = lanes.data[lane], lanes.state[lane]
    if not lanes.tried[lane, job]:
        return True
    if need(m, job, PIECES) > 1:
        return bool(state.freed > 0)
    look(m, m[FREE], NOW, 0)
    for i in range(state.freed):  # noqa: SIM110  # compiled
        if host_fits(m, m, job, lanes.freed_hosts[lane, i]):
            return True
    return False


@jit_merged
def _find_rows(lanes: HostLanes, rules: Rules, lane: int, job: int) -> int:
    """Write the hosts that can be chosen, and the mask where all are shown; return how many have room."""
    m, state, found = lanes.data[lane], lanes.state[lane], 0
    look(m, m[FREE], NOW, 0)
    if lanes.tried[lane, job] and not rules.all_hosts:  # it can only fit where jobs have ended since
        for i in range(state.freed):
            if host_fits(m, m, job, lanes.freed_hosts[lane, i]):
                lanes.rows[lane, found] = lanes.freed_hosts[lane, i]
                found += 1
        _sort(lanes.rows[lane], found)
        return found
    rows = lanes.rows[lane]
    if not rules.all_hosts and need(m, job, POOL) < 0 and need(m, job, GPUS) == 0 and need(m, job, MILLI) == 0:
        cores, memory, cell, step = need(m, job, CORES), need(m, job, MEMORY), m[FREE], m[CELLS]
        for h in range(m[HOSTS]):  # without a branch
            rows[found] = h
            found += (m[cell] >= cores) & (m[cell + 1] >= memory)
            cell += step
        return found
    for h in range(m[HOSTS]):
        able = host_fits(m, m, job, h)
        if rules.all_hosts:
            rows[h], lanes.mask[lane, h] = h, able
        elif able:
            rows[found] = h
        found += able
    return found


@jit_merged
def run_on(lanes: HostLanes, rules: Rules, lane: int) -> None:
    """Run to the next question, or to the end; an allocator in ``state.rule`` answers all of them."""
    m, state = lanes.data[lane], lanes.state[lane]
    while True:
        while state.phase == CYCLE:
            if state.place >= state.waiting:  # an empty cycle: others end with their last decision
                if rules.version != OURS:
                    _step_second(lanes, lane)
                _end_cycle(lanes, rules, lane)
                break
            job = lanes.queue[lane, state.place]
            if lanes.tried[lane, job] and state.freed == 0:  # nothing has changed for it
                if rules.strict:
                    _stop_cycle(lanes, rules, lane)
                else:
                    _decided(lanes, rules, lane, job, False)
                continue
            if state.rule >= 0 or need(m, job, PIECES) > 1:
                fits = lanes.possible[lane, job] and _may_fit(lanes, lane, job) and call(lanes, lane, FITS, job) != 0
                if fits:
                    call(lanes, lane, TAKE, job)
                if not fits and rules.strict:
                    _stop_cycle(lanes, rules, lane)
                else:
                    _decided(lanes, rules, lane, job, fits)
                continue
            found = _find_rows(lanes, rules, lane, job)
            if found == 0 and not (rules.version != OURS and rules.ask_forced):
                if rules.strict:
                    _stop_cycle(lanes, rules, lane)
                else:
                    _decided(lanes, rules, lane, job, False)
            elif found == 1 and not rules.ask_forced and state.asked > 0:
                _put(lanes, lane, job, _only(lanes, rules, lane))
                _decided(lanes, rules, lane, job, True)
            else:
                state.phase = ASKING
                state.asked += 1
                lanes.count[lane] = m[HOSTS] if rules.all_hosts else found
                return
        if not _tick(lanes, rules, lane):
            state.phase = OVER
            lanes.done[lane], lanes.count[lane] = True, 0
            state.reward -= rules.weights[MAKESPAN] * (state.last_end - state.opening)
            state.returned += state.reward
            return


@jit_merged
def _only(lanes: HostLanes, rules: Rules, lane: int) -> int:
    """Return the only host with room."""
    r = 0
    while rules.all_hosts and not lanes.mask[lane, r]:
        r += 1
    return int(lanes.rows[lane, r])


@jit_merged
def _stop_cycle(lanes: HostLanes, rules: Rules, lane: int) -> None:
    """End a cycle at a job that fits nowhere; it and all behind it are deferred."""
    state = lanes.state[lane]
    for i in range(state.place, state.waiting):
        lanes.tried[lane, lanes.queue[lane, i]] = i == state.place
    state.deferred += state.waiting - state.place
    state.reward -= rules.weights[DEFER] * (state.waiting - state.place) / lanes.length[lane]
    _end_cycle(lanes, rules, lane)


@jit_internal
def _open(lanes: HostLanes, rules: Rules, lane: int, rule: int) -> None:
    """Reset a lane to the start of its episode."""
    m, state, horizon = lanes.data[lane], lanes.state[lane], lanes.state[lane].horizon
    call(lanes, lane, IDLE, 0)
    m[RULE] = max(rule, 0)
    state.rule, state.phase = rule, BETWEEN
    first = lanes.submit[lane, 0]
    state.now = state.opening = 0.0 if rules.version != OURS else first
    state.horizon = horizon
    state.arrived = state.waiting = state.place = state.kept = state.batch = state.running = 0
    state.batch_cores = state.batch_memory = state.used_memory = 0
    state.asked = state.steps = state.cycles = state.deferred = state.failed = 0
    state.completed = state.started = state.samples = 0
    state.waited = state.core_sum = state.memory_sum = state.use = state.use_squares = 0.0
    state.core_area = state.memory_area = state.imbalance_area = state.reward = state.returned = 0.0
    state.sampled, state.last_end, state.surveyed = 0.0, state.now, True
    state.spread = state.freed = state.wait_cores = state.wait_memory = 0
    lanes.done[lane] = False
    for h in range(m[HOSTS]):
        lanes.last[lane, h, 0] = lanes.last[lane, h, 1] = 0.0
        lanes.first[lane, h], lanes.freed[lane, h] = -1, False
        survey_host(lanes, lane, h)
    for job in range(lanes.length[lane]):
        lanes.start[lane, job] = np.nan
    if rules.version == HEAD:  # the first step decides nothing, and jobs of second 0 wait
        state.steps, state.cycles = 1, 1
        arrive(lanes, lane)


@jit_internal
def begin_lane(lanes: HostLanes, rules: Rules, lane: int, rule: int) -> None:
    """Begin a lane's episode and run it to its first question, or, with an allocator's code, to its end."""
    _open(lanes, rules, lane, rule)
    run_on(lanes, rules, lane)


@jit_merged
def answer_lane(lanes: HostLanes, rules: Rules, lane: int, row: int) -> None:
    """Start the job of a question on the host of a row (−1: on none, where none has room); run to the next question."""
    state = lanes.state[lane]
    job = lanes.queue[lane, state.place]
    state.phase = CYCLE
    if row >= 0:
        _put(lanes, lane, job, lanes.rows[lane, row])
    _decided(lanes, rules, lane, job, row >= 0)
    run_on(lanes, rules, lane)


@jit_merged
def step_lane(lanes: HostLanes, rules: Rules, lane: int, row: int) -> None:
    """Answer a lane's question, run to the next one, and observe it; ``state.reward`` is what that earned."""
    state = lanes.state[lane]
    if state.asked > 1:  # what was earned before the first question counts with its answer
        state.returned += state.reward
        state.reward = 0.0
    answer_lane(lanes, rules, lane, row)
    observe(lanes, rules, lane)


@jit
def begin_lanes(lanes: HostLanes, rules: Rules, chosen: Ints) -> None:
    """Begin the episodes of some lanes and observe their first questions."""
    for lane in chosen:
        begin_lane(lanes, rules, lane, -1)
        observe(lanes, rules, lane)


@jit
def play_rule(lanes: HostLanes, rules: Rules, lane: int, rule: int) -> None:
    """Play a lane's whole episode by an allocator."""
    begin_lane(lanes, rules, lane, rule)


@jit
def step_lanes(lanes: HostLanes, rules: Rules, rows: NDArray[np.int64], first: int, last: int) -> None:
    """Answer the questions of the lanes [first, last) that are not done."""
    for lane in range(first, last):
        if lane + 2 < last:
            fetch_state(lanes, lane + 2)
        if lane + 1 < last and not lanes.done[lane + 1]:
            fetch_question(lanes, lane + 1, rows[lane + 1])
        if not lanes.done[lane]:
            step_lane(lanes, rules, lane, rows[lane])
