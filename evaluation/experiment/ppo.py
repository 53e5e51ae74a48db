"""The agents of `tracekit train` as a learner of experiments: masked PPO on a task, pick-job by default."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from evaluation.experiment.heldout import Heldout, Row
from evaluation.experiment.learners import NOTE
from tracekit.errors import MissingExtra, SchemaError, UnknownName
from tracekit.machine import Machine
from tracekit.registry import imported
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.agents import Agent, Config

#: Decisions that one core learns from in a second, for estimates.
_PER_SECOND = 10_000.0
#: What is noted of an agent whose trace leaves nothing to choose.
_CALM = "nothing to learn, since hardly ever two jobs of the trace wait at once"


class PPO:
    """Settings are those of `tracekit.sim.agents.Config`, with ``init``, ``share`` and a table ``task``.

    The table has the task's ``name`` (default pick-job) and its fields.

    Agents are trained with the backfilling, and with ``allocate`` on the hosts, that they are judged with.

    ``share`` of every training trace is learnt from and the rest decides which state of the agent is kept, so that
    agents of synthetic jobs never see a real one.
    """

    name: ClassVar[str] = "ppo"
    task: ClassVar[str] = "pick-job"
    use: ClassVar[str] = "training a scheduling agent"
    metric: ClassVar[str] = "mean_bsld"
    margin: ClassVar[float] = 0.1
    control: ClassVar[str] = "wrong-limits"
    #: Where a plan says nothing: a budget of seconds, not minutes, as an experiment trains a hundred agents or so.
    defaults: ClassVar[dict[str, Any]] = {
        "steps": 100_000,
        "windows": 32,
        "jobs": 128,
        "validation_windows": 32,
        "init": "imitate:best",
    }
    extra: ClassVar[dict[str, Any]] = {"init": None, "share": 0.85, "task": {}, "allocate": None}

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings, and a machine without torch."""
        self._settings(config)
        if find_spec("torch") is None:
            raise MissingExtra("torch", "rl")

    def _settings(
        self, config: Mapping[str, Any], backfill: str = "easy", machine: Machine | None = None
    ) -> tuple[Config, Any, str | None, float]:
        from tracekit.sim.agents import Config
        from tracekit.sim.tasks.base import find_task

        config = self.defaults | dict(config)
        known = Config().to_dict()
        for key in config:
            if key not in known and key not in self.extra:
                raise UnknownName(f"setting of {self.name}", key, [*known, *self.extra])
        extra = {key: config.get(key, default) for key, default in self.extra.items()}
        own = {key: value for key, value in config.items() if key in known}
        if not isinstance(extra["task"], Mapping):
            raise SchemaError(
                f"setting of {self.name}: task must be a table of the task's fields, not {extra['task']!r}"
            )
        fields = self._fields(backfill, machine, extra["allocate"]) | dict(extra["task"])
        kind = find_task(str(fields.pop("name", "pick-job")))
        try:
            task = kind(**fields)
        except TypeError as error:
            raise SchemaError(f"setting of {self.name}: task: {error}") from None
        settings = Config.from_dict(own, origin=f"settings of {self.name}").replace(threads=1)
        return settings, task, extra["init"], float(extra["share"])

    def _fields(self, backfill: str, machine: Machine | None, allocate: str | None) -> dict[str, Any]:
        """Return the fields of the task that the plan decides; ``allocate`` is None without hosts."""
        fields: dict[str, Any] = {"backfill": backfill}
        if allocate is not None and machine is not None:
            fields |= {"cluster": machine.replace(epoch=None), "allocate": allocate}
        return fields

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Learn from the first part of a trace and keep the state that is best on the rest.

        If two jobs hardly ever wait at once there is nothing to learn: the untrained agent is kept and a note written.
        """
        from tracekit.sim.agents import NothingToLearn, Split, train
        from tracekit.sim.windows import spans

        settings, task, init, share = self._settings(config, backfill, trace.machine)
        if untrained:
            _newborn(trace, settings, task, seed, folder).save(folder)
            return
        first, second = spans(trace.column("submit_time"), (share, 1 - share))
        try:
            train(trace, task, settings, out=folder, seed=seed, init=init, parts=Split((first,), (second,)))
        except NothingToLearn:
            shutil.rmtree(folder, ignore_errors=True)
            _newborn(trace, settings, task, seed, folder).save(folder)
            (folder / NOTE).write_text(_CALM + "\n", encoding="utf-8")

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Schedule with the agent's best choices."""
        return heldout.play(f"agent:{folder}")

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return the scores on the validation windows, which lie in the training trace itself, and the heuristic's."""
        return curve_of(folder)

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        return 2.0 + self._settings(config)[0].steps / _PER_SECOND


def _newborn(trace: Trace, settings: Config, task: Any, seed: int, folder: Path) -> Agent:
    """Return the agent that a training with this seed would begin with from scratch."""
    from tracekit.sim.agents.ppo import PPO as Learning
    from tracekit.sim.agents.saving import agent_of
    from tracekit.sim.tasks.episodes import EpisodeSource

    if getattr(task, "predict", None):  # a predictor that has learnt nothing, either
        task = imported("tracekit.sim.agents.informed:newborn_predictor")(task, folder)
    task = EpisodeSource(trace, task).task  # which takes its constants from the trace
    return agent_of(Learning(settings, task, seed), task, {"seed": seed})


def curve_of(folder: Path) -> list[tuple[int, str, float]]:
    """Return the scores on validation windows that the log of a training holds, and the heuristic's."""
    from tracekit.sim.agents.agent import LOG
    from tracekit.sim.agents.checkpoint import read_log

    if not (folder / LOG).is_file():  # it was never trained
        return []
    found = []
    for line in read_log(folder):
        for key, name in (("validation_score", "score"), ("validation_heuristic", "heuristic")):
            if key in line:
                found.append((int(line["steps"]), name, float(line[key])))
    return found
