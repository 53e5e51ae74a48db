"""How fast search orders the queue in a simulation: passes and jobs a second, beside a plain-Python version.

    python benchmarks/bench_orders_pass.py [--trace FILE] [--jobs 1024] [--json]

One window is simulated without backfilling by `search` with default settings, and the queues that it searched are kept.
Then the hill climb alone is timed on some of these queues: compiled, and as a loop in plain Python with `heapq` and
lists, which makes the same number of evaluations of the same cost. Times are CPU seconds of one thread, code compiled.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.sim.orders.evaluate import Case, room_for
from tracekit.sim.orders.rolling import Rolling, SearchPolicy
from tracekit.sim.orders.search import HILL_CLIMB, local_search
from tracekit.sim.setup import Setup

#: Plain Python climbs on this many of the queues only.
PLAIN = 20


class Keeping(Rolling):
    """Keeps the queues that it searches."""

    def _search(self, case: Case, order: Any) -> Any:
        self.policy.kept.append((case, order.copy()))  # type: ignore[attr-defined]
        return super()._search(case, order)


class KeepingPolicy(SearchPolicy):
    """`search`, with the queues of its last simulation in ``kept``."""

    kept: list[tuple[Case, Any]]

    def started(self, setup: Setup, /) -> Rolling:
        """Return the policy for one simulation."""
        object.__setattr__(self, "kept", [])
        return Keeping(self, setup)


def plain_cost(jobs: list[tuple[float, ...]], running: list[tuple[float, int]], case: Case, order: list[int]) -> float:
    """Return the cost of an order, strictly in order, by Python's heap."""
    heap, free, clock, cost, horizon = list(running), case.free, 0.0, 0.0, case.horizon
    later, since = list(zip(case.later.size, case.later.rate, strict=True)), [0.0] * len(case.later.size)

    def next_end() -> None:
        nonlocal free, clock, cost
        end, size = heapq.heappop(heap)
        clock = max(clock, end)
        for k, (units, rate) in enumerate(later):
            if units <= free:
                since[k] = clock
            elif units <= free + size:
                cost += 0.5 * rate * (clock - since[k]) ** 2 * math.exp(-clock / horizon)
                since[k] = clock
        free += size

    for job in order:
        size, run, linear, fixed, least, rate, offset, due = jobs[job]
        while size > free:
            next_end()
        counted = clock if horizon == math.inf else -horizon * math.expm1(-clock / horizon)
        cost += linear * counted + fixed + max(least, rate * counted + offset)
        if clock > due:
            cost += case.late * (clock - due) ** 2
        heapq.heappush(heap, (clock + run, int(size)))
        free -= int(size)
    while free < max((units for units, _ in later), default=0):
        next_end()
    return cost


def plain_climb(case: Case, order: Any, budget: int, seed: int) -> float:
    """Improve an order by exchanging jobs and moving them, in plain Python; return the cost."""
    columns = (case.size, case.run, case.linear, case.fixed, case.least, case.rate, case.offset, case.due)
    jobs = list(zip(*(column.tolist() for column in columns), strict=True))
    running = list(zip(case.ends.tolist(), case.held.tolist(), strict=True))
    heapq.heapify(running)
    now, draw = order.tolist(), random.Random(seed)
    cost = plain_cost(jobs, running, case, now)
    for _ in range(budget - 1):
        tried, a, b = now.copy(), draw.randrange(len(now)), draw.randrange(len(now))
        if draw.random() < 0.5:
            tried[a], tried[b] = tried[b], tried[a]
        else:
            tried.insert(b, tried.pop(a))
        found = plain_cost(jobs, running, case, tried)
        if found <= cost:
            now, cost = tried, found
    return cost


def compiled_climb(case: Case, order: Any, budget: int, seed: int) -> float:
    """Return the cost that the compiled hill climb comes to."""
    best, curve = np.empty_like(order), np.empty((budget, 2))
    improved = local_search(case, order.copy(), room_for(case), HILL_CLIMB, budget, np.uint64(seed), best, curve)
    return float(curve[improved - 1, 1])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="default: the packaged sample")
    parser.add_argument("--start", type=int, default=0, help="first job of the window")
    parser.add_argument("--jobs", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    trace = tracekit.sample() if asked.trace is None else tracekit.read(asked.trace)
    policy, window = KeepingPolicy(), [(asked.start, min(asked.jobs, len(trace) - asked.start))]
    tracekit.compare(trace, policy, "none", window)  # compiles
    begin = time.thread_time()
    tracekit.compare(trace, policy, "none", window)
    whole = time.thread_time() - begin
    spent, kept = {"compiled": 0.0, "plain": 0.0}, policy.kept
    some = kept[:: max(len(kept) // PLAIN, 1)]
    costs: dict[str, float] = {}
    for name, climb in (("compiled", compiled_climb), ("plain", plain_climb)):
        begin = time.thread_time()
        costs[name] = float(np.mean([climb(case, order, policy.evaluations, 1) for case, order in some]))
        spent[name] = time.thread_time() - begin
    found = {
        "jobs": window[0][1],
        "searches": len(kept),
        "mean_queue": float(np.mean([len(order) for _, order in kept])),
        "window_s": whole,
        "jobs_per_s": window[0][1] / whole,
        "searches_per_s": len(kept) / whole,
        "climbs_per_s": len(some) / spent["compiled"],
        "plain_climbs_per_s": len(some) / spent["plain"],
        "ratio": spent["plain"] / spent["compiled"],
        "cost": costs["compiled"],
        "plain_cost": costs["plain"],
    }
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:20s} {value:,.4g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
