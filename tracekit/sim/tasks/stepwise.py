"""Tasks written in Python, step by step: an episode is a generator that yields questions and receives the answers.

Slower than compiled lanes, and a few lines long. The generator drives a simulation, most often by
`tracekit.sim.engine.session.Session.passes`, and returns the starts of its jobs::

    @register_task
    @dataclass(frozen=True)
    class TwoPolicies(StepwiseTask):
        name: ClassVar[str] = "two-policies"
        policies: tuple[str, ...] = ("fcfs", "sjf")

        @property
        def slots(self): return len(self.policies)

        @property
        def feature_names(self): return ("first", "queue")

        def episode(self, setup, columns):
            session = Session(setup)
            for waiting, now in session.passes():
                rows = np.array([[i == 0, len(waiting) / 100] for i in range(2)], np.float32)
                choice = yield Question(rows, now=now)
                session.evaluate(self.policies[choice])
            return session.jobs.start
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.base import Question, TaskDefaults
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]
Steps = Generator[Question, Any, Floats]


@dataclass(frozen=True)
class StepwiseTask(TaskDefaults):
    """The settings that every task needs; inherit, add your own, and write `slots`, `feature_names` and `episode`."""

    name: ClassVar[str] = ""
    levers: ClassVar[tuple[str, ...]] = ("--frequency", "--power-cap")

    objective: str = "bsld"  # the objective to minimise
    backfill: str = "easy"
    base: str = "sjf"  # policy that costs are measured against
    warm: int = 0  # jobs before an episode that the machine is warmed up with
    switches: Switches = field(default_factory=Switches)  # of the simulation
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """The most rows that one question has."""
        raise NotImplementedError

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What is seen of each row, in order."""
        raise NotImplementedError

    def episode(self, setup: Setup, columns: Any) -> Steps:
        """Yield questions, receive answers (a row, or priorities of the rows), and return the starts of the jobs."""
        raise NotImplementedError

    def batch(self, source: Any, *, lanes: int, threads: int | None = None) -> StepwiseBatch:
        """Return many episodes side by side."""
        return StepwiseBatch(self if source is None else source.task, source, lanes)


class StepwiseBatch:
    """Episodes of a `StepwiseTask`, one generator per lane; see `tracekit.sim.tasks.base.Batch`."""

    player: ClassVar[str | None] = None

    def __init__(self, task: Any, source: Any, lanes: int) -> None:
        if lanes < 1:
            raise UsageError(f"a batch needs at least one lane, not {lanes}")
        self.task, self.source, self.lanes, self.threads = task, source, lanes, 1
        self.windows: list[Window] = [(0, 0)] * lanes
        self.features = np.zeros((lanes, task.slots, len(task.feature_names)), np.float32)
        self.count = np.zeros(lanes, np.int64)
        self.mask = np.zeros((lanes, getattr(task, "actions", task.slots)), np.bool_)
        self.done = np.ones(lanes, np.bool_)
        self.score = np.full(lanes, np.nan)
        self._steps: list[Steps | None] = [None] * lanes
        self._starts: list[Floats] = [np.empty(0)] * lanes
        self._now = np.zeros(lanes)

    def reset(self, lanes: Iterable[int], windows: Iterable[Window]) -> None:
        """Start windows in some lanes and run each to its first question."""
        for lane, window in zip(lanes, windows, strict=True):
            episode = self.source.episode(window)
            warm = np.isfinite(episode.opening)
            setup = Setup(
                episode.ready,
                self.task.backfill,
                self.task.switches.resolved(),
                self.source.machine,
                episode.begun if warm else None,
                episode.opening,
                episode.cap,
            )
            self.windows[lane], self.done[lane], self.score[lane] = episode.window, False, np.nan
            self._starts[lane] = np.full(len(episode.ready.table), np.nan)
            self._steps[lane] = self.task.episode(setup, episode.columns)
            self._ask(lane, None)

    def step(self, actions: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer the question of every lane that is not done; the reward is minus the cost, when an episode ends."""
        given = np.asarray(actions)
        reward = np.zeros(self.lanes)
        for lane in np.flatnonzero(~self.done):
            answer = given[lane]
            if self.task.actions_are == "choice":
                if not 0 <= answer < self.mask[lane].sum():
                    raise UsageError(
                        f"lane {lane}: action {answer} is not valid, there are only {self.mask[lane].sum()} rows"
                    )
                answer = int(answer)
            else:
                answer = answer[: self.count[lane]]
            self._ask(int(lane), answer)
            if self.done[lane]:
                reward[lane] = -self.score[lane]
        return reward, self.done.copy()

    def _ask(self, lane: int, answer: Any) -> None:
        """Send an answer and record the next question, or the end."""
        steps = self._steps[lane]
        assert steps is not None
        self.features[lane], self.mask[lane], self.count[lane] = 0.0, False, 0
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as ended:
            self._starts[lane] = np.asanyarray(ended.value, dtype=np.float64)  # may know hosts, see `Starts`
            self.score[lane] = self.source.cost(self.windows[lane], self._starts[lane])
            self.done[lane], self._steps[lane] = True, None
            return
        count = len(question.rows)
        if question.rows.shape[1:] != self.features.shape[2:] or not 0 < count <= self.task.slots:
            shape = (self.task.slots, len(self.task.feature_names))
            raise UsageError(
                f"task {self.task.name}: a question has shape {question.rows.shape}, at most {shape} is allowed"
            )
        options = count if question.options is None else question.options
        self.features[lane, :count], self.mask[lane, :options], self.count[lane] = question.rows, True, count
        self._now[lane] = question.now

    def starts(self, lane: int) -> Floats:
        """Return the starts of a lane's jobs, (jobs,), once its episode is over."""
        return self._starts[lane].copy()

    def now(self, lane: int) -> float:
        """Return when a lane's question is asked, in seconds."""
        return float(self._now[lane])
