"""RLTune's base policies in plain Python, sentence by sentence after its description; slow, and without the engine.

Jobs are dictionaries: id, submit, wait (recorded), run, gpus, label (the number of the virtual cluster or GPU type).
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add

import numpy as np

#: (hosts, GPUs of each) by pool.
POOLS = {
    "helios": [(6, 8), (4, 8), (3, 8), (2, 8), (2, 8)],
    "philly": [(16, 2), (20, 8)],
    "alibaba": [(8, 2), (8, 8), (15, 2), (10, 8), (8, 8)],
}


class Stops(Exception):
    """RLTune's own code ends here."""


def wait(job):
    return -1 - job["submit"]


SCORES = {
    "fcfs": lambda j: j["submit"],
    "lcfs": lambda j: -j["submit"],
    "smallest": lambda j: (j["gpus"], j["submit"]),
    "largest": lambda j: -j["gpus"],
    "sjf": lambda j: (j["run"], j["gpus"]),
    "ljf": lambda j: -j["run"],
    "saf": lambda j: j["run"] * j["gpus"],
    "laf": lambda j: -j["run"] * j["gpus"],
    "sexp": lambda j: (wait(j) + j["run"]) / j["gpus"],
    "lexp": lambda j: -((wait(j) + j["run"]) / j["gpus"]),
    "srf": lambda j: j["run"] / j["gpus"],
    "lrf": lambda j: -(j["run"] / j["gpus"]),
    "multifactor": lambda j: -(1000 * (j["wait"] / 43200) + 1000 * (1 - j["gpus"] / 160)),
    "f1": lambda j: np.log10(j["run"] or 0.1) * j["gpus"] + 870 * np.log10(j["submit"] if j["submit"] > 0 else 0.1),
    "wfp3": lambda j: -np.power(float(wait(j)) / j["run"], 3) * j["gpus"],
    "unicep": lambda j: -(wait(j) + 1e-15) / (np.log2(j["gpus"] + 1e-15) * np.float64(j["run"])),
}


def end(job):
    return job["start"] + job["run"]


def divided(total, hosts, most):
    """Yield the ways to divide so many GPUs, the larger parts first, each at least 1."""
    if hosts == 0:
        if total == 0:
            yield []
        return
    for first in range(min(most, total - hosts + 1), (total - 1) // hosts, -1):
        for rest in divided(total - first, hosts - 1, first):
            yield [first, *rest]


def tier1(free, request, size):
    """Return every way on exactly ⌈request / size⌉ hosts: groups of equal free GPUs, all but the last used up."""
    least = math.ceil(request / size)
    if sum(sorted(free)[-least:]) < request:
        return []
    groups = sorted({f for f in free if f}, reverse=True)
    found = []

    def extend(at, rest, used):
        if rest == 0:
            if len(used) == least:
                found.append(tuple(sorted(used)))
            return
        if at == len(groups):
            return
        extend(at + 1, rest, used)
        hosts = [h for h, f in enumerate(free) if f == groups[at]]
        for count in range(1, min(len(hosts), least - len(used)) + 1):
            taken = min(count * groups[at], rest)
            left = least - len(used) - count
            if rest - taken > left * groups[at]:
                continue
            for parts in divided(taken, count, groups[at]):
                extend(at + 1, rest - taken, [*used, *zip(hosts, parts, strict=False)])

    extend(0, request, [])
    return found


class Window:
    """One window of jobs under one policy."""

    def __init__(self, kind, jobs, policy, backfill):
        self.kind, self.score, self.backfill = kind, SCORES[policy], backfill
        self.jobs = [dict(job, number=i) for i, job in enumerate(jobs)]
        self.free = [[size] * hosts for hosts, size in POOLS[kind]]
        self.clock, self.coming, self.queue = self.jobs[0]["submit"], 1, [self.jobs[0]]
        self.running, self.started, self.picked, self.dropped = [], [], [], []

    # ---- the cluster

    def pools(self, job):
        if self.kind == "philly":
            return [0, 1] if job["gpus"] <= 4 else [1]
        if not -5 <= job["label"] < 5:
            raise Stops("IndexError")
        return [job["label"] % 5]

    def find(self, job, free=None):
        for pool in self.pools(job):
            if job["gpus"] > 0:
                ways = tier1((free or self.free)[pool], job["gpus"], POOLS[self.kind][pool][1])
                if ways:
                    return pool, min(ways)
        return None

    def begin(self, job):
        job["where"], job["start"] = self.find(job), self.clock
        for host, gpus in job["where"][1]:
            self.free[job["where"][0]][host] -= gpus
        self.running.append(job)
        self.started.append(job)
        self.queue = [j for j in self.queue if j is not job]

    def event(self):
        self.running.sort(key=end)
        more = self.coming < len(self.jobs)
        if more and (not self.running or self.jobs[self.coming]["submit"] <= end(self.running[0])):
            self.clock = max(self.clock, self.jobs[self.coming]["submit"])
            self.queue.append(self.jobs[self.coming])
            self.coming += 1
        else:
            ended = self.running.pop(0)
            self.clock = max(self.clock, end(ended))
            for host, gpus in ended["where"][1]:
                self.free[ended["where"][0]][host] += gpus

    # ---- the decisions

    def same(self, job, other):
        return self.kind == "philly" or job["label"] == other["label"]

    def earliest(self, head):
        found, free = self.clock, [list(pool) for pool in self.free]
        for job in sorted((j for j in self.running if self.same(j, head)), key=end):
            for host, gpus in job["where"][1]:
                free[job["where"][0]][host] += gpus
            found = end(job)
            if self.find(head, free):
                break
        return found

    def fill(self, head, until):
        waiting = sorted((j for j in self.queue if self.same(j, head)), key=lambda j: j["submit"])
        for job in waiting:  # Helios: the list changes under the loop, so the job after a started one is passed over
            if self.clock + job["run"] < until and self.find(job):
                self.begin(job)
                if self.kind == "helios":
                    waiting.remove(job)

    def wait_for(self, head):
        until = self.earliest(head) if self.backfill else None
        while not self.find(head):
            if self.backfill:
                self.fill(head, until)
                if not self.running:
                    raise Stops("AssertionError")
            if not self.running:
                return
            self.event()

    def run(self):
        while True:
            try:
                self.queue.sort(key=self.score)
            except ZeroDivisionError:
                raise Stops("ZeroDivisionError") from None
            head = self.queue[0]
            self.wait_for(head)
            if self.find(head):
                self.begin(head)
                self.picked.append(self.clock)
            else:
                self.dropped.append(head)
                self.queue.remove(head)
            if not self.queue and self.coming == len(self.jobs):
                break
            while not self.queue:
                self.event()
        if not self.picked:
            raise Stops("ValueError")
        return self

    def measures(self):
        last = max([self.clock, *(end(job) for job in self.running)])
        total = sum(hosts * size for hosts, size in POOLS[self.kind])
        seconds, count = max(1, (last - self.jobs[0]["submit"]) * total), len(self.started)
        rows = [(j["start"] - j["submit"], j["run"], j["gpus"]) for j in self.started]
        return {
            "bsld": reduce(add, (max(1.0, (w + r) / max(r, 10)) / count for w, r, _ in rows), 0.0),
            "wait": reduce(add, (w / count for w, _, _ in rows), 0.0),
            "turnaround": reduce(add, ((w + r) / count for w, r, _ in rows), 0.0),
            "utilization": reduce(add, (r * n / seconds for _, r, n in rows), 0.0),
            "makespan_starts": max(self.picked) - min(self.picked),
            "scheduled": count,
            "dropped": len(self.dropped),
        }
