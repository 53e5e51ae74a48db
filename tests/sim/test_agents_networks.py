"""Networks, advantages, schedules, rewards: the parts that agents are made of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tracekit.errors import UnknownName, UsageError  # noqa: E402
from tracekit.intervals import compare, interval, rank_biserial  # noqa: E402
from tracekit.sim.agents.config import Config  # noqa: E402
from tracekit.sim.agents.inference import KINDS, drawn, largest, room, score, weights_in  # noqa: E402
from tracekit.sim.agents.lr_schedules import FASTEST, SLOWEST, adapted, scheduled  # noqa: E402
from tracekit.sim.agents.networks import ActorCritic, Decisions, entropy, load_flat, log_softmax  # noqa: E402
from tracekit.sim.agents.ppo import ValueScale, generalised_advantages  # noqa: E402
from tracekit.sim.agents.rollout import cost_to_go  # noqa: E402
from tracekit.sim.engine.chance import uniform  # noqa: E402
from tracekit.sim.metrics import bounded_slowdown  # noqa: E402
from tracekit.sim.tasks.jobgraph import CONTEXT, LINK_UNIT, LINKS  # noqa: E402
from tracekit.sim.tasks.pick_job.task import PickJob  # noqa: E402

FEATURES, SLOTS = 5, 20
COUNTS = (3, SLOTS, 1, 7)
#: What a network needs to know of a task.
TASK = SimpleNamespace(feature_names=("x",) * FEATURES, slots=SLOTS, critic_inputs=7, actions_are="choice")


def decisions(jobs, counts, skip):
    """Pack decisions among the first ``counts`` jobs, with skipping behind them."""
    rows, slot, segment = [], [], []
    for number, count in enumerate(counts):
        rows.append(jobs[number, :count])
        slot += range(count)
        if skip:
            rows.append(np.ones((1, jobs.shape[2]), np.float32))
            slot.append(SLOTS)
        segment += [number] * (count + skip)
    return Decisions(
        torch.tensor(np.concatenate(rows)),
        torch.tensor(segment),
        torch.tensor(slot),
        torch.tensor([count + skip for count in counts]),
        torch.zeros(len(counts), TASK.critic_inputs),
    )


def task_of(kind):
    more = {"feature_names": (*TASK.feature_names, *LINKS)} if kind == "gat" else {}
    return SimpleNamespace(**(vars(TASK) | more))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("hidden", [(8,), (16, 8), (32, 16, 8)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_both_forward_passes_agree(kind, hidden, skip) -> None:
    torch.manual_seed(3)
    model = ActorCritic(Config(network=kind, hidden=hidden), task_of(kind))
    jobs = np.random.default_rng(1).random((len(COUNTS), SLOTS, FEATURES), dtype=np.float32)
    if kind == "gat":
        links = np.random.default_rng(2).integers(0, 4, (len(COUNTS), SLOTS, len(LINKS))) * LINK_UNIT
        links[..., CONTEXT] = 0
        jobs = np.concatenate([jobs, links.astype(np.float32)], 2)
    packed = decisions(jobs, COUNTS, skip)
    expected = model.actor(packed).detach().numpy()
    net = model.play_by().net
    assert len(net.flat) == weights_in(kind, net.sizes)
    scratch, at = room(net, SLOTS + 1), 0
    for number, count in enumerate(COUNTS):
        score(net, jobs[number], count, skip, scratch)
        np.testing.assert_allclose(scratch.score[: count + skip], expected[at : at + count + skip], atol=1e-5)
        at += count + skip
    assert model.critic(packed).shape == (len(COUNTS),)


@pytest.mark.parametrize("kind", list(KINDS))
def test_weights_survive_the_flat_form(kind) -> None:
    models = [ActorCritic(Config(network=kind), task_of(kind)) for _ in range(2)]
    assert not np.array_equal(models[0].flat(), models[1].flat())
    load_flat(models[1].actor, models[0].flat())
    np.testing.assert_array_equal(models[0].flat(), models[1].flat())


def test_probabilities_are_those_of_each_decision() -> None:
    jobs = np.random.default_rng(2).random((len(COUNTS), SLOTS, FEATURES), dtype=np.float32)
    packed = decisions(jobs, COUNTS, skip=False)
    scores = torch.linspace(-300, 300, len(packed.rows))
    found = log_softmax(scores, packed)
    for number in range(len(COUNTS)):
        own = packed.segment == number
        torch.testing.assert_close(found[own], scores[own].log_softmax(0))
    flat = log_softmax(torch.zeros(len(packed.rows)), packed)
    torch.testing.assert_close(entropy(flat, packed), torch.log(torch.tensor(COUNTS, dtype=torch.float32)))


def test_draws_follow_the_scores() -> None:
    scores = np.log(np.array([0.1, 0.2, 0.7], np.float32))
    chances = [uniform(np.uint64(9), turn) for turn in range(20_000)]
    assert 0 <= min(chances) < 0.001
    assert 0.999 < max(chances) < 1
    share = np.bincount([drawn(scores, 3, chance) for chance in chances], minlength=3) / len(chances)
    np.testing.assert_allclose(share, [0.1, 0.2, 0.7], atol=0.012)
    assert drawn(scores, 3, 0.0999) == 0
    assert drawn(scores, 3, 0.1001) == 1
    assert uniform(np.uint64(9), 5) != uniform(np.uint64(10), 5)


def test_of_equal_scores_the_first_wins_and_nan_is_found() -> None:
    assert largest(np.array([1, 2, 2], np.float32), 3) == 1
    assert largest(np.array([1, np.nan, 2], np.float32), 3) == -1
    assert drawn(np.array([1, np.nan, 2], np.float32), 3, 0.5) == -1


def test_advantages_by_hand() -> None:
    reward = np.array([1.0, 2.0, 4.0])
    value = np.array([0.5, 1.0, 3.0])
    last = np.array([False, True, True])
    found = np.empty(3)
    generalised_advantages(reward, value, last, 0.5, 0.5, found)
    # of the second decision: 2 − 1; of the first: 1 + 0.5·1 − 0.5 + 0.25·1; the third is a window of its own: 4 − 3
    np.testing.assert_allclose(found, [1.25, 1.0, 1.0])
    generalised_advantages(reward, value, last, 1.0, 1.0, found)
    np.testing.assert_allclose(found + value, [3.0, 2.0, 4.0])  # λ = 1: the sum of what follows


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 300), st.integers(0, 400)), min_size=1, max_size=12),
    st.lists(st.integers(0, 1500), min_size=1, max_size=8),
    st.sampled_from(["bsld", "wait", "slowdown", "response", "bsld:0.5,wait:2"]),
)
def test_cost_to_go_is_what_waiting_from_then_on_costs(jobs, times, objective) -> None:
    submit, run, waited = (np.array(column, float) for column in zip(*jobs, strict=True))
    start, task = submit + waited, PickJob(objective=objective)

    def cost(until: float) -> float:
        wait = np.clip(until, submit, start) - submit
        parts = {
            "bsld": bounded_slowdown(wait, run),
            "wait": wait,
            "slowdown": (wait + np.maximum(run, 1)) / np.maximum(run, 1),
            "response": wait + run,
        }
        return sum(weight * parts[name].sum() for name, weight in task.objectives.terms)

    found, pace = cost_to_go(task.objectives, task.switches.bound, submit, run, start, np.array(times, float))
    assert (pace >= 0).all()
    np.testing.assert_allclose(found, [cost(np.inf) - cost(time) for time in times], atol=1e-6)


def test_values_have_a_running_scale() -> None:
    scale = ValueScale()
    scale.see(np.array([10.0, 30.0]))
    assert (scale.mean, scale.deviation) == (20.0, 10.0)
    for _ in range(200):
        scale.see(np.array([0.0, 0.0]))
    assert abs(scale.mean) < 0.1


@pytest.mark.parametrize("kind", ["constant", "linear", "exponential", "cosine"])
def test_schedules_begin_and_end_where_they_should(kind) -> None:
    assert scheduled(kind, 0.1, 0.001, 0.0) == pytest.approx(0.1)
    assert scheduled(kind, 0.1, 0.001, 1.0) == pytest.approx(0.1 if kind == "constant" else 0.001)
    values = [scheduled(kind, 0.1, 0.001, p / 20, warmup=0.25) for p in range(21)]
    assert values[:6] == pytest.approx([0.02 * i for i in range(6)])
    assert values[5:] == sorted(values[5:], reverse=True)


def test_the_adaptive_factor_has_bounds() -> None:
    slow = fast = 1.0
    for _ in range(50):
        slow, fast = adapted(slow, 1.0, 0.01), adapted(fast, 0.0, 0.01)
    assert (slow, fast) == (SLOWEST, FASTEST)


def test_settings_are_checked(tmp_path) -> None:
    file = tmp_path / "train.toml"
    file.write_text("[train]\nsteps = 1000\nlearning_rate = 1\nhidden = [4, 2]\n")
    assert Config.load(file) == Config(steps=1000, learning_rate=1.0, hidden=(4, 2))
    for text, message in (
        ("learning_rat = 0.1", "did you mean learning_rate"),
        ("steps = 'many'", "steps must be a whole number"),
        ("steps = 1.5", "steps must be a whole number"),
        ("kl_adaptive = 1", "kl_adaptive must be bool"),
        ("hidden = [0]", "hidden widths"),
        ("network = 'kernl'", "did you mean kernel"),
        ("learning_rate = -1", "learning_rate"),
        ("learning_rate = nan", "learning_rate"),
        ("keep = 2", "keep"),
        ("[trian]\nsteps = 1", "did you mean"),
    ):
        file.write_text(text)
        with pytest.raises((UsageError, UnknownName), match=message):
            Config.load(file)
    assert Config.from_dict(Config(hidden=(3,)).to_dict()) == Config(hidden=(3,))


def test_comparisons_by_hand() -> None:
    agent, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 5.0, 7.0])
    found = compare(agent, other)
    assert found["paired_difference"] == -1.5
    assert found["windows_smaller"] == 3
    assert found["windows_equal"] == 1
    assert found["p"] == pytest.approx(0.25)  # three of three signs equal: 2 · (1/2)³
    assert found["effect_size"] == -1.0
    assert found["low"] <= -1.5 <= found["high"] <= 0
    assert compare(agent, agent)["p"] == 1.0
    assert rank_biserial(np.zeros(3)) == 0.0
    assert np.isnan(interval(np.array([1.0]))).all()
