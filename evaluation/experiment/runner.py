"""Work through a grid of tasks on any engine: what is done already is skipped, what fails ends nothing but itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from evaluation.experiment.engines import Engine
from evaluation.experiment.grid import Limits
from evaluation.experiment.tasks import Result, Store, Task
from tracekit.large.source import gigabytes

#: How often the display is refreshed although no task has ended, in seconds.
_BEAT = 1.0


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    done: int
    total: int
    failed: int
    left_s: float  # time that is left, a guess that improves
    running: Sequence[str]
    counted: str = "tasks"


Progress = Callable[[Status], None]


@dataclass
class Runner:
    """One pass over the tasks."""

    store: Store
    engine: Engine
    limits: Limits
    progress: Progress | None = None
    results: dict[str, Result] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)
    _pace: list[float] = field(default_factory=list)  # what tasks took, over what was guessed

    def run(self, tasks: Sequence[Task], *, later: int = 0, before: int = 0) -> dict[str, Result]:
        """Do all tasks and return how each ended, by address. Tasks come before those that need them.

        ``later`` and ``before``: how many tasks follow, or were done, in other calls, for the display.
        """
        waiting = {task.key: task for task in tasks}
        running: dict[str, Task] = {}
        total = len(waiting) + later + before
        for key in list(waiting):
            known = self.store.result(key)
            known = known or self._too_large(waiting[key])
            if known is not None:
                self.results[key] = known
                self.store.share(key)
                del waiting[key]
        try:
            while waiting or running:
                self._pass_over_hopeless(waiting)
                for task in self._ready(waiting, running):
                    self._began[task.key] = time.monotonic()
                    self.engine.start(task)
                    running[task.key] = waiting.pop(task.key)
                self._tell(total, waiting, running)
                if running:
                    for task, result in self.engine.wait(_BEAT):
                        del running[task.key]
                        self._ended(task, result, waiting)
                    self._give_up_overdue(running)
            self._tell(total, waiting, running)
        finally:
            for task in running.values():
                self.engine.stop(task)
        return self.results

    def _ready(self, waiting: dict[str, Task], running: dict[str, Task]) -> list[Task]:
        """Return what may start now: inputs there, a slot free, heavy ones not too many; the dearest first."""
        free = self.engine.slots - len(running)
        heavy = self.engine.heavy - sum(task.heavy for task in running.values())
        found = []
        ready = [task for task in waiting.values() if all(self._good(key) for key in task.needs)]
        for task in sorted(ready, key=lambda task: -task.cost):
            if not free:
                break
            if task.heavy and not heavy:
                continue
            free, heavy = free - 1, heavy - task.heavy
            found.append(task)
        return found

    def _too_large(self, task: Task) -> Result | None:
        """Refuse a task before it starts if it would take more than a worker may; nothing is written."""
        most = self.engine.memory
        if most is None or task.memory <= most:
            return None
        wanted = f"it would take about {gigabytes(task.memory)} of memory"
        return Result(ok=False, cramped=True, reason=f"{wanted}, more than the {gigabytes(most)} of a worker")

    def _good(self, key: str) -> bool:
        return key in self.results and self.results[key].ok

    def _pass_over_hopeless(self, waiting: dict[str, Task]) -> None:
        """Fail what needs a failed task, for that task's reason; nothing is written, as nothing was tried."""
        for key, task in list(waiting.items()):
            bad = next((need for need in sorted(task.needs) if need in self.results and not self._good(need)), None)
            if bad is not None:
                self.results[key] = Result(ok=False, reason=self.results[bad].reason)
                del waiting[key]

    def _ended(self, task: Task, result: Result, waiting: dict[str, Task]) -> None:
        if result.lost:
            self._tries[task.key] = self._tries.get(task.key, 0) + 1
            if self._tries[task.key] < self.limits.attempts:
                waiting[task.key] = task
                return
            result = Result(
                ok=False, reason=f"{result.reason}; given up after {self.limits.attempts} attempts", lost=True
            )
        self._pace.append((time.monotonic() - self._began[task.key]) / max(task.cost, 0.1))
        self.store.share(task.key)
        self.results[task.key] = result

    def _give_up_overdue(self, running: dict[str, Task]) -> None:
        for key, task in list(running.items()):
            if time.monotonic() - self._began[key] > 60 * self.limits.minutes:
                self.engine.stop(task)
                del running[key]
                self.results[key] = Result(
                    ok=False, reason=f"took longer than {self.limits.minutes:g} minutes", lost=True
                )

    def _tell(self, total: int, waiting: dict[str, Task], running: dict[str, Task]) -> None:
        if self.progress is None:
            return
        pace = median(self._pace) if self._pace else 1.0  # the first tasks compile, which says nothing of the others
        now = time.monotonic()
        left = [task.cost * pace for task in waiting.values()]
        left += [max(task.cost * pace - (now - self._began[key]), 0.0) for key, task in running.items()]
        longest = max(left, default=0.0)
        failed = sum(not result.ok for result in self.results.values())
        self.progress(
            Status(
                len(self.results),
                total,
                failed,
                max(sum(left) / self.engine.slots, longest),
                [task.label for task in running.values()],
            )
        )
