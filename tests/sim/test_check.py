"""The checker finds what is wrong with a schedule, and nothing that is right."""

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.errors import FormatError
from tracekit.sim.analysis.check import check_schedule, read_schedule

from .helpers import trace_of

TRACE = trace_of((0, 10, 10, 2), (0, 10, 20, 2), (5, 10, 10, 4), (6, 5, 5, 99), procs=4)


def schedule(**changes):
    rows = pd.DataFrame(
        {
            "job_id": [1, 2, 3],
            "submit_time": [0, 0, 5],
            "start_time": [0.0, 0, 10],
            "end_time": [10.0, 10, 20],
            "procs": [2, 2, 4],
        }
    )
    return rows.assign(**changes)


def kinds(table, **options):
    return [violation.kind for violation in check_schedule(table, TRACE, **options)]


def test_a_feasible_schedule_passes():
    assert kinds(schedule()) == []
    assert kinds(tracekit.simulate(TRACE).schedule()) == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"start_time": [0, 0, 9], "end_time": [10, 10, 19]}, "over-allocation"),
        ({"start_time": [0, -1, 10]}, "early-start"),
        ({"end_time": [10, 10, 9]}, "negative-length"),
        ({"end_time": [10, 10, 15]}, "cut-short"),
        ({"procs": [2, 2, 3]}, "shrunk"),
        ({"procs": [2, 2, 5]}, "too-large"),
        ({"job_id": [1, 2, 7]}, "stranger"),
        ({"job_id": [1, 2, 2]}, "doubled"),
        ({"start_time": [0, np.nan, 10]}, "incomplete"),
    ],
)
def test_each_kind_of_violation(changes, kind):
    assert kind in kinds(schedule(**changes))


def test_missing_jobs():
    assert kinds(schedule().iloc[:2]) == ["missing"]
    assert kinds(schedule().iloc[:2], partial=True) == []
    assert kinds(schedule(), procs=3) == ["too-large", "over-allocation"]


def test_files_that_are_no_schedules(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="start_time"):
        read_schedule(path)
    path.write_text("")
    with pytest.raises(FormatError, match="CSV"):
        read_schedule(path)
    path.write_text("job_id,start_time,end_time,procs\n1,x,2,3\n")
    with pytest.raises(FormatError, match="column"):
        read_schedule(path)
