"""Power caps, sleep and shifting against slow, plain Python on random traces."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.clusters import gpu_types
from tracekit.sim.energy.series import Series
from tracekit.sim.energy.shifting import planned
from tracekit.sim.engine.session import Session
from tracekit.sim.hosts.sleep import sleep_times
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Cap, Setup
from tracekit.sim.simulate import outcome, run_table, under_cap
from tracekit.sim.switches import Switches

from .helpers import by_reference
from .host_worlds import by_reference as on_hosts
from .host_worlds import pick, placed, typical_of, world_of
from .test_reference import EXAMPLES, tables

SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
#: Worlds of hosts take longer.
FEWER = settings(SETTINGS, max_examples=max(EXAMPLES // 4, 1))
MANNERS = [{}, {}, {"commit": True}, {"ties": "arrivals"}, {"interval": 7.0}, {"estimates": "last-two"}]


@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjf", "conservative", "rlscheduler"])
@pytest.mark.parametrize("policy", ["fcfs", "sjf", "wfp3"])
@SETTINGS
@given(table=tables(), manner=st.sampled_from(MANNERS), seed=st.integers(0, 99))
def test_a_capped_counter_agrees_with_the_reference(policy, backfill, table, manner, seed):
    switches, rng = Switches(**manner), np.random.default_rng(seed)
    ready = prepare(table, switches)
    watts = rng.integers(0, 9, len(ready.table))
    headroom = int(watts.max() + rng.integers(0, 9))
    made = outcome(Setup(ready, backfill, switches, cap=Cap(watts, headroom)), find(policy))
    slow = by_reference(ready, policy, backfill, switches, headroom=headroom, watts=watts.tolist())
    np.testing.assert_array_equal(made.start, slow.start)
    for now in made.start:
        assert watts[(made.start <= now) & (now < made.start + ready.run)].sum() <= headroom


def with_power(world, rng, lever):
    """Return a world whose hosts draw watts and can sleep, under a lever."""
    groups = [
        replace(
            group,
            idle_watts=float(rng.integers(1, 5)),
            core_watts=float(rng.integers(0, 5)),
            gpu_watts=float(rng.integers(0, 9)),
            sleep_watts=pick(rng, 1.0, 1.0, None),
            off_seconds=float(rng.integers(0, 5)),
            on_seconds=float(rng.integers(0, 5)),
        )
        for group in world.cluster.groups
    ]
    groups[0] = replace(groups[0], sleep_watts=1.0, idle_watts=1.0)
    chosen = {name: value for name, value in world.switches.items() if not name.startswith("outage")}
    chosen.pop("compat", None)
    chosen["energy_until"] = "100000"  # some worlds have only jobs of no length
    if lever == "sleep":
        chosen |= {"sleep_after": float(rng.integers(0, 6))}
    else:
        drawn = sum(g.count * (g.idle_watts + g.cores * g.core_watts + g.gpus * g.gpu_watts) for g in groups)
        idle = sum(g.count * g.idle_watts for g in groups)
        chosen |= {"power_cap": (idle + max(rng.uniform(0.2, 1.0) * (drawn - idle), 1.0)) / 1000}
    return world._replace(cluster=world.cluster.replace(groups=tuple(groups)), switches=chosen)


def simulated_both_ways(world):
    """Return our result, the reference's simulation and how hosts sleep; None if no job can run."""
    chosen = Switches(cluster=world.cluster, allocate=world.allocate, **world.switches)
    table = extract_jobs(world.trace, chosen)
    ready = prepare(table, chosen)
    if not len(ready.table):
        return None
    ready, cap = under_cap(ready, chosen)
    headroom = np.inf if cap is None else cap.headroom
    if not len(ready.table):
        return None
    ours = run_table(table, world.policy, world.backfill, chosen)
    slow = on_hosts(world, ready, typical_of(ready.table, gpu_types(world.cluster)))
    slow.rules.headroom, slow.rules.sleep = headroom, sleep_times(world.cluster, chosen)
    for job in slow.jobs if chosen.power_cap is not None else ():
        cores = job.cores / ready.table.demand.scale
        job.watts = max(cores * g.core_watts + job.gpus * g.gpu_watts for g in world.cluster.groups) * 1000
    slow.run_all()
    return ours, slow, sleep_times(world.cluster, chosen)


@pytest.mark.parametrize("lever", ["sleep", "cap"])
@pytest.mark.parametrize("allocate", ["first-fit", "pack-and-sleep", "worst-fit"])
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative", "rlscheduler"])
@FEWER
@given(seed=st.integers(0, 2**40))
def test_hosts_agree_with_the_reference(lever, allocate, backfill, seed):
    """Start by start and host by host; hosts are never asleep, nor awake too early, while a job runs there."""
    world = with_power(world_of(seed, backfill, allocate), np.random.default_rng(seed), lever)
    both = simulated_both_ways(world)
    if both is None:
        return
    ours, slow, times = both
    names = list(ours.hosts.names)
    assert ours.start.tolist() == [job.start for job in slow.jobs], world
    assert list(ours.hosts) == [placed(job, names, ours.hosts.demand.scale) for job in slow.jobs], world
    if lever == "cap":
        assert ours.energy.peak_kw <= world.switches["power_cap"] + 1e-9
    else:
        assert ours.energy.idle_kwh >= -1e-9
        exact = world.switches.get("estimates") == "actual" and not world.switches.get("dependencies")
        if world.policy == "fcfs" and exact and not world.switches["interval"] and backfill == "easy":
            for job, reserved in slow.first_reservation.items():  # EASY's guarantee, and the time to wake up
                assert ours.start[job] <= reserved + times.longest, (job, world)


# ---- shifting --------------------------------------------------------------------------------------------------------


def slow_plan(jobs, edges, values, extra, total):
    """Return the releases by the definition: every begin at which the cost can be least, each tried in full."""
    steps = list(zip(edges, [*edges[1:], float("inf")], values, strict=True))
    used, release = [0.0] * len(steps), {}

    def inside(begin, length):
        return [max(min(begin + length, high) - max(begin, low), 0) for low, high, _ in steps]

    for job in sorted(jobs, key=lambda job: (job[1], -job[2] * job[3], job[0])):
        number, submit, length, units = job
        begins = {submit, submit + extra, *edges, *(edge - length for edge in edges)}
        tried = []
        for begin in begins:
            parts = inside(begin, length)
            room = all(
                part == 0 or high == float("inf") or u + units * part <= total * (high - low)
                for part, u, (low, high, _) in zip(parts, used, steps, strict=True)
            )
            if submit <= begin <= submit + extra and room:
                tried.append((sum(part * value for part, value in zip(parts, values, strict=True)), begin))
        release[number] = min(tried)[1] if tried else submit
        for k, part in enumerate(inside(release[number], length)):
            used[k] += units * part
    return [release[number] for number in range(len(jobs))]


@settings(SETTINGS, max_examples=60)
@given(table=tables(), seed=st.integers(0, 2**30))
def test_shifting_agrees_with_every_begin_tried_in_full(table, seed):
    rng = np.random.default_rng(seed)
    table = replace(table, submit=np.floor(table.submit), run=np.floor(table.run), limit=np.floor(table.limit))
    ready = prepare(table, Switches())
    edges = np.cumsum(rng.integers(1, 9, rng.integers(2, 12))).astype(float)
    edges -= edges[0]
    values, extra = rng.integers(0, 9, len(edges)).astype(float), float(rng.integers(0, 30))
    ours = planned(ready, Series("test", edges, values), extra)
    lengths = ready.estimate.tolist()
    jobs = list(zip(itertools.count(), ready.table.submit.tolist(), lengths, ready.units.tolist(), strict=False))
    assert ours.tolist() == slow_plan(jobs, edges.tolist(), values.tolist(), extra, ready.total)


def test_sessions_without_levers_have_no_capped_capacity():
    table = replace(world_of(1, "easy", "first-fit").trace)
    ready = prepare(extract_jobs(table, Switches()), Switches())
    assert not hasattr(Session(Setup(ready, "easy", Switches())).sim.capacity, "inner")
