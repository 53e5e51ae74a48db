"""The task pick-host in plain Python, with the same observation: the yardstick of `bench_pick_host`."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any


def soft(x: float, scale: float) -> float:
    """Return x/(x + scale), 0 for what is below 0."""
    return max(x, 0.0) / (max(x, 0.0) + scale)


class PlainHosts:
    """One window; `run` plays it with a function that chooses a row."""

    def __init__(self, jobs: list[tuple[float, float, float, int, int]], hosts: list[tuple[int, int]], scales: Any):
        self.jobs, self.hosts, self.scales = jobs, hosts, scales  # submit, run, estimate, cores, memory
        self.free = [list(host) for host in hosts]
        self.start = [math.nan] * len(jobs)
        self.on: list[dict[int, float]] = [{} for _ in hosts]  # jobs of each host, and their estimated ends
        self.free_cores = sum(cores for cores, _ in hosts)
        self.decisions = 0

    def pressure(self, batch: list[int]) -> tuple[float, float]:
        """Return what the jobs of a cycle ask for, of all cores and of all memory."""
        cores, memory = sum(self.jobs[j][3] for j in batch), sum(self.jobs[j][4] for j in batch)
        return cores / self.scales["cores"], memory / self.scales["memory"]

    def observe(
        self, job: int, fitting: list[int], now: float, queued: tuple[float, float], left: int
    ) -> list[list[float]]:
        """Return the rows of features of the hosts with room."""
        submit, _, estimate, cores, memory = self.jobs[job]
        scale, hosts = self.scales, float(len(self.hosts))
        most_cores, most_memory = scale["host_cores"], scale["host_memory"]
        short = scale["run_s"]
        shared = [
            cores / most_cores,
            memory / most_memory,
            0.0,
            soft(estimate, short),
            soft(now - submit, short),
            soft(left / hosts, 1.0),
            soft(queued[0], 1.0),
            soft(queued[1], 1.0),
            self.free_cores / scale["cores"],
            len(fitting) / hosts,
        ]
        ratio = (queued[1] + 1e-3) / (queued[0] + 1e-3)
        rows = []
        for h in fitting:
            size, room = self.hosts[h]
            free, there = self.free[h], self.on[h]
            left_cores, left_memory = (free[0] - cores) / size, (free[1] - memory) / room
            a, b = max(left_memory, 0.0) + 1e-2, (max(left_cores, 0.0) + 1e-2) * ratio
            ends = list(there.values())
            ahead = max(max(ends) - now, 0.0) if ends else 0.0
            work = sum(self.jobs[j][3] * end for j, end in there.items()) - now * (size - free[0])
            rows.append(
                [
                    free[0] / size,
                    free[1] / room,
                    0.0,
                    free[0] / most_cores,
                    free[1] / most_memory,
                    0.0,
                    left_cores,
                    left_memory,
                    0.0,
                    size / most_cores,
                    room / most_memory,
                    soft(len(ends), 8.0),
                    soft(min(ends) - now, short) if ends else 0.0,
                    soft(ahead, short),
                    soft(work / size, short) if ends else 0.0,
                    left_cores - left_memory,
                    (a * a - b * b) / (a * a + b * b),
                    max(estimate - ahead, 0.0) / max(estimate, 1.0),
                    *shared,
                ]
            )
        return rows

    def put(self, job: int, host: int, now: float) -> None:
        """Start a job on a host."""
        self.start[job] = now
        self.free[host][0] -= self.jobs[job][3]
        self.free[host][1] -= self.jobs[job][4]
        self.free_cores -= self.jobs[job][3]
        self.on[host][job] = now + self.jobs[job][2]

    def run(self, choose: Callable[[int, int], int], *, watched: bool = True) -> list[float]:
        """Play the window, a cycle at every event; ``choose`` gets the job and the number of rows. Return the starts.

        Without ``watched`` nothing is observed.
        """
        ends: list[tuple[float, int, int]] = []
        queue: list[int] = []
        arrived = 0
        while arrived < len(self.jobs) or queue:
            now = min([self.jobs[arrived][0]] if arrived < len(self.jobs) else [math.inf])
            now = min(now, ends[0][0]) if ends else now
            while ends and ends[0][0] <= now:
                _, job, host = heapq.heappop(ends)
                self.free[host][0] += self.jobs[job][3]
                self.free[host][1] += self.jobs[job][4]
                self.free_cores += self.jobs[job][3]
                del self.on[host][job]
            while arrived < len(self.jobs) and self.jobs[arrived][0] <= now:
                queue.append(arrived)
                arrived += 1
            kept: list[int] = []
            queued: tuple[float, float] | None = None  # worked out once a cycle, at its first question
            for place, job in enumerate(queue):
                cores, memory = self.jobs[job][3:]
                fitting = [h for h, free in enumerate(self.free) if free[0] >= cores and free[1] >= memory]
                if not fitting:
                    kept.append(job)
                    continue
                if watched:
                    queued = queued or self.pressure(queue)
                    self.rows = self.observe(job, fitting, now, queued, len(queue) - place + len(kept))
                host = fitting[choose(job, len(fitting))]
                self.decisions += 1
                self.put(job, host, now)
                heapq.heappush(ends, (now + self.jobs[job][1], job, host))
            queue = kept
        return self.start
