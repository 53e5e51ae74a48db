"""Metrics by hand, and the switches that change them."""

import numpy as np
import pytest

import tracekit
from tracekit.sim import metrics

from .helpers import trace_of

SUBMIT = np.array([0.0, 0.0, 10.0])
START = np.array([0.0, 10.0, 30.0])
RUN = np.array([10.0, 20.0, 5.0])
PROCS = np.array([2.0, 4.0, 1.0])


def test_times_and_slowdowns():
    waits = metrics.wait(SUBMIT, START)
    assert waits.tolist() == [0, 10, 20]
    assert metrics.response(SUBMIT, START, RUN).tolist() == [10, 30, 25]
    assert metrics.slowdown(waits, RUN).tolist() == [1, 1.5, 5]
    assert metrics.bounded_slowdown(waits, RUN).tolist() == [1, 1.5, 2.5]
    assert metrics.bounded_slowdown(waits, RUN, procs=PROCS).tolist() == [1, 1, 2.5]
    assert metrics.slowdown(np.array([0.0, 1.0]), np.zeros(2)).tolist() == [1, np.inf]


def test_utilisation_makespan_and_queue():
    used = 2 * 10 + 4 * 20 + 5
    assert metrics.makespan(SUBMIT, START, RUN) == 35
    assert metrics.utilization(SUBMIT, START, RUN, PROCS, 4) == used / (4 * 35)
    assert metrics.utilization(SUBMIT, START, RUN, PROCS, 4, to_last_start=True) == used / (4 * 30)
    assert metrics.queue_length(SUBMIT, START) == (30 / 30, 1)
    times, level = metrics.steps(START, START + RUN, PROCS)
    assert times.tolist() == [0, 10, 30, 35]
    assert level.tolist() == [2, 4, 1, 0]


def test_fairness_and_classes():
    values, user = np.array([1.0, 3.0, 5.0, 9.0]), np.array([0, 0, 2, -1])
    assert metrics.per_user(values, user).tolist() == [2, 5]
    found = metrics.fairness(values, user)
    assert found["user_mean"] == 3.5
    assert found["user_max"] == 5
    assert found["jain"] == pytest.approx(49 / 58)
    assert np.isnan(metrics.fairness(values, np.full(4, -1))["jain"])
    classes = metrics.by_class(np.array([1.0, 3.0]), np.array([1.0, 100.0]), np.array([600.0, 601.0]), 100)
    assert classes == {"small/short": {"jobs": 1, "mean": 1.0}, "large/middle": {"jobs": 1, "mean": 3.0}}


def test_switches_are_written_into_the_result():
    trace = trace_of((0, 100, 50, 1), (0, 10, 50, 1), procs=1)
    plain, killed = tracekit.simulate(trace), tracekit.simulate(trace, kill_at_limit=True, bound=60)
    assert plain.start.tolist() == [0, 100]
    assert killed.start.tolist() == [0, 50]
    assert killed.switches["kill_at_limit"] is True
    assert killed.metrics["mean_bsld"] == 1  # (0 + 50) / 60 and (50 + 10) / 60
    assert plain.switches["estimates"] == "requested"
    assert plain.switches["procs"] == 1


def test_replay_takes_the_recorded_starts():
    trace = trace_of((0, 10, 10, 1), (5, 10, 10, 1), (6, 1, 1, 1), procs=1, wait_time=[2.0, 7.0, np.nan])
    result = tracekit.simulate(trace, "replay")
    assert result.start.tolist() == [2, 12]
    assert dict(result.rejected) == {"no recorded wait": 1}


def test_sizes_and_resources():
    trace = trace_of((0, 10, 10, 1), (0, 10, 10, 2), procs=4, alloc_procs=[4, 1], req_gpus=[1, 1])
    assert tracekit.simulate(trace).procs.tolist() == [1, 2]
    assert tracekit.simulate(trace, procs_from="allocated").procs.tolist() == [4, 1]
    assert tracekit.simulate(trace, procs_from="max").procs.tolist() == [4, 2]
    by_gpu = tracekit.simulate(trace, resource="gpus", procs=1)
    assert by_gpu.start.tolist() == [0, 10]
    assert by_gpu.switches["resource"] == "gpus"


def test_multifactor_favours_whoever_has_used_little():
    """Ann has run for long; when the machine becomes free, Bob's later job goes first for his unused share."""
    jobs = [(0, 1000, 1000, 4), (1, 10, 10, 4), (2, 10, 10, 4)]
    trace = trace_of(*jobs, procs=4, user=["ann", "ann", "bob"])
    assert tracekit.simulate(trace, "multifactor", "none").start.tolist() == [0, 1010, 1000]
    only_age = {"fair_weight": 0.0, "size_weight": 0.0}
    assert tracekit.simulate(trace, "multifactor", "none", options=only_age).start.tolist() == [0, 1000, 1010]


def test_last_two_predicts_from_the_users_own_jobs():
    """By its limit job 4 would not be backfilled; the user's last two jobs ran 2 and 4 seconds, so 3 are expected."""
    jobs = [(0, 2, 99, 1), (0, 4, 99, 1), (5, 20, 20, 3), (6, 5, 5, 4), (7, 3, 99, 1)]
    trace = trace_of(*jobs, procs=4, user=["a", "a", "b", "b", "a"])
    assert tracekit.simulate(trace).start.tolist()[4] == 30
    assert tracekit.simulate(trace, estimates="last-two").start.tolist()[4] == 7
