"""Clusters of hosts: speed, growth with the number of hosts, memory, FGD against numpy, published results of openb.

    python benchmarks/bench_hosts.py [schedule] [growth] [memory] [packing] [published] [--hosts 1000] [--jobs 200000]

CPU seconds of one core, best of three after compilation; the load of the machine is printed. Without names, all parts
run. `packing` and `published` need Alibaba's openb lists in the shared data.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.clusters import completed
from tracekit.machine import HostGroup, Machine
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.place import MARKS, place, prepare
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


def rate(hosts: int, jobs: int, name: str, load: float = 0.8) -> float:
    """Return jobs a second of FCFS with EASY: the simulation alone, metrics included."""
    trace, cluster = crowd(hosts, jobs, load)
    switches = Switches(cluster=cluster)
    table = extract_jobs(trace, switches)
    assert table.demand is not None
    model, first = HostModel(table.demand, name), HostModel(table.demand, name)
    run_table(table.window(0, 100), "fcfs", "easy", switches, machine=first)
    return jobs / best_of(lambda: run_table(table, "fcfs", "easy", switches, machine=model))


def schedule(hosts: int, jobs: int) -> None:
    for name, floor in (("first-fit", 300_000), ("best-fit", 100_000)):
        found = rate(hosts, jobs, name)
        print(f"{hosts:,} hosts, {jobs:,} jobs, fcfs + easy, {name}: {found:,.0f} jobs/s (floor {floor:,})")


def growth() -> None:
    """Cost of a job by the number of hosts, ten jobs a host at the same load; linear growth is a factor of 10 each."""
    sizes = (100, 1_000, 10_000)
    for name in ("first-fit", "best-fit", "worst-fit"):
        show(name, [1e6 / rate(hosts, max(20_000, 10 * hosts), name) for hosts in sizes], sizes)
    demand = openb()
    sizes, costs = (121, 1_213, 3_639), []
    for hosts in sizes:
        some = scaled(demand, hosts / 1_213)
        costs.append(
            1e6 * best_of(lambda some=some: place(some, "fgd", 1), times=2) / place(some, "fgd", 1)["arrivals"]
        )
    show("fgd on openb's nodes", costs, sizes)


def show(name: str, costs: list[float], sizes: tuple[int, ...]) -> None:
    """Print costs and how they grow against the number of hosts."""
    steps = [
        f"× {b / a:.1f} for × {m / n:.0f}" for (a, b), (n, m) in zip(pairwise(costs), pairwise(sizes), strict=True)
    ]
    cells = ", ".join(f"{cost:.2f} ({hosts:,})" for cost, hosts in zip(costs, sizes, strict=True))
    print(f"{name}: µs a job (hosts): {cells}; {', '.join(steps)}", flush=True)


def scaled(demand: Any, factor: float) -> Any:
    """Return the demands of pods on more or fewer nodes of each kind; fewer pods with fewer nodes."""
    groups = [replace(group, count=max(round(group.count * factor), 1)) for group in demand.cluster.groups]
    some = np.random.default_rng(0).permutation(len(demand.need))[: round(len(demand.need) * factor)]
    return replace(demand.take(some), cluster=completed(demand.cluster.replace(groups=tuple(groups)), "bench"))


def memory(hosts: int = 10_000, jobs: int = 1_000_000) -> None:
    """Peak memory of a whole simulation of a million jobs; before it, that of the jobs and the program."""
    trace, cluster = crowd(hosts, jobs)
    switches = Switches(cluster=cluster)
    table = extract_jobs(trace, switches)
    assert table.demand is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.process_time()
    run_table(table, "fcfs", "easy", switches, machine=HostModel(table.demand, "first-fit"))
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{hosts:,} hosts, {jobs:,} jobs: {peak:,.0f} MB at most, {before:,.0f} MB before it; {seconds:.1f} CPU s")


class Numpy:
    """FGD on openb's protocol with numpy, all hosts at once, for one pod after the other."""

    def __init__(self, model: HostModel) -> None:
        self.cores, self.memory = model.total[:, 0].astype(float), model.total[:, 1].astype(float)
        self.gpus, self.devices = model.total[:, 2:].astype(float), model.fixed[:, 2]
        self.typical, self.share = model.typical, model.share
        kinds, sets = model.fixed[:, 1], model.demand.types
        self.allowed = [np.where(kinds >= 0, row[np.maximum(kinds, 0)], False) for row in sets]

    def fragmentation(self, cores: np.ndarray, gpus: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return F of states of hosts ``rows``, (hosts, …), with GPUs (hosts, …, devices)."""
        idle = gpus.sum(axis=-1)
        found = np.zeros(idle.shape)
        for (asked, whole, milli, kinds), share in zip(self.typical, self.share, strict=True):
            each = 1000 if whole else milli
            if each == 0:
                found += share * idle
                continue
            able = gpus >= each
            runs = (cores >= asked) & (able.sum(axis=-1) >= max(whole, 1))
            if kinds >= 0:
                runs &= self.allowed[kinds][rows].reshape(-1, *[1] * (idle.ndim - 1))
            found += share * np.where(runs, np.where(able, 0.0, gpus).sum(axis=-1), idle)
        return found

    def place(self, cores: float, memory: float, whole: int, milli: int, kinds: int) -> bool:
        """Place one pod; return False where it fits nowhere."""
        room = (self.cores >= cores) & (self.memory >= memory)
        if whole:
            room &= (self.gpus >= 1000).sum(axis=1) >= whole
        elif milli:
            room &= (self.gpus >= milli).any(axis=1)
        if kinds >= 0 and (whole or milli):
            room &= self.allowed[kinds]
        if not room.any():
            return False
        rows = np.flatnonzero(room)
        gpus, left = self.gpus[rows], self.cores[rows] - cores
        before = self.fragmentation(self.cores[rows], gpus, rows)
        devices = np.arange(gpus.shape[1])
        if milli:
            after = np.maximum(gpus[:, None, :] - milli * (devices[:, None] == devices), 0)
            gain = before[:, None] - self.fragmentation(np.repeat(left[:, None], len(devices), 1), after, rows)
            score = np.where(gpus >= milli, np.floor(100 / (1 + np.exp(-gain / 1000))), -1)
            row, device = np.unravel_index(int(np.argmax(score)), score.shape)
            taken = milli * (devices == device)
        else:
            order = np.cumsum(gpus >= 1000, axis=1)
            taken = 1000 * ((gpus >= 1000) & (order <= whole))
            gain = before - self.fragmentation(left, gpus - taken, rows)
            row = np.argmax(np.floor(100 / (1 + np.exp(-gain / 1000))))
            taken = taken[row]
        host = rows[row]
        self.cores[host] -= cores
        self.memory[host] -= memory
        self.gpus[host] -= taken
        return True


def openb() -> Any:
    """Return what the pods of openb ask of its nodes."""
    from swf.alibaba import requests
    from tracekit.clusters import cluster_of, data_folder
    from tracekit.sim.hosts.demand import demand_of

    return demand_of(requests(Path(data_folder() / "alibaba" / "openb_pod_list_default.csv")), cluster_of("openb"))


def packing() -> None:
    """Compare the whole study of one seed; both place the same pods."""
    demand = openb()
    place(demand, "fgd", 1)
    seconds, found = best_of(lambda: place(demand, "fgd", 42)), place(demand, "fgd", 42)
    study, need = prepare(demand, "fgd", 42), demand.need
    plain, held = Numpy(study.model), 0
    begin = time.process_time()
    for job in study.order.tolist():
        cores, memory, _, whole, milli, _, kinds, _ = need[job].tolist()
        if plain.place(float(cores), float(memory), whole, milli, kinds):
            held += int(study.asked[job])
    theirs = time.process_time() - begin
    same = abs(100 * held / study.capacity - found["allocated_pct"])
    print(f"fgd on openb, {len(study.order):,} pods: {seconds:.2f} s, numpy {theirs:.1f} s: ", end="")
    print(f"{theirs / seconds:.0f} times as fast (floor 20); allocated shares differ by {same:.2g} points")


def published(seeds: range = range(42, 52)) -> None:
    """Print means of ten seeds beside the published ones, at 130 % and the largest difference along the curve."""
    from tracekit.clusters import data_folder

    known = json.loads((data_folder().parent / "checks" / "openb_placement.json").read_text())["expected"]
    demand = openb()
    for rule in ("random", "dot-product", "packing", "clustering", "best-fit", "fgd"):
        rows = [place(demand, rule, seed) for seed in seeds]
        words = [f"{rule}:"]
        for key, ours in (("allo", "allocated_pct"), ("frag", "fragmented_pct")):
            mean = {str(mark): float(np.mean([row["curve"][str(mark)][ours] for row in rows])) for mark in MARKS}
            words.append(f"{ours} {mean['130']:.2f}")
            name = next((name for name in known[key] if name.lower().endswith(rule.replace("-", ""))), None)
            if name is not None:
                theirs = {m: float(np.mean([s[m] for s in known[key][name]["per_seed"].values()])) for m in mean}
                apart = max(abs(mean[mark] - theirs[mark]) for mark in mean)
                words.append(f"(published {theirs['130']:.2f}, along the curve at most {apart:.2f} apart)")
        print(*words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("schedule", "growth", "memory", "packing", "published")
    parser.add_argument("parts", nargs="*", help=", ".join(parts))
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=200_000)
    chosen = parser.parse_args()
    if set(chosen.parts) - set(parts):
        sys.exit(f"parts are: {', '.join(parts)}")
    wanted = chosen.parts or parts
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    if "memory" in wanted:  # first: the peak of a process never falls
        memory()
    if "schedule" in wanted:
        schedule(chosen.hosts, chosen.jobs)
    if "growth" in wanted:
        growth()
    if "published" in wanted:
        published()
    if "packing" in wanted:
        packing()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
