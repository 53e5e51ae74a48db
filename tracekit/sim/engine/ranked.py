"""The fast special case: static priorities, over a tree of ranks.

Loop and pass obey the definitions of `tracekit.sim.engine.loop` and `tracekit.sim.engine.backfill`, which look at every
waiting job at every pass; here the tree finds the next job that can start. A test keeps the two equal. For none, EASY,
EASY with the shortest job first, RLScheduler's rule and, on a counter of processors, conservative backfilling, whose
pass is in `tracekit.sim.engine.kept_plan`; without dependencies, outages or predictions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tracekit.sim.compile import jit, jit_internal, jit_merged
from tracekit.sim.engine.backfill import make_reservation
from tracekit.sim.engine.capacity import fits, fits_beside, give, keeps_reservation, largest_startable, tick
from tracekit.sim.engine.events import arrival_is_first, next_arrival_or_end
from tracekit.sim.engine.kept_plan import note_arrival, note_end, planned_pass
from tracekit.sim.engine.loop import tick_from
from tracekit.sim.engine.rank_tree import RankTree, enter, first_rank, leave, next_fit, smallest_size
from tracekit.sim.engine.running import pop_ended
from tracekit.sim.engine.start import start
from tracekit.sim.engine.state import NONE, RLSCHEDULER, Simulation
from tracekit.sim.jobs import NO_JOB


class Ranks(NamedTuple):
    """The waiting jobs in the policy's order, and in the order in which gaps are filled."""

    policy: RankTree
    backfill: RankTree
    separate: bool  # whether the two are different trees


@jit
def run_ranked(sim: Simulation, ranks: Ranks, plan: Any) -> None:
    """Simulate until every job has started; fills in ``jobs.start``. ``plan`` is () unless plans are kept."""
    state, jobs, rules, running = sim.state[0], sim.jobs, sim.rules, sim.running
    origin, due = -np.inf, np.inf  # where ticks are counted from; the next one, while jobs wait
    changed = False  # has a job ended since the last pass?
    seen = state.arrived  # arrivals before this one have been looked at by a pass
    total = len(jobs.submit)
    waiting, one_by_one = 0, rules.arrivals_first
    while True:
        time = min(next_arrival_or_end(state, jobs.submit, running), due)
        if time == np.inf or (state.arrived == total and waiting == 0):
            return
        origin = time + rules.reaction if origin == -np.inf else origin
        first = state.arrived
        state.now = time
        tick(sim.capacity, time)
        if one_by_one and arrival_is_first(time, state.arrived, jobs.submit, running):
            state.arrived += 1
        else:
            ended = 0
            while running.tally[0].running > 0 and running.ends[0].key <= time and not (one_by_one and ended > 0):
                job = pop_ended(running, jobs.start, jobs.estimate)
                give(sim.capacity, job)
                if len(plan) > 0:
                    note_end(plan, time, jobs.start[job] + jobs.estimate[job])
                ended += 1
            changed = changed or ended > 0
            if not (one_by_one and ended > 0):
                arrived = first
                while arrived < total and jobs.submit[arrived] <= time:
                    arrived += 1
                state.arrived = arrived
        for job in range(first, state.arrived):
            if np.isnan(jobs.start[job]):  # else it was running when the simulation began
                _arrive(sim, ranks, job)
                if len(plan) > 0:
                    note_arrival(plan, ranks.policy.rank[job])
                waiting += 1
        if waiting == 0:
            seen = state.arrived
            state.blocked = NO_JOB
            continue
        if rules.interval > 0:
            due = tick_from(time, origin, rules.interval)
            if due > time:
                continue
        elif rules.reaction > 0:
            if due == np.inf:
                due = time + rules.reaction
            if due > time:
                continue
        before = running.tally[0].started
        last = state.arrived
        if len(plan) > 0:
            planned_pass(sim, ranks.policy, plan)
        else:
            # With nothing ended and a single arrival, all others were looked at in the last pass and are still blocked.
            # Where ends are looked at in groups, a start may change the groups, and with them the reservation.
            same = last - seen == 1 and not changed and rules.grouped == 0
            newest = last - 1 if same and np.isnan(jobs.start[last - 1]) else NO_JOB
            _pass(sim, ranks, newest)
        waiting -= running.tally[0].started - before
        changed = False
        seen = last
        due = (
            tick_from(np.nextafter(time, np.inf), origin, rules.interval)
            if rules.interval > 0 and waiting > 0
            else np.inf
        )


@jit_merged
def _arrive(sim: Simulation, ranks: Ranks, job: int) -> None:
    """Enter a submitted job into both orders."""
    size, estimate = sim.jobs.size[job], sim.jobs.estimate[job]
    enter(ranks.policy, job, size, estimate)
    if ranks.separate:
        enter(ranks.backfill, job, size, estimate)
    sim.state[0].first_rank = min(sim.state[0].first_rank, ranks.policy.rank[job])


@jit_internal
def _start(sim: Simulation, ranks: Ranks, job: int, until: float) -> None:
    start(sim, (), job, until)
    leave(ranks.policy, job)
    if ranks.separate:
        leave(ranks.backfill, job)


@jit_merged
def _pass(sim: Simulation, ranks: Ranks, newest: int) -> None:
    """Start whatever may start now.

    ``newest`` is the only job that arrived since the last pass when nothing has ended since, else `NO_JOB`. Then, as
    long as the reservation is valid, the newest job is the only one to look at: no other case has changed.
    """
    state, jobs, rules, capacity, queue = sim.state[0], sim.jobs, sim.rules, sim.capacity, ranks.policy
    blocked, rule, now = state.blocked, rules.backfill, state.now
    if newest >= 0 and blocked >= 0 and (rules.commit or queue.rank[newest] > queue.rank[blocked]):
        if rule == NONE:
            return
        # beyond the shadow time more running jobs may be past their estimates: reserve again, for all to be looked at;
        # so where hosts are chosen by what is free, which has changed with every start
        valid = rule == RLSCHEDULER or (now <= state.shadow and keeps_reservation(capacity, blocked))
        if state.reserved and valid:
            in_time = now + jobs.estimate[newest] <= state.fill_until
            beside = rule != RLSCHEDULER and not in_time
            if fits(capacity, newest) and (in_time or (beside and fits_beside(capacity, sim.at_shadow, newest))):
                _start(sim, ranks, newest, state.fill_until)
            return
        if not state.reserved and not fits(capacity, newest):
            return

    picked = blocked if rules.commit else NO_JOB
    while True:
        job = picked
        if job < 0:
            rank = first_rank(queue, state.first_rank)
            if rank < 0:
                state.blocked, state.reserved = NO_JOB, False
                return
            state.first_rank = rank
            job = queue.job[rank]
        if not fits(capacity, job):
            break
        _start(sim, ranks, job, np.inf)
        picked = NO_JOB

    state.blocked = job
    if rule == NONE:
        return
    # a reservation is made only where some job could fill a gap; RLScheduler's is made once for a committed pick, when
    # it is first blocked, and kept even when jobs end early
    # On a busy machine even the smallest waiting job is often larger than what is free: then there is no gap to fill.
    hopeless = smallest_size(queue) > largest_startable(capacity)
    if rule == RLSCHEDULER:
        if not (rules.commit and state.reserved and job == blocked):
            make_reservation(sim, job)
    else:
        state.reserved = False
        if not hopeless:
            make_reservation(sim, job)
    if not hopeless:
        _fill(sim, ranks)


@jit_merged
def _fill(sim: Simulation, ranks: Ranks) -> None:
    """Start every job that fits now and does not delay the reservation."""
    state, jobs, capacity, at_shadow = sim.state[0], sim.jobs, sim.capacity, sim.at_shadow
    blocked, now, until, separate = state.blocked, state.now, state.fill_until, ranks.separate
    rlscheduler = sim.rules.backfill == RLSCHEDULER
    rank = 0 if separate else state.first_rank
    while True:
        # Both shrink with every start, so they are read again before each search.
        largest, extra = largest_startable(capacity), 0 if rlscheduler else largest_startable(at_shadow)
        if separate:
            rank = next_fit(ranks.backfill, rank, largest, extra, now, until)
        else:
            rank = next_fit(ranks.policy, rank, largest, extra, now, until)
        if rank < 0:
            return
        job = ranks.backfill.job[rank] if separate else ranks.policy.job[rank]
        if job != blocked:
            in_time = now + jobs.estimate[job] <= until
            # `next_fit` knows sizes but no hosts: a machine of hosts may still have no place for the job.
            if fits(capacity, job) if in_time else fits_beside(capacity, at_shadow, job):
                _start(sim, ranks, job, until)
        rank += 1
