"""The engine against the slow reference, start for start; and the reference on hosts against schedules by hand."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.sim.policies.builtin import POLICIES
from tracekit.sim.policies.protocol import BuiltIn
from tracekit.sim.switches import BACKFILLS, Switches

from . import reference
from .helpers import both, table_of

#: For each policy × backfilling; a long search is made with, say, TRACEKIT_EXAMPLES=2000.
EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "22"))
DECIDING = [
    name for name in POLICIES if name not in ("replay", "predicted-index") and isinstance(POLICIES.get(name), BuiltIn)
]
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
    {"interval": 7.0, "reaction": 3.0},
    {"reaction": 3.0},
    {"reaction": 3.0, "commit": True},
    {"group_ends": 2.0},
    {"group_ends": 5.0, "reaction": 3.0},
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


# ---- hosts, worked by hand: jobs are (submit, run, estimate, procs), a job runs on one host --------------------------


def on_hosts(hosts, jobs, backfill):
    columns = dict(zip(("submit", "run", "estimate", "procs"), zip(*jobs, strict=True), strict=True))
    made = reference.simulate(columns, "fcfs", backfill, reference.Rules(hosts=hosts))
    return made.start, made.host


#: Three, three and two processors fill a pool of 8. On hosts of 4 and 4 one is left on each, until job 0 ends at 10.
SPLIT = [(0, 10, 10, 3), (0, 20, 20, 3), (0, 5, 5, 2)]

#: Hosts of 4 and 4. Job 0 leaves 1 free on host 0, job 1 leaves 2 on host 1. Job 2 needs a whole host: by estimates
#: host 0 at 10, where nothing is left beside it. Job 3 (1, long) fits on host 0 now but not then: it takes host 1. Job
#: 4 (1) ends at 7, before the shadow time: it takes the first that fits, host 0. Job 5 (2) finds 0 and 1 free; at 10
#: job 2 has host 0, and at 15 it leaves it.
BESIDE = [(0, 10, 10, 3), (0, 20, 20, 2), (1, 5, 5, 4), (2, 30, 30, 1), (3, 4, 4, 1), (3, 30, 30, 2)]

#: Hosts of 4 and 4, and both running jobs are past their estimates at 7, that on host 1 for longer. Both count as
#: ending now, so the reservation of job 2 is on host 0, the first that fits then. Job 3 goes to host 1, where there is
#: room now and then. For job 4 there is room on host 0 only, which is reserved (EASY), or on host 1 by estimates only
#: (conservative): it waits until job 2 has come (20) and gone (25).
OVERDUE = [(0, 20, 6, 3), (0, 30, 5, 3), (1, 5, 5, 4), (7, 50, 50, 1), (8, 50, 50, 1)]

#: Hosts of 4 and 2. Job 2 (2) gets host 0 at 10, with 2 to spare. EASY starts job 4 (1, until 33) beside it on host 0
#: at 3, so job 3, which needs all of host 0, waits for 33; job 5 (1) fits again when job 0 has ended. Conservative
#: backfilling has job 3 planned on host 0 for 20, so job 4 waits for host 1 (20), and job 5 may have host 0 at once.
PROTECT = [(0, 10, 10, 3), (0, 20, 20, 2), (1, 10, 10, 2), (2, 10, 10, 4), (3, 30, 30, 1), (4, 5, 5, 1)]

#: Hosts of 2 and 4. Job 3 needs all of host 1, from 10 on. Two processors are free on host 1 over [4, 10) and on host 0
#: from 8 on: job 4 (8 long) would have to move from one to the other if it began before 8. Job 5 (6 long) fits exactly.
STAY = [(0, 8, 8, 2), (0, 10, 10, 2), (0, 4, 4, 2), (1, 10, 10, 4), (2, 8, 8, 2), (3, 6, 6, 2)]

ON_HOSTS = [
    *[([4, 4], [(0, 5, 5, 3), (0, 5, 5, 3)], backfill, [0, 0], [0, 1]) for backfill in BACKFILLS],
    *[([4, 4], SPLIT, backfill, [0, 0, 10], [0, 1, 0]) for backfill in BACKFILLS],
    *[([8], SPLIT, backfill, [0, 0, 0], [0, 0, 0]) for backfill in BACKFILLS],
    ([4, 4], BESIDE, "easy", [0, 0, 10, 2, 3, 15], [0, 1, 0, 1, 0, 0]),
    ([4, 4], BESIDE, "easy-sjf", [0, 0, 10, 2, 3, 15], [0, 1, 0, 1, 0, 0]),
    ([4, 4], BESIDE, "conservative", [0, 0, 10, 2, 3, 15], [0, 1, 0, 1, 0, 0]),
    # knows no extra processors: job 3, which does not end before 10, comes after job 2
    ([4, 4], BESIDE, "rlscheduler", [0, 0, 10, 10, 3, 15], [0, 1, 0, 1, 0, 0]),
    # at 10 job 2 takes host 0, and jobs 3 and 4 what is left of host 1
    ([4, 4], BESIDE, "none", [0, 0, 10, 10, 10, 15], [0, 1, 0, 1, 1, 0]),
    ([4, 4], OVERDUE, "easy", [0, 0, 20, 7, 25], [0, 1, 0, 1, 0]),
    ([4, 4], OVERDUE, "conservative", [0, 0, 20, 7, 25], [0, 1, 0, 1, 0]),
    ([4, 2], PROTECT, "easy", [0, 0, 10, 33, 3, 10], [0, 1, 0, 0, 0, 0]),
    ([4, 2], PROTECT, "conservative", [0, 0, 10, 20, 20, 4], [0, 1, 0, 0, 1, 0]),
    ([4, 2], PROTECT, "none", [0, 0, 10, 20, 20, 20], [0, 1, 0, 0, 1, 1]),
    ([2, 4], STAY, "conservative", [0, 0, 0, 10, 8, 4], [0, 1, 1, 1, 0, 1]),
    ([2, 4], STAY, "easy", [0, 0, 0, 10, 8, 4], [0, 1, 1, 1, 0, 1]),
]


@pytest.mark.parametrize(("hosts", "jobs", "backfill", "start", "host"), ON_HOSTS)
def test_the_reference_on_hosts(hosts, jobs, backfill, start, host):
    assert on_hosts(hosts, jobs, backfill) == (start, host)
