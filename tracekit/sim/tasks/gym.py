"""PickJob for Gymnasium: one window (`PickJobEnv`) or many at once (`PickJobVectorEnv`), id ``tracekit/PickJob-v0``.

Both are thin wrappers of `tracekit.sim.tasks.pick_job.batch.Batch`; ids are registered by `tracekit.sim.tasks.ids`.

>>> import gymnasium, tracekit
>>> env = gymnasium.make("tracekit:tracekit/PickJob-v0", trace=tracekit.sample(), jobs=64, objective="wait")
>>> observation, info = env.reset(seed=1)
>>> over = False
>>> while not over:
...     choice = info["action_mask"].argmax()                    # the first valid job: first come, first served
...     observation, reward, over, _, info = env.step(choice)
>>> observation.shape, info["score"] == -reward
((128, 16), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, TracekitError, UsageError
from tracekit.sim.tasks import ids
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.features import LARGEST
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.windows import Span, Window, draw
from tracekit.trace import Trace

try:
    import gymnasium
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    raise MissingExtra("gymnasium", "rl") from None

ID = ids.PICK_JOB
#: Windows drawn in search of one that passes the filter.
_TRIES = 1000

Actions = NDArray[np.int64]


class EpisodeSampler:
    """The windows that an environment plays: drawn from part of a trace, or given one after the other."""

    def __init__(
        self,
        trace: Trace | str | Path | EpisodeSource | None,
        task: Any,
        jobs: int,
        span: Span | None,
        windows: Sequence[Window] | None,
        keep: tuple[float, float] | None,
        settings: dict[str, Any],
    ) -> None:
        import tracekit

        if task is not None and settings:
            raise UsageError(f"give a task or its settings ({', '.join(settings)}), not both")
        if isinstance(trace, EpisodeSource):
            if task is not None or settings:
                raise UsageError("an EpisodeSource has its task already")
            self.source = trace
        else:
            found = tracekit.sample() if trace is None else trace if isinstance(trace, Trace) else tracekit.read(trace)
            self.source = EpisodeSource(found, task or PickJob(**settings))
        self.windows = None if windows is None else [(int(start), int(count)) for start, count in windows]
        if windows is not None and (span is not None or keep is not None or not windows):
            raise UsageError("give at least one window; windows cannot be combined with span or keep")
        self.span = span or (0, len(self.source))
        self.jobs = min(jobs, self.span[1] - self.span[0]) if span is None else jobs
        if windows is None:
            draw(self.span, 1, self.jobs, 0)  # fails now, not later, if no window fits
        self.keep = keep

    def next(self, rng: np.random.Generator, turn: int) -> Window:
        """Return the window of a turn, 0, 1, 2 …; random ones come from ``rng``."""
        if self.windows is not None:
            return self.windows[turn % len(self.windows)]
        first, last = self.span
        low, high = self.keep or (-np.inf, np.inf)
        for _ in range(_TRIES):
            window = (int(rng.integers(first, last - self.jobs + 1)), self.jobs)
            if self.keep is None or low < self.source.policy_cost(window, self.source.task.base) < high:
                return window
        raise TracekitError(
            f"none of {_TRIES} windows has a cost between {low:g} and {high:g} by {self.source.task.base}; "
            "widen the filter"
        )


def _spaces(task: PickJob) -> tuple[Any, Any]:
    shape = (task.slots, len(task.feature_names))
    return gymnasium.spaces.Box(0.0, LARGEST, shape, np.float32), gymnasium.spaces.Discrete(task.actions)


def lane_info(batch: Batch, lane: int, mask: NDArray[np.bool_], wrong: bool = False) -> dict[str, Any]:
    """Return the info of a lane, beside its observation."""
    info: dict[str, Any] = {
        "action_mask": mask,
        "window_start": batch.windows[lane][0],
        "window_jobs": batch.windows[lane][1],
        "invalid_action": wrong,
    }
    if batch.done[lane]:
        info["score"] = float(batch.score[lane])
        info["parts"] = batch.source.parts(batch.windows[lane], batch.starts(lane))
        if batch.task.reward == "relative":
            info["base_score"] = float(batch.base_score[lane])
    return info


class PickJobEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not there when the types are checked
    """One window at a time.

    ``trace`` is a `Trace`, a path, an `EpisodeSource`, or None for the sample that comes with tracekit. Windows of
    ``jobs`` consecutive jobs are drawn from the positions ``span`` (all) by the seed of `reset`, or are the given
    ``windows`` in turn; ``keep`` = (low, high) draws again until the base policy's cost lies between. All other
    arguments are fields of `PickJob`. ``reset(options={"window": (start, jobs)})`` plays that window.

    For tools without action masks, an invalid action is taken as the first valid job, and
    ``info["invalid_action"]`` is set; with ``lenient=False`` it is an error.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(
        self,
        trace: Trace | str | Path | EpisodeSource | None = None,
        task: PickJob | None = None,
        *,
        jobs: int = 256,
        span: Span | None = None,
        windows: Sequence[Window] | None = None,
        keep: tuple[float, float] | None = None,
        lenient: bool = True,
        **settings: Any,
    ) -> None:
        self._episodes = EpisodeSampler(trace, task, jobs, span, windows, keep, settings)
        self.batch = Batch(self._episodes.source, lanes=1, threads=1)
        self.task = self.batch.task
        self.observation_space, self.action_space = _spaces(self.task)
        self.lenient = lenient
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
        """Choose a job."""
        wrong = not self.batch.done[0] and not self._on_offer(int(action))
        if wrong and not self.lenient:
            raise UsageError(f"action {int(action)} is not valid here; see info['action_mask']")
        reward, done = self.batch.step([0 if wrong else int(action)])
        return self.batch.features[0].copy(), float(reward[0]), bool(done[0]), False, self._info(wrong)

    def _on_offer(self, action: int) -> bool:
        return 0 <= action < self.task.actions and bool(self.batch.mask[0, action])

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are valid, (actions,), as sb3-contrib's MaskablePPO expects it."""
        return np.array(self.batch.mask[0])

    def _info(self, wrong: bool = False) -> dict[str, Any]:
        return lane_info(self.batch, 0, self.action_masks(), wrong)


class PickJobVectorEnv(VectorEnv):  # type: ignore[misc]
    """Many windows at once, stepped in one compiled call; arguments as of `PickJobEnv`.

    The windows of sub-environment i are those of a `PickJobEnv` seeded with seed + i, however many there are. A
    finished one is reset at the next step, which ignores its action, or (``autoreset_mode`` SAME_STEP) at once, with
    its last state in ``infos["final_obs"]`` and ``infos["final_info"]``; `metadata` has the mode. Given
    ``windows`` are dealt out in turn: sub-environment i plays numbers i, i + n, i + 2n …

    ``copy=False`` returns the arrays that the next step will write into, which saves time.
    ``reset(options={"window": (start, jobs)})`` plays that window everywhere, ``{"reset_mask": …}`` begins some only.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        trace: Trace | str | Path | EpisodeSource | None = None,
        task: PickJob | None = None,
        *,
        num_envs: int = 64,
        jobs: int = 256,
        span: Span | None = None,
        windows: Sequence[Window] | None = None,
        keep: tuple[float, float] | None = None,
        lenient: bool = True,
        threads: int | None = None,
        autoreset_mode: Any = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        if mode == AutoresetMode.DISABLED:
            raise UsageError("PickJob resets finished windows itself: use autoreset_mode NEXT_STEP or SAME_STEP")
        self._episodes = EpisodeSampler(trace, task, jobs, span, windows, keep, settings)
        self.batch = Batch(self._episodes.source, lanes=num_envs, threads=threads)
        self.task = self.batch.task
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self.task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {**type(self).metadata, "autoreset_mode": mode}
        self.lenient, self.copy = lenient, copy
        self._same_step = mode == AutoresetMode.SAME_STEP
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self._turns = np.zeros(num_envs, np.int64)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin windows everywhere; ``seed`` is one number or one for each sub-environment."""
        seeds = [None] * self.num_envs if seed is None else seed
        if isinstance(seeds, (int, np.integer)):
            seeds = [int(seeds) + i for i in range(self.num_envs)]
        self.reseed(seeds)
        options = options or {}
        some = options.get("reset_mask")
        lanes = np.arange(self.num_envs) if some is None else np.flatnonzero(some)
        self.begin(lanes, [options.get("window")] * len(lanes))
        return self._observations(), self._infos()

    def reseed(self, seeds: Sequence[int | None]) -> None:
        """Set the seeds of the windows to come, one for each sub-environment; None = keep the current ones."""
        if len(seeds) != self.num_envs:
            raise UsageError(f"{self.num_envs} sub-environments need as many seeds, not {len(seeds)}")
        for i, each in enumerate(seeds):
            if each is not None:
                self._rngs[i], self._turns[i] = seeding.np_random(each)[0], 0

    def begin(self, lanes: NDArray[np.intp], given: Sequence[Window | None] | None = None) -> None:
        """Begin windows in some sub-environments: the given ones, or (None) the next in turn."""
        windows = []
        for i, window in zip(lanes, given or [None] * len(lanes), strict=True):
            turn = int(self._turns[i]) * self.num_envs + int(i) if self._episodes.windows else int(self._turns[i])
            windows.append(self._episodes.next(self._rngs[i], turn) if window is None else window)
            self._turns[i] += 1
        if len(lanes):
            self.batch.reset(lanes, windows)

    def step(self, actions: Actions) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Any]:
        """Choose a job in every sub-environment."""
        before = self.batch.done.copy()
        rewards, ended, wrong = self.choose(actions)
        infos: dict[str, Any] = {}
        if self._same_step and ended.any():
            infos = self._final(ended)
        self.begin(np.flatnonzero(ended if self._same_step else before))
        infos |= self._infos(wrong, None if self._same_step else ended)
        return self._observations(), rewards, ended, np.zeros(self.num_envs, np.bool_), infos

    def choose(self, actions: Actions) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Make the choices without resets; return rewards, which windows ended now, and which actions were invalid."""
        before = self.batch.done.copy()
        actions = np.array(actions, dtype=np.int64)
        inside = (actions >= 0) & (actions < self.task.actions)
        offered = self.batch.mask[np.arange(self.num_envs), np.where(inside, actions, 0)] & inside
        wrong = ~offered & ~before
        if wrong.any() and not self.lenient:
            i = int(np.flatnonzero(wrong)[0])
            raise UsageError(f"sub-environment {i}: action {actions[i]} is not valid here; see infos['action_mask']")
        actions[wrong] = 0
        rewards, done = self.batch.step(actions)
        return rewards, done & ~before, wrong

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are valid, (num_envs, actions)."""
        return self.batch.mask.copy()

    def _observations(self) -> NDArray[np.float32]:
        return self.batch.features.copy() if self.copy else self.batch.features

    def _infos(self, wrong: NDArray[np.bool_] | None = None, ended: NDArray[np.bool_] | None = None) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, np.bool_)
        start, jobs = np.array(self.batch.windows, dtype=np.int64).T
        infos: dict[str, Any] = {
            "action_mask": self.action_masks() if self.copy else self.batch.mask,
            "window_start": start,
            "window_jobs": jobs,
            "invalid_action": np.zeros(self.num_envs, np.bool_) if wrong is None else wrong,
        }
        infos |= {f"_{key}": everyone for key in infos}
        if ended is not None and ended.any():
            infos |= self._scores(ended)
        return infos

    def _scores(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        found = {"score": np.where(ended, self.batch.score, 0.0), "_score": ended}
        if self.task.reward == "relative":
            found |= {"base_score": np.where(ended, self.batch.base_score, 0.0), "_base_score": ended}
        return found | {"parts": self._parts(ended), "_parts": ended}

    def _parts(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the parts of the objective of finished windows, (num_envs,) each."""
        found: dict[str, Any] = {}
        for i in np.flatnonzero(ended).tolist():
            parts = self.batch.source.parts(self.batch.windows[i], self.batch.starts(i))
            for name, value in parts.items():
                found.setdefault(name, np.zeros(self.num_envs))[i] = value
        return found | {f"_{name}": ended for name in found}

    def _final(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the last state of finished sub-environments, as Gymnasium's own vector environments do."""
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            last[i] = self.batch.features[i].copy()
        return {"final_obs": last, "_final_obs": ended, "final_info": self._scores(ended), "_final_info": ended}


ids.register(gymnasium)
