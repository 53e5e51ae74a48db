"""The environment of the LSF RL scheduler in plain Python, step by step: what the compiled one is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

Fixture = dict[str, Any]


class LsfOracle:
    """Queues, seconds and steps as that system has them; hosts are lists."""

    def __init__(self, fixture: Fixture, version: str) -> None:
        self.head, self.end = version == "head", fixture["max_time"]
        self.total = [list(pair) for pair in fixture["hosts_cores_mem"]]
        self.free = [list(pair) for pair in fixture["hosts_cores_mem"]]
        self.arrivals = fixture["arrivals"]
        self.pool = list(zip(fixture["cores"], fixture["memory_mb"], fixture["duration"], strict=True))
        self.time = self.steps = self.completed = self.failed = self.deferred = self.generated = self.last_sample = 0
        self.waited = self.core_sum = self.memory_sum = 0.0
        self.samples = 0
        self.queue: list[Any] = []  # arrived, not in a cycle yet
        self.cycle: list[Any] = []  # to be decided on in this second
        self.deferrals: list[Any] = []
        self.running: list[Any] = []
        self.starts: list[tuple[int, int]] = []
        self.arrive()

    def arrive(self) -> None:
        if self.time >= self.end or self.time >= len(self.arrivals):
            return
        for _ in range(self.arrivals[self.time]):
            self.queue.append((self.generated, self.time, *self.pool[self.generated]))
            self.generated += 1

    def decide(self, job: Any, policy: str) -> None:
        _, submitted, cores, memory, duration = job
        if not any(host[0] >= cores and host[1] >= memory for host in self.total):
            if self.head:
                self.deferrals.append(job)
            else:
                self.failed += 1
            return
        fitting = [h for h, (c, m) in enumerate(self.free) if c >= cores and m >= memory]
        if not fitting:
            self.deferred += 1
            self.deferrals.append(job)
            return
        sign = {"first-available": 0, "best-fit": 1, "worst-fit": -1}[policy]
        host = min(fitting, key=lambda h: (sign * self.free[h][0], h))
        self.free[host][0] -= cores
        self.free[host][1] -= memory
        self.waited += self.time - submitted
        self.running.append((self.time + duration, host, cores, memory))
        self.starts.append((self.time, host))

    def sample(self) -> None:
        if self.time <= self.last_sample:
            return
        self.last_sample = self.time
        means = []
        for kind in (0, 1):
            total = np.float32(0)
            for free, whole in zip(self.free, self.total, strict=True):
                total += np.float32(1) - np.float32(free[kind]) / np.float32(whole[kind])
            means.append(float(np.float32(total / np.float32(len(self.total)))))
        self.core_sum += means[0]
        self.memory_sum += means[1]
        self.samples += 1

    def complete(self) -> None:
        for job in [job for job in self.running if job[0] <= self.time]:
            self.running.remove(job)
            self.free[job[1]][0] += job[2]
            self.free[job[1]][1] += job[3]
            self.completed += 1

    def step(self, policy: str) -> bool:
        """Do what one call of its ``step`` does; return whether the episode is over."""
        if self.cycle:
            self.decide(self.cycle.pop(0), policy)
        self.sample()
        self.complete()
        if not self.cycle and (self.head or not self.queue):
            self.time += 1
            if self.head:
                self.arrive()
            else:
                self.queue, self.deferrals = self.deferrals, []
                self.arrive()
        if not self.cycle:
            if self.head:
                self.cycle, self.deferrals, self.queue = self.deferrals + self.queue, [], []
            elif self.queue:
                self.cycle = [self.queue.pop(0)]
        self.steps += 1
        return self.time >= self.end

    def play(self, policy: str) -> dict[str, Any]:
        """Play to the end; return the metrics under the names of ``reproduce lsf``."""
        while not self.step(policy):
            pass
        waits = [*self.queue, *self.cycle, *self.deferrals]
        pending = sum(self.time - job[1] for job in waits)
        number, length = self.generated, max(self.time, 1) if self.head else self.samples
        return {
            "completed": self.completed,
            "avg_wait_as_coded": (self.waited + (2 if self.head else 1) * pending) / number if number else 0.0,
            "avg_wait": (self.waited + pending) / number if number else 0.0,
            "defer_rate": self.deferred / number if number else 0.0,
            "core_utilization": float(np.float32(self.core_sum / length)) if length else 0.0,
            "memory_utilization": float(np.float32(self.memory_sum / length)) if length else 0.0,
            "makespan": self.time,
            "steps": self.steps,
            "still_running": len(self.running),
            "still_waiting": len(waits),
            "failed": self.failed,
        }


def random_fixture(rng: np.random.Generator) -> Fixture:
    """Return a small fixture with empty seconds, jobs that fit nowhere, jobs of no length and short ends."""
    end, hosts = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    most = int(rng.integers(0, 5))
    arrivals = [int(n) for n in rng.integers(0, most + 1, end + int(rng.integers(0, 3)))]
    if rng.random() < 0.3:
        arrivals[0] = 0
    jobs = sum(arrivals)
    return {
        "hosts_cores_mem": [[int(rng.integers(1, 12)), int(rng.integers(1, 64))] for _ in range(hosts)],
        "arrivals": arrivals,
        "cores": [int(n) for n in rng.integers(1, 10, jobs)],
        "memory_mb": [int(n) for n in rng.integers(0, 50, jobs)],
        "duration": [int(n) for n in rng.integers(0, 12, jobs)],
        "max_time": end,
        "ranges": {},
    }
