"""Small schedules worked out by hand. Jobs are (submit, run, limit, procs)."""

import numpy as np
import pytest

import tracekit
from tracekit.sim.analysis.check import check_result

from .helpers import trace_of

#: Ten processors. Job 2 blocks at 1 until job 1 ends at 10; 3 slips in before; at 7 there are 4 free, of which 2 are
#: left over at 10 as well.
GAPS = trace_of((0, 10, 10, 6), (1, 10, 10, 8), (2, 5, 5, 4), (3, 20, 20, 2), (4, 3, 3, 2), (4, 2, 2, 2), procs=10)
#: Four processors. EASY lets job 4 pass because it does not delay job 2; that job 3 waits until 33 is none of its
#: business. Conservative backfilling protects job 3 too.
DELAY = trace_of((0, 10, 10, 3), (1, 10, 10, 2), (2, 10, 10, 4), (3, 30, 30, 1), (4, 5, 5, 1), procs=4)
#: Job 1 runs four times its limit: at 10 it counts as ending now, so nothing may start that is still there "then".
OVERRUN = trace_of((0, 20, 5, 3), (1, 5, 5, 4), (10, 2, 2, 1), procs=4)
#: Six processors. At 14 only job 1 is past its limit, so job 3 is to start "now" on all that is left then; at 15 job 2
#: is, too, which leaves one processor beside job 3: job 4 takes it, although the job just arrived does not fit.
OVERDUE = trace_of((0, 17, 14, 3), (0, 18, 15, 1), (13, 10, 10, 5), (13, 3, 30, 1), (15, 5, 50, 3), procs=6)
#: Job 1 ends early, at 4: conservative backfilling re-plans, so job 2 starts then and job 3 after it.
EARLY = trace_of((0, 4, 10, 4), (1, 10, 10, 3), (2, 3, 3, 2), (3, 10, 10, 1), procs=4)

CASES = [
    (GAPS, "fcfs", "none", [0, 10, 20, 20, 20, 20]),
    (GAPS, "fcfs", "easy", [0, 10, 2, 7, 7, 20]),
    (GAPS, "fcfs", "easy-sjf", [0, 10, 2, 9, 7, 7]),
    (GAPS, "fcfs", "conservative", [0, 10, 2, 7, 7, 20]),
    # theirs must end strictly before 10 and knows no extra processors: at 7 only job 6 qualifies (5 would end at 10)
    (GAPS, "fcfs", "rlscheduler", [0, 10, 2, 10, 20, 7]),
    (DELAY, "fcfs", "none", [0, 10, 20, 30, 30]),
    (DELAY, "fcfs", "easy", [0, 10, 33, 3, 10]),
    (DELAY, "fcfs", "conservative", [0, 10, 20, 30, 4]),
    (OVERRUN, "fcfs", "easy", [0, 20, 25]),
    (OVERRUN, "fcfs", "conservative", [0, 20, 25]),
    (OVERDUE, "fcfs", "easy", [0, 0, 18, 15, 28]),
    (OVERDUE, "fcfs", "easy-sjf", [0, 0, 18, 15, 28]),
    (EARLY, "fcfs", "conservative", [0, 4, 14, 4]),
    # of equal estimates (2 and 4) the earlier comes first: 2 does not fit beside 3, and 4 waits behind it
    (EARLY, "sjf", "none", [0, 7, 4, 7]),
    (EARLY, "smallest", "none", [0, 7, 4, 4]),
    (EARLY, "largest", "none", [0, 4, 14, 14]),
    (DELAY, "lcfs", "none", [0, 43, 33, 3, 10]),
]


@pytest.mark.parametrize(("trace", "policy", "backfill", "expected"), CASES)
def test_worked_by_hand(trace, policy, backfill, expected):
    result = tracekit.simulate(trace, policy, backfill)
    assert not check_result(result)
    np.testing.assert_array_equal(result.start, expected)


def test_commit_keeps_the_pick():
    """sjf picks job 2 while the machine is full; the shorter job 3 comes later and overtakes only without --commit."""
    trace = trace_of((0, 10, 10, 4), (1, 8, 8, 4), (2, 1, 1, 4), procs=4)
    assert tracekit.simulate(trace, "sjf", "none").start.tolist() == [0, 11, 10]
    assert tracekit.simulate(trace, "sjf", "none", commit=True).start.tolist() == [0, 10, 18]


def test_completions_come_before_arrivals_at_one_instant():
    trace = trace_of((0, 10, 10, 4), (10, 5, 5, 4), procs=4)
    assert tracekit.simulate(trace).start.tolist() == [0, 10]


def test_simultaneous_arrivals_are_seen_by_one_pass():
    trace = trace_of((0, 9, 9, 4), (0, 3, 3, 4), procs=4)
    assert tracekit.simulate(trace, "sjf").start.tolist() == [3, 0]
    assert tracekit.simulate(trace, "sjf", ties="arrivals").start.tolist() == [0, 9]


def test_passes_at_an_interval():
    trace = trace_of((0, 10, 10, 4), (1, 5, 5, 4), (31, 5, 5, 4), procs=4)
    assert tracekit.simulate(trace, interval=30).start.tolist() == [0, 30, 60]
