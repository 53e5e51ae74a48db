"""Energy as an objective: the same numbers as the simulator's, parts with and without weights, one clear line."""

from __future__ import annotations

import numpy as np
import pytest

import tracekit
from tracekit.errors import UsageError
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.objectives import objective
from tracekit.sim.tasks.pick_job.task import PickJob

WINDOW = (2080, 80)


def source_of(text, **switches):
    return EpisodeSource(tracekit.sample(), PickJob(objective=text, switches=Switches(**switches)))


def test_energy_and_peak_are_those_of_the_simulator():
    source = source_of("bsld:0.5,energy:0.01,peak:2", power="cpu-node")
    start = source.schedule(WINDOW, "sjf")
    found = source.parts(WINDOW, start)
    window = tracekit.sample().jobs.iloc[WINDOW[0] : sum(WINDOW)]
    trace = tracekit.sample().replace(jobs=window.reset_index(drop=True))
    expected = tracekit.simulate(trace, "sjf", power="cpu-node")
    assert found["bsld"] == pytest.approx(expected.metrics["mean_bsld"])
    assert found["energy"] == pytest.approx(expected.energy.total_kwh, rel=1e-12)
    assert found["peak"] == pytest.approx(expected.energy.peak_kw, rel=1e-12)
    cost = source.cost(WINDOW, start)
    assert cost == pytest.approx(0.5 * found["bsld"] + 0.01 * found["energy"] + 2 * found["peak"])


def test_a_weight_of_zero_is_shown_and_not_optimised():
    chosen = objective("bsld,energy:0")
    assert chosen.additive
    assert not objective("bsld,energy:1").additive
    assert str(objective("bsld:0.5,wait:0.1")) == "0.5 · bsld + 0.1 · wait"
    source = source_of("bsld,energy:0", power="cpu-node")
    start = source.schedule(WINDOW, "fcfs")
    parts = source.parts(WINDOW, start)
    assert source.cost(WINDOW, start) == parts["bsld"]
    assert parts["energy"] > 0


@pytest.mark.parametrize(
    ("text", "switches", "flag"),
    [
        ("energy", {}, "--power"),
        ("carbon", {"power": "cpu-node"}, "--carbon"),
        ("cost", {"power": "cpu-node"}, "--price"),
    ],
)
def test_what_is_missing_is_named(text, switches, flag):
    source = source_of(text, **switches)
    with pytest.raises(UsageError, match=flag):
        source.cost(WINDOW, source.schedule(WINDOW, "fcfs"))


def test_carbon_weighs_the_hours(tmp_path):
    (tmp_path / "carbon.csv").write_text("time,kg_per_kwh\n0,0.5\n1e10,0.5\n")
    source = source_of("carbon,energy", power="cpu-node", carbon=str(tmp_path / "carbon.csv"))
    parts = source.parts(WINDOW, source.schedule(WINDOW, "fcfs"))
    assert np.isclose(parts["carbon"], 0.5 * parts["energy"])


def test_the_learners_differ_in_their_loss_alone():
    torch = pytest.importorskip("torch")
    from tracekit.sim.agents.config import PRESETS, Config
    from tracekit.sim.agents.ppo import LEARNERS

    theirs = Config.load("gat-drl")
    assert (theirs.algorithm, theirs.network, theirs.gamma) == ("a2c", "gat", 0.99)
    assert set(PRESETS) == {"gat-drl", "informed"}
    task = source_of("bsld").task
    made = {name: LEARNERS[name](Config(epochs=3, algorithm=name), task, 0) for name in LEARNERS}
    assert (made["ppo"].epochs, made["a2c"].epochs) == (3, 1)
    change, gain = torch.zeros(2, requires_grad=True), torch.tensor([1.0, -2.0])
    losses = [made[name]._policy_loss(change, gain) for name in ("ppo", "a2c")]
    gradients = [torch.autograd.grad(loss, change)[0] for loss in losses]
    torch.testing.assert_close(gradients[0], gradients[1])  # where nothing has changed yet, both are the same
    far = torch.full((2,), 1.0, requires_grad=True)
    assert torch.autograd.grad(made["ppo"]._policy_loss(far, gain.abs()), far)[0].abs().sum() == 0  # clipped
    assert torch.autograd.grad(made["a2c"]._policy_loss(far, gain.abs()), far)[0].abs().sum() > 0
