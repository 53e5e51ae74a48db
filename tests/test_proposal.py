"""Clusters proposed for a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError
from tracekit.machine import HostGroup, Machine
from tracekit.proposal import cluster_toml, propose
from tracekit.sim.hosts.demand import demand_of
from tracekit.trace import Trace

Run = Callable[..., tuple[int, str, str]]


def trace_of(machine: Machine | None = None, **columns: object) -> Trace:
    frame = pd.DataFrame(
        {"job_id": [1, 2, 3], "submit_time": [0.0, 0.0, 0.0], "run_time": [10.0, 10.0, 10.0], **columns}
    )
    return Trace(frame, machine or Machine())


def test_pools_types_and_largest_requests() -> None:
    made = propose(
        trace_of(
            req_procs=[6, 24, 40],
            req_gpus=[3.0, 8.0, float("nan")],
            tasks=[1, 2, 1],
            gpu_type=["V100", "A100", None],
            pool=["a", "a", "b"],
            req_mem=[1024.0, 1024.0, 1024.0],
        )
    )
    found = {(g.pool, g.gpu_type): (g.cores, g.gpus, g.memory) for g in made.groups}
    assert found == {
        ("a", "V100"): (8, 4, 8192.0),
        ("a", "A100"): (16, 4, 16384.0),
        ("b", None): (64, None, 65536.0),
    }


def test_every_job_fits_on_a_proposal_without_a_stated_machine() -> None:
    trace = trace_of(req_procs=[3, 70, 500], partition=["x", "y", "y"])
    assert not demand_of(trace, propose(trace)).reasons()


def test_numbers_of_hosts_are_the_machines() -> None:
    made = propose(trace_of(Machine(procs=480, nodes=10), req_procs=[4, 4, 96]))
    assert [(g.count, g.cores) for g in made.groups] == [(10, 48)]
    assert made.procs == 480


def test_a_machine_with_groups_is_kept(tmp_path: Path) -> None:
    groups = (HostGroup(3, cores=4, memory=1000.0, gpus=2, gpu_type="T4", name="t4", idle_watts=70.5),)
    made = propose(trace_of(Machine(name='odd "name"', groups=groups), req_procs=[1, 1, 1]))
    assert made.groups == groups
    path = tmp_path / "c.toml"
    path.write_text(cluster_toml(made), encoding="utf-8")
    assert cluster_of(path).groups == groups


def test_pools_with_marks_are_not_made() -> None:
    made = propose(trace_of(req_procs=[1, 1, 1], partition=["a,b", "c", "c"]))
    assert {g.pool for g in made.groups} == {None, "c"}
    assert any("a,b" in note for note in made.notes)


def test_a_trace_without_sizes_has_no_cluster() -> None:
    with pytest.raises(TracekitError):
        propose(trace_of())


def test_the_command_writes_what_cluster_reads(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sample", "s.swf")[0] == 0
    code, out, _ = run("cluster", "from", "s.swf", "-o", "c.toml", "--json")
    assert code == 0
    assert json.loads(out)["groups"]
    assert cluster_of("c.toml").procs == 256
    assert run("cluster", "from", "s.swf", "-o", "c.toml")[0] != 0  # exists
    code, out, _ = run("cluster", "from", "s.swf")
    assert code == 0
    assert out == Path("c.toml").read_text(encoding="utf-8")
    assert run("cluster", "form", "s.swf")[0] == 2
    assert run("cluster", "from", "nothing.swf")[0] == 1
