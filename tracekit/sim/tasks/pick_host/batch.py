"""Many episodes of pick-host played at once, in compiled code.

>>> import numpy as np, tracekit
>>> from tracekit.machine import HostGroup, Machine
>>> from tracekit.sim.switches import Switches
>>> cluster = Machine(groups=(HostGroup(8, cores=16, name="a"), HostGroup(4, cores=32, name="b")))
>>> task = PickHost(objective="wait", switches=Switches(cluster=cluster))
>>> batch = Batch(tracekit.sample(), task, lanes=2)
>>> batch.reset(range(2), [(0, 100), (100, 100)])     # (first job, number of jobs) of each window
>>> left = task.feature_names.index("left-cores")
>>> done = batch.done
>>> while not done.all():                              # the host with the fewest cores left, as an agent
...     shown = np.where(batch.mask, batch.features[:, :, left], np.inf)
...     reward, done = batch.step(shown.argmin(axis=1))
>>> bool((batch.score >= 0).all())
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
from tracekit.sim.compile import log_first_compilation
from tracekit.sim.hosts import state as of
from tracekit.sim.hosts.demand import CORES, MEMORY
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.arrays import OBJECTIVE, OURS, HostLanes, Rules, allocate
from tracekit.sim.tasks.pick_host.features import CODES, CONSTANTS, facts_of, scales_of
from tracekit.sim.tasks.pick_host.lanes import begin_lanes, play_rule, step_lanes
from tracekit.sim.tasks.pick_host.task import PickHost, reward_weights
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Windows whose metrics are kept.
MOST_OUTCOMES = 4096
_CORES = CONSTANTS.index("cores")


def rules_of(task: PickHost) -> Rules:
    """Return the task in numbers, for compiled code."""
    every, strict = task.shown == "all", task.backfill == "none"
    return Rules(OURS, float(task.cycle), strict, every, task.ask_forced, reward_weights(task.reward))


class Batch:
    """Independent windows of one trace on one cluster, one per lane, stepped in one compiled call.

    Rows are the hosts with room for the job (or, with ``shown`` = all, every host, and ``mask`` has those with room);
    ``hosts_shown`` has their numbers. Arrays are written in place; copy what must survive the next call.
    """

    player: ClassVar[str | None] = "tracekit.sim.agents.play_hosts:play_window"

    def __init__(
        self,
        trace: Trace | EpisodeSource,
        task: PickHost | None = None,
        *,
        lanes: int,
        threads: int | None = None,
    ) -> None:
        if lanes < 1:
            raise UsageError(f"a batch needs at least one lane, not {lanes}")
        self.source = trace if isinstance(trace, EpisodeSource) else EpisodeSource(trace, task or PickHost())
        self.task: PickHost = self.source.task
        demand = self.source.table.demand
        assert demand is not None  # the task's view has checked that
        self.model, self.lanes = HostModel(demand, seed=self.task.switches.seed), lanes
        self.threads = max(threads or os.cpu_count() or 1, 1)
        self._every = np.arange(lanes)
        self.windows: list[Window] = [(0, 0)] * lanes
        self.score = np.full(lanes, np.nan)
        self.outcomes: dict[Window, dict[str, float]] = {}  # metrics of finished windows
        self.rules = rules_of(self.task)
        self._pool: ThreadPoolExecutor | None = None
        self._codes = np.array([CODES[name] for name in self.task.feature_names])
        self._scales = scales_of(self.task.constants, demand)
        self.arrays = self._allocate(1, None)
        self.features, self.count = self.arrays.features, self.arrays.count
        self.mask, self.done = self.arrays.mask, self.arrays.done

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def _allocate(self, jobs: int, before: HostLanes | None) -> HostLanes:
        capacity = self.model.allocate(self.lanes, jobs)
        if before is not None:
            capacity = self.model.grown(self.model.kind(before.data, before.real), capacity)
        facts = facts_of(self.model.total, self.model.fixed[:, 2], self._scales)
        return allocate(capacity.data, capacity.real, jobs, facts, self._codes, self._scales, before)

    # ---- playing -----------------------------------------------------------------------------------------------------

    def load(self, lanes: Iterable[int], windows: Iterable[Window]) -> NDArray[np.int64]:
        """Write windows, (first job, number of jobs), into lanes without playing; return the lanes."""
        chosen = np.array(list(lanes), dtype=np.int64)
        episodes = [self.source.episode(window) for window in windows]
        if len(episodes) != len(chosen):
            raise UsageError(f"{len(chosen)} lanes were given {len(episodes)} windows")
        most = max((len(episode.ready.table) for episode in episodes), default=0)
        if most > self.arrays.submit.shape[1]:
            self.arrays = self._allocate(most, self.arrays)
        for lane, episode in zip(chosen, episodes, strict=True):
            self._load(int(lane), episode)
            self.windows[lane] = episode.window
        self.score[chosen] = np.nan
        return chosen

    def _load(self, lane: int, episode: Any) -> None:
        arrays, ready = self.arrays, episode.ready
        jobs = len(ready.table)
        arrays.length[lane] = jobs
        arrays.submit[lane, :jobs], arrays.run[lane, :jobs] = ready.table.submit, ready.run
        arrays.estimate[lane, :jobs] = ready.estimate
        arrays.value[lane, :jobs] = np.arange(jobs) if episode.columns is None else episode.columns
        arrays.possible[lane, :jobs] = True  # others were rejected
        self.model.load(self.model.kind(arrays.data, arrays.real), lane, ready)
        horizon = self.task.horizon
        arrays.state["horizon"][lane] = ready.table.submit[0] + horizon if horizon > 0 else np.inf

    def reset(self, lanes: Iterable[int], windows: Iterable[Window]) -> None:
        """Start windows in some lanes and run each to its first question."""
        log_first_compilation("begin_lanes")
        chosen = self.load(lanes, windows)
        begin_lanes(self.arrays, self.rules, chosen)
        for lane in chosen[self.done[chosen]]:  # nothing to choose
            self.finish(int(lane))

    def play_rule(self, lane: int, code: int) -> None:
        """Play a loaded lane to its end by a compiled allocator."""
        play_rule(self.arrays, self.rules, lane, code)
        self.finish(lane)

    def finish(self, lane: int) -> None:
        """Score a lane whose episode is over, and keep its metrics in ``outcomes``."""
        self.score[lane] = self.source.cost(self.windows[lane], self.starts(lane))
        if len(self.outcomes) >= MOST_OUTCOMES:
            self.outcomes.clear()
        self.outcomes[self.windows[lane]] = self.measure(lane)

    def measure(self, lane: int) -> dict[str, float]:
        """Return the metrics of `measures.METRICS` of a lane whose episode is over."""
        arrays, state, constants = self.arrays, self.arrays.state[lane], self.task.constants
        jobs, horizon = int(arrays.length[lane]), float(state["horizon"])
        submit, run, waits = arrays.submit[lane, :jobs], arrays.run[lane, :jobs], np.isnan(arrays.start[lane, :jobs])
        start = self.starts(lane)
        ends = start + run
        last = float(min(max(ends[~waits].max(initial=-np.inf), start[waits].max(initial=-np.inf)), horizon))
        ends[waits] = np.inf
        length, played = max(last - float(submit[0]), 1e-9), max(float(state["now"] - submit[0]), 1e-9)
        busy = np.minimum(ends, horizon) - start
        busy[waits] = 0.0
        data = arrays.data[lane]
        need = data[data[of.NEED] : data[of.NEED] + 8 * jobs].reshape(jobs, 8)
        return {
            "completion_rate": float(np.mean(ends <= horizon)),
            "mean_wait_s": float((start - submit).mean()),
            "defer_rate": int(state["deferred"]) / jobs,
            "makespan_s": length,
            "core_utilization": float((busy * need[:, CORES]).sum() / (self._scales[_CORES] * length)),
            "memory_utilization": float((busy * need[:, MEMORY]).sum() / (constants["memory"] * length)),
            "imbalance": float(state["imbalance_area"]) / played,
        }

    def step(self, actions: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer the question of every lane that is not done; return rewards, and which lanes are done now.

        Actions are row numbers, (lanes,), or, with ``actions`` = priorities, one number per row, (lanes, hosts): the
        host with the highest number that has room gets the job.
        """
        rows = self._rows(np.asarray(actions))
        active = ~self.done
        inside = (rows >= 0) & (rows < self.count)
        wrong = active & ~(inside & self.mask[self._every, np.where(inside, rows, 0)])
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise UsageError(f"lane {lane}: action {rows[lane]} is not a host with room for the job; see mask")
        self._in_parts(rows)
        ended = np.flatnonzero(active & self.done)
        for lane in map(int, ended):
            self.finish(lane)
        reward = np.where(active, self.arrays.state["reward"], 0.0)
        reward[ended] -= self.rules.weights[OBJECTIVE] * self.score[ended]
        return reward, self.done.copy()

    def _rows(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of each lane that actions mean."""
        wanted = (self.lanes,) if self.task.actions == "host" else (self.lanes, self.task.slots)
        if actions.shape != wanted:
            raise UsageError(f"actions must have the shape {wanted}, not {actions.shape}")
        if self.task.actions == "host":
            if actions.dtype.kind != "i" and np.isnan(actions.astype(np.float64)).any():
                raise UsageError("an action is NaN")
            return np.ascontiguousarray(actions, dtype=np.int64)
        if np.isnan(actions[~self.done]).any():
            raise UsageError("a priority is NaN")
        best: NDArray[np.int64] = np.where(self.mask, actions, -np.inf).argmax(axis=1)
        return best

    def _in_parts(self, rows: NDArray[np.int64]) -> None:
        """Step all lanes, in as many threads as pay off."""
        parts = min(self.threads, self.lanes // 16)
        if parts <= 1:
            step_lanes(self.arrays, self.rules, rows, 0, self.lanes)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        edges = [self.lanes * i // parts for i in range(parts + 1)]
        others = [
            self._pool.submit(step_lanes, self.arrays, self.rules, rows, edges[i], edges[i + 1])
            for i in range(1, parts)
        ]
        step_lanes(self.arrays, self.rules, rows, 0, edges[1])
        for other in others:
            other.result()

    # ---- looking -----------------------------------------------------------------------------------------------------

    def starts(self, lane: int) -> Floats:
        """Return the starts of a lane's jobs, (jobs,); jobs that still wait at the end of the episode start then."""
        found = self.arrays.start[lane, : self.arrays.length[lane]].copy()
        found[np.isnan(found)] = self.arrays.state["now"][lane] if self.done[lane] else np.nan
        return found

    def now(self, lane: int) -> float:
        """Return when a lane's question is asked, in seconds."""
        return float(self.arrays.state["now"][lane])

    def job(self, lane: int) -> int:
        """Return the job that a lane's question is about, as a number in ``source.episode(window).ready``."""
        return int(self.arrays.queue[lane, self.arrays.state["place"][lane]])

    def hosts_shown(self, lane: int) -> NDArray[np.int64]:
        """Return the hosts of a lane's rows, (count,)."""
        return self.arrays.rows[lane, : self.count[lane]].copy()

    def hosts_of_jobs(self, lane: int) -> NDArray[np.int64]:
        """Return the first host of each job of a lane, (jobs,); −1 = it has not started."""
        data, jobs = self.arrays.data[lane], int(self.arrays.length[lane])
        first = data[data[of.SPAN] : data[of.SPAN] + 2 * jobs : 2]
        hosts = data[data[of.LOG] + 4 * first]
        return np.where(np.isnan(self.arrays.start[lane, :jobs]), -1, hosts)

    def hosts(self, lane: int) -> Any:
        """Return where each job of a lane ran."""
        return self.model.hosts(self.model.kind(self.arrays.data[lane], self.arrays.real[lane]))

    def baseline(self, lanes: Sequence[int] | None = None, policy: str | None = None) -> Floats:
        """Return what an allocator (the task's base) costs on the windows of some lanes (all)."""
        chosen = range(self.lanes) if lanes is None else lanes
        return self.source.policy_costs([self.windows[lane] for lane in chosen], [policy or self.task.base])[:, 0]
