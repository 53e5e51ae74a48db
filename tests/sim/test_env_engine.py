"""One engine, one truth: an agent that imitates a heuristic makes the heuristic's schedule, start for start."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import shared

import tracekit
from tracekit.errors import UsageError
from tracekit.sim.analysis import reproduce
from tracekit.sim.analysis.check import violations
from tracekit.sim.policies import formulas
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.trace import Machine, Trace

from .helpers import trace_of
from .playing import imitate, play
from .test_reference import MANNERS, tables

BACKFILLS = ("none", "easy", "easy-sjf", "rlscheduler")
#: multifactor looks at what users have used, which the imitating agent of these tests does not.
POLICIES = [name for name in formulas.NAMES if name != "multifactor"] + ["random"]
STATIC = [name for name in formulas.NAMES if formulas.CODES[name] < formulas.FIRST_DYNAMIC]
WAYS = [manner for manner in MANNERS if manner.get("estimates") != "last-two"]


def trace_from(table):
    """Turn a table of the engine's tests back into a trace."""
    jobs = pd.DataFrame(
        {
            "job_id": table.job_id,
            "submit_time": table.submit,
            "run_time": table.run,
            "req_time": table.limit,
            "req_procs": table.procs.astype(int),
            "user": pd.Categorical([None if user < 0 else f"u{user}" for user in table.user]),
        }
    )
    return Trace(jobs, Machine(procs=table.total))


def crowd(jobs=150, total=16, seed=4):
    """A trace with a queue that is mostly busy."""
    rng = np.random.default_rng(seed)
    run = np.ceil(rng.exponential(60, jobs))
    rows = zip(
        np.cumsum(np.floor(rng.exponential(9, jobs))),
        run,
        np.ceil(run * rng.uniform(0.8, 4, jobs)),
        np.minimum(1 + np.floor(rng.exponential(3, jobs)), total),
        strict=True,
    )
    return trace_of(*rows, procs=total, user=pd.Categorical(rng.choice(["a", "b", "c"], jobs)))


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_every_heuristic_on_every_backfilling(backfill, commit):
    trace = crowd()
    batch = Batch(trace, PickJob(slots=150, backfill=backfill, commit=commit), lanes=1)
    for policy in POLICIES:
        (ours,) = imitate(batch, [(0, 150)], policy)
        theirs = tracekit.simulate(trace, policy, backfill, commit=commit)
        np.testing.assert_array_equal(ours, theirs.start, err_msg=policy)
        assert batch.score[0] == pytest.approx(theirs.metrics["mean_bsld"], rel=1e-12)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    table=tables(),
    manner=st.sampled_from(WAYS),
    backfill=st.sampled_from(BACKFILLS),
    policy=st.sampled_from(POLICIES),
    ask_forced=st.booleans(),
)
def test_crowded_little_traces(table, manner, backfill, policy, ask_forced):
    """Ties, jobs of no length, limits below run times, passes at intervals, events one at a time."""
    trace, switches = trace_from(table), Switches(**manner)
    if len(trace) == (table.run == 0).sum() and switches.compat:
        return  # nothing is left
    task = PickJob(slots=64, backfill=backfill, ask_forced=ask_forced, switches=switches)
    batch = Batch(trace, task, lanes=1)
    (ours,) = imitate(batch, [(0, len(batch.source))], policy)
    theirs = tracekit.simulate(trace, policy, backfill, **manner)
    np.testing.assert_array_equal(ours, theirs.start)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    table=tables(),
    backfill=st.sampled_from(BACKFILLS),
    commit=st.booleans(),
    policy=st.sampled_from(STATIC),
    slots=st.integers(1, 4),
)
def test_few_slots_suffice_when_the_rule_shows_the_right_jobs(table, backfill, commit, policy, slots):
    """With the heuristic's own order as the rule of visibility, its first choice is always among those shown."""
    trace = trace_from(table)
    batch = Batch(trace, PickJob(slots=slots, visible=policy, backfill=backfill, commit=commit), lanes=1)
    (ours,) = imitate(batch, [(0, len(trace))], policy)
    np.testing.assert_array_equal(ours, tracekit.simulate(trace, policy, backfill, commit=commit).start)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    table=tables(),
    cut=st.integers(0, 21),
    backfill=st.sampled_from(BACKFILLS),
    commit=st.booleans(),
    base=st.sampled_from(["fcfs", "sjf"]),
    policy=st.sampled_from(["fcfs", "sjf", "wfp3"]),
)
def test_a_warm_start_is_the_engines_own(table, cut, backfill, commit, base, policy):
    """From running and waiting jobs on, imitation and the engine still agree, on a machine that is never overfull."""
    trace = trace_from(table)
    cut = min(cut, len(trace) - 1)
    task = PickJob(slots=64, backfill=backfill, commit=commit, warm=50, base=base)
    batch = Batch(trace, task, lanes=1)
    window = (cut, len(trace) - cut)
    (ours,) = imitate(batch, [window], policy)
    np.testing.assert_array_equal(ours, batch.source.schedule(window, policy))
    jobs = batch.source.episode(window).ready
    kept = jobs.table
    assert not violations(kept.job_id, kept.submit, ours, ours + jobs.run, kept.procs, kept.total)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_warmed_up_with_all_that_came_before_nothing_has_changed(backfill):
    """The policy that warmed the machine up goes on as if the window had not been cut out at all."""
    trace = crowd(seed=8)
    whole = tracekit.simulate(trace, "sjf", backfill)
    batch = Batch(trace, PickJob(slots=150, backfill=backfill, warm=1000, base="sjf"), lanes=3)
    windows = [(30, 120), (77, 73), (149, 1)]
    for window, ours in zip(windows, imitate(batch, windows, "sjf"), strict=True):
        rows = batch.source.episode(window).ready.table.position
        np.testing.assert_array_equal(ours, whole.start[rows])
        assert set(range(window[0], 150)) <= set(rows)


def test_a_warm_start_counts_only_what_is_still_to_start():
    """At 10, job 1 runs and job 2 waits: job 2 counts, with all of its wait; job 1 does not."""
    trace = trace_of((0, 100, 100, 2), (5, 10, 10, 2), (10, 10, 10, 2), procs=2)
    batch = Batch(trace, PickJob(warm=2, base="fcfs", objective="wait"), lanes=1)
    (starts,) = imitate(batch, [(2, 1)], "fcfs")
    assert starts.tolist() == [0, 100, 110]
    assert batch.score[0] == pytest.approx(((100 - 5) + (110 - 10)) / 2)


def test_the_published_windows_by_imitation():
    """RLScheduler's task, played by an agent that imitates f1 and sees every waiting job: the published 258.37."""
    trace = tracekit.read(shared("swf/lublin_256.swf"))
    task = PickJob.rlscheduler(slots=reproduce.WINDOW_JOBS)
    batch = Batch(trace, task, lanes=len(reproduce.WINDOWS))
    windows = [(start, reproduce.WINDOW_JOBS) for start in reproduce.WINDOWS]
    imitate(batch, windows, "f1")
    assert f"{batch.score.mean():.2f}" == "258.37"


# ---- what only an agent can do -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    table=tables(),
    manner=st.sampled_from(WAYS),
    backfill=st.sampled_from(BACKFILLS),
    skips=st.sampled_from([0.0, 0.5, 1.0]),
    slots=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_whatever_an_agent_does_the_schedule_is_possible(table, manner, backfill, skips, slots, seed):
    """Also one that does nothing whenever it may; every job starts in the end."""
    trace, switches = trace_from(table), Switches(**manner)
    if len(trace) == (table.run == 0).sum() and switches.compat:
        return
    batch = Batch(trace, PickJob(slots=slots, skip=True, backfill=backfill, switches=switches), lanes=1)
    (starts,) = play(batch, [(0, len(batch.source))], np.random.default_rng(seed), skips)
    ready = batch.source.episode((0, len(batch.source))).ready
    jobs = ready.table
    assert not violations(jobs.job_id, jobs.submit, starts, starts + ready.run, jobs.procs, jobs.total)


def test_easy_as_an_agent_sees_it():
    """Worked by hand. Four processors; job 1 holds three until 100 (by estimate and in truth).

    At 10, jobs 2 (four processors), 3 (one, ends at 60), 4 (one, ends at 210) wait.
    """
    trace = trace_of((0, 100, 100, 3), (10, 50, 50, 4), (10, 50, 50, 1), (10, 200, 200, 1), procs=4)
    batch = Batch(trace, PickJob(), lanes=1)
    batch.reset([0], [(0, 4)])
    assert batch.shown(0).tolist() == [0]  # the first choice is always asked for, though forced
    batch.step([0])
    assert batch.arrays.state["now"][0] == 10
    assert batch.shown(0).tolist() == [1, 2, 3]
    batch.step([0])  # job 2 does not fit: reserved for 100. Job 3 fills the gap, forced; job 4 would be in the way
    assert batch.arrays.state["now"][0] == 60  # it has ended, and job 4 would fit
    assert batch.shown(0).tolist() == [1, 3]
    batch.step([0])  # reserved again; job 4 is still in the way
    assert batch.arrays.state["now"][0] == 100
    batch.step([0])  # job 2 starts; job 4 follows at its end, forced
    assert batch.starts(0).tolist() == [0, 100, 10, 150]
    assert batch.done[0]
    batch.reset([0], [(0, 4)])
    batch.step([0])
    batch.step([2])  # instead: job 4 fits and starts; then nobody fits until 100
    assert batch.starts(0)[3] == 10
    assert batch.arrays.state["now"][0] == 100
    assert batch.shown(0).tolist() == [1, 2]


def test_only_those_that_may_fill_the_gap_are_shown():
    """The reserved job leaves one processor: a long job of one may run beside it, a long job of two may not."""
    trace = trace_of(
        (0, 100, 100, 2), (10, 50, 50, 3), (10, 500, 500, 1), (10, 500, 500, 2), (10, 20, 20, 2), (10, 9, 9, 1), procs=4
    )
    batch = Batch(trace, PickJob(), lanes=1)
    batch.reset([0], [(0, 6)])
    batch.step([0])
    assert batch.shown(0).tolist() == [1, 2, 3, 4, 5]
    batch.step([0])  # job 1 is reserved for 100, with one processor to spare
    assert batch.shown(0).tolist() == [2, 4, 5]
    assert batch.mask[0].sum() == 3
    filling = batch.task.feature_names.index("filling")
    spare = batch.task.feature_names.index("spare")
    assert batch.features[0, :3, filling].tolist() == [1, 1, 1]
    assert batch.features[0, :3, spare].tolist() == [0.25] * 3
    batch.step([0])  # the long job of one processor: nothing is left to spare, and one processor is free
    assert batch.starts(0)[2] == 10
    assert batch.starts(0)[5] == 10  # the last one that fits, without being asked
    assert batch.arrays.state["now"][0] == 100  # before, there is never room for two
    assert batch.shown(0).tolist() == [1, 3, 4]


def test_skipping_waits_for_the_next_event_and_ends_where_nothing_can_happen():
    trace = trace_of((0, 5, 5, 1), (0, 5, 5, 1), (7, 5, 5, 1), procs=2)
    batch = Batch(trace, PickJob(skip=True), lanes=1)
    batch.reset([0], [(0, 3)])
    assert batch.mask[0, [0, 1, 2, -1]].tolist() == [True, True, False, True]
    batch.step([128])  # until the arrival at 7
    assert batch.arrays.state["now"][0] == 7
    assert not batch.mask[0, -1]  # nothing runs and no job will arrive: waiting would never end
    assert batch.count[0] == 3
    with pytest.raises(UsageError, match="action"):
        batch.step([128])
    batch.step([2])
    assert batch.mask[0, -1]
    batch.step([128])  # until that job ends
    assert batch.arrays.state["now"][0] == 12


def test_forced_moves_are_made_without_asking_unless_asked_for():
    trace = crowd(60)
    quiet, loud = (Batch(trace, PickJob(ask_forced=asked), lanes=1) for asked in (False, True))
    assert imitate(quiet, [(0, 60)], "sjf")[0].tobytes() == imitate(loud, [(0, 60)], "sjf")[0].tobytes()
    assert 1 <= quiet.decisions[0] < loud.decisions[0]
    assert loud.decisions[0] >= 60


def test_a_window_without_a_single_choice_asks_once():
    trace = trace_of(*[(100 * i, 10, 10, 1) for i in range(20)], procs=4)
    batch = Batch(trace, PickJob(), lanes=1)
    batch.reset([0], [(0, 20)])
    assert not batch.done[0]
    reward, done = batch.step([0])
    assert done[0]
    assert reward[0] == -1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_lanes_nor_threads_change_anything(threads):
    trace = crowd(400, seed=2)
    windows = [(int(start), 40) for start in np.random.default_rng(0).integers(0, 360, 100)]
    many = Batch(trace, PickJob(), lanes=100, threads=threads)
    together = play(many, windows, np.random.default_rng(7))
    alone = Batch(trace, PickJob(), lanes=1)
    draws = np.random.default_rng(7).integers(0, 2**32, 100)
    for lane in (0, 31, 32, 64, 99):

        class One:
            """Hands out the seed of that lane."""

            def integers(self, low, high, size, lane=lane):
                return draws[lane : lane + 1]

        (single,) = play(alone, [windows[lane]], One())
        assert single.tobytes() == together[lane].tobytes()
        assert alone.score[0] == many.score[lane]


def test_wrong_actions_change_nothing():
    batch = Batch(crowd(), PickJob(), lanes=2)
    batch.reset([0, 1], [(0, 50), (50, 50)])
    before = batch.features.copy()
    for actions in ([0, 99], [-1, 0], [0, 128]):
        with pytest.raises(UsageError, match="action"):
            batch.step(actions)
    with pytest.raises(UsageError, match="as many actions"):
        batch.step([0])
    np.testing.assert_array_equal(batch.features, before)
    assert batch.decisions.tolist() == [0, 0]


def test_lanes_go_on_when_a_longer_window_needs_more_room():
    trace = crowd(300, seed=3)
    batch = Batch(trace, PickJob(), lanes=2)
    features = batch.features
    batch.reset([0], [(0, 20)])
    batch.step([0, 0])
    shown = batch.shown(0)
    batch.reset([1], [(50, 250)])
    assert batch.features is features
    np.testing.assert_array_equal(batch.shown(0), shown)
    while not batch.done.all():
        batch.step([0, 0])
    np.testing.assert_array_equal(batch.starts(1), batch.source.schedule((50, 250), "fcfs"))
    np.testing.assert_array_equal(batch.starts(0), batch.source.schedule((0, 20), "fcfs"))
