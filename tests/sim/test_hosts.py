"""Machines of hosts against the slow reference, start by start and host by host; and what must never happen on them."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.clusters import completed, gpu_types, host_names
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.check_hosts import check_hosts
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

from .reference_hosts import Cluster, Host, Job, Simulation

#: A long search is made with, say, TRACEKIT_EXAMPLES=2000.
EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "12"))
BACKFILLS = ("none", "easy", "easy-sjf", "conservative")
POLICIES = ("fcfs", "sjf", "ljf", "saf", "largest")
ALLOCATORS = ("first-fit", "best-fit", "worst-fit", "round-robin", "dot-product", "fgd", "defrag", "load-balance")


def machine_of(*groups):
    return completed(Machine(name="test", groups=tuple(groups)), "test")


@st.composite
def clusters(draw):
    """A few groups of hosts, with or without GPUs, types, memory limits and pools."""
    gpus, pools, memory = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    groups = []
    for number in range(draw(st.integers(1, 3))):
        devices = draw(st.integers(0, 4)) if gpus else 0
        groups.append(
            HostGroup(
                draw(st.integers(1, 3)),
                cores=draw(st.integers(1, 8)),
                memory=draw(st.integers(4, 40)) if memory else None,
                gpus=devices,
                gpu_type=draw(st.sampled_from(["a", "b", None])) if devices else None,
                pool=draw(st.sampled_from(["p", "q"])) if pools else None,
                name=f"g{number}",
            )
        )
    return machine_of(*groups)


@st.composite
def demands(draw, cluster):
    """Jobs for a cluster, some of which cannot fit: gap, run, limit, cores, memory per core, gpus, tasks …"""
    most = sum(group.count * group.cores for group in cluster.groups)
    seconds = st.integers(0, 12)
    cores = st.integers(1, 8) | st.integers(1, most)
    gpus = st.sampled_from([0, 0, 0, 0.25, 0.5, 0.6, 1, 1, 2, 3, 5]) if cluster.gpus else st.just(0)
    job = st.tuples(
        st.one_of(st.just(0), seconds),
        seconds,
        seconds,
        cores,
        st.integers(0, 3),
        gpus,
        st.sampled_from([None, None, 1, 2, 3]),
        st.sampled_from([None, None, "a", "b", "a|b"]),
        st.sampled_from([None, None, "p", "q"]),
    )
    return draw(st.lists(job, min_size=1, max_size=18))


def trace_of(rows):
    gap, run, limit, cores, memory, gpus, tasks, kind, pool = zip(*rows, strict=True)
    cores = [c * (t or 1) for c, t in zip(cores, tasks, strict=True)]
    table = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_time": np.cumsum(gap).astype(float),
        "run_time": np.array(run, float),
        "req_time": np.array(limit, float),
        "req_procs": cores,
        "req_mem": np.array(memory, float),
        "req_gpus": [g * (t or 1) if g < 1 else g for g, t in zip(gpus, tasks, strict=True)],
        "tasks": pd.array(tasks, "Int64"),
        "gpu_type": pd.Categorical(kind, ["a", "b", "a|b"]),
        "pool": pd.Categorical(pool, ["p", "q"]),
    }
    return Trace(pd.DataFrame(table), Machine(procs=sum(cores)))


def by_reference(trace, cluster, table, policy, backfill, allocate, **options):
    """Return starts and hosts of the jobs that can be simulated, by the reference."""
    ready = prepare(table, Switches())
    scale = table.demand.scale
    hosts = [
        Host(g.cores * scale, 2**40 if g.memory is None else int(g.memory), g.gpus or 0, g.gpu_type, g.pool or "")
        for g in cluster.groups
        for _ in range(g.count)
    ]
    named = any(g.pool for g in cluster.groups)
    kinds, jobs = gpu_types(cluster), []
    for number, row in enumerate(ready.table.position):
        job = trace.jobs.iloc[row]
        asked = None if not kinds or pd.isna(job["gpu_type"]) else frozenset(job["gpu_type"].split("|"))
        jobs.append(
            Job(
                number,
                ready.table.submit[number],
                ready.run[number],
                ready.estimate[number],
                int(job["req_procs"]) * scale,
                int(job["req_procs"] * job["req_mem"]),
                float(job["req_gpus"]),
                None if pd.isna(job["tasks"]) else int(job["tasks"]),
                asked,
                None if not named or pd.isna(job["pool"]) else job["pool"],
            )
        )
    typical = typical_of(table, kinds)
    world = Simulation(jobs, Cluster(hosts, allocate, typical, scale), policy, backfill, **options)
    world.run()
    return [job.start for job in jobs], [placed(job, host_names(cluster), scale) for job in jobs]


def typical_of(table, kinds):
    """Return typical tasks as the definition has them: the most frequent shapes, up to 95 % of the jobs."""
    need = table.demand.need
    sets = [frozenset(k for k, allowed in zip(kinds, row, strict=False) if allowed) for row in table.demand.types]
    counts = {}
    for c, _, pieces, whole, milli, _, types, _ in need.tolist():
        shape = (c // pieces, whole or milli / 1000, types)
        counts[shape] = counts.get(shape, 0) + 1
    order = sorted(counts, key=lambda s: (-counts[s], s[0], s[1] if s[1] >= 1 else 0, s[1], s[2]))
    kept, seen = [], 0
    for shape in order:
        if seen >= 0.95 * len(need):
            break
        kept.append(shape)
        seen += counts[shape]
    return [((c, g, None if t < 0 else sets[t]), counts[(c, g, t)] / seen) for c, g, t in kept]


def placed(job, names, scale):
    held = {}
    for h, cores, _, gpus in job.parts:
        before = held.get(h, (0, 0))
        held[h] = (before[0] + cores, before[1] + sum(gpus.values()))
    return "+".join(f"{names[h]}:{held[h][0] / scale:.10g}/{held[h][1] / 1000:g}" for h in sorted(held))


def both(cluster, rows, policy, backfill, allocate, **switches):
    trace = trace_of(rows)
    chosen = Switches(cluster=cluster, allocate=allocate, **switches)
    table = extract_jobs(trace, chosen)
    if not len(prepare(table, chosen).table):
        return None
    ours = run_table(table, policy, backfill, chosen)
    found = check_hosts(ours.schedule(), trace, cluster)
    assert not found, found
    return ours, by_reference(trace, cluster, table, policy, backfill, allocate, **switches)


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("allocate", ALLOCATORS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_hosts_agree_with_the_reference(allocate, backfill, data):
    cluster = data.draw(clusters())
    rows = data.draw(demands(cluster))
    policy, commit = data.draw(st.sampled_from(POLICIES)), data.draw(st.booleans())
    made = both(cluster, rows, policy, backfill, allocate, commit=commit)
    if made is not None:
        ours, (starts, hosts) = made
        assert ours.start.tolist() == starts
        assert list(ours.hosts) == hosts
