"""PickHost for Gymnasium, id ``tracekit/PickHost-v0``: one window at a time, every host a row.

>>> import gymnasium, tracekit
>>> from tracekit.machine import HostGroup, Machine
>>> cluster = Machine(groups=(HostGroup(8, cores=16, name="a"), HostGroup(4, cores=32, name="b")))
>>> env = gymnasium.make("tracekit:tracekit/PickHost-v0", trace=tracekit.sample(), cluster=cluster, jobs=64)
>>> observation, info = env.reset(seed=1)
>>> over = False
>>> while not over:
...     choice = info["action_mask"].argmax()                    # the first host with room
...     observation, reward, over, _, info = env.step(choice)
>>> observation.shape, info["score"] == -reward
((12, 28), True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, UsageError
from tracekit.sim.tasks import ids
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.gym import EpisodeSampler
from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.features import OF_HOST
from tracekit.sim.tasks.pick_host.task import PickHost
from tracekit.sim.windows import Span, Window
from tracekit.trace import Trace

try:
    import gymnasium
except ModuleNotFoundError:
    raise MissingExtra("gymnasium", "rl") from None

ID = ids.PICK_HOST
#: No feature is larger.
LARGEST = 1e6


class PickHostEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not there when the types are checked
    """One window at a time; `reset` draws a new one from its seed.

    ``trace``, ``jobs``, ``span`` and ``windows`` are as in `PickJobEnv`; ``cluster`` and all other arguments are fields
    of `PickHost`; without a cluster the hosts are those of the trace's machine. ``draw``, a function from a seed to a
    `Trace`, makes new jobs for every reset, such as those of a model, and new hosts if its machine has as many.

    The observation has one row per host, (hosts, features); for the observers ``lsf-4h2`` and ``lsf-2h8`` it is
    the vector of the LSF RL scheduler, 4H+2 or 2H+8 numbers. The action is a host (``info["action_mask"]`` has those
    with room), or, with ``actions="priorities"``, one number per host: the host with the highest number that has
    room gets the job. ``info`` has the metrics of a finished window under ``metrics``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as gymnasium has it

    def __init__(
        self,
        trace: Trace | str | Path | None = None,
        task: PickHost | None = None,
        *,
        jobs: int = 256,
        span: Span | None = None,
        windows: Sequence[Window] | None = None,
        draw: Callable[[int], Trace] | None = None,
        lenient: bool = True,
        **settings: Any,
    ) -> None:
        import tracekit

        if task is not None and settings:
            raise UsageError(f"give a task or its settings ({', '.join(settings)}), not both")
        if draw is not None and trace is not None:
            raise UsageError("give a trace, or a function that draws one, not both")
        wanted = dataclasses.replace(task or PickHost(**settings), shown="all")
        self._draw, self._jobs, self.lenient = draw, jobs, lenient
        found = draw(0) if draw is not None else tracekit.read(trace) if isinstance(trace, (str, Path)) else trace
        if wanted.cluster is None and found is not None and found.machine.groups:
            wanted = dataclasses.replace(wanted, cluster=found.machine)
        self._episodes = EpisodeSampler(found, wanted, jobs, span, windows, None, {})
        self._begin(self._episodes.source)
        shape = self._observation().shape
        self.observation_space = gymnasium.spaces.Box(-LARGEST, LARGEST, shape, np.float32)
        hosts = self.task.slots
        self.action_space = (
            gymnasium.spaces.Discrete(hosts)
            if self.task.actions == "host"
            else gymnasium.spaces.Box(0.0, 1.0, (hosts,), np.float32)
        )
        self._turn = 0

    def _begin(self, source: EpisodeSource) -> None:
        self.batch = Batch(source, lanes=1, threads=1)
        self.task: PickHost = self.batch.task

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start a window; the same seed gives the same sequence of windows."""
        super().reset(seed=seed)
        if seed is not None:
            self._turn = 0
        if self._draw is not None:
            self._draw_jobs(self._draw(int(self.np_random.integers(0, 2**31))))
        chosen = (options or {}).get("window")
        window = self._episodes.next(self.np_random, self._turn) if chosen is None else chosen
        self._turn += 1
        self.batch.reset([0], [window])
        return self._observation(), self._info()

    def _draw_jobs(self, drawn: Trace) -> None:
        """Go on with other jobs, and with the hosts of their machine where it has as many."""
        cluster = drawn.machine if drawn.machine.groups else self.task.cluster
        task = dataclasses.replace(self.task, cluster=cluster)
        if task.slots != self.task.slots:
            raise UsageError(f"the drawn jobs have {task.slots} hosts, and the environment has {self.task.slots}")
        self._episodes = EpisodeSampler(drawn, task, self._jobs, None, None, None, {})
        self._begin(self._episodes.source)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Give the job a host, or the hosts priorities; a host without room is an error, or the first one with room."""
        wrong, given = False, np.asarray(action)
        if self.task.actions == "host":
            wrong = not self.batch.done[0] and not self._on_offer(int(given))
            if wrong and not self.lenient:
                raise UsageError(f"host {int(given)} has no room for the job; see info['action_mask']")
            given = np.array([self.batch.mask[0].argmax() if wrong else int(given)])
        else:
            given = given[None]
        reward, done = self.batch.step(given)
        return self._observation(), float(reward[0]), bool(done[0]), False, self._info(wrong)

    def _on_offer(self, host: int) -> bool:
        return 0 <= host < self.task.slots and bool(self.batch.mask[0, host])

    def _observation(self) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = self.batch.features[0]
        observer = self.task.observer
        if not observer.startswith("lsf-"):
            return rows.copy()
        mine = OF_HOST[observer]
        return np.concatenate([rows[:, :mine].ravel(), rows[0, mine:]])

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which hosts have room, (hosts,)."""
        return np.array(self.batch.mask[0])

    def _info(self, wrong: bool = False) -> dict[str, Any]:
        start, jobs = self.batch.windows[0]
        info = {"action_mask": self.action_masks(), "window_start": start, "window_jobs": jobs, "invalid_action": wrong}
        if self.batch.done[0]:
            info |= {"score": float(self.batch.score[0]), "metrics": self.batch.outcomes[self.batch.windows[0]]}
        return info


ids.register(gymnasium)
