"""Packing studies with plain numpy, written from the description of the protocol only: one pod after the other.

Nodes are in the order in which ties are broken. Sizes are in thousandths of cores and GPUs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_CPU, MAX_GPU = 128_000, 8_000


@dataclass(frozen=True, order=True)
class Pod:
    cpu: int
    whole: int  # GPUs
    milli: int  # of one shared GPU
    spec: str  # allowed models, joined by bars; "" = any
    memory: int

    @property
    def each(self) -> int:
        return 1000 if self.whole else self.milli

    @property
    def gpu(self) -> int:
        return self.whole * 1000 + self.milli


def typical(pods: list[Pod]) -> list[tuple[float, Pod]]:
    """Return the most frequent shapes that make up 95 % of the pods, with their shares of each other."""
    counted = Counter(Pod(pod.cpu, pod.whole, pod.milli, pod.spec if pod.gpu else "", 0) for pod in pods)
    kept, reached = [], 0
    for shape, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if reached >= 0.95 * len(pods):
            break
        kept.append((count, shape))
        reached += count
    return [(count / reached, shape) for count, shape in kept]


class Nodes:
    """Nodes with what is free on them, and what was placed where."""

    def __init__(self, cpu: Any, memory: Any, gpus: Any, model: list[str], pods: list[Pod]) -> None:
        self.cpu, self.memory = np.array(cpu, float), np.array(memory, float)
        self.count, self.model = np.array(gpus), np.array(model)
        there = np.arange(max(gpus)) < self.count[:, None]
        self.free = np.where(there, 1000.0, 0.0)
        self.pods: list[list[Pod]] = [[] for _ in model]
        self.typical = typical(pods)

    def allowed(self, pod: Pod) -> Any:
        return np.isin(self.model, pod.spec.split("|")) if pod.spec and pod.gpu else np.ones(len(self.model), bool)

    def room(self, pod: Pod) -> Any:
        """Return the nodes on which a pod fits."""
        fits = (self.cpu >= pod.cpu) & (self.memory >= pod.memory) & self.allowed(pod)
        return fits & ((self.free >= pod.each).sum(axis=1) >= max(pod.whole, 1)) if pod.gpu else fits

    def f_of(self, cpu: Any, free: Any, rows: Any) -> Any:
        """Return F of nodes ``rows`` in the given state."""
        total, idle = np.zeros(len(rows)), free.sum(axis=1)
        for share, pod in self.typical:
            runs = (cpu >= pod.cpu) & self.allowed(pod)[rows] & (pod.gpu > 0)
            runs &= (free >= max(pod.each, 1)).sum(axis=1) >= max(pod.whole, 1)
            total += share * np.where(runs, np.where(free < pod.each, free, 0).sum(axis=1), idle)
        return total

    def fragmented(self) -> float:
        return float(self.f_of(self.cpu, self.free, np.arange(len(self.cpu))).sum())

    def score(self, rule: str, pod: Pod, h: int) -> int:
        """Return the score of one node that has room, and for shares of a GPU note nothing: devices come later."""
        left_cpu, left_gpu = self.cpu[h], self.free[h].sum()
        if rule == "best-fit":
            after = 0.5 * (left_cpu - pod.cpu) / MAX_CPU + 0.5 * (left_gpu - pod.gpu) / MAX_GPU
            return int(np.floor(100 * (1 - after)))
        if rule == "dot-product":
            product = left_cpu * pod.cpu / MAX_CPU**2 + left_gpu * pod.gpu / MAX_GPU**2
            return int(np.floor(100 * (1 - 0.5 * product)))
        if pod.gpu == 0:
            return 0
        if rule == "packing":
            gpus = self.free[h][: self.count[h]]
            if (gpus == 1000).all():
                return max(33 - len(gpus), len(gpus))
            used = sorted(gpus[gpus >= pod.each])[: max(pod.whole, 1)]
            opened = sum(room == 1000 for room in used)
            return max(50 - opened, 33) if opened else max(100 - int(sum(int(r * 100 / 1000) for r in used) // 10), 50)
        assert rule == "clustering"
        held = {other.whole for other in self.pods[h] if other.gpu}
        bonus = 75 if held == {pod.whole} else 50 if pod.whole in held else 0 if held else 25
        return int(25 * (MAX_GPU - left_gpu) // MAX_GPU) + bonus

    def devices(self, pod: Pod, h: int) -> list[int]:
        """Return best fit for a shared pod, the lowest idle GPUs for others."""
        fit = [d for d in range(self.free.shape[1]) if pod.gpu and self.free[h, d] >= pod.each]
        return fit[: pod.whole] if pod.whole else sorted(fit, key=lambda d: self.free[h, d])[:1]

    def by_fgd(self, pod: Pod, rows: Any) -> tuple[int, list[int]]:
        """Return the node, and the GPUs, where F grows least by the rounded score."""
        before = self.f_of(self.cpu[rows], self.free[rows], rows)
        tried = [[d] for d in range(self.free.shape[1])] if pod.milli else [None]
        scores = np.full((len(rows), len(tried)), -1.0)
        for number, devices in enumerate(tried):
            free = self.free[rows].copy()
            for i, h in enumerate(rows.tolist()):
                for d in devices or self.devices(pod, h):
                    free[i, d] -= pod.each
            gain = before - self.f_of(self.cpu[rows] - pod.cpu, np.maximum(free, 0), rows)
            scores[:, number] = np.where((free >= 0).all(axis=1), np.floor(100 / (1 + np.exp(-gain / 1000))), -1.0)
        row, number = divmod(int(np.argmax(scores)), len(tried))
        h = int(rows[row])
        return h, tried[number] or self.devices(pod, h)

    def place(self, rule: str, pod: Pod) -> int:
        """Place a pod; return its node, or −1."""
        rows = np.flatnonzero(self.room(pod))
        if not len(rows):
            return -1
        if rule == "fgd":
            h, devices = self.by_fgd(pod, rows)
        else:
            h = int(rows[int(np.argmax([self.score(rule, pod, h) for h in rows.tolist()]))])
            devices = self.devices(pod, h)
        self.put(pod, h, devices)
        return h

    def put(self, pod: Pod, h: int, devices: list[int]) -> None:
        self.cpu[h] -= pod.cpu
        self.memory[h] -= pod.memory
        self.free[h, devices] -= pod.each
        self.pods[h].append(pod)
        assert self.cpu[h] >= 0 <= self.memory[h]
        assert (self.free[h] >= 0).all()
