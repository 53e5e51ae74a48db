"""Power in the scores: distances of the column, its tie to the size, and watts that nodes cannot draw."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit import Trace
from tracekit.machine import HostGroup

#: 100 + 4·50 = 300 W a node.
GROUP = HostGroup(64, cores=4, idle_watts=100, core_watts=50, name="node")


@pytest.fixture(scope="module")
def measured(real: Trace) -> Trace:
    """Nodes that draw 150 to 300 W."""
    rng = np.random.default_rng(2)
    watts = real.column("req_nodes") * rng.uniform(150, 300, len(real))
    made = real.assign({"mean_watts": watts, "cpu_bound": rng.random(len(real))})
    return made.replace(machine=made.machine.replace(groups=(GROUP,)))


def test_distances_by_hand(compare, measured: Trace) -> None:
    more = measured.assign({"mean_watts": measured.column("mean_watts") + 1000})
    assert compare("wasserstein", measured, more)["wasserstein.mean_watts"].value == pytest.approx(1000)
    assert compare("ks", measured, measured)["ks.mean_watts"].value == 0
    assert compare("ks", measured, more)["ks.mean_watts"].value > 0.2
    assert compare("ks", measured, more)["ks.cpu_bound"].value == 0
    without = Trace(measured.jobs.drop(columns="mean_watts"), measured.machine)
    assert "no mean_watts" in compare("ks", measured, without)["ks.mean_watts"].note


def test_watts_that_do_not_follow_the_size_are_noticed(compare, measured: Trace) -> None:
    shuffled = np.random.default_rng(3).permutation(measured.column("mean_watts"))
    other = measured.assign({"mean_watts": shuffled})
    found = compare("correlation", measured, other)["correlation.mad_spearman"]
    assert found.detail["nodes~mean_watts"] < -0.8
    assert compare("correlation", measured, measured)["correlation.mad_spearman"].value == 0
    assert compare("c2st", measured, other)["c2st.auc"].value > 0.8


def test_a_trace_without_power_is_scored_as_before(compare, real: Trace) -> None:
    keys = compare("ks", real, real)
    assert not [key for key in keys if "watts" in key or "cpu_bound" in key]
    assert "no mean_watts" in compare("validity", real, real)["validity.power"].note


@pytest.mark.parametrize(
    ("column", "value"), [("mean_watts", -1.0), ("mean_watts", 64 * 300.1), ("cpu_bound", 1.2), ("cpu_bound", -0.1)]
)
def test_impossible_power_breaks_a_rule(compare, measured: Trace, column: str, value: float) -> None:
    values = measured.column(column).copy()
    values[: len(values) // 4] = value
    found = compare("validity", measured, measured.assign({column: values}))["validity.power"]
    assert found.value == pytest.approx(0.25, abs=1e-3)
    assert found.real == 0


def test_without_the_machines_watts_a_node_has_100_kilowatts(compare, measured: Trace) -> None:
    bare = measured.replace(machine=measured.machine.replace(groups=()))
    much = bare.assign({"mean_watts": bare.column("req_nodes") * 99_000})
    assert compare("validity", bare, much)["validity.power"].value == 0
    more = bare.assign({"mean_watts": bare.column("req_nodes") * 101_000})
    assert compare("validity", bare, more)["validity.power"].value == 1
