"""The yardstick of `bench_environment`: RLScheduler's task without backfilling as one would write it in plain Python.

Lists, a heap and a loop over the slots; it makes the same schedule from the same choices, and shows the same numbers.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

SLOTS, MAX_WAIT = 128, 12 * 3600.0
ALMOST_ONE, ALMOST_ZERO = 1.0 - 1e-5, 1e-5


class PlainEnvironment:
    """One window; jobs are dictionaries with submit, run, request and procs."""

    def __init__(self, jobs: list[dict[str, Any]], total: int, longest: float) -> None:
        self.jobs, self.total, self.longest = jobs, total, longest
        self.now, self.free, self.next = jobs[0]["submit"], total, 0
        self.queue: list[dict[str, Any]] = []
        self.running: list[tuple[float, int, int]] = []
        self.started = 0
        self.visible: list[dict[str, Any]] = []
        self.questions = 0

    def event(self) -> None:
        """Let the next thing happen: an arrival, or where that is later, the end of a job."""
        if self.next < len(self.jobs) and (not self.running or self.jobs[self.next]["submit"] <= self.running[0][0]):
            job = self.jobs[self.next]
            self.now = max(self.now, job["submit"])
            self.queue.append(job)
            self.next += 1
        else:
            end, _, procs = heapq.heappop(self.running)
            self.now = max(self.now, end)
            self.free += procs

    def proceed(self) -> np.ndarray | None:
        """Run to the next choice and return what is seen of it; None at the end. The first is asked for in any case."""
        while True:
            while not self.queue:
                if self.next == len(self.jobs):
                    return None
                self.event()
            if len(self.queue) > 1 or self.questions == 0:
                self.questions += 1
                return self.observe()
            self.pick(self.queue[0])

    def step(self, action: int) -> np.ndarray | None:
        """Pick a visible job and run to the next choice."""
        self.pick(self.visible[action])
        return self.proceed()

    def pick(self, job: dict[str, Any]) -> None:
        """Wait until a job fits, then start it."""
        while job["procs"] > self.free:
            self.event()
        job["start"] = self.now
        self.free -= job["procs"]
        heapq.heappush(self.running, (self.now + job["run"], self.started, job["procs"]))
        self.started += 1
        self.queue.remove(job)

    def show(self) -> list[dict[str, Any]]:
        """Return the visible jobs: all, or of too many the shortest and the smallest in turn."""
        if len(self.queue) <= SLOTS:
            return list(self.queue)
        shortest = sorted(self.queue, key=lambda job: job["request"])
        smallest = sorted(self.queue, key=lambda job: job["procs"])
        shown: list[dict[str, Any]] = []
        seen: set[int] = set()
        for pair in zip(shortest, smallest, strict=True):
            for job in pair:
                if id(job) not in seen and len(shown) < SLOTS:
                    seen.add(id(job))
                    shown.append(job)
        return shown

    def observe(self) -> np.ndarray:
        """Return the eight features of each visible job, (slots, 8); memory and labels are unknown in these traces."""
        self.visible = self.show()
        seen = np.zeros((SLOTS, 8), dtype=np.float32)
        for i, job in enumerate(self.visible):
            seen[i] = (
                min((self.now - job["submit"]) / MAX_WAIT, ALMOST_ONE),
                min(job["request"] / self.longest, ALMOST_ONE),
                min(job["procs"] / self.total, ALMOST_ONE),
                job["memory"],
                job["user"],
                job["group"],
                job["app"],
                ALMOST_ONE if job["procs"] <= self.free else ALMOST_ZERO,
            )
        return seen
