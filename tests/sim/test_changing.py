"""Dependencies, outages and predictions: against a slow reference, against the plain engine, and by hand."""

import dataclasses
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.errors import FormatError, UsageError
from tracekit.sim.analysis.check import check_result, over_allocation
from tracekit.sim.engine.dependencies import predecessors, thinking
from tracekit.sim.jobs import prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import outcome
from tracekit.sim.switches import Switches, outage_steps, read_outages

from .helpers import by_reference, starts, trace_of
from .test_reference import tables

EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "22"))
POLICIES = ["fcfs", "sjf", "wfp3", "multifactor", "random"]
BACKFILLS = ["none", "easy", "easy-sjf", "conservative", "rlscheduler"]
SETTINGS = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


@st.composite
def worlds(draw):
    """A crowded little trace with followers (some of unknown jobs, some in circles), outages in all modes."""
    table = draw(tables())
    count, total = len(table), table.total
    ids = st.one_of(st.just(-1), st.integers(1, count + 1))
    dependencies = draw(st.booleans())
    switches = {
        "dependencies": dependencies,
        "commit": draw(st.sampled_from([False, False, True])),
        "interval": draw(st.sampled_from([0.0, 0.0, 7.0])),
    }
    if draw(st.booleans()):
        second = st.integers(0, 120)
        outage = st.tuples(second, st.integers(1, 40), st.integers(1, total + 1)).map(
            lambda o: (o[0], o[0] + o[1], o[2])
        )
        switches |= {
            "outages": tuple(draw(st.lists(outage, min_size=1, max_size=3))),
            "outage_mode": draw(st.sampled_from(["drain", "kill", "requeue"])),
            "outages_announced": draw(st.booleans()),
        }
    kind = draw(st.sampled_from(["requested", "actual", "last-two", "predict"]))
    if kind == "predict":
        switches |= {"predict": "last-two", "predict_for": draw(st.sampled_from(["backfill", "order", "both"]))}
    else:
        switches["estimates"] = kind
    if dependencies:
        previous = draw(st.lists(ids, min_size=count, max_size=count))
        think = draw(st.lists(st.sampled_from([0.0, 3.0, 50.0, np.nan, -2.0]), min_size=count, max_size=count))
        table = dataclasses.replace(table, previous=np.array(previous), think=np.array(think))
    if draw(st.booleans()):  # predictions are corrected by minutes: let some jobs live that long
        table = dataclasses.replace(table, run=table.run * 100, limit=table.limit * 200)
    return table, Switches(**switches)


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(world=worlds())
def test_the_engine_agrees_with_the_reference_and_nothing_impossible_happens(policy, backfill, world):
    table, switches = world
    if backfill == "rlscheduler":  # knows nothing of outages
        switches = dataclasses.replace(switches, outages=())
    ready = prepare(table, switches)
    kept = ready.table
    made = outcome(Setup(ready, backfill, dataclasses.replace(switches, dependencies=True)), find(policy))
    previous, think = predecessors(ready)[0], thinking(ready)
    slow = by_reference(ready, policy, backfill, switches, previous=previous.tolist(), think=think.tolist())
    np.testing.assert_array_equal(made.start, slow.start)
    np.testing.assert_array_equal(made.submit, slow.submit)
    np.testing.assert_array_equal(made.run, slow.run)
    # invariants, also of what the reference itself does
    end = made.start + made.run
    assert (made.start >= made.submit).all()
    followers = previous >= 0
    assert (made.submit[followers] == end[previous[followers]] + think[followers]).all()
    jobs, begin, until = (np.array(column) for column in zip(*slow.pieces, strict=True))
    if switches.outages and switches.outage_mode != "drain":
        times, away = outage_steps(switches.outages, kept.total)
        begin, until = np.append(begin, times[:-1]), np.append(until, times[1:])
        held = np.append(kept.procs[jobs], away[:-1])
    else:
        held = kept.procs[jobs]
    assert over_allocation(begin, until, held, kept.total) is None


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", POLICIES)
@SETTINGS
@given(table=tables(), manner=st.sampled_from([{}, {"commit": True}, {"interval": 7.0}, {"estimates": "last-two"}]))
def test_nothing_changes_where_nothing_changes(policy, backfill, table, manner):
    """The changing loop, asked for an outage long ago or for dependencies that no job has, gives the plain schedule."""
    switches = Switches(**manner)
    ready = prepare(table, switches)
    plain = starts(ready, policy, backfill, switches)
    for extra in ({"dependencies": True}, {"outages": ((-9.0, -8.0, 1.0),)}):
        changed = dataclasses.replace(switches, **extra)
        if changed.outages and (changed.interval or backfill == "rlscheduler"):
            continue  # ticks are counted from the first event, which would be the outage; rlscheduler knows none
        np.testing.assert_array_equal(starts(ready, policy, backfill, changed), plain)


# ---- worked by hand --------------------------------------------------------------------------------------------------


def test_a_follower_is_submitted_after_its_predecessor():
    """Job 2 waits for 1, which ends at 10, and thinks for 5; job 3 names an unknown job; 4 and 5 name each other."""
    trace = trace_of(
        (0, 10, 10, 4),
        (1, 5, 5, 4),
        (2, 5, 5, 4),
        (3, 1, 1, 1),
        (3, 1, 1, 1),
        procs=4,
        prev_job=[np.nan, 1, 99, 5, 4],
        think_time=[np.nan, 5, 5, 0, 0],
    )
    result = tracekit.simulate(trace, dependencies=True)
    assert result.submit.tolist() == [0, 15, 2, 3, 3]
    assert result.start.tolist() == [0, 16, 10, 15, 15]
    assert result.metrics["dependencies"] == {"dependent": 1, "predecessor_missing": 1, "in_a_circle": 2}
    assert result.switches["dependencies"] is True
    assert not check_result(result)
    plain = tracekit.simulate(trace)
    assert plain.submit.tolist() == [0, 1, 2, 3, 3]
    assert "dependencies" not in plain.metrics


def test_a_follower_may_come_earlier_than_recorded():
    trace = trace_of((0, 10, 10, 4), (500, 5, 5, 4), procs=4, prev_job=[np.nan, 1], think_time=[np.nan, 20])
    assert tracekit.simulate(trace, dependencies=True).start.tolist() == [0, 30]


DRAIN = trace_of((0, 10, 10, 4), (1, 30, 30, 2), (2, 8, 8, 2), (3, 40, 40, 1), procs=4)


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, [0, 10, 10, 18]),
        # half of the machine is away over [20, 60): 2 may run to 40 beside it; 3 fits before; 4 would take a third
        ({"outages": ((20, 60, 2),)}, [0, 10, 10, 40]),
        # all of it is away from 12 on: only job 1 ends before, the others wait until 60
        ({"outages": ((12, 60, 4),)}, [0, 60, 60, 68]),
        # an unplanned outage: job 2 and 3 run on, 4 starts when there is room again
        ({"outages": ((12, 60, 4),), "outages_announced": False}, [0, 10, 10, 60]),
    ],
)
def test_a_drain(switches, expected):
    result = tracekit.simulate(DRAIN, **switches)
    assert result.start.tolist() == expected
    assert result.run.tolist() == [10, 30, 8, 40]


def test_an_outage_kills_or_requeues_the_latest_start():
    """At 12 three of four processors fail. Jobs 2 and 3 started together at 10; 3 is the later one, then 2."""
    outage = {"outages": ((12, 20, 3),), "outages_announced": False}
    killed = tracekit.simulate(DRAIN, **outage, outage_mode="kill")
    assert killed.start.tolist() == [0, 10, 10, 12]  # the one processor that is left goes to job 4
    assert killed.run.tolist() == [10, 2, 2, 40]
    assert killed.metrics["outages"] == {"killed": 2, "requeued": 0, "restarts": 0, "lost_processor_seconds": 0.0}
    again = tracekit.simulate(DRAIN, **outage, outage_mode="requeue")
    assert again.start.tolist() == [0, 20, 50, 12]  # 4 holds one until 52: 2 and 3 do not fit together at 20
    assert again.run.tolist() == [10, 30, 8, 40]
    assert again.metrics["outages"] == {"killed": 0, "requeued": 2, "restarts": 2, "lost_processor_seconds": 8.0}


def test_a_killed_predecessor_has_ended():
    trace = trace_of((0, 100, 100, 4), (1, 5, 5, 1), procs=4, prev_job=[np.nan, 1], think_time=[np.nan, 1])
    result = tracekit.simulate(
        trace, dependencies=True, outages=((10, 20, 4),), outage_mode="kill", outages_announced=False
    )
    assert result.submit.tolist() == [0, 11]
    assert result.start.tolist() == [0, 20]


#: Four processors, one user. Jobs 1 and 2 end at 100 and 200: (100 + 100) / 2 is predicted for those that come later.
PREDICTED = trace_of(
    (0, 100, 1000, 4),
    (0, 100, 1000, 4),
    (210, 500, 1000, 3),  # predicted 100, runs 500: corrected at 310 (+60), 370 (+300), 610 (+900)
    (220, 100, 1000, 4),  # blocked; by prediction it may start at 310, then at 370, 610, 1210
    (230, 80, 900, 1),  # predicted 100: 230 + 100 > 310, so it waits; at 310 too: 310 + 100 > 370; at 370 it starts
    procs=4,
    user=["u"] * 5,
)


def test_easy_plus_plus_by_hand():
    result = tracekit.simulate(PREDICTED, "fcfs", "easy++")
    assert result.start.tolist() == [0, 100, 210, 710, 370]
    assert result.backfill == "easy++"
    assert result.switches["predict"] == "last-two"
    # the same rule by its parts; with users' estimates job 5 may start at once, for job 4 could wait until 1210
    assert tracekit.simulate(PREDICTED, "fcfs", "easy-sjf", predict="last-two").start.tolist() == result.start.tolist()
    assert tracekit.simulate(PREDICTED, "fcfs", "easy").start.tolist() == [0, 100, 210, 710, 230]
    # never corrected (last-two alone): from 310 on job 3 counts as ending now, and job 5 always blocks it
    assert tracekit.simulate(PREDICTED, "fcfs", "easy-sjf", estimates="last-two").start.tolist() == [
        0,
        100,
        210,
        710,
        810,
    ]


def test_policies_see_what_users_asked_for():
    """Predictions are for backfilling only: sjf goes by the limits, whatever a user's last jobs were like."""
    trace = trace_of((0, 10, 10, 4), (5, 50, 60, 4), (5, 50, 50, 4), procs=4, user=["a", "a", "b"])
    assert tracekit.simulate(trace, "sjf", "easy++").start.tolist() == [0, 60, 10]


class Longest:
    """A user policy, called from Python."""

    name = "longest"

    def priority(self, queue, state, /):
        return -state.estimate[queue]


@pytest.mark.parametrize(
    "extra", [{"dependencies": True}, {"outages": ((50.0, 4000.0, 20.0),)}, {"predict": "last-two"}]
)
def test_a_policy_of_ones_own_and_the_hook_see_the_same_world(toy, extra):
    seen = []
    mine = tracekit.simulate(toy, "sexp", "easy", on_interval=lambda *stretch: seen.append(stretch), **extra)
    np.testing.assert_array_equal(mine.start, tracekit.simulate(toy, "sexp", "easy", **extra).start)
    assert sum((end - begin) * used for begin, end, used in seen) == pytest.approx((mine.run * mine.procs).sum())
    assert len(tracekit.simulate(toy, Longest(), "easy", **extra)) == len(mine)


@pytest.mark.parametrize(
    "switches",
    [
        {"dependencies": True, "compat": "rlscheduler"},
        {"predict": "last-two", "estimates": "last-two"},
        {"predict": "last-three"},
        {"outages": ((5, 5, 1),)},
        {"outages": ((5, 9, 0),)},
        {"outages": ((5, np.inf, 1),)},
        {"outage_mode": "wait"},
        {"warmup": "5x"},
        {"cooldown": "100%"},
        {"warmup": "-1h"},
    ],
)
def test_what_cannot_be_is_refused(switches):
    with pytest.raises(UsageError):
        Switches(**switches)


def test_outage_steps_by_hand():
    """Two overlap over [15, 20), where they would take more than there is; the third begins when the second ends."""
    times, away = outage_steps(((10, 20, 3), (15, 30, 2), (30, 40, 1)), 4)
    assert times.tolist() == [10, 15, 20, 30, 40]
    assert away.tolist() == [3, 4, 2, 1, 0]
    assert len(outage_steps((), 4)[0]) == 0


def test_thousands_of_outages(toy):
    outages = tuple((600.0 * i, 600.0 * i + 60, 1 + i % 3) for i in range(5000))
    for announced in (True, False):
        result = tracekit.simulate(toy, outages=outages[: 5000 if announced else 500], outages_announced=announced)
        assert not check_result(result)


def test_outages_from_files(tmp_path):
    path = tmp_path / "outages.txt"
    path.write_text("# maintenance\n10:20:4\n30 40 2  # half\n\n50, 60, 1\n")
    assert read_outages([str(path), "1:2:3"]) == ((10, 20, 4), (30, 40, 2), (50, 60, 1), (1, 2, 3))
    path.write_text("10:20\n")
    with pytest.raises(FormatError, match="line 1"):
        read_outages([str(path)])
    with pytest.raises(UsageError, match="FROM:TO:PROCS"):
        read_outages(["tomorrow"])


def test_warm_up_and_cool_down_are_left_out_of_the_metrics():
    """Ten jobs on one processor, a second each, all but the first two and the last waiting for the one before."""
    trace = trace_of(*[(float(i), 2.0, 2.0, 1.0) for i in range(10)], procs=1)
    whole = tracekit.simulate(trace)
    cut = tracekit.simulate(trace, warmup="20%", cooldown="1s")
    assert whole.wait.tolist() == list(range(10))
    assert cut.metrics["mean_wait_s"] == np.mean(range(2, 9))
    assert (cut.metrics["measured_jobs"], cut.summary()["jobs"]) == (7, 10)
    # from the submit of job 3 at 2 to that of job 10 at 9 the machine was always in use
    assert cut.metrics["utilization"] == 1.0
    # waiting there: 9 jobs' waits cut to [2, 9): 1, then job 2 … 8 by hand
    assert cut.metrics["mean_queue_length"] == pytest.approx(
        sum(max(min(2 * i, 9) - max(i, 2), 0) for i in range(10)) / 7
    )
    assert cut.metrics["makespan_s"] == 18 - 2
    assert cut.switches["warmup"] == "20%"
    assert "measured_jobs" not in whole.metrics
