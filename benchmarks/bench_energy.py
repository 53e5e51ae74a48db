"""Energy: simulations with a power model against the same without, on all nodes of Mira, as hosts and as a counter.

    python benchmarks/bench_energy.py [--jobs 100000] [--times 3]

CPU seconds of one core, least of several runs after compilation. The ratio is the result; seconds vary.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import pandas as pd

from tracekit.clusters import preset
from tracekit.machine import Machine
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

NODES = 49_152
#: Nodes of jobs and how many in a hundred have them, after the sizes that Mira offered.
SIZES, SHARES = (512, 1024, 2048, 4096, 8192, 16384), (0.5, 0.2, 0.12, 0.1, 0.06, 0.02)


def crowd(jobs: int, load: float = 0.8, seed: int = 0) -> Trace:
    """Return jobs on whole nodes, sizes in nodes."""
    rng = np.random.default_rng(seed)
    size, run = rng.choice(SIZES, jobs, p=SHARES), rng.exponential(7200.0, jobs) + 60
    gap = rng.exponential(float((size * run).mean()) / (load * NODES), jobs)
    table = {"job_id": np.arange(1, jobs + 1), "submit_time": np.cumsum(gap), "run_time": run, "req_time": run * 1.5}
    return Trace(pd.DataFrame(table | {"req_nodes": size}), Machine(name="mira", nodes=NODES, unit="nodes"))


def seconds(trace: Trace, switches: Switches, times: int) -> float:
    """Return the least CPU seconds of a simulation, its metrics and its summary."""
    table = extract_jobs(trace, switches)
    run_table(table.window(0, 100), "fcfs", "easy", switches)
    found = []
    for _ in range(times):
        begin = time.process_time()
        run_table(table, "fcfs", "easy", switches).summary()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    trace = crowd(given.jobs)
    for words, switches in (("a counter of nodes", Switches()), ("hosts", Switches(cluster=preset("mira")))):
        without = seconds(trace, switches, given.times)
        for power in ("mira", "gat-drl"):
            with_it = seconds(trace, replace(switches, power=power), given.times)
            print(
                f"{given.jobs:,} jobs on {NODES:,} nodes as {words}, --power {power}: {with_it:.2f} s, "
                f"without {without:.2f} s, speed {without / with_it:.2f} of that without"
            )


if __name__ == "__main__":
    main()
