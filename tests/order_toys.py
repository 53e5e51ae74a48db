"""Queues for tests, and a plain evaluator of orders."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tracekit.sim.orders.problem import QueueProblem


def random_queue(rng: np.random.Generator, jobs: int, **changes: Any) -> QueueProblem:
    total = int(rng.integers(4, 40))
    running = int(rng.integers(0, 4))
    held = rng.multinomial(int(rng.integers(0, total)), np.full(running, 1 / running)) if running else np.empty(0)
    held = held[held > 0].astype(np.int64)
    ends = np.sort(rng.integers(1, 60, len(held))).astype(np.float64)
    run = rng.integers(0, 50, jobs).astype(np.float64)
    given: dict[str, Any] = {
        "job_id": np.arange(1, jobs + 1),
        "age": rng.integers(0, 30, jobs).astype(np.float64),
        "run": run,
        "estimate": run + rng.integers(0, 40, jobs),
        "size": rng.integers(1, total + 1, jobs),
        "submit": rng.integers(1, 1000, jobs).astype(np.float64),
        "user": rng.integers(0, 3, jobs),
        "total": total,
        "ends": ends,
        "expected_ends": ends + rng.integers(0, 20, len(ends)),
        "held": held,
    }
    return QueueProblem(**(given | changes))


def slow_starts(queue: QueueProblem, order: Any) -> np.ndarray[Any, Any]:
    """List scheduling strictly in order, with Python's heap."""
    running = list(zip(queue.ends.tolist(), queue.held.tolist(), strict=True))
    heapq.heapify(running)
    free, clock, start = queue.total - int(queue.held.sum()), 0.0, np.empty(len(queue))
    for job in order:
        while queue.size[job] > free:
            end, size = heapq.heappop(running)
            clock, free = max(clock, end), free + size
        start[job] = clock
        free -= queue.size[job]
        heapq.heappush(running, (clock + queue.run[job], queue.size[job]))
    return start
