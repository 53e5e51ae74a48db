"""Published numbers, to the printed digit."""

import numpy as np
import pytest
from shared_data import shared

import tracekit
from tracekit.sim.analysis import reproduce
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches


@pytest.mark.parametrize("row", reproduce.PUBLISHED, ids=lambda row: row.name)
def test_rlschedulers_table(row):
    cells = reproduce.rlscheduler(tracekit.read(shared(f"swf/{row.file}")))
    assert len(cells) == 10
    for cell in cells:
        assert cell["published"] is not None
        assert reproduce.agrees(cell), cell


def test_our_own_reading_of_the_same_windows():
    """Right waits, decisions anew, full EASY: other numbers, and better ones for FCFS than without backfilling."""
    cells = reproduce.rlscheduler(tracekit.read(shared("swf/lublin_256.swf")), compat=False)
    fcfs = {cell["backfill"]: cell["bsld"] for cell in cells if cell["policy"] == "fcfs"}
    assert fcfs[True] < fcfs[False]


def test_many_at_once_are_the_same_as_one_by_one():
    trace = tracekit.read(shared("swf/lublin_256.swf"))
    jobs = extract_jobs(trace, Switches())
    tasks = [
        Run(jobs.window(start, 400), policy, "easy", Switches()) for start in (0, 900) for policy in ("f1", "wfp3")
    ]
    alone, together = run_all(tasks, threads=1), run_all(tasks, threads=4)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.start, other.start)
