"""PickPolicy for Gymnasium, id ``tracekit/PickPolicy-v0``: one window at a time, every policy a row.

>>> import gymnasium, tracekit
>>> env = gymnasium.make("tracekit:tracekit/PickPolicy-v0", trace=tracekit.sample(), jobs=64, objective="wait")
>>> observation, info = env.reset(seed=1)
>>> over = False
>>> while not over:
...     observation, reward, over, _, info = env.step(1)          # always shortest job first
>>> observation.shape, info["score"] == -reward
((8, 28), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, UsageError
from tracekit.sim.tasks import ids
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.gym import EpisodeSampler
from tracekit.sim.tasks.pick_job.features import LARGEST
from tracekit.sim.tasks.pick_policy.task import PickPolicy
from tracekit.sim.windows import Span, Window
from tracekit.trace import Trace

try:
    import gymnasium
except ModuleNotFoundError:
    raise MissingExtra("gymnasium", "rl") from None

ID = ids.PICK_POLICY


class PickPolicyEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not there when the types are checked
    """One window at a time; `reset` draws a new one from its seed.

    ``trace``, ``jobs``, ``span`` and ``windows`` are as in `PickJobEnv`; ``shown`` is the task's number of jobs in the
    graph, and all other arguments are fields of `PickPolicy`. The observation has a row per policy, then, with
    ``edges``, the jobs of the graph; the action is a policy's row. ``info`` has the parts of a finished window's
    objective under ``parts``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(
        self,
        trace: Trace | str | Path | EpisodeSource | None = None,
        task: PickPolicy | None = None,
        *,
        jobs: int = 256,
        span: Span | None = None,
        windows: Sequence[Window] | None = None,
        shown: int | None = None,
        **settings: Any,
    ) -> None:
        if task is not None and (settings or shown is not None):
            raise UsageError(f"give a task or its settings ({', '.join([*settings, 'shown'])}), not both")
        if shown is not None:
            settings["jobs"] = shown
        wanted = task or PickPolicy(**settings)
        given = None if isinstance(trace, EpisodeSource) else wanted
        self._episodes = EpisodeSampler(trace, given, jobs, span, windows, None, {})
        self.task: PickPolicy = self._episodes.source.task
        self.batch = self.task.batch(self._episodes.source, lanes=1)
        shape = (self.task.slots, len(self.task.feature_names))
        self.observation_space = gymnasium.spaces.Box(0.0, LARGEST, shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(self.task.actions)
        self._turn = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start a window; the same seed gives the same sequence of windows."""
        super().reset(seed=seed)
        if seed is not None:
            self._turn = 0
        chosen = (options or {}).get("window")
        window = self._episodes.next(self.np_random, self._turn) if chosen is None else chosen
        self._turn += 1
        self.batch.reset([0], [window])
        return self.batch.features[0].copy(), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Choose a policy."""
        reward, done = self.batch.step(np.array([int(action)]))
        return self.batch.features[0].copy(), float(reward[0]), bool(done[0]), False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are valid, (policies,): all, until the window is over."""
        return np.array(self.batch.mask[0])

    def _info(self) -> dict[str, Any]:
        start, jobs = self.batch.windows[0]
        info: dict[str, Any] = {"action_mask": self.action_masks(), "window_start": start, "window_jobs": jobs}
        if self.batch.done[0]:
            parts = self._episodes.source.parts(self.batch.windows[0], self.batch.starts(0))
            info |= {"score": float(self.batch.score[0]), "parts": parts}
        return info


ids.register(gymnasium)
