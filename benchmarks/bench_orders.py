"""Orders of a queue: speed of the evaluator, and the whole way from labels to a test of a network.

    python benchmarks/bench_orders.py TRACE [--quick]

Evaluations of 64 jobs per CPU second are compared with a loop in plain Python with heapq in the same process. The
pipeline is that of `order-labels` (200 windows), `train --task order` and `order-study`, on one thread; with --quick
it is tiny.
"""

from __future__ import annotations

import heapq
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.sim.agents.order.config import OrderConfig
from tracekit.sim.agents.order.teach import Course, train_order
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.analysis.order_study import Plan, Sources, study
from tracekit.sim.orders.evaluate import costs, room_for
from tracekit.sim.orders.labels import write_labels
from tracekit.sim.orders.problem import QueueProblem
from tracekit.sim.orders.solve import find_solver
from tracekit.sim.orders.task import Order, Queues

#: Goals: times a plain loop, evaluations per CPU second, minutes of the pipeline.
RATIO, RATE, MINUTES = 10.0, 400_000.0, 20.0


def plain(size: list[int], run: list[float], total: int, order: list[int]) -> float:
    """Return the sum of starts of an order on an empty machine, strictly in order."""
    running: list[tuple[float, int]] = []
    free, clock, cost = total, 0.0, 0.0
    for job in order:
        while size[job] > free:
            end, held = heapq.heappop(running)
            clock, free = max(clock, end), free + held
        cost += clock
        free -= size[job]
        heapq.heappush(running, (clock + run[job], size[job]))
    return cost


def cpu_of(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what some work gives, its CPU seconds and its seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def evaluator(trace: tracekit.Trace) -> None:
    """Compare the compiled evaluator, alone and inside a search, with the plain loop."""
    queue = QueueProblem.from_trace(trace, len(trace) // 2, 64, ages="ilos")
    case, rng = queue.case("actual"), np.random.default_rng(0)
    orders = np.array([rng.permutation(len(queue)) for _ in range(4000)])
    found, room = np.empty(len(orders)), room_for(case)
    costs(case, orders[:2], room, found[:2])
    _, fast, _ = cpu_of(lambda: [costs(case, orders, room, found) for _ in range(10)])
    size, run = queue.size.tolist(), queue.run.tolist()
    listed = orders.tolist()
    sums, slow, _ = cpu_of(lambda: [plain(size, run, queue.total, order) for order in listed])
    assert np.allclose(np.array(sums) / len(queue) + queue.age.mean(), found)
    search = find_solver("hill-climb")
    search(case, orders[0], 10, 0)
    _, climbing, _ = cpu_of(lambda: search(case, orders[0], 200_000, 0))
    rates = {"plain loop": 4000 / slow, "batch of orders": 40_000 / fast, "hill climbing": 200_000 / climbing}
    for name, rate in rates.items():
        print(f"{name}: {rate:,.0f} evaluations per CPU second, {rate / rates['plain loop']:.1f} × the plain loop")
    good = rates["batch of orders"] >= max(RATE, RATIO * rates["plain loop"])
    print(f"goal: {RATIO:.0f} × and {RATE:,.0f} per CPU second: {'ok' if good else 'MISSED'}")


def pipeline(trace: tracekit.Trace, folder: Path, *, quick: bool) -> None:
    """Measure labels, training and test."""
    config = OrderConfig(windows=200)
    if quick:
        config = config.replace(windows=20, jobs=16, steps=4000, evaluations=500, width=16)
    task = Order(estimates="actual", ages="ilos")
    queues = Queues.of(trace, task)
    made = config.labelling(task, 0.7, 0)
    parts = {}
    path = folder / "labels.parquet"
    parts["labels"] = cpu_of(lambda: write_labels(queues, made, path, fingerprint=fingerprint(queues.table)))
    course = Course(folder / "agent", labels=path)
    parts["training"] = cpu_of(lambda: train_order(trace, task, config, course))
    plan = Plan(task, windows=4 if quick else 20, jobs=config.jobs, reference=1000 if quick else 100_000)
    sources = Sources(folder / "study", {"actual": str(folder / "agent")})
    parts["test"] = cpu_of(lambda: study(trace, plan, sources, ("actual",)))
    for name, (_, cpu, wall) in parts.items():
        print(f"{name}: {cpu:.0f} s of CPU, {wall:.0f} s (load of the machine {os.getloadavg()[0]:.1f})")
    found, goal = parts["test"][0], parts["test"][0].goal("actual")
    for arm in found.arms["actual"]:
        print(f"  {arm.start} {arm.evaluations:,}: gap {found.gap('actual', arm).mean():.2%}")
    print(f"  network + 200 − heuristic + 1,000: {goal['difference']['paired_difference']:+.2%}")
    total = sum(cpu for _, cpu, _ in parts.values()) / 60
    print(f"pipeline: {total:.1f} CPU minutes on one core ({MINUTES:.0f}): {'ok' if total <= MINUTES else 'TOO SLOW'}")


def main() -> None:
    trace = tracekit.read(sys.argv[1])
    evaluator(trace)
    with tempfile.TemporaryDirectory() as name:
        pipeline(trace, Path(name), quick="--quick" in sys.argv)


if __name__ == "__main__":
    main()
