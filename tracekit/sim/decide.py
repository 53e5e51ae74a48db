"""One scheduling pass over jobs with given values: for orders that change while jobs wait, and for any policy.

The definitions are those of `tracekit.sim.backfill`, without its tree: every pass looks at every waiting job. Here
also is conservative backfilling (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001), which plans them all anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.backfill import CONSERVATIVE, EASY_SJF, NONE, RLSCHEDULER, Memory
from tracekit.sim.capacity import fits, fits_both, most, reserve, take, take_both
from tracekit.sim.compile import compiled
from tracekit.sim.events import Jobs, begin
from tracekit.sim.running import Running


class Queue(NamedTuple):
    """The waiting jobs as a plain list, with room for all jobs."""

    job: NDArray[np.int64]  # (jobs,) ascending: that is by submit time, ties as in the file
    value: NDArray[np.float64]  # (jobs,) the policy's value of job[i]; the smallest starts first
    order: NDArray[np.int64]  # (jobs,) scratch: positions or jobs while they are sorted …
    key: NDArray[np.float64]  # (jobs,) … and what by
    length: NDArray[np.int64]  # (1,)


class Profile(NamedTuple):
    """Free processors from now on, as steps; conservative plans live here during one pass."""

    time: NDArray[np.float64]  # (steps,) where a step begins; the first is now, the last lasts for ever
    free: NDArray[np.int64]  # (steps,)
    least: NDArray[np.int64]  # (steps,) scratch: the least that is free from now to the end of a step
    length: NDArray[np.int64]  # (1,)


def empty_queue(jobs: int) -> Queue:
    """Return a queue with room for ``jobs``."""
    return Queue(
        np.empty(jobs, np.int64), np.empty(jobs), np.empty(jobs, np.int64), np.empty(jobs), np.zeros(1, np.int64)
    )


def empty_profile(steps: int) -> Profile:
    """Return a profile with room for ``steps`` steps: running jobs + 2 × waiting jobs + 2."""
    return Profile(np.empty(steps), np.empty(steps, np.int64), np.empty(steps, np.int64), np.zeros(1, np.int64))


@compiled
def sort_pairs(key: NDArray[np.float64], item: NDArray[np.int64], count: int) -> None:
    """Sort the first ``count`` pairs in place by (key, item): insertion for a few, a heap for many."""
    if count <= 24:
        for i in range(1, count):
            k, m, j = key[i], item[i], i - 1
            while j >= 0 and (key[j] > k or (key[j] == k and item[j] > m)):
                key[j + 1], item[j + 1] = key[j], item[j]
                j -= 1
            key[j + 1], item[j + 1] = k, m
        return
    low, high = count >> 1, count
    while high > 1:
        if low > 0:  # build the heap …
            low -= 1
        else:  # … then take its largest away, again and again
            high -= 1
            key[0], key[high] = key[high], key[0]
            item[0], item[high] = item[high], item[0]
        k, m, parent = key[low], item[low], low
        child = 2 * parent + 1
        while child < high:
            right = child + 1
            if right < high and (key[right] > key[child] or (key[right] == key[child] and item[right] > item[child])):
                child = right
            if key[child] < k or (key[child] == k and item[child] < m):
                break
            key[parent], item[parent] = key[child], item[child]
            parent = child
            child = 2 * parent + 1
        key[parent], item[parent] = k, m


@compiled
def anyone_fits(jobs: Jobs, capacity: Any, queue: Queue) -> bool:
    """Tell whether some waiting job could start at all."""
    room = most(capacity)
    for i in range(queue.length[0]):  # noqa: SIM110  # compiled
        if jobs.size[queue.job[i]] <= room:
            return True
    return False


@compiled
def decide(
    now: float,
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    queue: Queue,
    backfill: int,
    commit: bool,
    memory: Memory,
    profile: Profile,
) -> None:
    """Start whatever may start now, by ``queue.value``. Started jobs stay in the queue until `drop_started`."""
    if backfill == CONSERVATIVE:
        _unroll(now, jobs, capacity, running, profile)
        plan(now, jobs, capacity, running, queue, commit, memory, profile)
        return
    picked = memory.number[1] if commit else -1
    while True:
        job = picked if picked >= 0 else first(jobs, queue)
        if job < 0:
            memory.number[1], memory.number[2] = -1, 0
            return
        if not place(now, job, jobs, capacity, later, running, backfill, commit, memory):
            break
        picked = -1
    if backfill != NONE:
        fill_gaps(now, jobs, capacity, later, running, queue, backfill, memory)


@compiled
def place(
    now: float,
    job: int,
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    backfill: int,
    commit: bool,
    memory: Memory,
) -> bool:
    """Start the job whose turn it is and return True; if it does not fit, remember it, reserve, and return False."""
    if fits(capacity, jobs.size[job]):
        take(capacity, job, jobs.size[job])
        begin(now, job, jobs, running)
        memory.number[1], memory.number[2] = -1, 0
        return True
    known = backfill == RLSCHEDULER and commit and memory.number[2] == 1 and job == memory.number[1]
    memory.number[1] = job
    if backfill != NONE and not known:  # theirs: computed once for a pick
        memory.shadow[0] = reserve(
            capacity, later, now, jobs.size[job], running.limit, running.limit_job, running.tally[0], jobs.size
        )
        memory.number[2] = 1
    return False


@compiled
def first(jobs: Jobs, queue: Queue) -> int:
    """Return the waiting job of the smallest value (of equals the earliest), or −1."""
    best, least = -1, np.inf
    for i in range(queue.length[0]):
        job = queue.job[i]
        if np.isnan(jobs.start[job]) and (best < 0 or queue.value[i] < least):
            best, least = job, queue.value[i]
    return best


@compiled
def may_fill(now: float, job: int, until: float, spare: bool, jobs: Jobs, capacity: Any, later: Any) -> bool:
    """Tell whether a job fits now and is not in the way: it ends by ``until``, or ``later`` can spare its room."""
    size = jobs.size[job]
    if not fits(capacity, size):
        return False
    return bool(now + jobs.estimate[job] <= until or (spare and fits_both(capacity, later, size)))


@compiled
def fill(now: float, job: int, until: float, jobs: Jobs, capacity: Any, later: Any, running: Running) -> None:
    """Start a job that `may_fill`."""
    if now + jobs.estimate[job] <= until:
        take(capacity, job, jobs.size[job])
    else:
        take_both(capacity, later, job, jobs.size[job])
    begin(now, job, jobs, running)


@compiled
def fill_gaps(
    now: float,
    jobs: Jobs,
    capacity: Any,
    later: Any,
    running: Running,
    queue: Queue,
    backfill: int,
    memory: Memory,
) -> None:
    """Start the others that fit and are not in the way; who does not qualify now will not after more have started."""
    blocked, shadow = memory.number[1], memory.shadow[0]
    theirs = backfill == RLSCHEDULER
    until = np.nextafter(shadow, -np.inf) if theirs else shadow  # theirs must end before, not at
    count = 0
    for i in range(queue.length[0]):
        job = queue.job[i]
        if job == blocked or not np.isnan(jobs.start[job]):
            continue
        if may_fill(now, job, until, not theirs, jobs, capacity, later):
            queue.order[count] = job
            queue.key[count] = jobs.estimate[job] if backfill == EASY_SJF else 0.0 if theirs else queue.value[i]
            count += 1
    sort_pairs(queue.key, queue.order, count)
    for i in range(count):
        if may_fill(now, queue.order[i], until, not theirs, jobs, capacity, later):
            fill(now, queue.order[i], until, jobs, capacity, later, running)


@compiled
def drop_started(jobs: Jobs, queue: Queue) -> None:
    """Remove started jobs from the queue, keeping the order of the others."""
    kept = 0
    for i in range(queue.length[0]):
        job = queue.job[i]
        if np.isnan(jobs.start[job]):
            queue.job[kept] = job
            kept += 1
    queue.length[0] = kept


# ---- conservative ----------------------------------------------------------------------------------------------------


@compiled
def plan(
    now: float,
    jobs: Jobs,
    capacity: Any,
    running: Running,
    queue: Queue,
    commit: bool,
    memory: Memory,
    profile: Profile,
) -> None:
    """Plan the waiting jobs in order into the profile, each at its earliest fit, and start those planned for now.

    Plans are made anew at every event, so only those that decide about a start now are made: after 1, 2, 4, 8 … plans
    we look whether anybody further back still could start now, and stop when nobody could, since more plans only
    leave less room.
    A job planned for now behind a running job that is past its estimate has to wait until there is really room.
    """
    waiting = queue.length[0]
    for i in range(waiting):
        queue.order[i] = queue.job[i]
        queue.key[i] = queue.value[i]
        if commit and queue.job[i] == memory.number[1]:
            queue.key[i] = -np.inf
    for i in range(waiting >> 1, -1, -1):  # a heap: seldom is more of the order needed than its beginning
        _sift_down(queue.key, queue.order, i, waiting)

    first_left, planned, look_at = -1, 0, 1
    while waiting > 0:
        job = queue.order[0]
        waiting -= 1
        queue.key[0], queue.order[0] = queue.key[waiting], queue.order[waiting]
        _sift_down(queue.key, queue.order, 0, waiting)

        size, estimate = jobs.size[job], jobs.estimate[job]
        step = earliest(profile, size, estimate)
        book(profile, step, size, estimate)
        if step == 0 and fits(capacity, size):
            take(capacity, job, size)
            begin(now, job, jobs, running)
        elif first_left < 0:
            first_left = job
        planned += 1
        if planned == look_at:
            if not _anyone_now(now, jobs, capacity, queue, waiting, profile):
                break
            look_at *= 2
    if first_left < 0 and waiting > 0:
        first_left = queue.order[0]
    memory.number[1] = first_left


@compiled
def _sift_down(key: NDArray[np.float64], item: NDArray[np.int64], place: int, count: int) -> None:
    """Restore the heap (smallest pair (key, item) on top) below ``place``."""
    k, m = key[place], item[place]
    child = 2 * place + 1
    while child < count:
        right = child + 1
        if right < count and (key[right] < key[child] or (key[right] == key[child] and item[right] < item[child])):
            child = right
        if k < key[child] or (k == key[child] and m < item[child]):
            break
        key[place], item[place] = key[child], item[child]
        place = child
        child = 2 * place + 1
    key[place], item[place] = k, m


@compiled
def _anyone_now(now: float, jobs: Jobs, capacity: Any, queue: Queue, waiting: int, profile: Profile) -> bool:
    """Tell whether the profile, as planned so far, would let one of the remaining jobs start now."""
    room, steps = most(capacity), profile.length[0]
    least = profile.free[0]
    for step in range(steps):
        least = min(least, profile.free[step])
        profile.least[step] = least
    for i in range(waiting):
        job = queue.order[i]
        size = jobs.size[job]
        if size > room or size > profile.least[0]:
            continue
        until = now + jobs.estimate[job]
        low, high = 1, steps  # the first step after now that begins at or after the end
        while low < high:
            middle = (low + high) >> 1
            if profile.time[middle] < until:
                low = middle + 1
            else:
                high = middle
        if size <= profile.least[low - 1]:
            return True
    return False


@compiled
def _unroll(now: float, jobs: Jobs, capacity: Any, running: Running, profile: Profile) -> None:
    """Write the profile of the running jobs alone; who is past the estimate counts as ending now."""
    free, step = most(capacity), 0
    profile.time[0] = now
    for i in range(running.tally[0] - 1, -1, -1):
        free += jobs.size[running.limit_job[i]]
        limit = max(now, running.limit[i])
        if limit > profile.time[step]:
            profile.free[step] = free - jobs.size[running.limit_job[i]]
            step += 1
            profile.time[step] = limit
    profile.free[step] = free
    profile.length[0] = step + 1


@compiled
def earliest(profile: Profile, size: int, estimate: float) -> int:
    """Return the first step from which ``size`` is free for ``estimate`` seconds; on the last step everything is."""
    step, count = 0, profile.length[0]
    while True:
        while profile.free[step] < size:
            step += 1
        until = profile.time[step] + estimate
        other = step + 1
        while other < count and profile.time[other] < until and profile.free[other] >= size:
            other += 1
        if other >= count or profile.time[other] >= until:
            return step
        step = other


@compiled
def book(profile: Profile, step: int, size: int, estimate: float) -> None:
    """Take ``size`` out of the profile from the beginning of ``step`` for ``estimate`` seconds."""
    time, free, count = profile.time, profile.free, profile.length[0]
    until = time[step] + estimate
    if until <= time[step]:
        return
    end = step + 1
    while end < count and time[end] < until:
        end += 1
    if end == count or time[end] > until:  # cut the last step in two
        for i in range(count, end, -1):
            time[i], free[i] = time[i - 1], free[i - 1]
        time[end], free[end] = until, free[end - 1]
        profile.length[0] = count + 1
    for i in range(step, end):
        free[i] -= size
