"""The engine against the slow reference, start for start."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.sim.policies.builtin import POLICIES
from tracekit.sim.switches import BACKFILLS, Switches

from .helpers import both, table_of

#: For each policy × backfilling; a long search is made with, say, TRACEKIT_EXAMPLES=2000.
EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "22"))
DECIDING = [name for name in POLICIES if name != "replay"]
#: Everything that changes how events and passes go together.
MANNERS = [
    {},
    {},
    {"commit": True},
    {"ties": "arrivals"},
    {"commit": True, "ties": "arrivals"},
    {"estimates": "last-two"},
    {"interval": 7.0},
    {"interval": 7.0, "commit": True},
    {"estimates": "actual"},
    {"kill_at_limit": True},
    {"options": {"half_life": 20.0, "age_max": 30.0}},
    {"compat": "rlscheduler"},
]


@st.composite
def tables(draw):
    """Crowded little traces: many ties, limits below run times, jobs of no length, jobs as large as the machine."""
    total = draw(st.integers(1, 9))
    seconds = st.integers(0, 12) if draw(st.booleans()) else st.integers(0, 200).map(lambda x: x / 7)
    job = st.tuples(
        st.one_of(st.just(0), seconds),
        seconds,
        st.one_of(st.none(), seconds),
        st.integers(1, total),
        st.integers(-1, 2),
    )
    jobs = draw(st.lists(job, min_size=1, max_size=22))
    gap, run, limit, procs, user = zip(*jobs, strict=True)
    limit = [np.nan if value is None else value for value in limit]
    return table_of(np.cumsum(gap), run, limit, procs, user, total)


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", DECIDING)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(table=tables(), manner=st.sampled_from(MANNERS))
def test_engine_agrees_with_the_reference(policy, backfill, table, manner):
    ours, theirs = both(table, policy, backfill, Switches(**manner))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", ["fcfs", "sjf", "f1", "wfp3", "multifactor"])
def test_engine_agrees_on_longer_traces(policy, backfill):
    """Enough jobs that the waiting tree has several levels and the queue is longer than one group."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        count, total = 220, 16
        run = np.ceil(rng.exponential(60, count))
        table = table_of(
            np.cumsum(np.floor(rng.exponential(8, count))),
            run,
            np.ceil(run * rng.uniform(0.8, 4, count)),
            np.minimum(1 + np.floor(rng.exponential(3, count)), total),
            rng.integers(0, 5, count),
            total,
        )
        ours, theirs = both(table, policy, backfill, Switches())
        np.testing.assert_array_equal(ours, theirs)
