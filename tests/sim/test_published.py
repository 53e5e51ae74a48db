"""Published numbers, to the printed digit."""

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit import catalog
from tracekit.errors import TracekitError
from tracekit.machine import Machine
from tracekit.sim.analysis import reproduce
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches


@pytest.mark.parametrize("row", reproduce.DEFAULT, ids=lambda row: row.name)
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


def test_archive_logs_are_recognised_by_their_facts_or_their_name(toy):
    sdsc, hpc2n = reproduce.PUBLISHED[2:]
    for row in (sdsc, hpc2n):
        jobs = pd.DataFrame({"job_id": np.arange(row.jobs), "submit_time": 0.0, "run_time": 1.0, "req_procs": 1})
        log = tracekit.Trace(jobs, Machine(procs=128, epoch=row.epoch))
        assert reproduce.published_for(log) is row
        assert reproduce.published_for(log.head(row.jobs - 1)) is None
        assert reproduce.published_for(toy, f"logs/{row.file}.gz") is row
    assert reproduce.published_for(toy, "SDSC-SP2-1998-4.swf") is None


def test_published_values_beside_ours(tmp_path, monkeypatch):
    """The sample is not the log: only what is printed beside our numbers is checked."""
    cells = reproduce.rlscheduler(tracekit.sample(), file="HPC2N-2002-2.2-cln.swf")
    assert [cell["published"] for cell in cells] == [
        297.18,
        426.99,
        609.77,
        157.71,
        118.01,
        127.38,
        97.39,
        175.12,
        122.04,
        71.95,
    ]


def test_fetched_files_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRACEKIT_DATA", str(tmp_path / "data"))
    with pytest.raises(TracekitError, match=r"fetch lublin_256'.*fetch lublin_256_new2'.*TRACEKIT_DATA"):
        reproduce.default_traces()
    for row in reproduce.DEFAULT:
        (source,) = catalog.find(row.file.removesuffix(".swf")).files
        assert source.name == row.file
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / source.name).touch()
    assert [path.parent.name for path in reproduce.default_traces()] == ["cache", "cache"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lublin_256.swf").touch()
    assert [path.parent.name for path in reproduce.default_traces()] == ["data", "cache"]
