"""From a trace to windows ready to be played, and what a heuristic makes of them on the same engine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim import observe
from tracekit.sim.jobs import Prepared, prepare, table
from tracekit.sim.objectives import Schedule
from tracekit.sim.policies import BuiltIn, Policy, find
from tracekit.sim.simulate import starts, values_for
from tracekit.sim.switches import estimate_of
from tracekit.sim.windows import Window
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.pickjob import PickJob

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cut:
    """One window: its jobs by submit time (with a warm start, those before it that still run or wait among them)."""

    window: Window
    ready: Prepared
    fixed: NDArray[np.float32]  # (jobs, features)
    order: NDArray[np.int64]  # (1 or 2, jobs) by the rule(s) of visibility
    user: NDArray[np.int64]  # (jobs,) numbered from 0 within the window, where a feature needs it
    begun: Floats  # (jobs,) starts before the window begins; NaN for all that are still to start
    opening: float  # when it begins; −inf = at the first submit

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which jobs count in the score: those that had not started when the window began."""
        return np.isnan(self.begun)


class Cutter:
    """Cuts windows out of a trace for a task, and scores schedules of them. Windows are kept, so cutting twice is free.

    Positions are rows of ``table``: the trace's own rows, less what the compatibility mode drops.
    """

    def __init__(self, trace: Trace, task: PickJob, *, keep: int = 4096) -> None:
        switches = task.switches.resolved()
        self.table = table(trace, switches)
        self.facts = observe.facts_of(trace)
        requests = np.where(self.table.limit > 0, self.table.limit, self.table.run)
        constants = observe.constants_of(self.facts, requests, self.table.total) | dict(task.constants)
        self.task = dataclasses.replace(task, constants=constants)
        self._switches, self._keep = switches, keep
        self._cuts: dict[Window, Cut] = {}
        self._costs: dict[tuple[Window, str], float] = {}
        whole = prepare(self.table, switches)
        plain = whole.table is self.table and whole.scale == 1 and estimate_of(switches.estimates)[0] != "noisy"
        self._whole = whole if plain else None  # then a window is a slice: nothing to sort, reject or draw
        self._fixed = self._columns(whole) if plain else None
        self._ranks = np.argsort(visible_orders(whole, self.task), axis=1) if plain else None  # by rule, of each job
        self.rejected = whole.rejected  # reason -> jobs of the whole trace that no window can hold

    def __len__(self) -> int:
        return len(self.table)

    def _columns(self, ready: Prepared) -> NDArray[np.float32]:
        return observe.fixed_columns(self.task.feature_names, ready, self.facts, self.task.constants)

    def _prepared(self, start: int, count: int) -> tuple[Prepared, NDArray[np.float32]]:
        rows = slice(start, start + count)
        jobs = self.table.window(start, count)
        if self._whole is None or self._fixed is None:
            ready = prepare(jobs, self._switches)
            return ready, self._columns(ready)
        whole = self._whole
        return Prepared(jobs, whole.run[rows], whole.estimate[rows], whole.units[rows], 1), self._fixed[rows]

    # ---- cutting -----------------------------------------------------------------------------------------------------

    def cut(self, window: Window) -> Cut:
        """Return a window; `TracekitError` if none of its jobs can be simulated."""
        window = (int(window[0]), int(window[1]))
        found = self._cuts.get(window)
        if found is None:
            while len(self._cuts) >= self._keep:
                self._cuts.pop(next(iter(self._cuts)))
            found = self._cuts[window] = self._make(window)
        return found

    def _make(self, window: Window) -> Cut:
        start, count = window
        warm = min(self.task.warm, start)
        ready, fixed = self._prepared(start - warm, count + warm)
        ours = ready.table.position >= self.table.position[start]
        if not ours.any():
            raise TracekitError(
                f"window {start}:{count} holds no job that can be simulated ({_reasons(ready)}); choose another"
            )
        begun, opening = np.full(len(ready.table), np.nan), -np.inf
        if warm:
            opening = float(ready.table.submit[ours].min())
            before = _rows(ready, ready.table.submit < opening)
            early = starts(before, find(self.task.base), self.task.backfill, self._switches)
            begun[ready.table.submit < opening] = np.where(early < opening, early, np.nan)
            stays = ~(begun + ready.run <= opening)  # what has ended by then is history
            ready, fixed, begun = _rows(ready, stays), fixed[stays], begun[stays]
        if self._ranks is None or warm or count <= self.task.slots:
            order = visible_orders(ready, self.task)
        else:
            order = np.argsort(self._ranks[:, start : start + count], axis=1)
        user = ready.table.user
        if "user-average" in self.task.feature_names:
            user = np.unique(user, return_inverse=True)[1].astype(np.int64)
        return Cut(window, ready, fixed, order, user, begun, opening)

    # ---- judging -----------------------------------------------------------------------------------------------------

    def schedule(self, window: Window, policy: str | Policy) -> Floats:
        """Return the starts, (jobs,), that a heuristic gives the window's jobs, by the engine itself."""
        cut = self.cut(window)
        found = find(policy)
        if isinstance(found, BuiltIn) and found.name == "replay":
            raise UsageError("replay decides nothing; it cannot be compared on windows")
        warm = np.isfinite(cut.opening)
        begun = cut.begun if warm else None
        return starts(cut.ready, found, self.task.backfill, self._switches, begun=begun, clock=cut.opening)

    def cost(self, window: Window, start: Floats) -> float:
        """Return what a schedule of a window costs by the task's objective; smaller is better."""
        cut = self.cut(window)
        rows = cut.counted if np.isfinite(cut.opening) else slice(None)
        jobs = cut.ready.table
        return self.task.objectives.cost(
            Schedule(
                jobs.submit[rows],
                start[rows],
                cut.ready.run[rows],
                jobs.procs[rows],
                jobs.user[rows],
                jobs.total,
                self._switches.bound,
                self._switches.utilization_to == "start",
            )
        )

    def policy_cost(self, window: Window, policy: str | Policy) -> float:
        """Return the cost of a heuristic's schedule of a window; kept for policies given by name."""
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
            self.cut(window)  # alone: the threads below only read
        pairs = [(window, policy) for window in windows for policy in policies]
        threads = min(threads or os.cpu_count() or 1, len(pairs))
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

        RLScheduler's trajectory filter: sjf and 10 … 150. Windows where nothing is to be gained teach nothing, and
        extreme ones drown the rest. Use it for training only: a filtered test says nothing about the trace.
        """
        costs = self.policy_costs(windows, [policy or self.task.base])[:, 0]
        return [window for window, cost in zip(windows, costs, strict=True) if low < cost < high]


def visible_orders(ready: Prepared, task: PickJob) -> NDArray[np.int64]:
    """Return the jobs by each order of the rule of visibility; it matters only where more can wait than slots."""
    jobs = len(ready.table)
    if jobs <= task.slots:
        return np.zeros((len(task.orders), jobs), np.int64)
    found = np.empty((len(task.orders), jobs), np.int64)
    for i, name in enumerate(task.orders):
        given = values_for(name, ready, task.switches.resolved())[1]  # settled at submit, or PickJob would not take it
        found[i] = np.arange(jobs) if given is None else np.argsort(given, kind="stable")
    return found


def _rows(ready: Prepared, rows: NDArray[np.bool_]) -> Prepared:
    if rows.all():
        return ready
    return dataclasses.replace(
        ready,
        table=ready.table.take(np.flatnonzero(rows)),
        run=ready.run[rows],
        estimate=ready.estimate[rows],
        units=ready.units[rows],
    )


def _reasons(ready: Prepared) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in ready.rejected.items()) or "it is empty"
