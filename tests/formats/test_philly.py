from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import shared

import tracekit
from tracekit.errors import FormatError


def job(name: str, attempts: list[dict[str, Any]], submitted: str | None = "2017-12-01 00:00:00", **more: Any) -> Any:
    return {
        "status": "Pass",
        "vc": "a",
        "jobid": name,
        "attempts": attempts,
        "submitted_time": submitted,
        "user": "u",
    } | more


def attempt(start: Any, end: Any, gpus: int = 2) -> dict[str, Any]:
    return {"start_time": start, "end_time": end, "detail": [{"ip": "m1", "gpus": ["g"] * gpus}]}


def write(path: Path, jobs: list[Any]) -> Path:
    path.write_text(json.dumps(jobs, indent=1))
    return path


def test_the_owners_example() -> None:
    trace = tracekit.read(shared("philly/philly_readme_example.json"))
    row = trace.jobs.iloc[0]
    assert row["submit_time"] == pd.Timestamp("2017-10-07 08:11:39", tz="UTC").timestamp()  # Pacific daylight time
    assert row["wait_time"] == 30  # 01:11:39 to 01:12:09
    assert row["run_time"] == 2 * 86400 + 5 * 3600 + 41 * 60 + 3  # 10-07 01:12:09 to 10-09 06:53:12
    assert row["x_busy_time"] == row["run_time"] - 7  # no GPUs between 01:13:23 and 01:13:30
    assert (row["alloc_gpus"], row["alloc_nodes"], row["x_attempts"]) == (8, 1, 2)
    assert (row["partition"], row["user"], row["status"]) == ("ee9e8c", "ce2f4c", "completed")
    assert row["x_job_id"] == "application_1506638472019_14199"
    assert trace.machine.unit == "gpus"


def test_nulls_and_nones_and_zones(tmp_path: Path) -> None:
    jobs = [
        job("never", [], status="Killed"),
        job("running", [attempt("2017-12-01 00:01:00", "None")]),
        job("lost", [attempt(None, "2017-12-01 00:01:00")], user=None),
        job("zoned", [attempt("2017-12-01 00:00:10 PST", "2017-12-01 08:01:10+00:00", 3)], status="Failed"),
        job("summer", [attempt("2017-10-07 01:11:39 PDT", "2017-10-07 01:11:40")], "2017-10-07 01:11:09"),
        job("twice", [], "2017-11-05 01:30:00"),
    ]
    trace = tracekit.read(write(tmp_path / "log", jobs))
    table = trace.jobs
    assert table["run_time"].isna().tolist() == [True, True, True, False, False, True]
    assert table["wait_time"].tolist()[1:5:2] == [60, 10]
    assert table["wait_time"].iloc[4] == 30
    assert table["run_time"].tolist()[3:5] == [60, 1]
    assert table["alloc_gpus"].tolist()[1:5] == [2, 2, 3, 2]
    assert table["alloc_gpus"].isna().tolist() == [True, False, False, False, False, True]
    assert table["user"].isna().tolist() == [False, False, True, False, False, False]
    assert table["status"].tolist()[0] == "cancelled"
    assert table["submit_time"].iloc[5] == pd.Timestamp("2017-11-05 08:30:00", tz="UTC").timestamp()
    assert trace.history == ("submitted_time: 1 local times that occurred twice, read as the first",)


@pytest.mark.parametrize("header", ["machineId,number of GPUs,single GPU mem\n", ""])
def test_the_machine_list_beside_it(tmp_path: Path, header: str) -> None:
    (tmp_path / "cluster_machine_list").write_text(header + "m1,8, 24GB\nm2,2, 12GB\nm3,8, 24GB\n")
    machine = tracekit.read(write(tmp_path / "cluster_job_log", [job("a", [])])).machine
    assert (machine.nodes, machine.gpus) == (3, 18)
    assert {(g.count, g.gpus, g.gpu_type) for g in machine.groups} == {(2, 8, "24GB"), (1, 2, "12GB")}


def test_damage_is_named_by_line_or_left_out(tmp_path: Path) -> None:
    good = job("a", [attempt("2017-12-01 00:00:10", "2017-12-01 00:00:20")])
    path = write(tmp_path / "log", [good, good | {"submitted_time": "soon"}, good])
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "soon" in text)
    with pytest.raises(FormatError, match=rf"line {line}: 'soon' in submitted_time"):
        tracekit.read(path)
    assert len(tracekit.read(path, on_error="skip")) == 2
    for broken in ({"attempts": 5}, {"attempts": [3]}, {"vc": {}}, {"attempts": [{"detail": [{"gpus": 4}]}]}):
        path = write(tmp_path / "log", [good, good | broken, good, 17])
        with pytest.raises(FormatError, match="line 24: "):  # where the second record begins
            tracekit.read(path)
        kept = tracekit.read(path, on_error="skip")
        assert len(kept) == 2
        assert "skipped 2 damaged records" in kept.history[0]
    text = json.dumps([good, good, good], indent=1)
    path.write_text(text[: len(text) * 2 // 3 + 40])
    with pytest.raises(FormatError, match="not valid JSON"):
        tracekit.read(path)
    assert len(tracekit.read(path, on_error="skip")) == 2
    path.write_text(text.rstrip("]\n"))
    with pytest.raises(FormatError, match="closing"):
        tracekit.read(path)
    assert not np.isnan(tracekit.read(path, on_error="skip").column("run_time")).any()
