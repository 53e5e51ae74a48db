"""PickJob for stable-baselines3 and sb3-contrib: many windows, one compiled call, as one of their vector environments.

>>> from sb3_contrib import MaskablePPO
>>> many = PickJobVecEnv(num_envs=8, jobs=64, slots=32, reward="relative")   # the sample that comes with tracekit
>>> agent = MaskablePPO("MlpPolicy", many, n_steps=16, batch_size=64, n_epochs=1, seed=0).learn(128)
>>> many.reset().shape
(8, 32, 16)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, UsageError
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.trace import Trace

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "stable_baselines3":
        raise
    raise MissingExtra("stable-baselines3", "sb3") from None

from tracekit.sim.tasks.gym import PickJobEnv, PickJobVectorEnv, lane_info

Infos = list[dict[str, Any]]


class PickJobVecEnv(VecEnv):  # type: ignore[misc]  # stable-baselines3 is not there when the types are checked
    """Many windows at once; arguments as of `PickJobVectorEnv`, without ``autoreset_mode`` and ``copy``.

    Sub-environment i does what a `PickJobEnv` seeded with seed + i does in a ``DummyVecEnv``: a finished one is
    reset at once, with its last state in its info (``score``, ``terminal_observation``) and the start of the new
    window in ``reset_infos``. Windows are never cut off, so ``TimeLimit.truncated`` is always False.
    ``seed(n)`` and ``set_options({"window": (start, jobs)})`` hold for the next `reset`.

    MaskablePPO finds the masks by ``env_method("action_masks")``. Algorithms without masks can be used too: an
    invalid action is taken as the first valid job, unless ``lenient=False``. Can be pickled.
    """

    def __init__(
        self,
        trace: Trace | str | Path | EpisodeSource | None = None,
        task: PickJob | None = None,
        *,
        num_envs: int = 64,
        **settings: Any,
    ) -> None:
        refused = [name for name in ("autoreset_mode", "copy") if name in settings]
        if refused:
            raise UsageError(f"{' and '.join(refused)} cannot be chosen with stable-baselines3; leave it out")
        self.vector = PickJobVectorEnv(trace, task, num_envs=num_envs, **settings)
        self.batch, self.task = self.vector.batch, self.vector.task
        self._lanes = [_Lane(self.vector, lane) for lane in range(num_envs)]
        self._actions = np.zeros(num_envs, np.int64)
        super().__init__(num_envs, self.vector.single_observation_space, self.vector.single_action_space)

    def reset(self) -> NDArray[np.float32]:
        """Begin windows everywhere; return observations, (num_envs, slots, features)."""
        self.vector.reseed(self._seeds)
        everyone = np.arange(self.num_envs)
        self.vector.begin(everyone, [options.get("window") for options in self._options])
        self._reset_seeds()
        self._reset_options()
        return self._begun(everyone)

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the actions, (num_envs,), for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], Infos]:
        """Choose a job in every sub-environment; return observations, rewards, done, infos."""
        if self.batch.done.any():
            raise UsageError("call reset() before the first step")
        rewards, ended, wrong = self.vector.choose(self._actions)
        masks = self.vector.action_masks()
        infos = [lane_info(self.batch, i, masks[i], bool(wrong[i])) for i in range(self.num_envs)]
        for info in infos:
            info["TimeLimit.truncated"] = False
        over = np.flatnonzero(ended)
        for i in over:
            infos[i]["terminal_observation"] = self.batch.features[i].copy()
        self.vector.begin(over)
        return self._begun(over), rewards.astype(np.float32), ended, infos

    def _begun(self, lanes: NDArray[np.intp]) -> NDArray[np.float32]:
        """Keep the infos of windows that have just started; return the observations of all."""
        for i in lanes:
            self.reset_infos[i] = lane_info(self.batch, int(i), self.batch.mask[i].copy())
        return self.batch.features.copy()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are valid, (num_envs, actions)."""
        return self.vector.action_masks()

    def close(self) -> None:
        """Close the environment."""
        self.vector.close()

    # ---- what stable-baselines3 asks single environments for, by name ------------------------------------------------

    def _chosen(self, indices: int | Iterable[int] | None) -> list[_Lane]:
        return [self._lanes[i] for i in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of sub-environments, such as ``action_masks`` or ``task``."""
        return [getattr(lane, attr_name) for lane in self._chosen(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Return whether sub-environments have an attribute."""
        return hasattr(self._lanes[0], attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Refuse: all sub-environments are one engine with one task."""
        raise UsageError(f"{attr_name} cannot be changed; make a new PickJobVecEnv")

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of sub-environments: ``action_masks``."""
        return [getattr(lane, method_name)(*method_args, **method_kwargs) for lane in self._chosen(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        """Return whether sub-environments are wrapped: they are not."""
        return [False for _ in self._chosen(indices)]


class _Lane:
    """A view of one sub-environment."""

    metadata = PickJobEnv.metadata
    render_mode = None
    spec = None

    def __init__(self, vector: PickJobVectorEnv, lane: int) -> None:
        self._vector, self._lane = vector, lane
        self.task, self.lenient = vector.task, vector.lenient
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are valid, (actions,)."""
        return np.array(self._vector.batch.mask[self._lane])
