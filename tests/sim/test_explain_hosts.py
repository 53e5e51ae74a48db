"""Why jobs waited on clusters of hosts, worked out by hand, and that the parts add up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.errors import FormatError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.explain import FRAGMENTATION, PARTS
from tracekit.sim.analysis.resimulate import explain_file
from tracekit.trace import Trace

FOUR = Machine(name="four", groups=(HostGroup(4, cores=8, gpus=4, name="h"),))
#: (submit, run, limit, GPUs); each of the first four is on a host of its own under worst-fit.
SCATTERED = ((0, 600, 900, 1), (0, 300, 900, 1), (0, 600, 900, 1), (0, 600, 900, 1), (5, 100, 200, 4), (6, 50, 60, 1))


def trace_of(*rows: tuple[float, float, float, float], **columns: Any) -> Trace:
    frame = pd.DataFrame(rows, columns=["submit_time", "run_time", "req_time", "req_gpus"]).astype(float)
    frame = frame.assign(job_id=np.arange(1, len(frame) + 1), req_procs=1, **columns)
    return Trace(frame, Machine(procs=32, gpus=16))


def schedule_of(trace: Trace, folder: Path, cluster: Machine, *, foreign: bool = False, **switches: Any) -> Path:
    """Write a schedule; a foreign one does not state how it was made."""
    path, toml = folder / "schedule.csv", folder / "c.toml"
    from tracekit.proposal import cluster_toml

    toml.write_text(cluster_toml(cluster))
    result = tracekit.simulate(trace, "fcfs", "easy", cluster=str(toml), **switches)
    result.schedule().to_csv(path, index=False)
    if not foreign:
        (folder / "switches.json").write_text(result.made_by())
    return path


@pytest.mark.parametrize("foreign", [False, True])
def test_blocked_by_fragmentation(tmp_path: Path, foreign: bool) -> None:
    trace = trace_of(*SCATTERED)
    path = schedule_of(trace, tmp_path, FOUR, foreign=foreign, allocate="worst-fit")
    found = explain_file(path, trace, 5, cluster=FOUR if foreign else None)
    assert found.parts == dict.fromkeys(PARTS, 0.0) | {FRAGMENTATION: 295.0}
    assert "12 GPUs are free, no host has 4" in found.text()
    assert found.method == ("replayed" if foreign else "resimulated")
    assert found.first_in_line == 300


def test_a_gang_without_room_for_all_tasks(tmp_path: Path) -> None:
    rows = [(0, 100, 100, 3)] * 4 + [(1, 10, 10, 4)]
    trace = trace_of(*rows, tasks=[1, 1, 1, 1, 2])
    found = explain_file(schedule_of(trace, tmp_path, FOUR), trace, 5)
    assert found.parts[FRAGMENTATION] == found.wait == 99
    assert "0 of 2 tasks" in found.fragmented


def test_a_full_machine_is_not_fragmented(tmp_path: Path) -> None:
    trace = trace_of(*[(0, 100, 100, 4)] * 4, (1, 10, 10, 2))
    found = explain_file(schedule_of(trace, tmp_path, FOUR), trace, 5)
    assert (found.parts["full"], found.parts[FRAGMENTATION]) == (99, 0)


def test_hosts_that_are_out_of_service(tmp_path: Path) -> None:
    trace = trace_of((0, 10, 10, 4), (1, 10, 10, 4))
    one = Machine(groups=(HostGroup(1, cores=8, gpus=4, name="h"),))
    path = schedule_of(trace, tmp_path, one, outages=((10, 50, "h-0"),))
    found = explain_file(path, trace, 2)
    assert (found.parts["full"], found.parts["outage"], found.start) == (9, 40, 50)


@pytest.mark.parametrize("seed", range(4))
def test_parts_add_up(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 60, 60)
    gpus = rng.choice([0.25, 0.5, 1, 2, 4, 6], 60)
    rows = list(zip(np.sort(rng.integers(0, 120, 60)), run, run * rng.integers(1, 4, 60), gpus, strict=True))
    pools = (HostGroup(2, cores=8, gpus=4, name="a", pool="x"), HostGroup(2, cores=8, gpus=4, name="b", pool="y"))
    trace = trace_of(*rows, pool=rng.choice(["x", "y"], 60))
    path = schedule_of(trace, tmp_path, Machine(groups=pools), allocate="load-balance")
    causes = set()
    for job in pd.read_csv(path)["job_id"]:
        found = explain_file(path, trace, int(job))
        assert min(found.parts.values()) >= 0
        assert sum(found.parts.values()) == pytest.approx(found.wait)
        assert found.submit <= found.first_in_line <= found.start
        causes |= {name for name, seconds in found.parts.items() if seconds > 0}
    assert FRAGMENTATION in causes


def test_a_schedule_without_hosts_is_refused(tmp_path: Path) -> None:
    trace = trace_of(*SCATTERED)
    path = schedule_of(trace, tmp_path, FOUR, foreign=True)
    pd.read_csv(path).drop(columns="hosts").to_csv(path, index=False)
    with pytest.raises(FormatError):
        explain_file(path, trace, 5, cluster=FOUR)
