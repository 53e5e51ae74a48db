"""Listings of a Slurm of our own (`benchmarks/slurm_fixtures.py`): JSON of sacct and squeue, sacct -P, jobcomp."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracekit
from tracekit import Trace
from tracekit.errors import FormatError
from tracekit.slurm.queue import processors, read_queue

HERE = Path(__file__).parents[1] / "slurm" / "data"
Run = Callable[..., tuple[int, str, str]]


def jobs(name: str) -> Trace:
    return tracekit.read(HERE / name)


def test_sacct_as_json() -> None:
    trace = jobs("sacct-22.05.json")
    assert trace.machine.name == "lab"
    table = trace.jobs.set_index("job_id")
    assert table["status"].to_dict() == {
        **dict.fromkeys((2, 4, 5, 7, 8), "completed"),
        **{1: "timeout", 3: "failed", 6: "cancelled", 9: "unknown", 10: "unknown"},
    }
    late = table.loc[1]
    assert (late["req_time"], late["run_time"], late["wait_time"], late["req_procs"]) == (60, 89, 1, 1)
    assert table.loc[4, "req_time"] == 1800
    assert table.loc[4, "wait_time"] == 2
    assert table.loc[5, "x_jobid"] == "5_3"
    assert (table.loc[2, "alloc_procs"], table.loc[2, "alloc_nodes"], table.loc[2, "app"]) == (2, 2, "ok")
    assert table.loc[2, "used_mem"] > 0
    assert table.loc[2, "cpu_time"] > 0
    assert np.isnan(table.loc[9, "req_time"])  # without a limit
    assert np.isnan(table.loc[[9, 10], "run_time"]).all()  # it runs; it waits
    assert np.isnan(table.loc[10, "wait_time"])


@pytest.mark.parametrize("name", ["squeue-22.05.json", "sacct-22.05.txt", "jobcomp-22.05.txt"])
def test_the_other_listings_say_the_same(name: str) -> None:
    ours, json_ = (trace.jobs.set_index("job_id").sort_index() for trace in (jobs(name), jobs("sacct-22.05.json")))
    assert len(ours) == {"squeue-22.05.json": 11, "sacct-22.05.txt": 10, "jobcomp-22.05.txt": 8}[name]
    common = ours.index.intersection(json_.index)
    assert len(common) >= 8
    for column in ("submit_time", "wait_time", "run_time", "req_time", "alloc_procs", "alloc_nodes"):
        left, right = ours.loc[common, column].astype(float), json_.loc[common, column].astype(float)
        ended = json_.loc[common, "run_time"].notna()
        assert left[ended].equals(right[ended]), column
    assert (ours.loc[common, "app"].astype(str) == json_.loc[common, "app"].astype(str)).all()


def test_the_queue_and_the_nodes() -> None:
    squeue, sinfo = ((HERE / f"{name}-22.05.json").read_text() for name in ("squeue", "sinfo"))
    assert processors(sinfo) == 4
    found = read_queue(squeue, sinfo)
    assert [job.id for job in found.jobs] == [10]
    assert found.notes == {"held": 1}
    assert found.snapshot.free == 1


def newer(value: Any, key: str = "") -> Any:
    """Return a listing of 22.05 as versions from 23.02 on write it: numbers as objects, states as lists."""
    if isinstance(value, dict):
        return {name: newer(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [newer(one) for one in value]
    if key in ("current", "job_state"):
        return [value]
    numbers = {"limit", "time_limit", "task_id", "array_task_id", "cpus", "node_count", "submit_time", "start_time"}
    if key in numbers | {"end_time", "array_job_id", "eligible_time", "priority"}:
        return {"set": value is not None, "infinite": False, "number": value or 0}
    return value


@pytest.mark.parametrize("name", ["sacct", "squeue"])
def test_the_schema_of_newer_versions(name: str, tmp_path: Path) -> None:
    text = json.loads((HERE / f"{name}-22.05.json").read_text())
    turned = newer(text)
    turned = {"jobs": turned["jobs"], "meta": {"slurm": {"version": {"major": "24"}}}, "warnings": []}
    (tmp_path / "new.json").write_text(json.dumps(turned))
    assert tracekit.read(tmp_path / "new.json").jobs.equals(jobs(f"{name}-22.05.json").jobs)


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    text = json.loads((HERE / "sacct-22.05.json").read_text())
    text["jobs"][0]["time"]["limit"] = {"minutes": 1}
    text["jobs"][1]["time"]["limit"] = [1]
    text["jobs"][2]["tres"]["requested"] = 7
    text["jobs"].append({"name": "nothing else"})
    path = tmp_path / "a.json"
    path.write_text(json.dumps(text))
    with pytest.raises(FormatError, match="job 11 of the list has no job_id"):
        tracekit.read(path)
    trace = tracekit.read(path, on_error="skip")
    assert len(trace) == 10
    said = " ".join(trace.history)
    assert "time.limit: not understood in 2 jobs" in said
    assert "tres.requested: not understood in 1 jobs" in said
    assert "skipped 1 jobs" in said
    for wrong in (
        "{",
        '{"jobs": 5}',
        '{"jobs": []}',
        '{"jobs": [5]}',
        '{"jobs": [{"job_id": true, "submit_time": -1}]}',
    ):
        path.write_text(wrong)
        with pytest.raises(FormatError):
            tracekit.read(path, "slurm-json", on_error="skip")


@pytest.mark.parametrize("strange", ["1.5", "1e20", "9" * 400, "9" * 5000])
def test_numbers_beyond_all_jobs_are_left_out(strange: str, tmp_path: Path) -> None:
    rows = ", ".join(
        f'{{"job_id": {number}, "submit_time": 1700000000, "job_state": "COMPLETED", "cpus": {cpus}}}'
        for number, cpus in ((1, 2), (strange, 2), (3, strange if "." not in strange else "-1"))
    )
    (tmp_path / "a.json").write_text(f'{{"jobs": [{rows}]}}')
    with pytest.raises(FormatError, match="job 2 of the list has no job_id"):
        tracekit.read(tmp_path / "a.json", "slurm-json")
    trace = tracekit.read(tmp_path / "a.json", "slurm-json", on_error="skip")
    assert trace.column("job_id").tolist() == [1, 3]


def test_it_is_converted_and_named_sacct_too(tmp_path: Path, run: Run) -> None:
    code, _, error = run("convert", HERE / "sacct-22.05.json", tmp_path / "out.swf")
    assert code == 0, error
    assert len(tracekit.read(tmp_path / "out.swf")) == 10
    assert tracekit.read(HERE / "sacct-22.05.json", "sacct").jobs.equals(jobs("sacct-22.05.json").jobs)
