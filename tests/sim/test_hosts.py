"""Machines of hosts against the slow reference, start by start and host by host; and what must never happen on them."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.clusters import completed, gpu_types, host_names
from tracekit.errors import TracekitError, UsageError
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
    typical = typical_of(ready.table, kinds)
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


def plain(rows, procs):
    submit, run, limit, size = (np.array(column, float) for column in zip(*rows, strict=True))
    table = {"job_id": np.arange(1, len(rows) + 1), "submit_time": submit, "run_time": run, "req_time": limit}
    return Trace(pd.DataFrame(table | {"req_procs": size}), Machine(procs=procs))


def crowd(jobs=150, most=8, procs=8, seed=3):
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 50, jobs)
    submit, size = np.sort(rng.integers(0, 1500, jobs)), rng.integers(1, most + 1, jobs)
    return plain(np.stack([submit, run, run * rng.integers(1, 4, jobs), size], 1).tolist(), procs)


@pytest.mark.parametrize("backfill", [*BACKFILLS, "rlscheduler"])
@pytest.mark.parametrize("group", [HostGroup(1, cores=8), HostGroup(8, cores=1)], ids=["one host", "one core each"])
def test_one_host_and_hosts_of_one_core_are_a_counter(backfill, group):
    """Jobs larger than a host spread, so that hosts of one core are a pool of processors."""
    trace = crowd()
    for policy in ("fcfs", "sjf", "wfp3"):
        for switches in ({}, {"commit": True}, {"interval": 30.0}, {"ties": "arrivals"}, {"estimates": "last-two"}):
            counter = tracekit.simulate(trace, policy, backfill, **switches)
            hosts = tracekit.simulate(trace, policy, backfill, cluster=machine_of(group), **switches)
            np.testing.assert_array_equal(hosts.start, counter.start)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_with_exact_estimates_no_backfilled_job_delays_the_reserved_one(data):
    """Start times under EASY of the first blocked job are those that it has without any backfilling behind it."""
    cluster = data.draw(clusters())
    rows = [(0, run, run, *rest) for _, run, _, *rest in data.draw(demands(cluster))]
    trace = trace_of(rows)
    allocate = data.draw(st.sampled_from(ALLOCATORS))
    chosen = Switches(cluster=cluster, allocate=allocate)
    table = extract_jobs(trace, chosen)
    if not len(prepare(table, chosen).table):
        return
    none, easy = (run_table(table, "fcfs", backfill, chosen) for backfill in ("none", "easy"))
    waits = np.flatnonzero(none.start > 0)
    if len(waits):
        assert easy.start[waits[0]] <= none.start[waits[0]]


@pytest.mark.parametrize("mode", ["drain", "kill", "requeue"])
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_outages_of_named_hosts(mode, backfill):
    """Nothing starts on a host that is out of service, and nothing that would still run there when it goes."""
    cluster = machine_of(HostGroup(3, cores=4, name="n"))
    outages = ((100.0, 400.0, "n-0"), (300.0, 500.0, "n-1+n-2"))
    result = tracekit.simulate(
        crowd(most=4, procs=12),
        "fcfs",
        backfill,
        cluster=cluster,
        outages=outages,
        outage_mode=mode,
        estimates="actual",
    )
    hosts = np.array([text.partition(":")[0] for text in result.hosts])
    for begin, end, names in outages:
        there = np.isin(hosts, names.split("+")) & (result.end > begin) & (result.start < end)
        assert not there.any()
    with pytest.raises(UsageError, match="n-1"):
        tracekit.simulate(crowd(most=4), cluster=cluster, outages=((0.0, 5.0, "m-1"),))
    with pytest.raises(UsageError, match="HOST"):
        tracekit.simulate(crowd(most=4), cluster=cluster, outages=((0.0, 5.0, 3.0),))
    with pytest.raises(UsageError, match="cluster"):
        tracekit.simulate(crowd(most=4), outages=((0.0, 5.0, "n-1"),))


class First:
    """first-fit, written in Python."""

    name = "first"

    def choose(self, hosts, /):
        chosen = []
        for h in np.flatnonzero(hosts.fits):
            chosen += [h] * (1 if hosts.spreads else int(hosts.fits[h]))
        return chosen if hosts.spreads else chosen[: hosts.pieces]


@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjf"])
def test_an_allocator_of_ones_own_that_is_first_fit_gives_its_schedule(backfill):
    cluster = machine_of(HostGroup(2, cores=4, gpus=2), HostGroup(1, cores=8))
    trace = crowd(most=4, procs=16)
    for policy in ("fcfs", "wfp3"):
        compiled = tracekit.simulate(trace, policy, backfill, cluster=cluster)
        asked = tracekit.simulate(trace, policy, backfill, cluster=cluster, allocate=First())
        np.testing.assert_array_equal(asked.start, compiled.start)
        assert list(asked.hosts) == list(compiled.hosts)


def test_bad_answers_of_an_allocator_are_errors_that_name_it():
    cluster = machine_of(HostGroup(2, cores=4))
    for answer, words in ((7, "no host 7"), ("n0", "not host numbers"), ([], "0 of 1")):
        own = type("Bad", (), {"name": "bad", "choose": lambda self, hosts, answer=answer: answer})()
        with pytest.raises(TracekitError, match=words) as caught:
            tracekit.simulate(crowd(most=4), cluster=cluster, allocate=own)
        assert "bad" in str(caught.value)


def test_dependencies_and_predictions_run_on_hosts():
    cluster = machine_of(HostGroup(2, cores=4))
    trace = crowd(most=4)
    trace = trace.assign({"prev_job": pd.array([None, 1, 2, *[None] * 147], "Int64"), "think_time": np.full(150, 5.0)})
    result = tracekit.simulate(trace, "fcfs", "easy", cluster=cluster, dependencies=True, predict="last-two")
    assert not check_hosts(result.schedule(), trace, cluster)
    assert result.submit[1] == result.end[0] + 5


def test_results_have_the_metrics_of_hosts():
    cluster = machine_of(
        HostGroup(1, cores=4, memory=100, gpus=2, pool="p", name="a"),
        HostGroup(1, cores=4, memory=100, pool="q", name="b"),
    )
    rows = [(0, 10, 10, 2, 10, 1, None, None, "p"), (0, 10, 10, 4, 5, 0, None, None, "q")]
    result = tracekit.simulate(trace_of(rows), cluster=cluster)
    found = result.summary()
    assert found["allocate"] == "first-fit"
    assert (found["gpu_utilization"], found["core_utilization"], found["memory_utilization"]) == (0.5, 0.75, 0.2)
    assert found["fragmentation"] == 1.0  # the one idle GPU is on a partly used host
    assert found["pools"]["p"] == {"jobs": 1, "mean_wait_s": 0.0, "utilization": 0.5}
    assert list(result.schedule()["hosts"]) == ["a-0:2/1", "b-0:4/0"]
    assert result.switches["cluster"] == "test"


def test_a_conservative_plan_that_would_not_fit_into_memory_is_refused():
    machine = Machine(groups=(HostGroup(name="n", count=5000, cores=64, memory=1e8, gpus=8, gpu_type="A"),))
    jobs = pd.DataFrame(
        {"job_id": np.arange(1, 3001), "submit_time": 0.0, "run_time": 1.0, "req_procs": 3, "req_gpus": 1}
    )
    with pytest.raises(UsageError, match="--backfill easy"):
        tracekit.simulate(Trace(jobs, machine), "fcfs", "conservative", cluster=completed(machine, "toy"))
