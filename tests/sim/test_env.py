"""PickJob as Gymnasium knows it: its checker, its vector environments, seeds, masks."""

import numpy as np
import pytest

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob

from .helpers import trace_of
from .test_env_engine import crowd

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

from tracekit.sim import env as environments  # noqa: E402

ID = "tracekit/PickJob-v0"


def masked(rng, mask):
    """Return a random valid action for each row of a mask; 0 where there is none."""
    return np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in mask])


def vector(count, **settings):
    return gymnasium.make_vec(
        ID, num_envs=count, vectorization_mode="vector_entry_point", trace=crowd(), jobs=30, **settings
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"skip": True, "ask_forced": True},
        {"commit": True, "backfill": "none", "observer": "rlscheduler", "reward": "relative"},
        {"slots": 3, "visible": "sjf-smallest", "warm": 20, "reward": "dense", "objective": "wait"},
        {"objective": "fair-max", "observer": "fair"},
    ],
)
def test_gymnasiums_own_checker(settings):
    made = gymnasium.make(ID, trace=crowd(), jobs=40, **settings)
    check_env(made.unwrapped)


def test_the_contract_of_the_id():
    made = gymnasium.make(ID)  # the sample that comes with tracekit
    assert made.observation_space.shape == (128, 16)
    assert made.observation_space.dtype == np.float32
    assert made.action_space.n == 128
    _, info = made.reset(seed=0)
    assert info["action_mask"].dtype == bool
    np.testing.assert_array_equal(info["action_mask"], made.unwrapped.action_masks())
    assert gymnasium.make(ID, skip=True).action_space.n == 129


def test_a_window_played_through_gymnasium_is_that_of_simulate():
    trace = crowd()
    made = gymnasium.make(ID, trace=trace, objective="wait", slots=150)
    _, info = made.reset(options={"window": (0, 150)})
    over = False
    while not over:
        _, reward, over, truncated, info = made.step(0)  # fcfs: the first job on offer
        assert not truncated
    result = tracekit.simulate(trace, "fcfs", "easy")
    np.testing.assert_array_equal(made.unwrapped.batch.starts(0), result.start)
    assert info["score"] == -reward == pytest.approx(result.metrics["mean_wait_s"])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_vector_environment_does_what_gymnasiums_own_does(mode):
    """The same seeds and actions in as many single environments, driven by Gymnasium."""
    ours = vector(4, reward="relative", autoreset_mode=mode)
    single = [lambda: gymnasium.make(ID, trace=crowd(), jobs=30, reward="relative") for _ in range(4)]
    theirs = gymnasium.vector.SyncVectorEnv(single, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] == mode
    (seen, infos), (expected, their_infos) = ours.reset(seed=9), theirs.reset(seed=9)
    rng, endings = np.random.default_rng(0), 0
    for _ in range(150):
        np.testing.assert_array_equal(seen, expected)
        np.testing.assert_array_equal(infos["action_mask"], their_infos["action_mask"])
        actions = masked(rng, infos["action_mask"])
        seen, rewards, terminated, truncated, infos = ours.step(actions)
        expected, their_rewards, their_terminated, _, their_infos = theirs.step(actions)
        np.testing.assert_array_equal(rewards, their_rewards)
        np.testing.assert_array_equal(terminated, their_terminated)
        assert not truncated.any()
        assert set(infos) == set(their_infos)
        for key in ("window_start", "score", "_score", "_final_info"):
            np.testing.assert_array_equal(infos.get(key, 0), their_infos.get(key, 0))
        np.testing.assert_equal(infos.get("parts"), their_infos.get("parts"))
        if terminated.any() and mode == AutoresetMode.SAME_STEP:
            np.testing.assert_array_equal(infos["final_info"]["score"], their_infos["final_info"]["score"])
            assert not infos["final_obs"][np.flatnonzero(terminated)[0]].any()
        endings += terminated.sum()
    assert endings > 8


def test_seeds_mean_the_same_however_many_environments_there_are():
    rng = np.random.default_rng(5)
    few, many = vector(2), vector(70, threads=2)
    small, small_infos = few.reset(seed=11)
    large, large_infos = many.reset(seed=11)
    for _ in range(120):
        np.testing.assert_array_equal(small, large[:2])
        np.testing.assert_array_equal(small_infos["window_start"], large_infos["window_start"][:2])
        actions = masked(rng, large_infos["action_mask"])
        small, *_, small_infos = few.step(actions[:2])
        large, *_, large_infos = many.step(actions)
    again, infos = many.reset(seed=11)
    assert again.tobytes() == vector(70).reset(seed=11)[0].tobytes()
    assert not np.array_equal(infos["window_start"], many.reset(seed=12)[1]["window_start"])


def test_some_can_be_reset_alone_and_arrays_need_not_be_copied():
    made = vector(3, copy=False)
    seen, infos = made.reset(seed=0)
    before = infos["window_start"].copy()
    alone, infos = made.reset(options={"reset_mask": np.array([False, True, False])})
    assert alone is seen
    assert infos["window_start"][[0, 2]].tolist() == before[[0, 2]].tolist()
    with pytest.raises(UsageError, match="as many seeds"):
        made.reset(seed=[1, 2])


def test_a_window_can_be_chosen_everywhere():
    made = vector(3)
    _, infos = made.reset(seed=0, options={"window": (40, 25)})
    assert infos["window_start"].tolist() == [40] * 3
    assert infos["window_jobs"].tolist() == [25] * 3


def test_given_windows_are_dealt_out_in_turn():
    some = [(0, 20), (20, 20), (40, 20), (60, 20)]
    made = environments.PickJobVectorEnv(crowd(), num_envs=3, windows=some)
    _, infos = made.reset(seed=0)
    seen = [infos["window_start"].tolist()]
    while len(seen) < 3:
        *_, terminated, _, infos = made.step(np.zeros(3, np.int64))
        if terminated[0]:
            *_, infos = made.step(np.zeros(3, np.int64))
            seen.append(infos["window_start"].tolist())
    assert [row[0] for row in seen] == [0, 60, 40]  # numbers 0, 3, 6 of four in turn
    assert seen[0] == [0, 20, 40]


def test_actions_that_are_not_on_offer():
    lenient, strict = (environments.PickJobEnv(crowd(), lenient=lenient) for lenient in (True, False))
    lenient.reset(seed=0)
    *_, info = lenient.step(127)
    assert info["invalid_action"]
    *_, info = lenient.step(0)
    assert not info["invalid_action"]
    strict.reset(seed=0)
    with pytest.raises(UsageError, match="action"):
        strict.step(127)
    several = vector(2, lenient=False)
    several.reset(seed=0)
    with pytest.raises(UsageError, match="sub-environment 1"):
        several.step([0, 500])


def test_the_filter_draws_again_and_gives_up_in_the_end():
    source = EpisodeSource(crowd(600, seed=6), PickJob(base="sjf"))
    made = environments.PickJobEnv(source, jobs=50, keep=(2.0, 6.0))
    for _ in range(10):
        _, info = made.reset(seed=None)
        assert 2 < source.policy_cost((info["window_start"], 50), "sjf") < 6
    with pytest.raises(TracekitError, match="widen the filter"):
        environments.PickJobEnv(source, jobs=50, keep=(-2.0, -1.0)).reset(seed=0)


def test_windows_come_from_their_span():
    made = environments.PickJobEnv(crowd(), span=(100, 140), jobs=10)
    starts = {made.reset(seed=seed)[1]["window_start"] for seed in range(60)}
    assert min(starts) >= 100
    assert max(starts) <= 130
    assert len(starts) > 20


def test_mistakes_are_told_at_once():
    with pytest.raises(UsageError, match="do not fit"):
        environments.PickJobEnv(crowd(), span=(0, 20), jobs=30)
    with pytest.raises(UsageError, match="not both"):
        environments.PickJobEnv(crowd(), PickJob(), skip=True)
    with pytest.raises(UsageError, match="windows"):
        environments.PickJobEnv(crowd(), windows=[])
    with pytest.raises(UsageError, match="NEXT_STEP"):
        vector(2, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(TypeError, match="objectiv"):
        environments.PickJobEnv(crowd(), objectiv="wait")


def test_a_trace_shorter_than_a_window_is_one_window():
    made = environments.PickJobEnv(trace_of(*[(i, 9, 9, 1) for i in range(50)], procs=2))
    _, info = made.reset(seed=0)
    assert (info["window_start"], info["window_jobs"]) == (0, 50)


def test_maskable_ppo_of_sb3_contrib_learns_on_it():
    contrib = pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")
    made = environments.PickJobEnv(crowd(), jobs=20, slots=16, lenient=False, reward="relative")
    agent = contrib.MaskablePPO("MlpPolicy", made, n_steps=64, batch_size=32, n_epochs=1, seed=0)
    agent.learn(128)
    seen, _ = made.reset(seed=1)
    action, _ = agent.predict(seen, action_masks=made.action_masks())
    assert made.action_masks()[int(action)]
