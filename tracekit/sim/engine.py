"""The event loop: arrays in, start times out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.backfill import Memory, arrive, ranked_pass
from tracekit.sim.books import Books, multifactor, note_end, note_start, predict
from tracekit.sim.compile import compiled
from tracekit.sim.decide import Profile, Queue, anyone_fits, decide, drop_started
from tracekit.sim.events import Clock, Jobs, advance, next_event
from tracekit.sim.formulas import GIVEN, MULTIFACTOR, formula
from tracekit.sim.running import Running
from tracekit.sim.waiting import Waiting


@compiled
def tick_from(time: float, origin: float, interval: float) -> float:
    """Return the first tick (origin + whole multiples of ``interval``) that is not before ``time``."""
    turn = max(np.floor((time - origin) / interval), 0.0)
    while turn > 0 and origin + (turn - 1) * interval >= time:  # the quotient may have been rounded up …
        turn -= 1
    while origin + turn * interval < time:  # … or down
        turn += 1
    return float(origin + turn * interval)


@compiled
def run_ranked(
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    clock: Clock,
    queue: Waiting,
    gaps: Waiting,
    separate: bool,
    backfill: int,
    commit: bool,
    arrivals_first: bool,
    interval: float,
    memory: Memory,
    ended: NDArray[np.int64],
) -> None:
    """Simulate an order that is settled at submit until every job has started; fills in ``jobs.start``."""
    origin = next_event(jobs, running, clock)
    due = np.inf  # the next tick, while jobs wait
    changed = False  # has a job ended since the last pass?
    seen = clock.arrived[0]  # arrivals before this one have been looked at by a pass
    total = len(jobs.submit)
    waiting = 0
    while True:
        time = min(next_event(jobs, running, clock), due)
        if time == np.inf or (clock.arrived[0] == total and waiting == 0):
            return
        first = clock.arrived[0]
        if advance(time, arrivals_first, jobs, capacity, running, clock, ended) > 0:
            changed = True
        for job in range(first, clock.arrived[0]):
            if np.isnan(jobs.start[job]):  # else it was running when the simulation began
                arrive(job, jobs, queue, gaps, separate, memory)
                waiting += 1
        if waiting == 0:
            seen = clock.arrived[0]
            memory.number[1] = -1
            continue
        if interval > 0:
            due = tick_from(time, origin, interval)
            if due > time:
                continue
        started = running.tally[1]
        last = clock.arrived[0]
        newest = last - 1 if last - seen == 1 and not changed and np.isnan(jobs.start[last - 1]) else -1
        ranked_pass(time, jobs, capacity, later, running, queue, gaps, separate, backfill, commit, memory, newest)
        waiting -= running.tally[1] - started
        changed = False
        seen = last
        due = tick_from(np.nextafter(time, np.inf), origin, interval) if interval > 0 and waiting > 0 else np.inf


@compiled
def admit(first: int, jobs: Jobs, clock: Clock, queue: Queue, books: Books, predicting: bool) -> None:
    """Enter the jobs from ``first`` on that have arrived; with ``predicting``, set their estimates from history."""
    for job in range(first, clock.arrived[0]):
        if np.isnan(jobs.start[job]):  # else it was running when the simulation began
            if predicting:
                jobs.estimate[job] = predict(books, job, jobs.estimate[job])
            queue.job[queue.length[0]] = job
            queue.length[0] += 1


@compiled
def note_ends(now: float, jobs: Jobs, books: Books, ended: NDArray[np.int64], count: int) -> None:
    """Write the jobs that just ended into the books."""
    for i in range(count):
        note_end(books, now, ended[i], jobs.size[ended[i]], jobs.run[ended[i]])


@compiled
def note_starts(now: float, jobs: Jobs, books: Books, queue: Queue) -> None:
    """Write the jobs of the queue that just started into the books."""
    for i in range(queue.length[0]):
        if jobs.start[queue.job[i]] == now:
            note_start(books, now, queue.job[i], jobs.size[queue.job[i]])


@compiled
def evaluate(
    code: int, now: float, scale: float, jobs: Jobs, queue: Queue, books: Books, given: NDArray[np.float64]
) -> None:
    """Fill in ``queue.value`` for every waiting job; ``scale`` is how many units make one processor."""
    for i in range(queue.length[0]):
        job = queue.job[i]
        wait, units = now - jobs.submit[job], jobs.size[job]
        if code == GIVEN:
            queue.value[i] = given[job]
        elif code == MULTIFACTOR:
            queue.value[i] = multifactor(books, now, job, wait, units)
        else:
            queue.value[i] = formula(code, jobs.submit[job], wait, jobs.estimate[job], units / scale)


@compiled
def run_valued(
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    clock: Clock,
    queue: Queue,
    profile: Profile,
    books: Books,
    code: int,
    given: NDArray[np.float64],
    scale: float,
    predicting: bool,
    backfill: int,
    commit: bool,
    arrivals_first: bool,
    interval: float,
    memory: Memory,
    ended: NDArray[np.int64],
) -> None:
    """Simulate with values worked out anew at every pass until every job has started; fills in ``jobs.start``."""
    origin = next_event(jobs, running, clock)
    due = np.inf
    total = len(jobs.submit)
    while True:
        time = min(next_event(jobs, running, clock), due)
        if time == np.inf or (clock.arrived[0] == total and queue.length[0] == 0):
            return
        first = clock.arrived[0]
        count = advance(time, arrivals_first, jobs, capacity, running, clock, ended)
        note_ends(time, jobs, books, ended, count)
        admit(first, jobs, clock, queue, books, predicting)
        if queue.length[0] == 0:
            continue
        if interval > 0:
            due = tick_from(time, origin, interval)
            if due > time:
                continue
            due = tick_from(np.nextafter(time, np.inf), origin, interval)
        if anyone_fits(jobs, capacity, queue) or (commit and memory.number[1] < 0):
            evaluate(code, time, scale, jobs, queue, books, given)
            decide(time, jobs, capacity, later, running, queue, backfill, commit, memory, profile)
            note_starts(time, jobs, books, queue)
            drop_started(jobs, queue)
        if queue.length[0] == 0:
            due = np.inf
