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
        self.decisions = 0

    def observe(self, job: int, fitting: list[int], now: float, batch: list[int], left: int) -> list[list[float]]:
        """Return the rows of features of the hosts with room."""
        submit, _, estimate, cores, memory = self.jobs[job]
        scale, hosts = self.scales, float(len(self.hosts))
        most_cores, most_memory = scale["host_cores"], scale["host_memory"]
        queued = (
            sum(self.jobs[j][3] for j in batch) / scale["cores"],
            sum(self.jobs[j][4] for j in batch) / scale["memory"],
        )
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
            sum(free[0] for free in self.free) / scale["cores"],
            len(fitting) / hosts,
        ]
        ratio = (queued[1] + 1e-3) / (queued[0] + 1e-3)
        rows = []
        for h in fitting:
            size, room = self.hosts[h]
            free, there = self.free[h], self.on[h]
            left_cores, left_memory = (free[0] - cores) / size, (free[1] - memory) / room
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
                    math.tanh(math.log((max(left_memory, 0.0) + 1e-2) / (max(left_cores, 0.0) + 1e-2) / ratio)),
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
        self.on[host][job] = now + self.jobs[job][2]

    def run(self, choose: Callable[[int, list[list[float]]], int]) -> list[float]:
        """Play the window, a cycle at every event; return the starts."""
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
                del self.on[host][job]
            while arrived < len(self.jobs) and self.jobs[arrived][0] <= now:
                queue.append(arrived)
                arrived += 1
            kept: list[int] = []
            for place, job in enumerate(queue):
                cores, memory = self.jobs[job][3:]
                fitting = [h for h, free in enumerate(self.free) if free[0] >= cores and free[1] >= memory]
                if not fitting:
                    kept.append(job)
                    continue
                rows = self.observe(job, fitting, now, queue, len(queue) - place + len(kept))
                host = fitting[choose(job, rows)]
                self.decisions += 1
                self.put(job, host, now)
                heapq.heappush(ends, (now + self.jobs[job][1], job, host))
            queue = kept
        return self.start
