"""Other capacities than a counter: asked about a job, refused by name, placed from Python, played by agents."""

import os
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings

import tracekit
from tracekit.errors import UsageError
from tracekit.sim.analysis.check import over_allocation
from tracekit.sim.engine.capacity import register_capacity
from tracekit.sim.engine.processors import ProcessorPool
from tracekit.sim.jobs import prepare
from tracekit.sim.switches import BACKFILLS, Switches
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

from .helpers import by_reference, starts, trace_of
from .playing import imitate
from .test_reference import tables
from .two_hosts import HostModel, first_fit, fits, fits_beside, give, reserve, take, take_beside, worst_fit

EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "15"))
POLICIES = ("fcfs", "sjf", "saf", "wfp3")


BARE = (fits, take, give, fits_beside, take_beside, reserve)


class BareHosts(NamedTuple):
    """Hosts that bring only what every capacity must."""

    free: np.ndarray
    total: np.ndarray
    size: np.ndarray
    host: np.ndarray


register_capacity(BareHosts, *BARE)


class Bare(HostModel):
    """Makes them."""

    def __init__(self):
        super().__init__(4, 4)
        self.kind = BareHosts


def crowd(jobs=120, seed=3, procs=8):
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 50, jobs)
    submit, limit, size = np.sort(rng.integers(0, 900, jobs)), run * rng.integers(1, 4, jobs), rng.integers(1, 5, jobs)
    return trace_of(*np.stack([submit, run, limit, size], 1).tolist(), procs=procs)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_two_idle_hosts_take_two_jobs_at_once(backfill):
    """Two hosts of four and two jobs of three: both start at once, whatever fills the gaps."""
    result = tracekit.simulate(
        trace_of((0, 10, 10, 3), (0, 10, 10, 3), procs=8), "fcfs", backfill, machine=HostModel(4, 4)
    )
    assert result.start.tolist() == [0, 0]
    assert result.hosts == ["n0", "n1"]
    assert list(result.schedule()["hosts"]) == ["n0", "n1"]


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_two_hosts_are_not_one_pool(backfill):
    """Three, three and two processors fill a pool of eight, but two hosts of four have only one left each."""
    trace = trace_of((0, 10, 10, 3), (0, 20, 20, 3), (0, 5, 5, 2), procs=8)
    assert tracekit.simulate(trace, "fcfs", backfill).start.tolist() == [0, 0, 0]
    assert tracekit.simulate(trace, "fcfs", backfill, machine=HostModel(4, 4)).start.tolist() == [0, 0, 10]


@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjf", "conservative"])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(table=tables())
def test_hosts_agree_with_the_reference(policy, backfill, table):
    """Every job fits on one host of the size of the machine that the table is for; a second, smaller one helps."""
    switches = Switches()
    ready = prepare(table, switches)
    if not len(ready.table):
        return
    hosts = [max(ready.total // 2, 1), ready.total]
    ours = starts(ready, policy, backfill, switches, HostModel(*hosts))
    slow = by_reference(ready, policy, backfill, switches, hosts)
    np.testing.assert_array_equal(ours, slow.start)


@pytest.mark.parametrize(
    "switches", [{}, {"commit": True}, {"interval": 30.0}, {"ties": "arrivals"}, {"estimates": "last-two"}]
)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_no_host_is_ever_overfull(backfill, switches):
    for policy in POLICIES:
        result = tracekit.simulate(crowd(), policy, backfill, machine=HostModel(5, 3), **switches)
        for host, size in (("n0", 5), ("n1", 3)):
            rows = np.array(result.hosts) == host
            assert rows.any()
            assert over_allocation(result.start[rows], result.end[rows], result.procs[rows], size) is None


class Arrived:
    """first come, first served, written in Python."""

    name = "arrived"

    def priority(self, queue, state, /):
        return state.submit[queue]


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_python_is_asked_where_to_place_a_job(backfill):
    """An allocator in Python that does what the compiled one does gives the same schedule; another one, another.

    Not under conservative backfilling, where the compiled one goes where it has planned to go.
    """
    trace = crowd(procs=9)
    for policy in (*POLICIES, Arrived()):
        compiled = tracekit.simulate(trace, policy, backfill, machine=HostModel(5, 4))
        asked = tracekit.simulate(trace, policy, backfill, machine=HostModel(5, 4, choose=first_fit))
        if backfill != "conservative":
            np.testing.assert_array_equal(asked.start, compiled.start)
            assert asked.hosts == compiled.hosts
        for host, size in (("n0", 5), ("n1", 4)):
            rows = np.array(asked.hosts) == host
            assert over_allocation(asked.start[rows], asked.end[rows], asked.procs[rows], size) is None
    spread = tracekit.simulate(trace, Arrived(), backfill, machine=HostModel(5, 4, choose=worst_fit))
    assert spread.hosts != asked.hosts


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjf", "rlscheduler"])
@pytest.mark.parametrize("choose", [None, worst_fit])
def test_environments_run_on_any_capacity(backfill, commit, choose):
    """An agent that picks what a heuristic would pick makes the heuristic's schedule, on hosts as on a counter."""
    machine = HostModel(4, 4, choose=choose)
    batch = Batch(crowd(), PickJob(backfill=backfill, commit=commit), lanes=2, machine=machine)
    for policy in ("fcfs", "sjf"):
        whole, part = imitate(batch, [(0, 120), (20, 60)], policy)
        np.testing.assert_array_equal(whole, batch.source.schedule((0, 120), policy))
        np.testing.assert_array_equal(part, batch.source.schedule((20, 60), policy))
        assert ((batch.features >= 0) & (batch.features <= 4)).all()


@pytest.mark.parametrize("choose", [None, first_fit])
def test_agents_schedule_on_any_capacity(choose):
    result = tracekit.simulate(crowd(), "agent:default", machine=HostModel(4, 4, choose=choose))
    for host in ("n0", "n1"):
        rows = np.array(result.hosts) == host
        assert over_allocation(result.start[rows], result.end[rows], result.procs[rows], 4) is None


def test_what_a_capacity_does_not_offer_is_refused_by_name():
    trace = trace_of((0, 10, 10, 3), procs=8)
    with pytest.raises(UsageError, match="Hosts does not support outages: it lacks withdraw"):
        tracekit.simulate(trace, machine=HostModel(4, 4), outages=((5.0, 6.0, 1.0),))
    with pytest.raises(UsageError, match="BareHosts does not support conservative backfilling"):
        tracekit.simulate(trace, "fcfs", "conservative", machine=Bare())
    with pytest.raises(UsageError, match="BareHosts does not support environments"):
        Batch(trace, lanes=1, machine=Bare())
    assert tracekit.simulate(trace, "fcfs", "easy", machine=Bare()).start.tolist() == [0]


def test_a_capacity_must_bring_what_is_basic_and_nothing_unknown():
    with pytest.raises(TypeError, match="reserve"):
        register_capacity(dict, fits, take, give)
    with pytest.raises(TypeError, match="first_fit"):
        register_capacity(dict, *BARE, first_fit)


def test_a_job_that_no_host_can_hold_is_an_error_and_no_endless_loop():
    trace = trace_of((0, 10, 10, 6), (1, 10, 10, 2), procs=8)
    for backfill in ("none", "easy", "conservative"):
        with pytest.raises(tracekit.TracekitError, match="still waiting"):
            tracekit.simulate(trace, "fcfs", backfill, machine=HostModel(4, 4))


def test_the_counter_is_a_capacity_like_any_other(toy):
    for policy, backfill in (("sjf", "easy"), ("wfp3", "conservative")):
        named = tracekit.simulate(toy, policy, backfill, machine=ProcessorPool())
        np.testing.assert_array_equal(named.start, tracekit.simulate(toy, policy, backfill).start)
        assert named.hosts is None


def test_one_host_is_a_counter(toy):
    size = toy.machine.procs
    for policy, backfill in (("sjf", "easy"), ("wfp3", "conservative"), ("fcfs", "easy-sjf")):
        hosts = tracekit.simulate(toy, policy, backfill, machine=HostModel(size))
        np.testing.assert_array_equal(hosts.start, tracekit.simulate(toy, policy, backfill).start)
