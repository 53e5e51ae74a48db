"""PickHost for Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracekit.errors import UsageError
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.task import players

from .test_pick_host import CLUSTER, mixed_trace, task_on

gymnasium = pytest.importorskip("gymnasium")


def make(**settings: Any) -> Any:
    given = {"trace": mixed_trace(), "cluster": CLUSTER, "jobs": 80} | settings
    return gymnasium.make("tracekit:tracekit/PickHost-v0", **given)


def test_the_environment_is_checked_and_plays_as_the_rule_does() -> None:
    from gymnasium.utils.env_checker import check_env

    env = make()
    check_env(env.unwrapped, skip_render_check=True)
    observation, info = env.reset(seed=3)
    assert observation.shape == (6, len(env.unwrapped.task.feature_names))
    over = False
    while not over:
        observation, reward, over, _, info = env.step(int(info["action_mask"].argmax()))
    window = (info["window_start"], info["window_jobs"])
    wanted = players(EpisodeSource(mixed_trace(), task_on()))().play(window, "first-fit").metrics
    assert info["metrics"] == pytest.approx(wanted)
    assert info["score"] == -reward == pytest.approx(wanted["mean_wait_s"])


def test_every_reset_draws_another_window_and_the_seed_decides() -> None:
    one, two = make(), make()
    seen = [one.reset(seed=5)[1]["window_start"], *(one.reset()[1]["window_start"] for _ in range(5))]
    again = [two.reset(seed=5)[1]["window_start"], *(two.reset()[1]["window_start"] for _ in range(5))]
    assert seen == again
    assert len(set(seen)) > 3


@pytest.mark.parametrize(("observer", "size"), [("lsf-4h2", 4 * 6 + 2), ("lsf-2h8", 2 * 6 + 8)])
def test_the_originals_observations_and_priorities(observer: str, size: int) -> None:
    env = make(observer=observer, actions="priorities")
    observation, _ = env.reset(seed=1)
    assert observation.shape == (size,)
    observation, *_ = env.step(np.linspace(1, 0, 6, dtype=np.float32))
    assert np.isfinite(observation).all()


def test_drawn_jobs_change_with_every_reset() -> None:
    env = make(trace=None, draw=lambda seed: mixed_trace(100, seed))
    first, second = env.reset(seed=1)[0], env.reset()[0]
    assert not np.array_equal(first, second)
    assert np.array_equal(env.reset(seed=1)[0], first)
    with pytest.raises(UsageError):
        make(draw=mixed_trace)


def test_a_host_without_room_is_an_error_unless_lenient() -> None:
    env = make(lenient=False)
    env.reset(seed=1)
    with pytest.raises(UsageError):
        env.step(17)
    lenient = make()
    lenient.reset(seed=1)
    assert lenient.step(17)[4]["invalid_action"]
