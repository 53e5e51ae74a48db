"""The event loop for what changes on the way: followers submitted when their predecessor ends, outages, predictions.

The plain loops of `tracekit.sim.engine` know submit times, machine and estimates beforehand, and are fast for it. Here
there are five kinds of event. At one instant: jobs end, the machine shrinks or grows, predictions that have run out
are corrected, jobs arrive; then one scheduling pass. The passes themselves are those of `tracekit.sim.decide`, or,
where there are outages, `tracekit.sim.outages.pass_around`, which obeys the same definitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.backfill import Memory
from tracekit.sim.books import Books, note_end, note_stop, predict
from tracekit.sim.capacity import give, most, take
from tracekit.sim.compile import compiled
from tracekit.sim.decide import Profile, Queue, anyone_fits, decide, drop_started
from tracekit.sim.engine import evaluate, note_starts, tick_from
from tracekit.sim.events import Clock, Jobs
from tracekit.sim.outages import Outages, change_now, pass_around
from tracekit.sim.running import Running, forget_limit, pop, raise_limit, remove

NOBODY = -1
DRAIN, KILL, REQUEUE = range(3)
MODES = {"drain": DRAIN, "kill": KILL, "requeue": REQUEUE}

#: How far a prediction is moved beyond its first value each time the job outlives it, in seconds: 1, 5, 15, 30 minutes,
#: 1, 2, 5, 10, 20, 50, 100 hours: growing steps as Tsafrir et al. correct, with values of our choice.
CORRECTIONS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)


class Followers(NamedTuple):
    """Who is submitted after whom; chains of job numbers that end with `NOBODY`."""

    predecessor: NDArray[np.int64]  # (jobs,) whose end the submit waits for
    first: NDArray[np.int64]  # (jobs,) the first follower of each job …
    following: NDArray[np.int64]  # (jobs,) … and the next follower of the same predecessor
    think: NDArray[np.float64]  # (jobs,) seconds from the predecessor's end to the submit
    time: NDArray[np.float64]  # (jobs,) a binary heap of submits to come …
    job: NDArray[np.int64]  # (jobs,) … of these jobs
    tally: NDArray[np.int64]  # (2,) entries in the heap; followers whose predecessor has not ended


class Predictions(NamedTuple):
    """What backfilling goes by when it predicts; of shape (jobs,), or (0,) when it does not."""

    first: NDArray[np.float64]  # seconds predicted at submit
    corrected: NDArray[np.int64]  # how often
    steps: NDArray[np.float64]  # (11,) `CORRECTIONS`


class Ledger(NamedTuple):
    """What outages did to jobs."""

    killed: NDArray[np.bool_]  # (jobs,) ended by an outage
    restarts: NDArray[np.int64]  # (jobs,) how often a job went back to the queue
    lost: NDArray[np.float64]  # (1,) unit-seconds of work that was thrown away


class World(NamedTuple):
    """Everything that a simulation in which things change consists of."""

    jobs: Jobs  # ``estimate`` is what backfilling believes
    asked: Jobs  # the same arrays, but for ``estimate``: what policies see, and what predictions never exceed
    capacity: Any
    later: Any
    running: Running
    clock: Clock
    queue: Queue
    profile: Profile
    books: Books
    memory: Memory
    followers: Followers
    outages: Outages
    predictions: Predictions
    ledger: Ledger


# ---- events ----------------------------------------------------------------------------------------------------------


@compiled
def next_change(world: World) -> float:
    """Return the time of the next event; infinity when there is none."""
    jobs, running, followers = world.jobs, world.running, world.followers
    arrived, time = world.clock.arrived[0], np.inf
    while arrived < len(jobs.submit) and followers.predecessor[arrived] != NOBODY:
        arrived += 1
    world.clock.arrived[0] = arrived
    if arrived < len(jobs.submit):
        time = jobs.submit[arrived]
    if followers.tally[0] > 0:
        time = min(time, followers.time[0])
    if running.tally[0] > 0:
        time = min(time, running.end[0])
    if world.outages.place[0] < len(world.outages.change):
        time = min(time, world.outages.change[world.outages.place[0]])
    if len(world.predictions.first) > 0:
        now, i = world.clock.time[0], running.tally[0] - 1
        while i >= 0 and running.limit[i] <= now:  # these have reached what their users asked for
            i -= 1
        if i >= 0:
            time = min(time, running.limit[i])
    return float(max(time, world.clock.time[0]))


@compiled
def finished(world: World, mode: int) -> bool:
    """Tell whether every job has started, for good."""
    if world.clock.arrived[0] < len(world.jobs.submit) or world.queue.length[0] > 0:
        return False
    if world.followers.tally[0] > 0 or world.followers.tally[1] > 0:
        return False
    over = world.outages.place[0] >= len(world.outages.change)
    return mode == DRAIN or over or world.running.tally[0] == 0


@compiled
def happen(now: float, world: World, mode: int, predicting: bool) -> None:
    """Move the clock to ``now`` and let everything happen that happens then, but for the scheduling pass.

    ``predicting``: estimates are last-two, for policies and backfilling alike, and never corrected.
    """
    world.clock.time[0] = now
    _end_jobs(now, world)
    units = change_now(now, world.outages)
    if units > 0:
        take(world.capacity, NOBODY, units)
        if mode != DRAIN:
            _stop_jobs(now, world, mode)
    elif units < 0:
        give(world.capacity, NOBODY, -units)
    if len(world.predictions.first) > 0:
        _correct(now, world)
    _admit(now, world, predicting)


@compiled
def _end_jobs(now: float, world: World) -> None:
    jobs, running = world.jobs, world.running
    while running.tally[0] > 0 and running.end[0] <= now:
        job = pop(running)
        forget_limit(running, job, jobs.start[job] + jobs.estimate[job])
        give(world.capacity, job, jobs.size[job])
        note_end(world.books, now, job, jobs.size[job], jobs.run[job])
        _release(now, job, world.followers)


@compiled
def _release(now: float, job: int, followers: Followers) -> None:
    """Let the followers of a job that has ended think, and be submitted after that."""
    follower = followers.first[job]
    while follower != NOBODY:
        _push(followers, now + followers.think[follower], follower)
        followers.tally[1] -= 1
        follower = followers.following[follower]


@compiled
def _push(followers: Followers, time: float, job: int) -> None:
    times, items = followers.time, followers.job
    i = followers.tally[0]
    followers.tally[0] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if times[parent] < time or (times[parent] == time and items[parent] < job):
            break
        times[i], items[i] = times[parent], items[parent]
        i = parent
    times[i], items[i] = time, job


@compiled
def _pop(followers: Followers) -> int:
    times, items = followers.time, followers.job
    first, count = items[0], followers.tally[0] - 1
    followers.tally[0] = count
    time, job = times[count], items[count]
    i, child = 0, 1
    while child < count:
        right = child + 1
        if right < count and (
            times[right] < times[child] or (times[right] == times[child] and items[right] < items[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and job < items[child]):
            break
        times[i], items[i] = times[child], items[child]
        i = child
        child = 2 * i + 1
    times[i], items[i] = time, job
    return int(first)


@compiled
def _stop_jobs(now: float, world: World, mode: int) -> None:
    """Stop the jobs that are in the way of an outage: idle processors go first, then the latest start loses."""
    jobs, running, ledger = world.jobs, world.running, world.ledger
    while most(world.capacity) < 0 and running.tally[0] > 0:
        latest = 0
        for i in range(1, running.tally[0]):
            if running.turn[i] > running.turn[latest]:
                latest = i
        job = running.job[latest]
        remove(running, job)
        forget_limit(running, job, jobs.start[job] + jobs.estimate[job])
        give(world.capacity, job, jobs.size[job])
        done = now - jobs.start[job]
        if mode == KILL:
            ledger.killed[job] = True
            jobs.run[job] = done
            note_end(world.books, now, job, jobs.size[job], done)
            _release(now, job, world.followers)
        else:
            ledger.restarts[job] += 1
            ledger.lost[0] += done * jobs.size[job]
            jobs.start[job] = np.nan
            if len(world.predictions.first) > 0:
                jobs.estimate[job] = world.predictions.first[job]
                world.predictions.corrected[job] = 0
            note_stop(world.books, now, job, jobs.size[job])
            _enter(job, world.queue)


@compiled
def _correct(now: float, world: World) -> None:
    """Give every running job that has outlived its prediction a longer one, up to what its user asked for."""
    jobs, running, predictions = world.jobs, world.running, world.predictions
    i = running.tally[0] - 1
    while i >= 0 and running.limit[i] <= now:
        job = running.limit_job[i]
        start, cap, step = jobs.start[job], world.asked.estimate[job], predictions.corrected[job]
        if start + cap <= now:  # beyond what was asked for: counts as ending now, as everywhere
            i -= 1
            continue
        believed = cap
        while step < len(predictions.steps):
            longer = min(predictions.first[job] + predictions.steps[step], cap)
            step += 1
            if start + longer > now:
                believed = longer
                break
        predictions.corrected[job] = step
        jobs.estimate[job] = believed
        raise_limit(running, i, start + believed)


@compiled
def _admit(now: float, world: World, predicting: bool) -> None:
    """Enter the jobs that are submitted by ``now``; followers as soon as their time has come."""
    jobs, followers, clock = world.jobs, world.followers, world.clock
    while clock.arrived[0] < len(jobs.submit):
        job = clock.arrived[0]
        if followers.predecessor[job] == NOBODY:
            if jobs.submit[job] > now:
                break
            _enter_new(job, world, predicting)
        clock.arrived[0] += 1
    while followers.tally[0] > 0 and followers.time[0] <= now:
        submit = followers.time[0]
        job = _pop(followers)
        jobs.submit[job] = submit
        _enter_new(job, world, predicting)


@compiled
def _enter_new(job: int, world: World, predicting: bool) -> None:
    if predicting:
        world.jobs.estimate[job] = predict(world.books, job, world.jobs.estimate[job])
    if len(world.predictions.first) > 0:
        world.predictions.first[job] = predict(world.books, job, world.asked.estimate[job])
        world.jobs.estimate[job] = world.predictions.first[job]
    _enter(job, world.queue)


@compiled
def _enter(job: int, queue: Queue) -> None:
    """Put a job into the queue, which is ordered by job number, so that ties go to the earlier recorded submit."""
    i = queue.length[0]
    queue.length[0] = i + 1
    while i > 0 and queue.job[i - 1] > job:
        queue.job[i] = queue.job[i - 1]
        i -= 1
    queue.job[i] = job


# ---- passes ----------------------------------------------------------------------------------------------------------


@compiled
def schedule(now: float, world: World, backfill: int, commit: bool) -> None:
    """Start whatever may start now, by ``queue.value``."""
    jobs, queue = world.jobs, world.queue
    if len(world.outages.begin) > 0:
        pass_around(
            now,
            jobs,
            world.capacity,
            world.running,
            queue,
            backfill,
            commit,
            world.memory,
            world.profile,
            world.outages,
        )
    else:
        decide(
            now, jobs, world.capacity, world.later, world.running, queue, backfill, commit, world.memory, world.profile
        )
    note_starts(now, jobs, world.books, queue)
    drop_started(jobs, queue)


@compiled
def worth_a_pass(world: World, commit: bool) -> bool:
    """Tell whether a pass could start somebody, or has to pick somebody to commit to."""
    if commit and world.memory.number[1] < 0:
        return True
    return anyone_fits(world.jobs, world.capacity, world.queue)


@compiled
def run_changing(
    world: World,
    code: int,
    given: NDArray[np.float64],
    scale: float,
    backfill: int,
    commit: bool,
    mode: int,
    interval: float,
    predicting: bool,
) -> None:
    """Simulate until every job has started, for good; fills in ``jobs.start``, and ``jobs.submit`` of followers."""
    origin = next_change(world)
    due = np.inf
    while True:
        time = min(next_change(world), due)
        if time == np.inf or finished(world, mode):
            return
        happen(time, world, mode, predicting)
        if world.queue.length[0] == 0:
            due = np.inf
            continue
        if interval > 0:
            due = tick_from(time, origin, interval)
            if due > time:
                continue
            due = tick_from(np.nextafter(time, np.inf), origin, interval)
        if worth_a_pass(world, commit):
            evaluate(code, time, scale, world.asked, world.queue, world.books, given)
            schedule(time, world, backfill, commit)
        if world.queue.length[0] == 0:
            due = np.inf
