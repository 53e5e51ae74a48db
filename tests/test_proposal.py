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
from tracekit.nodelists import expand
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


SACCT = """\
JobIDRaw|Partition|Submit|Start|End|Elapsed|State|ReqCPUS|AllocCPUS|NNodes|ReqMem|AllocTRES|NodeList
1|gpu|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T02:00:00|02:00:00|COMPLETED|12|12|1|40G|cpu=12,gres/gpu=2|g1
2|gpu|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T03:00:00|02:00:00|COMPLETED|16|16|1|40G|cpu=16,gres/gpu=2|g1
3|cpu|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T01:00:00|01:00:00|COMPLETED|72|72|3|30G|cpu=72|c[08-10]
4|cpu|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T02:00:00|01:00:00|COMPLETED|4|4|1|1G|cpu=4|c08
5|cpu|2024-01-01T00:00:00|Unknown|Unknown|00:00:00|CANCELLED|30|0|1|1G||None assigned
6|debug|2024-01-01T00:00:00|2024-01-01T03:00:00|2024-01-01T04:00:00|01:00:00|COMPLETED|2|2|1|1G|cpu=2|c08
"""


def test_lists_of_nodes_give_hosts_by_partition(tmp_path: Path, run: Run) -> None:
    """g1 held 28 cores and 4 GPUs at once; c08 is used by two partitions and counts for the one with more jobs."""
    (tmp_path / "jobs.log").write_text(SACCT)
    code, out, error = run("cluster", "from", str(tmp_path / "jobs.log"), "--json")
    assert code == 0, error
    found = {row["pool"]: row for row in json.loads(out)["groups"]}
    assert set(found) == {"cpu", "gpu"}
    assert (found["gpu"]["count"], found["gpu"]["cores"], found["gpu"]["gpus"]) == (1, 28, 4)
    assert (found["cpu"]["count"], found["cpu"]["cores"]) == (3, 30)  # the job that never ran asks for 30
    assert json.loads(out)["rejected"] == {}
    assert "several partitions" in error


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("a[1-2]b[07-08],c", ["a1b07", "a1b08", "a2b07", "a2b08", "c"]),
        ("None assigned", []),
        ("(null)", []),
        ("n[1-99999999]", []),
        ("n[x]", []),
        ("n[3-1]", []),
    ],
)
def test_slurm_lists_of_nodes(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts
