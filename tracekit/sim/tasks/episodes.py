"""From a trace to episodes (windows ready to be played), and the scores of heuristics on them, by the same engine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.energy.account import energy_of
from tracekit.sim.engine.machines import MachineModel
from tracekit.sim.hosts.rltune_demand import refuse
from tracekit.sim.jobs import Prepared, extract_jobs, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.policies.protocol import BuiltIn, Policy
from tracekit.sim.setup import Cap, Setup, Starts
from tracekit.sim.simulate import hosts_of, outcome, under_cap
from tracekit.sim.snapshot import ENDED, RUNNING, standing
from tracekit.sim.switches import estimate_of
from tracekit.sim.tasks.base import Task
from tracekit.sim.tasks.objectives import Schedule
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Episode:
    """One window: its jobs by submit time (with a warm start, those before it that still run or wait among them)."""

    window: Window
    ready: Prepared
    begun: Floats  # (jobs,) starts before the window begins; NaN for all that are still to start
    opening: float  # when it begins; −inf = at the first submit
    columns: Any  # features of the jobs as the task shows them
    cap: Cap | None = None  # what the power cap leaves to the jobs; None = no cap

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which jobs count in the score: those that had not started when the window began."""
        return np.isnan(self.begun)


class EpisodeSource:
    """Provides episodes of a trace for a task, and scores schedules of them. Episodes and scores are cached.

    Positions are rows of ``table``: the trace's own rows, less what the compatibility mode drops. ``machine`` replaces
    the pool of processors; a task with a cluster has its hosts.
    """

    def __init__(self, trace: Trace, task: Task, *, machine: MachineModel | None = None, keep: int = 4096) -> None:
        switches = task.switches.resolved()
        self.table = extract_jobs(trace, switches)
        self.machine = machine or (None if self.table.demand is None else hosts_of(self.table, switches))
        check_levers(task, switches.levers)
        whole, self._cap = under_cap(prepare(self.table, switches), switches)
        plain = whole.table is self.table and whole.scale == 1 and estimate_of(switches.estimates)[0] != "noisy"
        self._whole = whole if plain else None  # then an episode is a slice: nothing to sort, reject or draw
        self._view = task.view(trace, self.table, self._whole)
        self.task: Any = self._view.task  # with the constants of the trace, if it had none
        self.predictor: Any = getattr(self._view, "predictor", None)  # of run times, where the task has one
        self._switches, self._keep = switches, keep
        self._episodes: dict[Window, Episode] = {}
        self._costs: dict[tuple[Window, str], float] = {}
        self._starts: dict[tuple[Window, Any, bool], Floats] = {}
        self.rejected = whole.rejected  # reason -> jobs of the whole trace that no window can hold

    def __len__(self) -> int:
        return len(self.table)

    @property
    def asks(self) -> bool:
        """Whether an allocator written in Python places the jobs: it may keep state, so one thread asks it."""
        return bool(getattr(self.machine, "asks", False))

    # ---- cutting -----------------------------------------------------------------------------------------------------

    def episode(self, window: Window) -> Episode:
        """Return the episode of a window; `TracekitError` if none of its jobs can be simulated."""
        window = (int(window[0]), int(window[1]))
        found = self._episodes.get(window)
        if found is None:
            while len(self._episodes) >= self._keep:
                self._episodes.pop(next(iter(self._episodes)))
            found = self._episodes[window] = self._make(window)
        return found

    def _prepared(self, start: int, count: int) -> tuple[Prepared, Cap | None]:
        jobs = self.table.window(start, count)
        if self._whole is None:
            return under_cap(prepare(jobs, self._switches), self._switches)
        whole, cap, rows = self._whole, self._cap, slice(start, start + count)
        ready = Prepared(jobs, whole.run[rows], whole.estimate[rows], whole.units[rows], 1)
        return ready, None if cap is None else cap._replace(need=cap.need[rows])

    def _make(self, window: Window) -> Episode:
        start, count = window
        warm = min(self.task.warm, start)
        ready, cap = self._prepared(start - warm, count + warm)
        if ready.table.demand is not None and ready.table.demand.as_coded:
            refuse(ready.table.demand, ready.table.job_id)
        ours = ready.table.position >= self.table.position[start]
        if not ours.any():
            raise TracekitError(
                f"window {start}:{count} contains no job that can be simulated ({_reasons(ready)}); choose another"
            )
        begun, opening = np.full(len(ready.table), np.nan), -np.inf
        rows: slice | None = slice(start, start + count) if self._whole is not None else None
        if warm:
            opening = float(ready.table.submit[ours].min())
            earlier = ready.table.submit < opening
            setup = Setup(
                rows_of(ready, earlier), self.task.backfill, self._switches, self.machine, cap=cap_of(cap, earlier)
            )
            begun[earlier] = outcome(setup, find(self.task.base)).start
            stands = standing(opening, ready.table.submit, begun, begun + ready.run)
            stays = stands != ENDED
            begun = np.where(stands == RUNNING, begun, np.nan)[stays]
            ready, rows, cap = rows_of(ready, stays), None, cap_of(cap, stays)
        return Episode(window, ready, begun, opening, self._view.columns(ready, rows), cap)

    # ---- scores of heuristics ----------------------------------------------------------------------------------------

    def schedule(self, window: Window, policy: str | Policy, *, greedy: bool = False) -> Floats:
        """Return the starts, (jobs,), that a heuristic gives the window's jobs, by the engine or the task itself.

        ``greedy``: on a cluster, jobs go to the first hosts with room, whatever the task's allocator is. Cached for
        policies given by name: do not write into it.
        """
        own: Floats | None = self.task.schedule(self, window, policy)
        if own is not None:
            return own
        key = ((int(window[0]), int(window[1])), policy, greedy)
        if not isinstance(policy, str):
            return self._schedule(window, policy, greedy)
        found = self._starts.get(key)
        if found is None:
            if len(self._starts) >= self._keep:
                self._starts.clear()
            found = self._starts[key] = self._schedule(window, policy, greedy)
        return found

    def _schedule(self, window: Window, policy: str | Policy, greedy: bool) -> Floats:
        episode = self.episode(window)
        found = find(policy)
        if isinstance(found, BuiltIn) and found.name == "replay":
            raise UsageError("replay repeats the recorded starts; it cannot be compared on windows")
        made = outcome(self.setup(episode, greedy=greedy), found)
        return made.start if made.states is None else Starts.of(made.start, made.hosts, made.states)

    def setup(self, episode: Episode, *, greedy: bool = False) -> Setup:
        """Return the simulation of an episode, for policies of the simulator; ``greedy`` chooses the first hosts."""
        begun = episode.begun if np.isfinite(episode.opening) else None
        asleep = self._switches.sleep_after is not None  # then an allocator is part of the lever
        machine = self._greedy if greedy and not asleep else self.machine
        return Setup(episode.ready, self.task.backfill, self._switches, machine, begun, episode.opening, episode.cap)

    @cached_property
    def _greedy(self) -> MachineModel | None:
        """The machine with greedy allocation: RLTune's, that is the first hosts, as few as can be."""
        if self.table.demand is None:
            return self.machine
        return hosts_of(self.table, dataclasses.replace(self._switches, allocate="lexicographic"))

    def finished(self, window: Window, start: Floats) -> Schedule:
        """Return a schedule of a window, the input of objectives: of the jobs that count."""
        episode, given, start = self.episode(window), start, np.asarray(start)
        rows: Any = np.isfinite(start)  # RLTune drops jobs that never fit
        if np.isfinite(episode.opening):
            rows &= episode.counted
        rows = slice(None) if rows.all() else rows  # views
        jobs, demand = episode.ready.table, episode.ready.table.demand
        return Schedule(
            jobs.submit[rows],
            start[rows],
            episode.ready.run[rows],
            jobs.procs[rows],
            jobs.user[rows],
            jobs.total,
            self._switches.bound,
            self._switches.utilization_to == "start",
            None if demand is None else demand.gpus[rows],
            0.0 if demand is None else float(demand.cluster.gpus or 0),
            self._energy(episode, given, rows),
        )

    def _energy(self, episode: Episode, start: Floats, rows: Any) -> Any:
        """Return what works out the energy of the jobs that count, by their sizes; None without a power model."""
        if not self._switches.needs_power:
            return None
        places, start = start, np.asarray(start)
        jobs, end, speed = episode.ready.table, start + episode.ready.run, self._switches.frequency
        if isinstance(places, Starts) and places.hosts is not None:  # hosts sleep; all jobs count
            return lambda: energy_of(jobs, self._switches, start, end, places.hosts, places.states, speed)
        if jobs.demand is not None and len(jobs.demand.cluster.groups) > 1:
            raise UsageError(
                "energy as an objective needs a counter of processors or a cluster with one group of hosts: a schedule "
                "of an episode does not say on which hosts jobs ran"
            )
        return lambda: energy_of(jobs.take(rows), self._switches, start[rows], end[rows], None, frequency=speed)

    def cost(self, window: Window, start: Floats) -> float:
        """Return what a schedule of a window costs by the task's objective; smaller is better."""
        cost: float = self.task.objectives.cost(self.finished(window, start))
        return cost

    def parts(self, window: Window, start: Floats) -> dict[str, float]:
        """Return the parts of what a schedule of a window costs, by name, without their weights."""
        found: dict[str, float] = self.task.objectives.parts(self.finished(window, start))
        return found

    def base_cost(self, window: Window) -> float:
        """Return the cost of the task's base policy with greedy allocation; cached."""
        key = ((int(window[0]), int(window[1])), f"{self.task.base}, greedy")
        if key not in self._costs:
            self._costs[key] = self.cost(window, self.schedule(window, self.task.base, greedy=True))
        return self._costs[key]

    def policy_cost(self, window: Window, policy: str | Policy) -> float:
        """Return the cost of a heuristic's schedule of a window; cached for policies given by name."""
        if not isinstance(policy, str):
            return self.cost(window, self.schedule(window, policy))
        key = ((int(window[0]), int(window[1])), policy)
        if key not in self._costs:
            if len(self._costs) >= 64 * self._keep:
                self._costs.clear()
            self._costs[key] = self.cost(window, self.schedule(window, policy))
        return self._costs[key]

    def policy_costs(
        self, windows: Sequence[Window], policies: Sequence[str | Policy], *, threads: int | None = None
    ) -> Floats:
        """Return the costs of heuristics on the same windows, (windows, policies), on all cores."""
        for window in windows:
            self.episode(window)  # alone: the threads below only read
        pairs = [(window, policy) for window in windows for policy in policies]
        threads = min(threads or os.cpu_count() or 1, len(pairs))
        if self.asks:
            threads = 1
        if threads <= 1:
            costs = [self.policy_cost(*pair) for pair in pairs]
        else:
            first = self.policy_cost(*pairs[0])  # alone: compiles, and reports a mistake before threads are started
            with ThreadPoolExecutor(threads) as pool:
                costs = [first, *pool.map(lambda pair: self.policy_cost(*pair), pairs[1:])]
        return np.array(costs, dtype=np.float64).reshape(len(windows), len(policies))

    def keep_between(
        self, windows: Sequence[Window], low: float, high: float, policy: str | None = None
    ) -> list[Window]:
        """Return the windows on which a heuristic (the task's base) costs more than ``low`` and less than ``high``.

        RLScheduler's trajectory filter: sjf and 10 … 150. Windows without room for improvement teach nothing, and
        extreme ones dominate the rest. Use it for training only: a filtered test set is not representative.
        """
        costs = self.policy_costs(windows, [policy or self.task.base])[:, 0]
        return [window for window, cost in zip(windows, costs, strict=True) if low < cost < high]


def rows_of(ready: Prepared, rows: NDArray[np.bool_]) -> Prepared:
    """Return some of the prepared jobs."""
    if rows.all():
        return ready
    return dataclasses.replace(
        ready,
        table=ready.table.take(np.flatnonzero(rows)),
        run=ready.run[rows],
        estimate=ready.estimate[rows],
        units=ready.units[rows],
    )


def cap_of(cap: Cap | None, rows: NDArray[np.bool_]) -> Cap | None:
    """Return the cap of some of the jobs."""
    return None if cap is None else cap._replace(need=cap.need[rows])


def check_levers(task: Task, levers: Sequence[str]) -> None:
    """Raise UsageError for a lever of energy that a task's episodes do not obey."""
    for lever in levers:
        if lever not in task.levers:
            known = ", ".join(task.levers)
            raise UsageError(f"task {task.name} does not support {lever}, only {known}; leave it out")


def _reasons(ready: Prepared) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in ready.rejected.items()) or "it is empty"
