"""One scheduling pass over a static order: start in order, reserve for the first that does not fit, fill the gaps.

none, EASY, EASY with shortest first, and RLScheduler's rule. Conservative backfilling and orders that change while
jobs wait are in `tracekit.sim.decide`; both obey the same definitions.

EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem & Feitelson, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.capacity import fits, fits_both, most, reserve, take, take_both
from tracekit.sim.compile import compiled, inlined
from tracekit.sim.events import Jobs, begin
from tracekit.sim.running import Running
from tracekit.sim.waiting import Waiting, enter, first_rank, leave, next_fit, smallest_size

NONE, EASY, EASY_SJF, CONSERVATIVE, RLSCHEDULER = range(5)
CODES = {"none": NONE, "easy": EASY, "easy-sjf": EASY_SJF, "conservative": CONSERVATIVE, "rlscheduler": RLSCHEDULER}


class Memory(NamedTuple):
    """What one pass leaves for the next."""

    number: NDArray[np.int64]  # (3,) lowest rank that may wait; the blocked job or −1; 1 if `shadow` and `later` hold
    shadow: NDArray[np.float64]  # (1,) when the blocked job can start, by estimates


def nothing_known() -> Memory:
    """Return the memory of a machine that has never made a pass."""
    return Memory(np.array([0, -1, 0], np.int64), np.array([-np.inf]))


@inlined
def arrive(job: int, jobs: Jobs, queue: Waiting, gaps: Waiting, separate: bool, memory: Memory) -> None:
    """Enter a submitted job into the queue (and into the order of backfilling where that is another one)."""
    enter(queue, job, jobs.size[job], jobs.estimate[job])
    if separate:
        enter(gaps, job, jobs.size[job], jobs.estimate[job])
    memory.number[0] = min(memory.number[0], queue.rank[job])


@compiled
def _started(now: float, job: int, jobs: Jobs, running: Running, queue: Waiting, gaps: Waiting, separate: bool) -> None:
    begin(now, job, jobs, running)
    leave(queue, job)
    if separate:
        leave(gaps, job)


@inlined
def ranked_pass(
    now: float,
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    queue: Waiting,
    gaps: Waiting,
    separate: bool,
    backfill: int,
    commit: bool,
    memory: Memory,
    newest: int,
) -> None:
    """Start whatever may start now.

    ``newest`` is the only job that arrived since the last pass when nothing has ended since, else −1. Then, as long
    as the reservation stands, nobody else's case has changed: whoever could not start before cannot start now.
    """
    blocked, reserved, shadow = memory.number[1], memory.number[2] == 1, memory.shadow[0]
    if newest >= 0 and blocked >= 0 and (commit or queue.rank[newest] > queue.rank[blocked]):
        size, estimate = jobs.size[newest], jobs.estimate[newest]
        if backfill == NONE or not fits(capacity, size):
            return
        if reserved and backfill == RLSCHEDULER:
            if now + estimate < shadow:
                take(capacity, newest, size)
                _started(now, newest, jobs, running, queue, gaps, separate)
            return
        if reserved and now <= shadow:  # beyond it, more running jobs may be overdue: reserve anew
            if now + estimate <= shadow:
                take(capacity, newest, size)
                _started(now, newest, jobs, running, queue, gaps, separate)
            elif fits_both(capacity, later, size):
                take_both(capacity, later, newest, size)
                _started(now, newest, jobs, running, queue, gaps, separate)
            return

    picked = blocked if commit else -1
    while True:
        job = picked
        if job < 0:
            rank = first_rank(queue, memory.number[0])
            if rank < 0:
                memory.number[1], memory.number[2] = -1, 0
                return
            memory.number[0] = rank
            job = queue.job[rank]
        if not fits(capacity, jobs.size[job]):
            break
        take(capacity, job, jobs.size[job])
        _started(now, job, jobs, running, queue, gaps, separate)
        picked = -1

    memory.number[1] = job
    if backfill == NONE:
        return
    room = most(capacity)
    if backfill == RLSCHEDULER:
        if not (commit and reserved and job == blocked):  # computed once for a pick, even when jobs end early
            shadow = reserve(
                capacity, later, now, jobs.size[job], running.limit, running.limit_job, running.tally[0], jobs.size
            )
        memory.number[2], memory.shadow[0] = 1, shadow
        if smallest_size(queue) > room:
            return
    else:
        memory.number[2] = 0
        if smallest_size(queue) > room:
            return
        shadow = reserve(
            capacity, later, now, jobs.size[job], running.limit, running.limit_job, running.tally[0], jobs.size
        )
        memory.number[2], memory.shadow[0] = 1, shadow
    _fill(
        now,
        job,
        shadow,
        jobs,
        capacity,
        later,
        running,
        queue,
        gaps,
        separate,
        backfill == RLSCHEDULER,
        memory.number[0],
    )


@inlined
def _fill(
    now: float,
    blocked: int,
    shadow: float,
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    queue: Waiting,
    gaps: Waiting,
    separate: bool,
    rlscheduler: bool,
    lowest: int,
) -> None:
    """Start every job that fits now and is not in the way of the reservation at ``shadow``."""
    until = np.nextafter(shadow, -np.inf) if rlscheduler else shadow  # theirs must end before, not at
    rank = 0 if separate else lowest
    while True:
        extra = 0 if rlscheduler else most(later)
        if separate:
            rank = next_fit(gaps, rank, most(capacity), extra, now, until)
        else:
            rank = next_fit(queue, rank, most(capacity), extra, now, until)
        if rank < 0:
            return
        job = gaps.job[rank] if separate else queue.job[rank]
        size = jobs.size[job]
        if job != blocked:
            if now + jobs.estimate[job] <= until:
                if fits(capacity, size):
                    take(capacity, job, size)
                    _started(now, job, jobs, running, queue, gaps, separate)
            elif fits_both(capacity, later, size):
                take_both(capacity, later, job, size)
                _started(now, job, jobs, running, queue, gaps, separate)
        rank += 1
