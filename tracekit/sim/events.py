"""Jobs, the clock, and the two kinds of event: a job arrives, a job ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.capacity import give, take
from tracekit.sim.compile import compiled, inlined
from tracekit.sim.running import Running, add, forget_limit, pop


class Jobs(NamedTuple):
    """The jobs by submit time (ties as in the file); times in seconds."""

    submit: NDArray[np.float64]  # (jobs,)
    run: NDArray[np.float64]  # (jobs,) how long the job occupies the machine
    estimate: NDArray[np.float64]  # (jobs,) how long the scheduler believes it will
    size: NDArray[np.int64]  # (jobs,) units of the resource, at least 1 and at most what the machine has
    start: NDArray[np.float64]  # (jobs,) NaN = not started; what the engine fills in


class Clock(NamedTuple):
    """Where a simulation stands."""

    time: NDArray[np.float64]  # (1,)
    arrived: NDArray[np.int64]  # (1,) jobs [0, arrived) have been submitted


@compiled
def resume(started: NDArray[np.int64], jobs: Jobs, capacity: Any, running: Running, now: float) -> None:
    """Put the jobs that have ``started``, in that order, back onto the machine where they have not ended by ``now``."""
    for job in started:
        end = jobs.start[job] + jobs.run[job]
        if end > now:
            take(capacity, job, jobs.size[job])
            add(running, job, end, jobs.start[job] + jobs.estimate[job])


@inlined
def begin(now: float, job: int, jobs: Jobs, running: Running) -> None:
    """Start a job that has been given its room."""
    jobs.start[job] = now
    add(running, job, now + jobs.run[job], now + jobs.estimate[job])


@inlined
def next_event(jobs: Jobs, running: Running, clock: Clock) -> float:
    """Return the time of the next arrival or completion; infinity when there is none."""
    arrived = clock.arrived[0]
    time = jobs.submit[arrived] if arrived < len(jobs.submit) else np.inf
    if running.tally[0] > 0 and running.end[0] < time:
        time = running.end[0]
    return float(max(time, clock.time[0]))


@inlined
def advance(
    until: float,
    arrivals_first: bool,
    jobs: Jobs,
    capacity: Any,
    running: Running,
    clock: Clock,
    ended: NDArray[np.int64],
) -> int:
    """Move the clock to ``until`` (the next event or a tick before it) and let happen what happens then.

    All completions, then all arrivals; or, with ``arrivals_first``, one single event, of equals an arrival. Returns
    how many jobs ended; they stand at the beginning of ``ended``. Arrivals are told by ``clock.arrived``.
    """
    clock.time[0] = until
    count, arrived = 0, clock.arrived[0]
    total = len(jobs.submit)
    if arrivals_first and arrived < total and jobs.submit[arrived] <= until:
        first_end = running.end[0] if running.tally[0] > 0 else np.inf
        if jobs.submit[arrived] <= first_end:
            clock.arrived[0] = arrived + 1
            return 0
    while running.tally[0] > 0 and running.end[0] <= until:
        job = pop(running)
        forget_limit(running, job, jobs.start[job] + jobs.estimate[job])
        give(capacity, job, jobs.size[job])
        ended[count] = job
        count += 1
        if arrivals_first:
            return count
    while arrived < total and jobs.submit[arrived] <= until:
        arrived += 1
    clock.arrived[0] = arrived
    return count
