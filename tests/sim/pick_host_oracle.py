"""The task pick-host in plain Python: cycles, deferrals and metrics of jobs with cores and memory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Host:
    cores: float
    memory: float
    free_cores: float = 0.0
    free_memory: float = 0.0

    def __post_init__(self) -> None:
        self.free_cores, self.free_memory = self.cores, self.memory

    @property
    def use(self) -> float:
        return 1 - self.free_cores / self.cores


@dataclass
class Job:
    submit: float
    run: float
    cores: float
    memory: float
    start: float = math.nan
    host: int = -1


def first_fit(hosts: list[Host], job: Job, fitting: list[int]) -> int:
    return fitting[0]


def best_fit(hosts: list[Host], job: Job, fitting: list[int]) -> int:
    return min(fitting, key=lambda h: (hosts[h].free_cores, h))


def worst_fit(hosts: list[Host], job: Job, fitting: list[int]) -> int:
    return min(fitting, key=lambda h: (-hosts[h].free_cores, h))


def least_loaded(hosts: list[Host], job: Job, fitting: list[int]) -> int:
    return min(fitting, key=lambda h: (-hosts[h].free_cores / hosts[h].cores, h))


def lsf_order(hosts: list[Host], job: Job, fitting: list[int]) -> int:
    return min(fitting, key=lambda h: (-math.floor(hosts[h].free_cores / hosts[h].cores * 1e4), -hosts[h].free_memory))


RULES: dict[str, Callable[[list[Host], Job, list[int]], int]] = {
    "first-fit": first_fit,
    "best-fit": best_fit,
    "worst-fit": worst_fit,
    "least-loaded": least_loaded,
    "lsf-order": lsf_order,
}


@dataclass
class PickHostOracle:
    hosts: list[Host]
    jobs: list[Job]  # by submit
    cycle: float = 0.0
    strict: bool = False
    horizon: float = math.inf
    deferred: int = 0
    imbalance: float = 0.0
    now: float = 0.0
    ends: list[Any] = field(default_factory=list)

    def advance(self, time: float) -> None:
        self.imbalance += (time - self.now) * float(np.std([host.use for host in self.hosts]))
        self.now = time

    def release(self) -> None:
        while self.ends and self.ends[0][0] <= self.now:
            job = self.jobs[heapq.heappop(self.ends)[1]]
            self.hosts[job.host].free_cores += job.cores
            self.hosts[job.host].free_memory += job.memory

    def walk(self, queue: list[int], rule: Callable[[list[Host], Job, list[int]], int]) -> list[int]:
        kept: list[int] = []
        for place, number in enumerate(queue):
            job = self.jobs[number]
            fitting = [
                h
                for h, host in enumerate(self.hosts)
                if host.free_cores >= job.cores and host.free_memory >= job.memory
            ]
            if not fitting and self.strict:
                self.deferred += len(queue) - place
                return kept + queue[place:]
            if not fitting:
                self.deferred += 1
                kept.append(number)
                continue
            job.start, job.host = self.now, rule(self.hosts, job, fitting)
            self.hosts[job.host].free_cores -= job.cores
            self.hosts[job.host].free_memory -= job.memory
            heapq.heappush(self.ends, (job.start + job.run, number))
        return kept

    def play(self, rule: Callable[[list[Host], Job, list[int]], int]) -> dict[str, float]:
        """Play every cycle, also those in which nothing changes; return the metrics."""
        opening = self.now = self.jobs[0].submit
        queue, arrived, turn, end = [], 0, 0, opening + self.horizon
        while arrived < len(self.jobs) or queue:
            if self.cycle:
                time = opening + turn * self.cycle
                turn += 1
            else:
                events = [self.jobs[arrived].submit] if arrived < len(self.jobs) else []
                time = min(events + ([self.ends[0][0]] if self.ends else []))
            if time >= end:
                self.advance(end)
                break
            self.advance(time)
            self.release()
            while arrived < len(self.jobs) and self.jobs[arrived].submit <= time:
                queue.append(arrived)
                arrived += 1
            queue = self.walk(queue, rule)
        start = np.array([self.now if math.isnan(job.start) else job.start for job in self.jobs])
        waits = np.array([math.isnan(job.start) for job in self.jobs])
        submit, run = np.array([job.submit for job in self.jobs]), np.array([job.run for job in self.jobs])
        ends = np.where(waits, np.inf, start + run)
        last = min(float(np.max(np.where(waits, start, ends))), end)
        busy = np.where(waits, 0.0, np.minimum(ends, end) - start)
        cores, memory = np.array([job.cores for job in self.jobs]), np.array([job.memory for job in self.jobs])
        total = sum(host.cores for host in self.hosts), sum(host.memory for host in self.hosts)
        return {
            "completion_rate": float(np.mean(ends <= end)),
            "mean_wait_s": float(np.mean(start - submit)),
            "defer_rate": self.deferred / len(self.jobs),
            "makespan_s": last - opening,
            "core_utilization": float((busy * cores).sum() / total[0] / (last - opening)),
            "memory_utilization": float((busy * memory).sum() / total[1] / (last - opening)),
            "imbalance": self.imbalance / max(self.now - opening, 1e-9),
        }
