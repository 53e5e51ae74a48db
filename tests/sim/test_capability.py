"""The policies capability-first and adaptive, by hand; `test_reference` has them on random traces."""

import numpy as np
import pytest

import tracekit

from .helpers import trace_of

#: Job 0 holds all ten processors until 10; then the others start one after the other or side by side.
JOBS = [(0, 10, 10, 10), (1, 5, 5, 6), (2, 5, 5, 1), (3, 5, 5, 6)]


def starts(policy, **columns):
    trace = trace_of(*JOBS, procs=10, **columns)
    return tracekit.simulate(trace, policy, "none").start.tolist()


@pytest.mark.parametrize(
    "flags",
    [
        ["capable", "not-capable", "not-capable", "capable"],
        ["True", "False", "False", "True"],
        [1, 0, 0, 1],
        ["1.0", None, "0.0", "1.0"],
        [np.nan, np.nan, np.nan, 1.0],
    ],
)
def test_jobs_with_the_flag_come_first(flags):
    assert starts("capability-first", x_capability=flags) == [0, 15, 15, 10]


def test_without_flags_jobs_of_a_fifth_of_the_machine_come_first():
    assert starts("capability-first") == [0, 10, 15, 15]
    assert starts("capability-first", x_capability=[None] * 4) == [0, 10, 15, 15]


def test_adaptive_takes_the_smallest_job_first_only_on_a_busy_machine():
    """At 10 the machine is idle: as submitted. With job 4 running on 9 of 10 processors at 0, the smallest."""
    assert starts("adaptive") == [0, 10, 10, 15]
    trace = trace_of((0, 10, 10, 9), (1, 5, 5, 2), (2, 5, 5, 1), procs=10)
    assert tracekit.simulate(trace, "adaptive", "none").start.tolist() == [0, 10, 2]
    assert tracekit.simulate(trace, "fcfs", "none").start.tolist() == [0, 10, 10]
