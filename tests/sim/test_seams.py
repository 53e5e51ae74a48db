"""What later work will plug into: other capacities, other starting points, given orders, hooks, own policies."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.analysis.check import check_result, over_allocation
from tracekit.sim.engine.capacity import provide
from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import prepare
from tracekit.sim.switches import BACKFILLS, Switches

from .helpers import table_of, trace_of


class TwoHosts(NamedTuple):
    """Two hosts; a job must fit on one of them."""

    free: np.ndarray  # (2,)
    host: np.ndarray  # (jobs,)


def most(capacity):
    return max(capacity.free[0], capacity.free[1])


def fits(capacity, procs):
    return procs <= capacity.free[0] or procs <= capacity.free[1]


def fits_both(capacity, later, procs):
    return (procs <= capacity.free[0] and procs <= later.free[0]) or (
        procs <= capacity.free[1] and procs <= later.free[1]
    )


def take(capacity, job, procs):
    host = 0 if procs <= capacity.free[0] else 1
    capacity.free[host] -= procs
    capacity.host[job] = host


def take_both(capacity, later, job, procs):
    host = 0 if procs <= capacity.free[0] and procs <= later.free[0] else 1
    capacity.free[host] -= procs
    later.free[host] -= procs
    capacity.host[job] = host


def give(capacity, job, procs):
    capacity.free[capacity.host[job]] += procs


def reserve(capacity, later, now, procs, limits, limit_jobs, count, sizes):
    later.free[0], later.free[1] = capacity.free[0], capacity.free[1]
    shadow, i = now, count - 1
    while i >= 0 and (limits[i] <= shadow or not (procs <= later.free[0] or procs <= later.free[1])):
        later.free[capacity.host[limit_jobs[i]]] += sizes[limit_jobs[i]]
        shadow = max(shadow, limits[i])
        i -= 1
    later.free[0 if procs <= later.free[0] else 1] -= procs
    return shadow


provide(TwoHosts, most, fits, fits_both, take, take_both, give, reserve)


def two_hosts(size, jobs):
    host = np.full(jobs, -1, np.int64)
    return TwoHosts(np.full(2, size, np.int64), host), TwoHosts(np.full(2, size, np.int64), host)


@pytest.mark.parametrize("backfill", ["none", "easy", "easy-sjf"])
def test_a_machine_of_two_hosts(backfill):
    rng = np.random.default_rng(2)
    run = rng.integers(1, 50, 200)
    table = table_of(np.sort(rng.integers(0, 1500, 200)), run, run * 2, rng.integers(1, 5, 200), np.zeros(200), 8)
    ready = prepare(table, Switches())
    capacity = two_hosts(4, 200)
    session = Session(ready, backfill, Switches(), capacity=capacity)
    session.ranked(None)
    start = session.jobs.start
    assert set(capacity[0].host) == {0, 1}
    for host in (0, 1):
        rows = capacity[0].host == host
        assert over_allocation(start[rows], (start + ready.run)[rows], table.procs[rows], 4) is None


def test_two_hosts_are_not_one_pool():
    """Three, three and two processors fill a pool of eight, but two hosts of four have only one left each."""
    table = table_of([0, 0, 0], [10, 20, 5], [10, 20, 5], [3, 3, 2], [0, 0, 0], 8)
    ready = prepare(table, Switches())
    pool, hosts = Session(ready, "easy", Switches()), Session(ready, "easy", Switches(), capacity=two_hosts(4, 3))
    pool.ranked(None)
    hosts.ranked(None)
    assert pool.jobs.start.tolist() == [0, 0, 0]
    assert hosts.jobs.start.tolist() == [0, 0, 10]


def test_a_capacity_must_bring_every_function():
    with pytest.raises(TypeError, match="reserve"):
        provide(TwoHosts, most, fits)


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("cut", [5.0, 40.0, 111.5])
def test_a_run_can_be_resumed_from_any_moment(backfill, cut):
    """Stop the clock, keep only what had started by then, and go on: the same schedule comes out."""
    rng = np.random.default_rng(6)
    run = rng.integers(1, 60, 150)
    table = table_of(np.sort(rng.integers(0, 900, 150)), run, run + 20, rng.integers(1, 6, 150), np.zeros(150), 8)
    ready = prepare(table, Switches())
    whole = Session(ready, backfill, Switches())
    drive = whole.ranked if backfill != "conservative" else lambda given: whole.valued(-1, given)
    drive(None)
    known = np.where(whole.jobs.start <= cut, whole.jobs.start, np.nan)
    rest = Session(ready, backfill, Switches(), start=known, clock=cut)
    drive = rest.ranked if backfill != "conservative" else lambda given: rest.valued(-1, given)
    drive(None)
    np.testing.assert_array_equal(rest.jobs.start, whole.jobs.start)


def test_a_given_order_is_list_scheduling():
    """All jobs wait at 0; without backfilling they start strictly in the order given."""
    table = table_of([0, 0, 0, 0], [5, 1, 1, 1], [5, 1, 1, 1], [1, 2, 2, 1], [0] * 4, 2)
    ready = prepare(table, Switches())
    session = Session(ready, "none", Switches())
    session.ranked(np.array([2.0, 0.0, 3.0, 1.0]))  # places of jobs 0 … 3: first 1, then 3, 0, 2
    assert session.jobs.start.tolist() == [1, 0, 6, 1]


def test_the_interval_hook_sees_all_that_is_used(toy):
    seen = []
    result = tracekit.simulate(toy, "wfp3", "easy", on_interval=lambda *stretch: seen.append(stretch))
    assert sum((end - begin) * used for begin, end, used in seen) == pytest.approx((result.run * result.procs).sum())
    assert all(left[1] == right[0] for left, right in itertools.pairwise(seen))
    np.testing.assert_array_equal(result.start, tracekit.simulate(toy, "wfp3", "easy").start)


class ShortestFirst:
    """sjf, written by a user."""

    name = "mine"

    def priority(self, queue, state, /):
        assert 0 <= state.free <= state.total
        assert (state.wait(queue) >= 0).all()
        return np.maximum(state.estimate[queue], 0.1)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_policy_of_ones_own(toy, backfill):
    for switches in ({}, {"commit": True}, {"interval": 300.0}):
        mine, theirs = (tracekit.simulate(toy, p, backfill, **switches) for p in (ShortestFirst(), "sjf"))
        assert mine.policy == "mine"
        assert not check_result(mine)
        np.testing.assert_array_equal(mine.start, theirs.start)


def test_bad_policies_are_told_so(toy):
    class Wrong:
        name = "wrong"

        def priority(self, queue, state, /):
            return np.full(len(queue), np.nan)

    with pytest.raises(TracekitError, match="wrong: NaN"):
        tracekit.simulate(toy, Wrong())
    with pytest.raises(UsageError, match="no policy"):
        tracekit.simulate(toy, 7)


def test_metrics_are_open_and_schedules_may_name_hosts():
    result = tracekit.simulate(trace_of((0, 1, 1, 1), procs=1))
    result.metrics["energy_kwh"] = 1.5
    assert result.summary()["energy_kwh"] == 1.5
    import dataclasses

    assert list(dataclasses.replace(result, hosts=["n0"]).schedule()["hosts"]) == ["n0"]
