"""What later work will plug into: other starting points, given orders, hooks, own policies."""

import itertools

import numpy as np
import pytest

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.analysis.check import check_result
from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import outcome
from tracekit.sim.switches import BACKFILLS, Switches

from .helpers import table_of, trace_of


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("cut", [5.0, 40.0, 111.5])
def test_a_run_can_be_resumed_from_any_moment(backfill, cut):
    """Stop the clock, keep only what had started by then, and continue: the schedule is the same."""
    rng = np.random.default_rng(6)
    run = rng.integers(1, 60, 150)
    table = table_of(np.sort(rng.integers(0, 900, 150)), run, run + 20, rng.integers(1, 6, 150), np.zeros(150), 8)
    ready = prepare(table, Switches())
    whole = outcome(Setup(ready, backfill, Switches()), find("fcfs")).start
    known = np.where(whole <= cut, whole, np.nan)
    rest = outcome(Setup(ready, backfill, Switches(), begun=known, clock=cut), find("fcfs")).start
    np.testing.assert_array_equal(rest, whole)


def test_a_given_order_is_list_scheduling():
    """All jobs wait at 0; without backfilling they start strictly in the order given."""
    table = table_of([0, 0, 0, 0], [5, 1, 1, 1], [5, 1, 1, 1], [1, 2, 2, 1], [0] * 4, 2)
    ready = prepare(table, Switches())
    session = Session(Setup(ready, "none", Switches()))
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

    with pytest.raises(TracekitError, match="wrong"):
        tracekit.simulate(toy, Wrong())
    with pytest.raises(UsageError, match="priority"):
        tracekit.simulate(toy, 7)


def test_metrics_are_open_and_schedules_may_name_hosts():
    result = tracekit.simulate(trace_of((0, 1, 1, 1), procs=1))
    result.metrics["energy_kwh"] = 1.5
    assert result.summary()["energy_kwh"] == 1.5
    import dataclasses

    assert list(dataclasses.replace(result, hosts=["n0"]).schedule()["hosts"]) == ["n0"]


def test_passes_can_be_driven_by_a_built_in_policy(toy):
    """A simulation driven pass by pass, with the values of a built-in policy, is that policy's own."""
    ready = prepare(extract_jobs(toy, Switches()), Switches())
    for policy in ("sjf", "wfp3", "multifactor"):
        session = Session(Setup(ready, "easy", Switches()))
        for _ in session.passes():
            session.evaluate(policy)
        np.testing.assert_array_equal(session.jobs.start, tracekit.simulate(toy, policy, "easy").start)
    late = Session(Setup(ready, "easy", Switches()))
    for _ in itertools.islice(late.passes(), 4):
        late.evaluate("fcfs")
    with pytest.raises(UsageError, match="multifactor"):
        late.evaluate("multifactor")
