"""PickJob as stable-baselines3 knows it: step for step what single environments do, and its agents learn on it."""

import pickle

import numpy as np
import pytest

from tracekit.errors import UsageError

from .test_env import masked
from .test_env_engine import crowd

pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
contrib = pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")

from sb3_contrib.common.maskable.evaluation import evaluate_policy  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize  # noqa: E402

from tracekit.sim.tasks.gym import PickJobEnv  # noqa: E402
from tracekit.sim.tasks.sb3 import PickJobVecEnv  # noqa: E402

COUNT = 4


def many(count=COUNT, **settings):
    return PickJobVecEnv(crowd(), num_envs=count, **{"jobs": 20, "slots": 16, **settings})


def single(windows=None, **settings):
    """Return as many single environments, driven by stable-baselines3 itself; given windows are dealt out in turn."""
    settings = {"jobs": 20, "slots": 16, **settings}
    dealt = [windows and [windows[(i + k * COUNT) % len(windows)] for k in range(len(windows))] for i in range(COUNT)]
    return DummyVecEnv([lambda mine=mine: PickJobEnv(crowd(), windows=mine, **settings) for mine in dealt])


def same(ours, theirs):
    """Compare what two environments say, entry by entry."""
    assert len(ours) == len(theirs) == COUNT
    for mine, other in zip(ours, theirs, strict=True):
        assert set(mine) == set(other)
        for key, value in other.items():
            assert np.asarray(mine[key]).dtype == np.asarray(value).dtype, key
            np.testing.assert_array_equal(mine[key], value, err_msg=key)


def steps(ours, theirs, actions):
    """Step both and compare all that they return; return how many windows ended."""
    (seen, rewards, dones, infos), (expected, their_rewards, their_dones, their_infos) = (
        each.step(actions) for each in (ours, theirs)
    )
    for mine, other in ((seen, expected), (rewards, their_rewards), (dones, their_dones)):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    same(infos, their_infos)
    same(ours.reset_infos, theirs.reset_infos)
    np.testing.assert_array_equal(get_action_masks(ours), get_action_masks(theirs))
    for i in np.flatnonzero(dones):
        assert infos[i]["terminal_observation"].shape == seen[i].shape
        assert infos[i]["TimeLimit.truncated"] is False
    return int(dones.sum())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reward": "relative", "base": "sjf"},
        {"reward": "dense", "objective": "wait"},
        {"skip": True, "ask_forced": True},
        {"windows": [(0, 20), (30, 25), (60, 15), (90, 20), (110, 30), (7, 12)]},
        {"windows": [(0, 20), (30, 25), (60, 15)], "reward": "relative"},
        {"keep": (1.5, 1e9), "span": (0, 120), "commit": True, "backfill": "none"},
    ],
    ids=lambda settings: ",".join(settings) or "final",
)
def test_step_for_step_what_single_environments_do(settings):
    ours, theirs = many(**settings), single(**settings)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.seed(9) == theirs.seed(9) == [9, 10, 11, 12]
    rng, endings = np.random.default_rng(0), 0
    for again in range(2):  # the second time without a seed: both go on with their windows
        np.testing.assert_array_equal(ours.reset(), theirs.reset())
        same(ours.reset_infos, theirs.reset_infos)
        for step in range(100):
            masks = get_action_masks(ours)
            np.testing.assert_array_equal(masks, get_action_masks(theirs))
            actions = masked(rng, masks)
            if step % 7 == 3:  # sometimes without looking at the mask
                actions = rng.integers(0, ours.action_space.n, COUNT)
            endings += steps(ours, theirs, actions)
        assert endings > 4 * (again + 1)


def test_a_window_can_be_chosen_for_the_next_reset():
    ours, theirs = many(), single()
    for options in ({"window": (40, 12)}, [{"window": (5, 10)}, {}, {"window": (70, 9)}, {}]):
        for each in (ours, theirs):
            each.seed(1)
            each.set_options(options)
            each.reset()
        same(ours.reset_infos, theirs.reset_infos)
        for _ in range(40):
            steps(ours, theirs, np.zeros(COUNT, np.int64))


def test_sub_environments_are_asked_by_name():
    made = many()
    made.reset()
    assert is_masking_supported(made)
    assert get_action_masks(made).shape == (COUNT, 16)
    np.testing.assert_array_equal(get_action_masks(made), made.action_masks())
    assert [mask().sum() for mask in made.get_attr("action_masks", [1, 2])] == made.action_masks()[1:3].sum(1).tolist()
    assert made.get_attr("task", 0)[0].slots == 16
    assert made.get_attr("render_mode") == [None] * COUNT
    assert made.env_is_wrapped(object, indices=[0]) == [False]
    assert not made.has_attr("nothing")
    with pytest.raises(AttributeError, match="nothing"):
        made.env_method("nothing")
    with pytest.raises(UsageError, match="cannot be changed"):
        made.set_attr("lenient", False)


def test_mistakes_are_told():
    with pytest.raises(UsageError, match="copy"):
        many(copy=False)
    made = many(lenient=False)
    with pytest.raises(UsageError, match="reset"):
        made.step(np.zeros(COUNT, np.int64))
    made.reset()
    with pytest.raises(UsageError, match="sub-environment 0"):
        made.step(np.full(COUNT, 15))


def test_a_pickled_copy_goes_on_alike():
    ours = many(70, threads=2)  # so many are stepped in threads
    ours.seed(2)
    ours.reset()
    rng = np.random.default_rng(0)
    for _ in range(30):
        ours.step(masked(rng, ours.action_masks()))
    copy = pickle.loads(pickle.dumps(ours))
    for _ in range(60):
        actions = masked(rng, ours.action_masks())
        (seen, rewards, dones, infos), (again, same_rewards, same_dones, same_infos) = (
            ours.step(actions),
            copy.step(actions),
        )
        np.testing.assert_array_equal(seen, again)
        np.testing.assert_array_equal(rewards, same_rewards)
        np.testing.assert_array_equal(dones, same_dones)
        assert [info["window_start"] for info in infos] == [info["window_start"] for info in same_infos]


def test_maskable_ppo_learns_on_it(tmp_path):
    made = VecMonitor(many(lenient=False, reward="relative"), info_keywords=("score", "base_score"))
    agent = contrib.MaskablePPO("MlpPolicy", made, n_steps=64, batch_size=64, n_epochs=1, seed=0)
    before = [weights.detach().clone() for weights in agent.policy.parameters()]
    agent.learn(512)
    assert agent.num_timesteps == 512
    after = agent.policy.parameters()
    assert any(not np.array_equal(a.numpy(), b.detach().numpy()) for a, b in zip(before, after, strict=True))
    assert len(agent.ep_info_buffer) > 10
    assert all(-1 <= info["r"] <= 1 and info["score"] >= 1 for info in agent.ep_info_buffer)
    agent.save(tmp_path / "agent.zip")
    loaded = contrib.MaskablePPO.load(tmp_path / "agent.zip", env=made)
    seen = made.reset()
    actions, _ = loaded.predict(seen, action_masks=get_action_masks(made), deterministic=True)
    assert made.unwrapped.action_masks()[np.arange(COUNT), actions].all()
    mean, _ = evaluate_policy(loaded, made, n_eval_episodes=8)
    assert -1 <= mean <= 1


def test_plain_ppo_learns_on_it_without_masks():
    made = VecNormalize(VecMonitor(many(reward="dense")), gamma=1.0)
    agent = sb3.PPO("MlpPolicy", made, n_steps=64, batch_size=64, n_epochs=1, gamma=1.0, seed=0)
    agent.learn(256)
    assert agent.num_timesteps == 256
    assert made.obs_rms.count > 256
    assert len(agent.ep_info_buffer) > 4


def test_the_same_seed_gives_the_same_agent():
    weights = []
    for _ in range(2):
        agent = contrib.MaskablePPO("MlpPolicy", many(), n_steps=32, batch_size=32, n_epochs=1, seed=5).learn(128)
        weights.append(np.concatenate([part.detach().numpy().ravel() for part in agent.policy.parameters()]))
    np.testing.assert_array_equal(*weights)
