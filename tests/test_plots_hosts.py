"""Pictures of schedules on hosts, the numbers in them, and the page about clusters of hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import ROOT

import tracekit
from tracekit.machine import HostGroup, Machine
from tracekit.plots.hosts import HOST_PICTURES, fragmentation_at, shares_over_time, use_of
from tracekit.plots.packing import packing_curves
from tracekit.plots.style import NothingToDraw
from tracekit.sim.hosts.demand import GPUS, MILLI
from tracekit.sim.hosts.metrics import FRAGMENTATION, fragmentation_over_time
from tracekit.sim.hosts.typical import typical_tasks
from tracekit.trace import Trace

Run = Callable[..., tuple[int, str, str]]
MIXED = Machine(groups=(HostGroup(3, cores=16, gpus=4, name="g", pool="x"), HostGroup(2, cores=16, name="c", pool="y")))
PAGE = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def result() -> Any:
    rng = np.random.default_rng(5)
    n = 80
    gpus = rng.choice([0.25, 0.5, 1, 2, 4, 8], n)
    frame = pd.DataFrame(
        {
            "job_id": np.arange(1, n + 1),
            "submit_time": np.sort(rng.integers(0, 500, n)).astype(float),
            "run_time": rng.integers(1, 90, n).astype(float),
            "req_procs": rng.integers(1, 6, n),
            "req_gpus": np.where(np.arange(n) % 5 == 0, np.nan, gpus),
            "pool": np.where(np.arange(n) % 5 == 0, "y", "x"),
        }
    )
    return tracekit.simulate(Trace(frame, Machine(procs=80)), "fcfs", "easy", cluster=MIXED, allocate="fgd")


def test_shares_are_the_work_of_the_jobs(result: Any) -> None:
    use = use_of(result)
    edges = np.linspace(float(result.submit.min()), float(result.end.max()), 38)
    share = shares_over_time(use, result, edges)
    held = (share * use.size[:, None]).sum() * (edges[1] - edges[0])
    assert held == pytest.approx((use.held * result.run[use.job]).sum())
    assert share.min() >= 0
    assert share.max() <= 1


def slow_fragmentation(result: Any, moment: float) -> tuple[float, float, float, float]:
    """Return share, partly used hosts, waste and F at a moment, worked out from who holds what then."""
    use, placed = use_of(result), result.hosts
    now = np.flatnonzero((result.start[use.job] <= moment) & (result.end[use.job] > moment))
    cores, room = placed.total[:, 0].astype(float), placed.total[:, 2:].astype(float)
    for i in now.tolist():
        asked = placed.need[use.job[i]]
        cores[use.host[i]] -= use.cores[i]
        for device in range(room.shape[1]):
            if (int(use.bits[i]) >> device) & 1:
                room[use.host[i], device] -= 1000 if asked[GPUS] > 0 else asked[MILLI]
    size, idle = placed.fixed[:, 2] * 1000, room.sum(axis=1)
    partly, f = (idle > 0) & (idle < size), 0.0
    for (asked_cores, whole, part, kinds), weight in zip(*typical_tasks(placed.demand), strict=True):
        each = 1000 if whole else part
        for h in range(len(idle)):
            runs = each > 0 and cores[h] >= asked_cores and (room[h] >= each).sum() >= max(whole, 1)
            runs = runs and (kinds < 0 or placed.demand.types[kinds][placed.fixed[h, 1]])
            f += weight * (room[h][room[h] < each].sum() if runs else idle[h])
    total = size.sum()
    share = idle[partly].sum() / idle.sum() if idle.sum() else 0.0
    return share, float(partly.sum()), (size - idle)[partly].sum() / total, f / total


def test_fragmentation_over_time_against_a_slow_version(result: Any) -> None:
    times, _ = fragmentation_over_time(result.hosts, result.start, result.run)
    moments = np.unique(times)[:-1]
    moments = moments + np.diff(np.unique(times)) / 2
    found = fragmentation_at(result, moments)
    slow = np.array([slow_fragmentation(result, moment) for moment in moments]).T
    for name, expected in zip(("share", "hosts", "waste", "f"), slow, strict=True):
        assert found[name] == pytest.approx(expected, abs=1e-9), name
    summary, width = result.summary(), np.diff(np.unique(times))
    length = float(result.end.max() - result.submit.min())
    for key, values in zip(FRAGMENTATION, slow, strict=True):
        assert summary[key] == pytest.approx((values * width).sum() / length), key


def test_f_worked_out_by_hand() -> None:
    """Two hosts of 4 GPUs; half of the jobs ask for 4 and half for 1. With 1 in use, 3 of 8 GPUs are lost to half."""
    frame = pd.DataFrame({"job_id": [1, 2], "submit_time": [0.0, 5.0], "run_time": [9.0, 9.0], "req_procs": 1})
    trace = Trace(frame.assign(req_gpus=[1.0, 4.0]), Machine(procs=8))
    made = tracekit.simulate(trace, cluster=Machine(groups=(HostGroup(2, cores=4, gpus=4, name="h"),)))
    found = fragmentation_at(made, np.array([1.0, 6.0, 12.0]))
    assert found["f"].tolist() == pytest.approx([0.5 * 3 / 8, 0.5 * 3 / 8, 0.0])
    assert found["waste"].tolist() == pytest.approx([1 / 8, 1 / 8, 0.0])


def test_fragmentation_by_cores_has_no_f() -> None:
    cluster = Machine(groups=(HostGroup(2, cores=4, name="h"),))
    frame = pd.DataFrame({"job_id": [1], "submit_time": [0.0], "run_time": [9.0], "req_procs": 1})
    found = tracekit.simulate(Trace(frame, Machine(procs=8)), cluster=cluster).summary()
    assert found["fragmentation"] == pytest.approx(3 / 7)
    assert (found["fragmentation_partial_hosts"], found["fragmentation_waste"]) == (1.0, 1 / 8)
    assert found["fragmentation_fgd"] is None
    assert found["gpu_types"] == {}


def test_results_by_gpu_type() -> None:
    """A gang over two types counts for both; GPUs without a type are apart; a job without GPUs counts nowhere."""
    groups = (
        HostGroup(1, cores=8, gpus=2, gpu_type="A100", name="a"),
        HostGroup(1, cores=8, gpus=2, gpu_type="V100", name="v"),
        HostGroup(1, cores=8, gpus=4, name="u"),
    )
    frame = pd.DataFrame(
        {
            "job_id": [1, 2, 3],
            "submit_time": [0.0, 0.0, 0.0],
            "run_time": [10.0, 10.0, 10.0],
            "req_procs": [4, 4, 1],
            "req_gpus": [4.0, 2.0, 0.0],
            "tasks": [2, 1, 1],
            "gpu_type": ["A100|V100", "V100", None],
        }
    )
    found = tracekit.simulate(Trace(frame, Machine(procs=24)), cluster=Machine(groups=groups)).summary()["gpu_types"]
    assert found["A100"] == {"jobs": 1, "mean_wait_s": 0.0, "utilization": 0.5}
    assert found["V100"] == {"jobs": 2, "mean_wait_s": 5.0, "utilization": 1.0}
    assert found["untyped"] == {"jobs": 0, "mean_wait_s": None, "utilization": 0.0}


@pytest.mark.parametrize("name", HOST_PICTURES)
def test_pictures_are_drawn(result: Any, name: str, tmp_path: Path) -> None:
    tracekit.plots.save(HOST_PICTURES[name](result), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 5000


def test_a_counter_has_no_hosts_to_draw() -> None:
    with pytest.raises(NothingToDraw):
        HOST_PICTURES["hosts-gantt.png"](tracekit.simulate(tracekit.sample().head(20)))


def test_curves_need_results() -> None:
    with pytest.raises(NothingToDraw):
        packing_curves([])


def test_the_pages_example_runs(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (cluster,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (allocator,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    Path("small.toml").write_text(cluster, encoding="utf-8")
    Path("most_memory.py").write_text(allocator, encoding="utf-8")
    rows = ["job_id,submit_time,run_time,req_time,req_procs,req_mem,req_gpus,tasks,pool"]
    rows += ["1,0,60,90,8,1024,3,,vision", "2,1,60,90,8,1024,8,2,vision", "3,2,60,90,100,1024,,,batch"]
    rows += ["4,3,60,90,2,1024,0.5,,vision", "5,4,60,90,4,1024,16,4,vision"]
    Path("jobs.csv").write_text("\n".join(rows) + "\n")
    code, out, error = run(
        *("simulate", "jobs.csv", "--cluster", "small.toml", "--allocate", "first-fit,most_memory:MostMemory"),
        *("-o", "runs", "--json"),
    )
    assert code == 0, error
    assert [row["rejected"] for row in json.loads(out)["results"]] == [0, 0]
    for folder in Path("runs").iterdir():
        assert {path.name for path in folder.iterdir()} > set(HOST_PICTURES)
        assert run("check-schedule", str(folder / "schedule.csv"), "jobs.csv", "--cluster", "small.toml")[0] == 0
    assert run("place", "jobs.csv", "--cluster", "small.toml", "--seeds", "1:2", "-o", "packing")[0] == 0
    assert {path.suffix for path in Path("packing").iterdir()} == {".json", ".csv", ".png", ".svg", ".pdf"}
    assert run("place", "jobs.csv", "--cluster", "small.toml", "-o", "packing")[0] != 0  # exists
    assert run("place", "jobs.csv", "--cluster", "small.toml", "-o", "packing", "--force")[0] == 0


def test_agents_are_refused_by_name(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sample", "s.swf")[0] == 0
    code, _, error = run("simulate", "s.swf", "--cluster", "mira", "--policy", "agent:default", "--window", "0:20")
    assert code == 2
    assert "--cluster" in error
