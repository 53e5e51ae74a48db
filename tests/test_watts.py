"""The power of jobs: what nodes can draw, and the column through every way that a trace takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit import Machine, Trace
from tracekit.anonymize import anonymize
from tracekit.cleaning import clean
from tracekit.errors import SchemaError
from tracekit.machine import HostGroup
from tracekit.transform import scale_procs
from tracekit.validation import validate
from tracekit.watts import MOST_NODE_WATTS, most_nodes, most_watts, node_watts

GROUP = HostGroup(
    10, cores=4, gpus=2, idle_watts=100, core_watts=10, gpu_idle_watts=20, gpu_watts=150, memory_watts=5, nic_watts=3,
    other_watts=2, loss_constant=50, loss_efficiency=0.8,
)  # fmt: skip


def jobs(machine: Machine | None = None, **columns: object) -> Trace:
    base = {"job_id": [1, 2, 3], "submit_time": [0.0, 1.0, 2.0], "run_time": [60.0, 60.0, 60.0]}
    return Trace(pd.DataFrame({**base, "req_nodes": [1, 2, 4], **columns}), machine or Machine(nodes=10, unit="nodes"))


def test_a_busy_node_by_hand() -> None:
    """100 + 4·10 + 2·(20 + 150) + 5 + 3 + 2 = 490 W, and (490 + 50) / 0.8 = 675 W with losses."""
    assert node_watts(Machine(groups=(GROUP,))) == pytest.approx(675, rel=1e-12)
    assert node_watts(Machine()) is None
    assert node_watts(Machine(groups=(GROUP, HostGroup(3, cores=4, power=100)))) is None  # idle power alone says little
    assert node_watts(Machine(groups=(HostGroup(3, cores=4, power=100, core_watts=5),))) == 120


def test_the_nodes_of_a_job() -> None:
    assert most_nodes(jobs()).tolist() == [1, 2, 4]
    assert most_nodes(jobs(alloc_nodes=[3, None, 2])).tolist() == [3, 2, 4]
    assert most_nodes(jobs(req_nodes=[None, None, 2], req_procs=[4, 400, 8])).tolist() == [4, 10, 2]
    assert most_nodes(jobs(req_nodes=[None, 0, 2], req_procs=[None, None, 8])).tolist() == [10, 10, 2]
    assert most_watts(jobs()).tolist() == [MOST_NODE_WATTS, 2 * MOST_NODE_WATTS, 4 * MOST_NODE_WATTS]


def test_watts_beyond_the_nodes_are_found_and_unset() -> None:
    machine = Machine(nodes=10, unit="nodes", groups=(GROUP,))
    trace = jobs(machine, mean_watts=[675.0, 1351.0, -1.0], cpu_bound=[0.0, 1.0, 1.5])
    found = {problem.rule: problem.first_rows for problem in validate(trace)}
    assert found == {"too-many-watts": [1], "negative-watts": [2], "cpu-bound-not-a-share": [2]}
    made, counts = clean(trace, ["unset-too-many-watts", "unset-negative-watts", "unset-cpu-bound-not-a-share"])
    assert list(counts.values()) == [1, 1, 1]
    np.testing.assert_array_equal(made.column("mean_watts"), [675, np.nan, np.nan])
    np.testing.assert_array_equal(made.column("cpu_bound"), [0, 1, np.nan])


def test_words_are_no_watts() -> None:
    with pytest.raises(SchemaError, match="column mean_watts"):
        jobs(mean_watts=["much", "more", "most"])


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_kept_in_files(ending: str, tmp_path: Path) -> None:
    trace = jobs(mean_watts=[300.25, np.nan, 1e4], cpu_bound=[0.25, 1.0, np.nan])
    lost = tracekit.write(trace, tmp_path / f"a.{ending}")
    assert not [phrase for phrase in lost if "watts" in phrase or "cpu_bound" in phrase]
    again = tracekit.read(tmp_path / f"a.{ending}")
    for name in ("mean_watts", "cpu_bound"):
        np.testing.assert_array_equal(again.column(name), trace.column(name))


def test_swf_says_that_it_cannot_hold_them(tmp_path: Path) -> None:
    trace = jobs(mean_watts=[300.0, np.nan, 1e4], cpu_bound=[0.25, 1.0, np.nan])
    lost = tracekit.write(trace, tmp_path / "a.swf")
    assert {"column mean_watts", "column cpu_bound"} <= set(lost)


def test_a_column_of_any_table_by_map(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,queued,ran,nodes,avg_power_w\n1,0,60,1,410.5\n2,5,60,2,\n")
    names = {"job_id": "id", "submit_time": "queued", "run_time": "ran", "req_nodes": "nodes"}
    trace = tracekit.read(path, map=names | {"mean_watts": "avg_power_w"})
    np.testing.assert_array_equal(trace.column("mean_watts"), [410.5, np.nan])


def test_half_the_machine_draws_half() -> None:
    made = scale_procs(jobs(mean_watts=[300.0, 600.0, 1200.0], cpu_bound=[0.1, 0.2, 0.3]), 5)
    assert made.column("req_nodes").tolist() == [1, 1, 2]  # no job below one node
    assert made.column("mean_watts").tolist() == [300, 300, 600]
    assert made.column("cpu_bound").tolist() == [0.1, 0.2, 0.3]


def test_names_go_and_watts_stay() -> None:
    trace = jobs(mean_watts=[300.0, np.nan, 1200.0], cpu_bound=[0.5, 0.5, np.nan], user=["a", "b", "a"])
    made = anonymize(trace, b"a key of sixteen bytes")
    np.testing.assert_array_equal(made.column("mean_watts"), trace.column("mean_watts"))
    np.testing.assert_array_equal(made.column("cpu_bound"), trace.column("cpu_bound"))


def test_info_shows_the_power() -> None:
    assert jobs().summary()["mean_watts"] is None
    assert jobs(mean_watts=[300.0, np.nan, 1200.0]).summary()["mean_watts"]["mean"] == 750
