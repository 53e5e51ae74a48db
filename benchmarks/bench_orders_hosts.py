"""How many orders of a queue are evaluated a second on hosts, against one simulation for each order.

    python benchmarks/bench_orders_hosts.py [--quick] [--json]

64 jobs of 1 to 16 cores on 16 hosts, and 256 on 64 hosts of 16 cores, all waiting. The yardstick is `Session.ranked`,
the compiled simulation of a static order, on the same hosts and orders in the same run; both must give the same starts.
CPU seconds of one thread, after compilation.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
from bench_hosts import crowd

from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.orders.evaluate import costs, room_for
from tracekit.sim.orders.problem import QueueProblem
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import hosts_of
from tracekit.sim.switches import Switches
from tracekit.trace import Trace


def measured(hosts: int, jobs: int, allocate: str, backfill: str, orders: int) -> dict[str, Any]:
    """Return evaluations per CPU second, by batch and by simulations, and their ratio."""
    trace, cluster = crowd(hosts, jobs)
    trace = Trace(trace.jobs.assign(submit_time=0.0), trace.machine)
    switches = Switches(cluster=cluster, allocate=allocate).resolved()
    queue = QueueProblem.from_trace(trace, 0, jobs, switches=switches, backfill=backfill)
    case = queue.case("actual")
    room, rng = room_for(case), np.random.default_rng(0)
    tried = np.array([rng.permutation(jobs) for _ in range(orders)])
    found = np.empty(orders)
    costs(case, tried[:2], room, found[:2])
    begin = time.thread_time()
    costs(case, tried, room, found)
    batch = (time.thread_time() - begin) / orders
    table = extract_jobs(trace, switches)
    setup = Setup(prepare(table, replace(switches, estimates="actual")), backfill, switches, hosts_of(table, switches))
    ranks = np.argsort(tried, axis=1).astype(np.float64)
    few = max(orders // 20, 10)
    for k in range(few + 1):
        if k == 1:
            begin = time.thread_time()  # the first one compiles
        simulated = Session(setup)
        simulated.ranked(ranks[k])
    alone = (time.thread_time() - begin) / few
    costs(case, tried[few : few + 1], room, found[:1])
    assert room.start.tolist() == simulated.jobs.start.tolist()
    facts = {"hosts": hosts, "jobs": jobs, "allocate": allocate, "backfill": backfill}
    return facts | {"evaluations_per_s": 1 / batch, "simulations_per_s": 1 / alone, "ratio": alone / batch}


def main() -> None:
    """Print a row for each cluster, allocator and backfilling."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [
        measured(hosts, jobs, allocate, backfill, 400 if asked.quick else 4000)
        for hosts, jobs in ((16, 64), (64, 256))
        for allocate in ("first-fit", "best-fit")
        for backfill in ("none", "easy")
    ]
    if asked.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        facts = f"{row['jobs']:>4} jobs on {row['hosts']:>3} hosts, {row['allocate']}, {row['backfill']:<5}"
        speed = f"{row['evaluations_per_s']:>8,.0f} evaluations/s, {row['simulations_per_s']:>6,.0f} simulations/s"
        print(f"{facts} {speed}, ratio {row['ratio']:.1f}")


if __name__ == "__main__":
    main()
