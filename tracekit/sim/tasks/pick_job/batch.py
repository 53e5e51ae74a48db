"""Many episodes of pick-job played at once, in compiled code.

>>> import numpy as np, tracekit
>>> trace = tracekit.sample()
>>> task = PickJob(objective="bsld", backfill="easy")
>>> batch = Batch(trace, task, lanes=4)
>>> batch.reset(range(4), [(0, 64), (100, 64), (200, 64), (300, 64)])   # (first job, number of jobs) of each window
>>> batch.features.shape, batch.mask.shape                              # (lanes, slots, features), (lanes, slots)
((4, 128, 16), (4, 128))
>>> request = task.feature_names.index("request")
>>> done = batch.done
>>> while not done.all():                                               # shortest job first, as an agent
...     shown = np.where(batch.mask, batch.features[:, :, request], np.inf)
...     reward, done = batch.step(shown.argmin(axis=1))                 # finished lanes are left as they are
>>> bool(np.allclose(batch.score, batch.source.policy_costs(batch.windows, ["sjf"])[:, 0]))
True
>>> float(reward[done][0]) <= 0                                         # minus the cost, when a window ends
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.registry import imported
from tracekit.sim.compile import log_first_compilation
from tracekit.sim.engine.capacity import ENVIRONMENT, is_asked, require
from tracekit.sim.engine.capped import CappedPool
from tracekit.sim.engine.machines import LooksAhead, MachineModel
from tracekit.sim.engine.processors import ProcessorPool
from tracekit.sim.engine.session import MOST_UPCOMING
from tracekit.sim.engine.state import FILLING
from tracekit.sim.jobs import FRACTIONS, NO_JOB
from tracekit.sim.policies.formulas import values_at, values_for
from tracekit.sim.predict.index import Form, indices
from tracekit.sim.predict.predictor import IN_INDEX, OUTPUTS
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.lane_arrays import LaneArrays, allocate, load_episode, rules_of
from tracekit.sim.tasks.pick_job.lanes import begin_lanes, go_on, step_lanes
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.rewards import relative
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]


__all__ = ["Batch", "relative"]

#: Windows of which predictions are kept.
_MOST_KNOWN = 4096
#: The outputs of a predictor that its index goes by.
_IN_INDEX = [OUTPUTS.index(name) for name in IN_INDEX]


class Batch:
    """Independent windows of one trace, one per lane, stepped in one compiled call on every core.

    The arrays below are allocated once and written in place; copy what must survive the next call. The valid slots
    of a lane are always the first ``count[lane]``, the others are zeros. While jobs are backfilled under a reservation,
    only those that may be are shown. Every window asks at least once. What a lane does depends on its window
    and its actions alone, never on the number of lanes or threads.
    """

    player: ClassVar[str | None] = "tracekit.sim.agents.play:play_window"
    features: NDArray[np.float32]  # (lanes, slots, features)
    count: NDArray[np.int64]  # (lanes,) valid slots
    mask: NDArray[np.bool_]  # (lanes, actions)
    done: NDArray[np.bool_]  # (lanes,) the window is over (or the lane has never had one)
    score: Floats  # (lanes,) cost of the finished window by the task's objective, smaller is better; NaN before
    base_score: Floats  # (lanes,) cost of the base policy on it; NaN unless the reward is relative, see `baseline`

    def __init__(
        self,
        trace: Trace | EpisodeSource,
        task: PickJob | None = None,
        *,
        lanes: int,
        threads: int | None = None,
        machine: MachineModel | None = None,
    ) -> None:
        if lanes < 1:
            raise UsageError(f"a batch needs at least one lane, not {lanes}")
        if not isinstance(trace, EpisodeSource):
            trace = EpisodeSource(trace, task or PickJob(), machine=machine)
        self.source = trace
        self.task: PickJob = self.source.task  # with the constants of the trace, if it had none
        capped = self.task.switches.power_cap is not None
        self.machine = self.source.machine or (CappedPool() if capped else ProcessorPool())
        self.lanes = lanes
        self.threads = 1 if self.source.asks else max(threads or os.cpu_count() or 1, 1)
        self.windows: list[Window] = [(0, 0)] * lanes
        self.decisions = np.zeros(lanes, np.int64)  # (lanes,) steps made in the episode so far
        self._pool: ThreadPoolExecutor | None = None
        self._order: dict[int, Any] = {}  # lane -> window, and the base policy's values there
        self.rules = rules_of(self.task)
        self._frozen: Batch | None = None  # plays windows once for their predictions, see `freeze`
        self._known: dict[Window, tuple[Floats, Floats]] = {}  # the predictions of windows that it has played
        self._form: Form | None = None  # of the index, see `freeze`
        self.score, self.base_score = np.full(lanes, np.nan), np.full(lanes, np.nan)
        self.arrays = self._allocate(1)
        require(self.arrays.capacity, ENVIRONMENT, "environments and agents")
        self.features, self.count, self.mask, self.done = (
            self.arrays.features,
            self.arrays.count,
            self.arrays.mask,
            self.arrays.done,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}  # threads stay behind; the copy starts its own

    def _allocate(self, jobs: int, before: LaneArrays | None = None) -> LaneArrays:
        units = self.source.table.total * FRACTIONS
        predictor = self.source.predictor if self.task.predict is not None else None
        return allocate(self.task, self.machine, self.lanes, jobs=jobs, units=units, before=before, predictor=predictor)

    # ---- playing -----------------------------------------------------------------------------------------------------

    def reset(self, lanes: Iterable[int], windows: Iterable[Window]) -> None:
        """Start windows, (first job, number of jobs), in some lanes and run each to its first choice."""
        log_first_compilation("begin_lanes")
        chosen = np.array(list(lanes), dtype=np.int64)
        episodes = [self.source.episode(window) for window in windows]
        if len(episodes) != len(chosen):
            raise UsageError(f"{len(chosen)} lanes were given {len(episodes)} windows")
        most = max((len(episode.ready.table) for episode in episodes), default=0)
        if most > self.arrays.jobs.submit.shape[1]:
            self.arrays = self._allocate(most, self.arrays)
        for lane, episode in zip(chosen, episodes, strict=True):
            load_episode(self.arrays, self.machine, int(lane), episode)
            self.windows[lane] = episode.window
        if self._frozen is not None:
            self._write_known(self._frozen, chosen, [episode.window for episode in episodes])
        self.score[chosen], self.base_score[chosen], self.decisions[chosen] = np.nan, np.nan, 0
        begin_lanes(self.arrays, self.rules, chosen)
        self.place_jobs(chosen)

    def freeze(self, form: Form | None = None) -> None:
        """From now on predict run times once a window, in a play by `predicted-index`, and not in every play.

        For training, where a window is played again and again: asking trees costs more than all the rest. With a
        ``form``, the index of the jobs is by that one from now on, and not by the predictor's.
        """
        self._form = form
        if self.task.predict is not None and self._frozen is None:
            self._frozen = Batch(self.source, lanes=self.lanes, threads=self.threads)
            self.rules = self.rules._replace(engine=self.rules.engine._replace(predicts=0))

    def _write_known(self, live: Batch, lanes: NDArray[np.int64], windows: Sequence[Window]) -> None:
        """Write the predictions of windows into lanes, as they were in a play by `predicted-index`."""
        play = imported("tracekit.sim.agents.rollout:play")
        new = [window for window in dict.fromkeys(windows) if window not in self._known]
        if len(self._known) + len(new) > _MOST_KNOWN:
            self._known.clear()
            new = list(dict.fromkeys(windows))
        for begin in range(0, len(new), live.lanes):
            some = new[begin : begin + live.lanes]
            play(live, some, None, teacher=self.task.teacher(live, some, "predicted-index"), keep=False)
            for lane, window in enumerate(some):
                seen, count = live.arrays.predicted, live.arrays.length[lane]
                self._known[window] = seen.priority[lane, :count].copy(), seen.shown[lane, :count].copy()
        for lane, window in zip(lanes, windows, strict=True):
            priority, shown = self._known[window]
            if self._form is not None:
                own = self.arrays.predicted.own[lane, : len(shown)]
                priority = indices(shown[:, _IN_INDEX], own, self._form)
            self.arrays.predicted.priority[lane, : len(priority)] = priority
            self.arrays.predicted.shown[lane, : len(shown)] = shown

    def step(self, actions: NDArray[np.int64] | Sequence[int]) -> tuple[Floats, NDArray[np.bool_]]:
        """Make one choice in every active lane; return rewards (0 where done before), and which are done now."""
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        if actions.shape != (self.lanes,):
            raise UsageError(f"{self.lanes} lanes need as many actions, not an array of shape {actions.shape}")
        active = ~self.done
        skips = (actions == self.task.slots) & self.arrays.question["may_skip"]
        wrong = active & ~skips & ((actions < 0) | (actions >= self.count))
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise UsageError(f"lane {lane}: action {actions[lane]} is not valid, there are {self.count[lane]} jobs")
        self._in_parts(actions)
        self.place_jobs(range(self.lanes))
        self.decisions += active
        reward = np.zeros(self.lanes)
        ended = np.flatnonzero(active & self.done)
        for lane in map(int, ended):
            self.score[lane] = self.source.cost(self.windows[lane], self.starts(lane))
        if self.task.reward == "dense":
            reward[active] = -self.arrays.question["cost"][active]
        elif self.task.reward == "final":
            reward[ended] = -self.score[ended]
        else:
            for lane in map(int, ended):
                self.base_score[lane] = self.source.base_cost(self.windows[lane])
            reward[ended] = relative(self.score[ended], self.base_score[ended], self.task.least_scale)
        return reward, self.done.copy()

    def _in_parts(self, actions: NDArray[np.int64]) -> None:
        """Step all lanes, in as many threads as pay off: a thread needs some thirty decisions to be worth starting."""
        parts = min(self.threads, self.lanes // 32)
        if parts <= 1:
            step_lanes(self.arrays, self.rules, actions, 0, self.lanes)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        edges = [self.lanes * i // parts for i in range(parts + 1)]
        others = [
            self._pool.submit(step_lanes, self.arrays, self.rules, actions, edges[i], edges[i + 1])
            for i in range(1, parts)
        ]
        step_lanes(self.arrays, self.rules, actions, 0, edges[1])
        for other in others:
            other.result()

    def place_jobs(self, lanes: Iterable[int]) -> None:
        """Have the machine model place the jobs at which some lanes have stopped, and continue there."""
        if not is_asked(self.arrays.capacity):
            return
        state, kind = self.arrays.state, type(self.arrays.capacity)
        for lane in lanes:
            capacity, shadow = (kind(*(a[lane] for a in b)) for b in (self.arrays.capacity, self.arrays.at_shadow))
            while (job := int(state["placing"][lane])) != NO_JOB:
                if isinstance(self.machine, LooksAhead):
                    self.machine.upcoming, self.machine.filling = self._upcoming(lane), state["phase"][lane] == FILLING
                self.machine.place(capacity, shadow if state["beside"][lane] else None, job)
                state["placed"][lane] = job
                go_on(self.arrays, self.rules, lane)

    def _upcoming(self, lane: int) -> NDArray[np.int64]:
        """Return the next waiting jobs in the order of the base policy, without the one to be placed."""
        queue, arrays = self.arrays.queue, self.arrays
        waiting = queue.job[lane, : queue.length[lane, 0]]
        waits = np.isnan(arrays.jobs.start[lane, waiting]) & (waiting != arrays.state["placing"][lane])
        waiting = waiting[waits]
        window = self.windows[lane]
        ready = self.source.episode(window).ready
        if self._order.get(lane, (None,))[0] != window:
            self._order[lane] = (window, *values_for(self.task.base, ready, self.task.switches.resolved()))
        _, code, given = self._order[lane]
        values = values_at(code, given, ready, waiting, self.now(lane))
        found: NDArray[np.int64] = waiting[np.argsort(values, kind="stable")][:MOST_UPCOMING]
        return found

    # ---- looking -----------------------------------------------------------------------------------------------------

    def starts(self, lane: int) -> Floats:
        """Return the starts of a lane's jobs, (jobs,) in the order of ``source.episode(window).ready``; NaN = waits."""
        return self.arrays.jobs.start[lane, : self.arrays.length[lane]].copy()

    def hosts(self, lane: int) -> Sequence[str] | None:
        """Return where each job of a lane ran, or None where places have no names."""
        capacity = self.arrays.capacity
        if isinstance(self.machine, CappedPool):
            return None
        found = self.machine.hosts(type(capacity)(*(array[lane] for array in capacity)))
        count = int(self.arrays.length[lane])
        return found if found is None or len(found) == count else found[:count]

    def now(self, lane: int) -> float:
        """Return when a lane's question is asked, in seconds."""
        return float(self.arrays.state["now"][lane])

    def shown(self, lane: int) -> NDArray[np.int64]:
        """Return the jobs in a lane's valid slots, as numbers in ``source.episode(window).ready``, (count,)."""
        return self.arrays.visible[lane, : self.count[lane]].copy()

    def baseline(self, lanes: Sequence[int] | None = None, policy: str | None = None) -> Floats:
        """Return what a heuristic (the task's base) costs on the windows of some lanes (all)."""
        chosen = range(self.lanes) if lanes is None else lanes
        return self.source.policy_costs([self.windows[lane] for lane in chosen], [policy or self.task.base])[:, 0]

    def questions(self, lane: int) -> int:
        """Return how many choices a lane has been asked for in its window, the present one included."""
        return int(self.arrays.question["asked"][lane])
