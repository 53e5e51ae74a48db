"""Speed on hosts: first-fit and best-fit with FCFS and EASY, and FGD on openb against a vectorised numpy version.

    python benchmarks/bench_hosts.py [--hosts 1000] [--jobs 200000]

CPU seconds of one core, best of three after compilation.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from tracekit.clusters import completed
from tracekit.machine import HostGroup, Machine
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace


def crowd(hosts: int, jobs: int, load: float = 0.8, seed: int = 0) -> tuple[Trace, Machine]:
    """Return one-host jobs of 1 to 16 cores, and a cluster of hosts of 16 cores."""
    rng = np.random.default_rng(seed)
    size, run = rng.integers(1, 17, jobs), rng.exponential(3600.0, jobs) + 1
    gap = rng.exponential(8.5 * 3601 / (load * hosts * 16), jobs)
    table = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.cumsum(gap),
        "run_time": run,
        "req_time": run * 1.5,
        "req_procs": size,
    }
    cluster = completed(Machine(name="bench", groups=(HostGroup(hosts, cores=16, name="n"),)), "bench")
    return Trace(pd.DataFrame(table), Machine(procs=hosts * 16)), cluster


def best_of(work: object, times: int = 3) -> float:
    """Return the least CPU seconds of several runs."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        work()  # type: ignore[operator]
        found.append(time.process_time() - begin)
    return min(found)


def scheduling(hosts: int, jobs: int) -> None:
    trace, cluster = crowd(hosts, jobs)
    switches = Switches(cluster=cluster)
    table = extract_jobs(trace, switches)
    for name in ("first-fit", "best-fit"):
        model = HostModel(table.demand, name)
        run_table(table.window(0, 100), "fcfs", "easy", switches, machine=HostModel(table.demand, name))
        seconds = best_of(lambda m=model: run_table(table, "fcfs", "easy", switches, machine=m))
        print(f"{hosts:,} hosts, {jobs:,} jobs, fcfs + easy, {name}: {jobs / seconds:,.0f} jobs/s")


class Numpy:
    """FGD on openb's protocol with numpy, all hosts at once, for one task after the other."""

    def __init__(self, model: HostModel) -> None:
        self.cores, self.memory = model.total[:, 0].astype(float), model.total[:, 1].astype(float)
        self.gpus = model.total[:, 2:].astype(float)
        self.typical, self.share = model.typical, model.share

    def fragmentation(self, cores: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """Return F of states (…,) with GPUs (…, devices)."""
        idle = gpus.sum(axis=-1)
        found = np.zeros(idle.shape)
        for (asked, whole, milli, _), share in zip(self.typical, self.share, strict=True):
            each = 1000 if whole else milli
            if each == 0:
                found += share * idle
                continue
            able = gpus >= each
            runs = (cores >= asked) & (able.sum(axis=-1) >= max(whole, 1))
            found += share * np.where(runs, np.where(able, 0.0, gpus).sum(axis=-1), idle)
        return found

    def place(self, cores: float, memory: float, whole: int, milli: int) -> bool:
        """Place one task; return False where it fits nowhere."""
        room = (self.cores >= cores) & (self.memory >= memory)
        if whole:
            room &= (self.gpus >= 1000).sum(axis=1) >= whole
        elif milli:
            room &= (self.gpus >= milli).any(axis=1)
        if not room.any():
            return False
        rows = np.flatnonzero(room)
        gpus, left = self.gpus[rows], self.cores[rows] - cores
        before = self.fragmentation(self.cores[rows], gpus)
        if milli:
            devices = np.arange(gpus.shape[1])
            after = gpus[:, None, :] - milli * (devices[:, None] == devices)
            gain = before[:, None] - self.fragmentation(np.repeat(left[:, None], len(devices), 1), after)
            score = np.where(gpus >= milli, np.floor(100 / (1 + np.exp(-gain / 1000))), -1)
            row, device = np.unravel_index(int(np.argmax(score)), score.shape)
            taken = milli * (devices == device)
        else:
            order = np.cumsum(gpus >= 1000, axis=1)
            taken = 1000 * ((gpus >= 1000) & (order <= whole))
            gain = before - self.fragmentation(left, gpus - taken)
            row = int(np.argmax(np.floor(100 / (1 + np.exp(-gain / 1000)))))
            taken = taken[row]
        host = rows[row]
        self.cores[host] -= cores
        self.memory[host] -= memory
        self.gpus[host] -= taken
        return True


def packing() -> None:
    from pathlib import Path

    from swf.alibaba import requests
    from tracekit.clusters import cluster_of, data_folder
    from tracekit.sim.hosts.demand import demand_of
    from tracekit.sim.hosts.place import arrivals, place

    demand = demand_of(requests(Path(data_folder() / "alibaba" / "openb_pod_list_default.csv")), cluster_of("openb"))
    place(demand, "fgd", 1)
    ours = best_of(lambda: place(demand, "fgd", 42))
    model, need = HostModel(demand, "fgd"), demand.need
    asked = need[:, 3] * 1000 + need[:, 4]
    order = arrivals(asked, int(model.fixed[:, 2].sum()) * 1000, 1.3, np.random.default_rng(42))
    theirs, some = Numpy(model), order[:300]
    seconds = best_of(
        lambda: [theirs.place(*need[job, [0, 1]].astype(float), *need[job, [3, 4]]) for job in some], times=1
    )
    seconds *= len(order) / len(some)
    print(f"fgd on openb, {len(order):,} pods: {ours:.2f} s; numpy (from {len(some)} pods): {seconds:.1f} s", end="; ")
    print(f"{seconds / ours:.0f} times as fast")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=200_000)
    chosen = parser.parse_args()
    scheduling(chosen.hosts, chosen.jobs)
    packing()
