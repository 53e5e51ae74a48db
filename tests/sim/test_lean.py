"""Simulations that need few columns read only these, and come to the same results."""

import json

import numpy as np
import pytest

import tracekit
from tracekit.api import read_as
from tracekit.cli import main
from tracekit.sim.analysis.lean import lean_columns
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.metrics import queue_length
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches
from tracekit.stats import steps


@pytest.fixture
def trace():
    jobs = tracekit.sample().head(400)
    user = jobs.jobs["user"].where(np.arange(len(jobs)) % 7 > 0)
    run = np.where(np.arange(len(jobs)) % 50 == 3, np.nan, jobs.column("run_time"))
    return jobs.assign({"user": user, "run_time": run, "x_note": "text"})


@pytest.mark.parametrize("pair", [("fcfs", "easy"), ("wfp3", "conservative"), ("random", "none"), ("replay", "none")])
def test_results_are_the_same(trace, pair):
    switches = Switches(warmup="5%")
    few = trace.replace(jobs=trace.jobs[[name for name in trace.jobs if name in lean_columns([pair], switches)]])
    lean, whole = (extract_jobs(t, switches, lean=t is few) for t in (few, trace))
    assert lean.trace is None
    assert lean.user.nbytes + lean.position.nbytes < whole.user.nbytes
    ours, theirs = run_all([Run(jobs, *pair, switches) for jobs in (lean, whole)])
    assert ours.summary() == theirs.summary()
    assert ours.schedule().equals(theirs.schedule())
    first, second = (jobs.window(10, 100).take(np.arange(5, 20)) for jobs in (lean, whole))
    np.testing.assert_array_equal(
        first.wait if pair[0] == "replay" else first.job_id, second.wait if pair[0] == "replay" else second.job_id
    )


def test_the_command_reads_what_it_needs(trace, tmp_path, capsys):
    native, text = tmp_path / "jobs.parquet", tmp_path / "jobs.swf"
    tracekit.write(trace, native)
    tracekit.write(trace, text)
    found = []
    for file in (native, text):
        assert main(["simulate", str(file), "--policy", "fcfs,sjf", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["results"])
    assert found[0] == found[1]
    assert list(read_as(native, columns=("req_procs",))[0].jobs) == ["job_id", "submit_time", "run_time", "req_procs"]
    assert read_as(native)[0].equals(trace)


@pytest.mark.parametrize(
    ("policy", "backfill", "manner"),
    [
        ("capability-first", "easy", {}),
        ("multifactor", "easy", {}),
        ("fcfs", "easy++", {}),
        ("fcfs", "easy", {"predict": "last-two"}),
        ("fcfs", "easy", {"dependencies": True}),
        ("fcfs", "easy", {"compat": "slurm"}),
        ("fcfs", "easy", {"frequency": 0.5}),
        ("fcfs", "easy", {"power": "cpu-node"}),
        ("search", "easy", {}),
    ],
)
def test_others_read_everything(policy, backfill, manner):
    assert lean_columns([("fcfs", "easy"), (policy, backfill)], Switches(**manner)) is None


def test_waits_are_read_where_they_are_repeated():
    assert "wait_time" not in (lean_columns([("fcfs", "easy")], Switches()) or ())
    assert "wait_time" in (lean_columns([("fcfs", "easy"), ("replay", "none")], Switches()) or ())


def test_the_longest_queue_is_that_of_the_steps():
    rng = np.random.default_rng(1)
    for count in (1, 2, 50):
        for _ in range(50):
            submit = rng.integers(0, 20, count).astype(float)
            start = submit + rng.integers(-2, 9, count) * (rng.random(count) < 0.7)
            times, level = steps(submit, start)
            expected = (0.0, 0)
            if len(times) > 1:
                expected = (float((start - submit).sum() / (times[-1] - times[0])), int(level.max()))
            assert queue_length(submit, start) == expected
