"""Google's cells of 2019: values worked out by hand, made events against a plain reference, damage."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from event_toys import END, csv_text, flat, google_events, google_missing, google_reference, json_lines, write_cell

import tracekit
from swf import FORMATS
from swf.base import detect
from tracekit import Trace
from tracekit.api import capacity
from tracekit.errors import FormatError, TracekitError, UsageError

pytest.importorskip("duckdb", reason="needs the extra events (duckdb)")
Run = Callable[..., tuple[int, str, str]]
S = 1_000_000

#: One job of two instances. The second was evicted after 20 s, came back after 10 s and ended with the job.
#: And an alloc set that was there before the trace began.
COLLECTIONS = [
    {"time": 700 * S, "type": 0, "collection_id": 11, "collection_type": 0, "priority": 200, "user": "ann",
     "collection_logical_name": "web", "scheduling_class": 2, "scheduler": 0, "vertical_scaling": 3},
    {"time": 700 * S, "type": 2, "collection_id": 11, "collection_type": 0, "priority": 200, "user": "ann"},
    {"time": 710 * S, "type": 3, "collection_id": 11, "collection_type": 0, "priority": 200, "user": "ann"},
    {"time": 910 * S, "type": 6, "collection_id": 11, "collection_type": 0, "priority": 200, "user": "ann"},
    {"time": 720 * S, "type": 0, "collection_id": 12, "collection_type": 0, "priority": 112, "user": "bob",
     "start_after_collection_ids": [11, 99], "parent_collection_id": 11, "alloc_collection_id": 13},
    {"time": 911 * S + 500_000, "type": 3, "collection_id": 12, "collection_type": 0, "priority": 112, "user": "bob"},
    {"time": END, "type": 7, "collection_id": 12, "collection_type": 0, "priority": 112, "user": "bob"},
    {"time": 0, "type": 0, "collection_id": 13, "collection_type": 1, "priority": 360, "user": "bob"},
    {"time": 0, "type": 3, "collection_id": 13, "collection_type": 1, "priority": 360, "user": "bob"},
]  # fmt: skip
INSTANCES = [
    {"time": 700 * S, "type": 0, "collection_id": 11, "instance_index": 0,
     "resource_request": {"cpus": 0.01, "memory": 0.005}},
    {"time": 710 * S, "type": 3, "collection_id": 11, "instance_index": 0, "machine_id": 5},
    {"time": 910 * S, "type": 6, "collection_id": 11, "instance_index": 0, "machine_id": 5},
    {"time": 700 * S, "type": 0, "collection_id": 11, "instance_index": 1,
     "resource_request": {"cpus": 0.03, "memory": 0.005}},
    {"time": 715 * S, "type": 3, "collection_id": 11, "instance_index": 1, "machine_id": 5},
    {"time": 720 * S, "type": 10, "collection_id": 11, "instance_index": 1, "machine_id": 5,
     "resource_request": {"cpus": 0.5, "memory": 0.5}},
    {"time": 735 * S, "type": 4, "collection_id": 11, "instance_index": 1, "machine_id": 5},
    {"time": 735 * S, "type": 0, "collection_id": 11, "instance_index": 1},
    {"time": 745 * S, "type": 3, "collection_id": 11, "instance_index": 1, "machine_id": 6},
    {"time": 910 * S, "type": 6, "collection_id": 11, "instance_index": 1, "machine_id": 6},
    {"time": 720 * S, "type": 0, "collection_id": 12, "instance_index": 0,
     "resource_request": {"cpus": 0.5, "memory": 0.25}},
    {"time": 911 * S + 500_000, "type": 3, "collection_id": 12, "instance_index": 0, "machine_id": 6},
]  # fmt: skip
MACHINES = [
    {"time": 0, "machine_id": 5, "type": 1, "platform_id": "p", "capacity": {"cpus": 1.0, "memory": 0.5}},
    {"time": 0, "machine_id": 6, "type": 1, "platform_id": "p", "capacity": {"cpus": 0.5, "memory": 0.25}},
    {"time": 0, "machine_id": 7, "type": 1, "platform_id": "p"},
    {"time": 800 * S, "machine_id": 6, "type": 2},
    {"time": 900 * S, "machine_id": 6, "type": 1, "capacity": {"cpus": 0.5, "memory": 0.25}},
]
TABLES: dict[str, Any] = {
    "collection_events": COLLECTIONS,
    "instance_events": INSTANCES,
    "machine_events": MACHINES,
}


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    return write_cell(tmp_path / "clusterdata_2019_b", TABLES)


def column(trace: Trace, name: str) -> list[Any]:
    values = trace.jobs[name].astype(object)
    return [None if value is None or value != value else value for value in values.where(values.notna(), None)]


# ---- values by hand --------------------------------------------------------------------------------------------------


def test_collections_are_jobs(cell: Path) -> None:
    trace = tracekit.read(cell)
    assert column(trace, "job_id") == [11, 12]
    assert column(trace, "submit_time") == [700.0, 720.0]
    assert column(trace, "wait_time") == [10.0, 191.5]
    assert column(trace, "run_time") == [200.0, None]  # the second ended after the trace
    assert column(trace, "req_procs") == [40, 500]  # (0.01 + 0.03) × 1000: what was asked for first, not the update
    assert column(trace, "req_mem") == [0.01 * 2**30 / 40, 0.25 * 2**30 / 500]
    assert column(trace, "tasks") == [2, 1]
    assert column(trace, "status") == ["completed", "cancelled"]
    assert column(trace, "x_status") == ["FINISH", "KILL"]
    assert column(trace, "user") == ["ann", "bob"]
    assert column(trace, "app") == ["web", None]
    assert column(trace, "queue") == ["production", "batch"]
    assert column(trace, "prev_job") == [None, 11]
    assert column(trace, "x_dependencies") == [0, 2]
    assert column(trace, "x_attempts") == [3, 1]
    assert column(trace, "x_evictions") == [1, 0]
    assert column(trace, "x_core_seconds") == [10 * 200 + 30 * (20 + 165), None]
    assert column(trace, "x_alloc_collection_id") == [None, 13]


def test_instances_are_jobs_if_wanted(cell: Path) -> None:
    trace = tracekit.read(cell, job="instance")
    assert column(trace, "job_id") == [1, 2, 3]
    assert column(trace, "x_collection_id") == [11, 11, 12]
    assert column(trace, "x_instance_index") == [0, 1, 0]
    assert column(trace, "wait_time") == [10.0, 15.0, 191.5]
    assert column(trace, "run_time") == [200.0, 195.0, None]
    assert column(trace, "req_procs") == [10, 30, 500]
    assert column(trace, "x_machine_id") == [5, 6, 6]  # where it was last
    assert column(trace, "user") == ["ann", "ann", "bob"]


def test_reservations_replace_the_jobs_in_them(cell: Path) -> None:
    trace = tracekit.read(cell, keep="reservations")
    assert column(trace, "job_id") == [11, 13]
    assert column(trace, "x_collection_type") == [0, 1]
    assert column(trace, "queue") == ["production", "monitoring"]
    assert column(trace, "submit_time") == [700.0, None]


def test_jobs_are_cut_at_the_edges_if_wanted(cell: Path) -> None:
    trace = tracekit.read(cell, keep="reservations", edges="cut")
    assert column(trace, "submit_time") == [0.0, 700.0]  # the last event is at 911.5 s
    assert column(trace, "run_time") == [911.5, 200.0]
    assert column(trace, "wait_time") == [0.0, 10.0]


def test_the_machine_and_its_units(cell: Path) -> None:
    machine = tracekit.read(cell).machine
    assert (machine.procs, machine.nodes, machine.unit) == (1500, 2, "procs")
    assert sorted((group.count, group.cores, group.memory) for group in machine.groups) == [
        (1, 500, 0.25 * 2**30),
        (1, 1000, 0.5 * 2**30),
    ]
    assert (machine.name, machine.timezone) == ("Borg cell b", "America/Chicago")
    assert "1 machines of unknown capacity" in tracekit.read(cell).history[0]
    small = tracekit.read(cell, unit_cores=64, unit_gb="256")
    assert small.machine.procs == 96
    assert column(small, "req_procs") == [2.56, 32.0]
    assert column(small, "req_mem")[1] == 0.25 * 2**28 / 32


def test_the_calendar_is_that_of_may_2019(cell: Path) -> None:
    machine = tracekit.read(cell).machine
    assert machine.epoch is not None
    assert np.datetime64(int(machine.epoch) + 600, "s") == np.datetime64("2019-05-01T07:00:00")  # midnight, PDT


def test_capacity_over_time(cell: Path, tmp_path: Path, run: Run) -> None:
    assert capacity(cell) == [(800.0, 900.0, 500.0)]
    code, _, said = run("outages", str(cell), "-o", str(tmp_path / "missing.txt"), "--read", "unit_cores=64")
    assert code == 0, said
    from tracekit.sim.switches import read_outages

    assert read_outages([str(tmp_path / "missing.txt")]) == ((800.0, 900.0, 32.0),)
    code, out, _ = run("outages", str(cell))
    assert code == 0
    assert out.splitlines()[1:] == ["800.000000:900.000000:500.000000"]


def test_rows_that_were_published(tmp_path: Path) -> None:
    """Two rows of the owners' table, as an ingestion study printed them: a job's start, and an alloc made up."""
    job = {"time": 1965263509076, "type": 3, "collection_id": 394454435790, "scheduling_class": 1, "missing_type": None,
           "collection_type": 0, "priority": 200, "alloc_collection_id": None,
           "user": "+OVSEukSmo6ma+28nY4raBvhviWrpQLsc+DWQcTGV4E=",
           "collection_logical_name": "EtxQRC/xETMeVuCiiEiMaiyqIUI8YomWaxXsO91ad14=",
           "parent_collection_id": 394454434726, "start_after_collection_ids": [], "vertical_scaling": 3,
           "scheduler": 0}  # fmt: skip
    made_up = {"time": 535439029406, "type": 0, "collection_id": 380676713775, "scheduling_class": 0,
               "missing_type": 3, "collection_type": 1, "priority": 0, "alloc_collection_id": 0, "instance_index": 0,
               "machine_id": None, "alloc_instance_index": -1, "resource_request": None, "constraint": []}  # fmt: skip
    (tmp_path / "collection_events-000000000000.json").write_text(json.dumps(job) + "\n")
    (tmp_path / "instance_events-000000000000.json").write_text(json.dumps(made_up) + "\n")
    trace = tracekit.read(tmp_path)
    assert column(trace, "job_id") == [394454435790]
    assert column(trace, "x_parent_collection_id") == [394454434726]
    assert column(trace, "x_status") == ["RUNNING"]
    assert column(trace, "submit_time") == [None]
    alloc = tracekit.read(tmp_path, keep="reservations")
    assert column(alloc, "job_id") == [380676713775, 394454435790]
    assert column(alloc, "x_missing_type") == [3, None]


# ---- made events against the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("instances", [False, True])
def test_made_events_mean_what_the_reference_says(seed: int, instances: bool, tmp_path: Path) -> None:
    tables = google_events(seed)
    kind, keep = ("json.gz", "csv", "parquet")[seed % 3], ("jobs", "reservations")[seed % 2]
    if kind == "csv":  # a table with lists cannot be exported as CSV
        write_cell(tmp_path / "cell", {"collection_events": tables["collection_events"]}, kind="json")
        rest = {name: rows for name, rows in tables.items() if name != "collection_events"}
        write_cell(tmp_path / "cell", rest, kind=kind, shards=1 + seed % 4)
    else:
        write_cell(tmp_path / "cell", tables, kind=kind, shards=1 + seed % 4)
    if seed == 5:
        del tables["collection_events"]
        for path in (tmp_path / "cell").glob("collection_events*"):
            path.unlink()
    trace = tracekit.read(tmp_path / "cell", job="instance" if instances else "collection", keep=keep)
    expected = google_reference(tables, instances=instances, keep=keep)
    assert len(trace) == len(expected) > 10
    ids = trace.jobs["x_collection_id" if instances else "job_id"].tolist()
    assert ids == [job["collection"] for job in expected]
    for name in ("submit_time", "wait_time", "run_time", "req_procs", "req_mem", "x_core_seconds", "tasks",
                 "x_attempts", "x_evictions", *(() if instances else ("prev_job",))):  # fmt: skip
        theirs = np.array([job[name] for job in expected], dtype=float)
        if name not in trace.jobs:
            assert np.isnan(theirs).all(), name
            continue
        ours = trace.jobs[name].to_numpy(dtype=float, na_value=np.nan)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if name == "req_mem" else 1e-12, atol=1e-9, err_msg=name)
    for name in ("x_status", "status", "queue", "user"):
        assert column(trace, name) == [job[name] for job in expected], name


@pytest.mark.parametrize("seed", range(6))
def test_capacity_is_that_of_the_reference(seed: int, tmp_path: Path) -> None:
    tables = google_events(seed)
    found = capacity(write_cell(tmp_path / "cell", tables))
    for moment in (1.0, 600.5, 700.5, 733.25, 750.5, 799.9, 900.5):
        missing = sum(units for begin, end, units in found if begin <= moment < end)
        assert missing == pytest.approx(google_missing(tables["machine_events"], moment)), moment


def test_the_same_events_in_any_order_and_any_shards_are_the_same_trace(tmp_path: Path) -> None:
    tables = google_events(3)
    one = tracekit.read(write_cell(tmp_path / "one" / "a", tables))
    for rows in tables.values():
        rows.reverse()
    assert tracekit.read(write_cell(tmp_path / "two" / "a", tables, shards=5)).equals(one)


# ---- cells -----------------------------------------------------------------------------------------------------------


def test_several_cells(tmp_path: Path, run: Run) -> None:
    for letter in "ab":
        write_cell(tmp_path / f"clusterdata_2019_{letter}", TABLES)
    code, _, said = run("info", str(tmp_path))
    assert code == 1
    assert "holds 2 cells: a, b (choose with --read cell=a, or cell=all)" in said
    code, _, said = run("convert", str(tmp_path), str(tmp_path / "b.parquet"), "--read", "cell=b")
    assert code == 0, said
    assert len(tracekit.read(tmp_path / "b.parquet")) == 2
    both = tracekit.read(tmp_path, cell="all")
    assert column(both, "partition") == ["a", "b", "a", "b"]
    assert column(both, "job_id") == [1, 2, 3, 4]
    assert both.machine.procs == 3000
    assert {group.pool for group in both.machine.groups} == {"a", "b"}
    code, _, said = run("info", str(tmp_path), "--read", "cell=c")
    assert (code, "has no cell c; it has a, b" in said) == (2, True)


def test_folders_of_tables_and_a_single_file(tmp_path: Path) -> None:
    for name, rows in TABLES.items():
        write_cell(tmp_path / "cell" / name, {name: rows})
    whole = tracekit.read(tmp_path / "cell")
    assert len(whole) == 2
    flatly = write_cell(tmp_path / "flat", TABLES)
    alone = tracekit.read(next(flatly.glob("instance_events*")))
    assert column(alone, "user") == ["ann", "bob"]
    lone = tmp_path / "whatever.txt"
    lone.write_bytes(json_lines(INSTANCES))
    assert detect(lone, FORMATS).name == "google-2019"
    trace = tracekit.read(lone)
    assert column(trace, "run_time") == [200.0, None]
    assert "users, names and dependencies are unknown" in trace.history[0]


# ---- damage ----------------------------------------------------------------------------------------------------------

GOOD = json_lines(INSTANCES)
DAMAGE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "truncated": (gzip.compress(GOOD * 2000)[:-300], "the compressed data is damaged or truncated"),
    "machines": (json_lines(MACHINES), "missing column collection_id, instance_index; table instance_events needs"),
    "column": (csv_text([{k: v for k, v in row.items() if k != "type"} for row in flat(INSTANCES)]), "column type;"),
    "json": (GOOD + b"{nonsense\n" + GOOD, "line 13: cannot be read: Malformed JSON"),
    "text": (GOOD + b'{"time":"x","type":"0","collection_id":"3","instance_index":"0"}\n', "'x' in column time"),
    "key": (GOOD + b'{"type":"0","collection_id":"3","instance_index":"0"}\n', "1 lines of table instance_events have"),
    "type": (GOOD + b'{"time":"5","type":"77","collection_id":"3","instance_index":"0"}\n', "impossible values"),
    "cells": (csv_text(flat(INSTANCES)) + b"1,2\n", "line 14: Expected Number of Columns"),
    "parquet": (b"PAR1" + b"\0" * 100, "not a readable Parquet file"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line(name: str, cell: Path, tmp_path: Path, run: Run) -> None:
    content, words = DAMAGE[name]
    next(cell.glob("instance_events*")).write_bytes(content)
    code, out, said = run("convert", str(cell), str(tmp_path / "out.parquet"))
    assert (code, out) == (1, "")
    assert len(said.splitlines()) == 1
    assert said.startswith("error: ")
    assert words in said
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("name", ["json", "text", "key", "type", "cells"])
def test_damaged_lines_can_be_left_out(name: str, cell: Path) -> None:
    next(cell.glob("instance_events*")).write_bytes(DAMAGE[name][0])
    trace = tracekit.read(cell, on_error="skip")
    assert "instance_events: 1 damaged lines were left out" in trace.history
    assert column(trace, "req_procs") == [40, 500]


def test_what_cannot_be(cell: Path) -> None:
    with pytest.raises(UsageError, match="choose collection or instance"):
        tracekit.read(cell, job="task")
    with pytest.raises(UsageError, match="a number above 0"):
        tracekit.read(cell, unit_cores=-1)
    with pytest.raises(UsageError, match="write a number with a unit"):
        tracekit.read(cell, memory="much")
    with pytest.raises(TracekitError, match="the tables need more than 1KB of memory"):
        tracekit.read(cell, memory="1KB")
    with pytest.raises(UsageError, match="does not support the option colour"):
        tracekit.read(cell, colour="red")
    next(cell.glob("instance_events*")).unlink()
    with pytest.raises(FormatError, match="no format recognises its files"):
        tracekit.read(cell)
    with pytest.raises(FormatError, match="instance_events, which holds the sizes, is missing"):
        tracekit.read(cell, "google-2019")


@pytest.mark.parametrize(("flag", "words"), [("cell", "needs NAME=VALUE"), ("timezone=UTC", "there is a flag")])
def test_options_on_the_command_line(flag: str, words: str, cell: Path, run: Run) -> None:
    code, _, said = run("info", str(cell), "--read", flag)
    assert code == 2
    assert words in said


def test_names_of_files_may_be_anything(tmp_path: Path) -> None:
    odd = tmp_path / "a*[1] it's"
    odd.mkdir()
    (odd / "instance_events '*'.json").write_bytes(json_lines(INSTANCES))
    assert len(tracekit.read(odd)) == 2


def test_nothing_is_left_in_the_temporary_folder(cell: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    tracekit.read(cell)
    next(cell.glob("instance_events*")).write_bytes(DAMAGE["json"][0])
    with pytest.raises(FormatError):
        tracekit.read(cell)
    assert not list(room.iterdir())


def test_huge_numbers_of_ids_stay_whole(tmp_path: Path) -> None:
    rows = [row | {"collection_id": 2**62 + 1, "alloc_collection_id": 2**62 + 3} for row in INSTANCES[:3]]
    (tmp_path / "instance_events.json").write_bytes(json_lines(rows))
    trace = tracekit.read(tmp_path)
    assert column(trace, "job_id") == [2**62 + 1]
    assert column(trace, "x_alloc_collection_id") == [2**62 + 3]
    assert not math.isnan(trace.column("run_time")[0])
