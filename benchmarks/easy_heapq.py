"""EASY backfilling in plain Python with heapq: our yardstick, written as well as we can without compiling anything.

The same definitions as the simulator's ``fcfs`` + ``easy``, and the same start times, to the last bit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush


def easy(submit: list[float], run: list[float], estimate: list[float], procs: list[int], total: int) -> list[float]:
    """Return start times of jobs given in submit order: first come, first served, with EASY backfilling."""
    count = len(submit)
    start = [0.0] * count
    ends: list[tuple[float, int]] = []  # heap of true ends
    limits: list[tuple[float, int]] = []  # sorted estimated ends
    queue: list[int] = []  # waiting jobs by submit time; those before `head` have started
    head, free, arrived = 0, total, 0

    def begin(job: int, now: float) -> None:
        start[job] = now
        heappush(ends, (now + run[job], job))
        insort(limits, (now + estimate[job], job))

    while arrived < count or head < len(queue):
        now = submit[arrived] if arrived < count and (not ends or submit[arrived] < ends[0][0]) else ends[0][0]
        while ends and ends[0][0] <= now:
            job = heappop(ends)[1]
            free += procs[job]
            del limits[bisect_left(limits, (start[job] + estimate[job], job))]
        while arrived < count and submit[arrived] <= now:
            queue.append(arrived)
            arrived += 1

        while head < len(queue) and procs[queue[head]] <= free:
            job = queue[head]
            head += 1
            free -= procs[job]
            begin(job, now)
        if head > 512 and head * 2 > len(queue):  # forget those that have started, now and then
            del queue[:head]
            head = 0
        if free == 0 or head + 1 >= len(queue):
            continue

        needed, available, shadow, place = procs[queue[head]], free, now, 0
        while available < needed:
            limit, job = limits[place]
            available += procs[job]
            shadow = limit if limit > now else now
            place += 1
        while place < len(limits) and limits[place][0] <= shadow:
            available += procs[limits[place][1]]
            place += 1
        extra = available - needed
        kept = None
        for position in range(head + 1, len(queue)):
            job = queue[position]
            size = procs[job]
            if size <= free and (now + estimate[job] <= shadow or size <= extra):
                if now + estimate[job] > shadow:
                    extra -= size
                free -= size
                begin(job, now)
                if kept is None:
                    kept = queue[head:position]
                if free == 0:
                    kept += queue[position + 1 :]
                    break
            elif kept is not None:
                kept.append(job)
        if kept is not None:
            queue, head = kept, 0
    return start
