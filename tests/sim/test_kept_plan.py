"""Conservative plans that are kept between passes make the schedule of plans that are made again at every event."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.sim.engine.session import Session
from tracekit.sim.engine.steps import ROOM
from tracekit.sim.jobs import prepare
from tracekit.sim.policies.formulas import GIVEN
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches

from .helpers import table_of


def both_ways(table, order=None, **manner):
    """Return the starts with kept plans, and with new plans at every event; ``order``: a value for each job."""
    switches = Switches(**manner).resolved()
    ready = prepare(table, switches)
    kept, again = (Session(Setup(ready, "conservative", switches)) for _ in range(2))
    values = None if order is None else order[ready.table.position]
    kept.ranked(values)
    again.run(GIVEN, values)
    return kept.jobs.start, again.jobs.start


#: For a long search: TRACEKIT_EXAMPLES=20000.
EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "200"))
MANNERS = [{}, {"interval": 7.0}, {"reaction": 3.0}, {"ties": "arrivals"}, {"kill_at_limit": True}]


@st.composite
def tables(draw):
    """Jobs that run to their limits, beyond them, and some or most that end before them."""
    total = draw(st.integers(1, 9))
    seconds = st.integers(0, 12) if draw(st.booleans()) else st.integers(0, 200).map(lambda x: x / 7)
    late = st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.0, 2.0] if draw(st.booleans()) else [1.0, 2.0, 5.0, 0.5])
    jobs = draw(st.lists(st.tuples(seconds, seconds, late, st.integers(1, total)), min_size=1, max_size=40))
    gap, run, share, procs = (np.array(column, float) for column in zip(*jobs, strict=True))
    return table_of(np.cumsum(gap), run, run * share, procs.astype(int), [0] * len(run), total)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(table=tables(), manner=st.sampled_from(MANNERS), seed=st.integers(0, 99), ordered=st.booleans())
def test_small_traces(table, manner, seed, ordered):
    order = np.random.default_rng(seed).integers(0, 9, len(table)).astype(float) if ordered else None
    np.testing.assert_array_equal(*both_ways(table, order, **manner))


@pytest.mark.parametrize("late", [0.0, 0.02])
def test_a_long_queue_over_many_blocks(late):
    """More steps than one block holds; with ``late``, some jobs outlive their limits, and others end before them."""
    rng = np.random.default_rng(1)
    count, total = 1500, 64
    run = np.ceil(rng.exponential(300, count))
    limit = np.where(rng.random(count) < late, np.ceil(run * rng.uniform(0.5, 2, count)), run)
    submit = np.cumsum(np.floor(rng.exponential(10, count)))
    table = table_of(submit, run, limit, 1 + rng.integers(0, total, count) // 2, [0] * count, total)
    kept, again = both_ways(table)
    np.testing.assert_array_equal(kept, again)
    waiting = np.searchsorted(submit, kept, side="right") - np.arange(count)
    assert waiting.max() > 4 * ROOM


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("order", [None, "shortest", "random"])
def test_a_long_queue_with_estimates_of_users(order, least):
    """Nearly every job ends early. With sizes from 3 on, a wall is where fewer than three processors are left."""
    rng = np.random.default_rng(2)
    count, total = 1500, 64
    run = np.ceil(rng.lognormal(5, 1.5, count))
    limit = np.ceil(run * rng.uniform(0.9, 8, count))
    size = np.maximum(np.floor(2 ** rng.uniform(0, 5, count)), least).astype(int)
    submit = np.cumsum(np.floor(rng.exponential(0.3 * np.mean(run * size) / total, count)))
    values = {None: None, "shortest": limit, "random": rng.random(count)}[order]
    kept, again = both_ways(table_of(submit, run, limit, size, [0] * count, total), values)
    np.testing.assert_array_equal(kept, again)
    assert np.max(np.searchsorted(submit, np.sort(kept), side="right") - np.arange(count)) > 4 * ROOM


def test_where_plans_are_kept():
    def kept(limit, order=None, **manner):
        switches = Switches(**manner).resolved()
        ready = prepare(table_of([0, 0, 1], [5, 5, 5], [limit] * 3, [1, 2, 1], [0] * 3, 2), switches)
        return Session(Setup(ready, "conservative", switches)).can_rank(order)

    assert kept(5)
    assert kept(9)
    assert kept(5, order=np.array([2.0, 1.0, 0.0]))
    assert not kept(5, commit=True)
    assert not kept(5, dependencies=True)
    assert not kept(5, predict="last-two")
    assert not kept(5, outages=((1.0, 3.0, 1.0),))
