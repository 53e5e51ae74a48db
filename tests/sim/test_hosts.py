"""Machines of hosts against the slow reference, start by start and host by host; and what must never happen on them."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.clusters import completed
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.check_hosts import check_hosts
from tracekit.sim.engine import loop
from tracekit.sim.engine.session import Session
from tracekit.sim.hosts import state as of
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.formulas import values_for
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import hosts_of
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

from .host_worlds import ALLOCATORS, POLICIES, compare, pick, switches_of, trace_of, world_of

#: A long search is made with, say, TRACEKIT_EXAMPLES=2000; `benchmarks/hosts_reference.py` is the longest.
EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "6"))
BACKFILLS = ("none", "easy", "easy-sjf", "conservative")
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)


def machine_of(*groups):
    return completed(Machine(name="test", groups=tuple(groups)), "test")


@pytest.mark.parametrize("backfill", [*BACKFILLS, "rlscheduler"])
@pytest.mark.parametrize("allocate", ALLOCATORS)
@SETTINGS
@given(seed=st.integers(0, 2**40))
def test_hosts_agree_with_the_reference(allocate, backfill, seed):
    """Start by start and host by host, with all that a cluster, a trace and the switches can have."""
    compare(world_of(seed, backfill, allocate))


@pytest.mark.parametrize("backfill", [*BACKFILLS, "rlscheduler"])
@SETTINGS
@given(seed=st.integers(0, 2**40))
def test_when_all_jobs_have_ended_every_host_is_as_it_was(backfill, seed):
    """Freed cell by cell, with the index, the sums and the counts of tasks."""
    world = world_of(seed, backfill, ALLOCATORS[seed % len(ALLOCATORS)])
    chosen = Switches(cluster=world.cluster, allocate=world.allocate, **world.switches)
    table = extract_jobs(world.trace, chosen)
    ready, model = prepare(table, chosen), hosts_of(table, chosen)
    if not len(ready.table):
        return
    session = Session(Setup(ready, backfill, chosen, model))
    room = session.sim.capacity.data
    before = room.copy()
    session.run(*values_for(world.policy, ready, chosen))
    while session.sim.running.tally["running"][0] or room[of.DOWN]:
        loop.last_ends_from_python(session.sim, session.dynamics)
    for part, end in ((of.FREE, of.FIXED), (of.TREE, of.NEED), (of.HELD, of.TYPICAL)):
        np.testing.assert_array_equal(room[room[part] : room[end]], before[room[part] : room[end]])
    for number in (of.FREE_CORES, of.FREE_GPUS):
        assert room[number] == before[number]


@pytest.mark.parametrize(
    ("seed", "policy", "backfill", "allocate"),
    [(3006221, "lcfs", "easy-sjf", "load-balance"), (3008747, "wfp3", "easy-sjf", "random")],
)
def test_reservations_are_made_again_where_hosts_are_chosen_by_what_is_free(seed, policy, backfill, allocate):
    """Worlds in which the fast loop kept the hosts of an older reservation."""
    compare(world_of(seed, backfill, allocate, policy))


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


@pytest.mark.parametrize("backfill", [*BACKFILLS, "rlscheduler"])
@SETTINGS
@given(seed=st.integers(0, 2**40))
def test_one_host_and_hosts_of_one_core_are_a_counter_for_any_jobs_and_switches(backfill, seed):
    rng = np.random.default_rng(seed)
    procs = int(rng.integers(1, 12))
    chosen = switches_of(rng, machine_of(HostGroup(1, cores=procs)), "rlscheduler")  # without outages, which differ
    rows = [(*rng.integers(0, 13, 3).tolist(), int(rng.integers(1, procs + 1))) for _ in range(rng.integers(1, 30))]
    trace = plain(
        [(submit, *rest) for submit, (_, *rest) in zip(np.cumsum([r[0] for r in rows]), rows, strict=True)], procs
    )
    policy, allocate = pick(rng, *POLICIES), pick(rng, *ALLOCATORS)
    counter = tracekit.simulate(trace, policy, backfill, **chosen)
    for group in (HostGroup(1, cores=procs), HostGroup(procs, cores=1)):
        made = tracekit.simulate(trace, policy, backfill, cluster=machine_of(group), allocate=allocate, **chosen)
        np.testing.assert_array_equal(made.start, counter.start)


def test_alike_hosts_are_not_only_counted_where_one_is_about_to_go():
    """Two hosts are free and one is enough, but the job would still run on the first when that goes out of service."""
    cluster = machine_of(HostGroup(2, cores=1, name="n"))
    for backfill in BACKFILLS:
        result = tracekit.simulate(
            plain([(0, 50, 50, 1)], 2), "fcfs", backfill, cluster=cluster, outages=((10.0, 20.0, "n-0"),)
        )
        assert (result.start.tolist(), list(result.hosts)) == ([0], ["n-1:1/0"])


def test_around_an_outage_a_job_gets_hosts_that_are_really_free():
    """The host that worst-fit likes best is held by a job past its estimate; another one is free."""
    cluster = machine_of(HostGroup(1, cores=8, name="large"), HostGroup(2, cores=4, name="small"))
    rows = [(0, 100, 10, 8), (20, 5, 5, 2)]
    for backfill in ("none", "easy", "easy-sjf"):
        result = tracekit.simulate(
            *(plain(rows, 16), "fcfs", backfill),
            cluster=cluster,
            allocate="worst-fit",
            outages=((500.0, 600.0, "small-1"),),
        )
        assert (result.start.tolist(), result.hosts[1]) == ([0, 20], "small-0:2/0")


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


def test_a_plan_that_would_not_fit_into_memory_is_refused():
    machine = Machine(groups=(HostGroup(name="n", count=5000, cores=64, memory=1e8, gpus=8, gpu_type="A"),))
    jobs = pd.DataFrame(
        {"job_id": np.arange(1, 3001), "submit_time": 0.0, "run_time": 1.0, "req_procs": 3, "req_gpus": 1}
    )
    for backfill, outages, words in (("conservative", (), "--backfill easy"), ("easy", ((0, 9, "n-1"),), "--outage")):
        with pytest.raises(UsageError, match=words) as caught:
            tracekit.simulate(Trace(jobs, machine), "fcfs", backfill, cluster=completed(machine, "t"), outages=outages)
        assert "--window" in str(caught.value)
