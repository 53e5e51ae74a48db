"""Training an agent: draw windows, play them, learn from them, validate, save."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, TracekitError, UsageError
from tracekit.files import write_text
from tracekit.sim.agents import checkpoint
from tracekit.sim.agents.against import against, mean
from tracekit.sim.agents.agent import SETTINGS, Agent
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.evaluate import best_of, heuristics_of
from tracekit.sim.agents.grounds import Ground, batch_for, drawn, more_sources
from tracekit.sim.agents.groups import group_advantages
from tracekit.sim.agents.informed import HALVES, halves, with_predictor, without_predictor
from tracekit.sim.agents.provenance import fingerprint, not_improved, versions
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.saving import agent_of, event_writer, matching
from tracekit.sim.agents.splits import Split, longest, split, windows_from
from tracekit.sim.agents.starts import LESSON_WINDOWS, NOTHING, Course, NothingToLearn, Say, imitate
from tracekit.sim.tasks.base import Task, find_task
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.rewards import Baseline
from tracekit.sim.windows import Span
from tracekit.trace import Trace

#: What a draw is for: the second number of every key of randomness, after the seed.
_WINDOWS, _CHOICES, _VALIDATION, _GROUND = 10, 11, 12, 15


@dataclass
class Status:
    """The progress of a training, for progress lines."""

    steps: int  # decisions learnt from
    total: int
    iteration: int
    score: float  # on the validation windows
    best: float  # the best one so far
    heuristic: str  # the best heuristic there …
    heuristic_score: float  # … and its score


Report = Callable[[Status], None]


def train(
    trace: Trace,
    task: Task | None = None,
    config: Config | None = None,
    *,
    out: str | Path,
    seed: int = 0,
    init: str | None = None,
    share: float = 0.7,
    parts: Split | None = None,
    overlap: bool = False,
    resume: bool = False,
    force: bool = False,
    source: dict[str, Any] | None = None,
    windows_from: Sequence[Trace] = (),
    report: Report | None = None,
    say: Say | None = None,
    tensorboard: bool = False,
) -> Agent:
    """Train an agent on a trace and write it into the folder ``out``; the same seed gives the same bytes.

    ``init``: None = from scratch, ``imitate:NAME`` = like a heuristic (``imitate:best`` = like the best one on each
    window) or a policy written in Python (``imitate:search:evaluations=500``), ``agent:DIR`` = from another agent.
    ``share`` of the trace, in time, is learnt from, half of the rest validates; or ``parts`` gives the jobs of each.
    A task with ``predict`` has its predictor of run times in the folder, too. Training windows are also drawn from the
    whole of the traces ``windows_from``, such as synthetic ones.
    ``resume`` continues an interrupted training. ``source`` states where the trace comes from (file, sha256). The
    agent of the best validation is kept.
    """
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra("torch", "rl") from None
    task, config = task or find_task("pick-job")(), config or Config()
    episodes = EpisodeSource(trace, without_predictor(task))
    chosen = parts or split(episodes, share, overlap=overlap)
    course = Course(Path(out), seed, init, chosen, source or {}, say or _quiet)
    if getattr(task, "predict", None):
        if not resume:
            checkpoint.check_free(Path(out), force=force)
        ready, start = with_predictor(trace, task, course, config, resume=resume)
        episodes, course = EpisodeSource(trace, ready), dataclasses.replace(course, start=start)
    kinds = [(dataclasses.replace(episodes.task, predict=place), own) for place, own in halves(course)]
    more = more_sources(trace, kinds or [(episodes.task, chosen.train)], config.loads, windows_from)
    run = _Training(episodes, config, course, more, [(EpisodeSource(trace, task), own) for task, own in kinds])
    return run.go(resume=resume, force=force, report=report, tensorboard=tensorboard)


def _quiet(text: str) -> None:
    """Say nothing."""


class _Training:
    """One training: what it is made of, and its state between two iterations."""

    def __init__(
        self,
        episodes: EpisodeSource,
        config: Config,
        course: Course,
        more: Sequence[tuple[EpisodeSource, tuple[Span, ...]]] = (),
        own: Sequence[tuple[EpisodeSource, tuple[Span, ...]]] = (),
    ) -> None:
        self.episodes, self.config = episodes, config
        self.course, self.out, self.seed, self.init = course, course.out, course.seed, course.init
        self.parts, self.say = course.parts, course.say
        if self.parts.overlap:
            self.say("training, validation and test windows overlap in time, as requested: scores will be optimistic")
        if longest(self.parts.train) - episodes.task.warm < config.jobs:
            self.say(
                f"windows have {longest(self.parts.train) - episodes.task.warm:,} jobs: the training part is short"
            )
        self.source = {"jobs": len(episodes), "jobs_sha256": fingerprint(episodes.table), **course.source}
        if more:
            self.source["windows_from"] = [fingerprint(other.table) for other, _ in more]
        self._sources = [*(own or [(episodes, self.parts.train)]), *more]
        self.batch = episodes.task.batch(episodes, lanes=min(config.windows, 256), threads=config.threads or None)
        self.iteration = self.steps = self.waited = 0
        self.best_iteration, self.best_score, self.start_score = 0, np.inf, np.nan
        self.best_parts: dict[str, float] = {}  # of the objective, in the best validation
        self.best: NDArray[np.float32] | None = None
        self.start_costs: list[float] = []  # of the start on each validation window
        self.average: NDArray[np.float32] | None = None  # running mean of the actor's weights

    # ---- the course of a training ------------------------------------------------------------------------------------

    def go(self, *, resume: bool, force: bool, report: Report | None, tensorboard: bool) -> Agent:
        """Train to the end of the budget, or until validation stops improving."""
        import torch

        from tracekit.sim.agents.ppo import LEARNERS, Diverged

        threads = torch.get_num_threads()
        torch.set_num_threads(
            1
        )  # the order of sums changes the last bits: one thread gives the same bytes on any machine
        try:
            self.ppo = LEARNERS[self.config.algorithm](self.config, self.episodes.task, self.seed)
            self._look_around()
            if not self._resumed(resume, force):
                self._begin()
            writer = event_writer(self.out) if tensorboard else None
            while self.steps < self.config.steps and not self._exhausted():
                try:
                    line = self._iterate()
                except Diverged as error:
                    raise TracekitError(
                        f"training diverged in iteration {self.iteration + 1}: {error}; {self.out} keeps the state "
                        f"before it. Try a smaller learning rate than {self.config.learning_rate:g}"
                    ) from None
                self._write(line)
                if writer is not None:
                    for name, value in line.items():
                        writer.add_scalar(name, value, self.steps)
                if report is not None:
                    report(self._status(line))
            if writer is not None:
                writer.close()
            return self._finish()
        finally:
            torch.set_num_threads(threads)

    def _look_around(self) -> None:
        """Draw the validation windows and score heuristics on them, and on some training windows."""
        config, episodes = self.config, self.episodes
        self.validation = windows_from(
            episodes, self.parts.validation, config.validation_windows, config.jobs, [self.seed, _VALIDATION]
        )
        known = heuristics_of(episodes.task)
        costs = np.array(
            [mean(column, config.validate_by) for column in episodes.policy_costs(self.validation, known).T]
        )
        self.heuristic, self.heuristic_score = known[int(costs.argmin())], float(costs.min())
        best = f"{self.heuristic} {self.heuristic_score:,.4g}"
        self.say(f"best heuristic on {len(self.validation)} validation windows: {best}")
        if len(episodes.task.objectives.terms) > 1:
            self.say(f"objective: {episodes.task.objectives}")
        sample = windows_from(
            episodes, self.parts.train, config.validation_windows, config.jobs, [self.seed, LESSON_WINDOWS]
        )
        kind, _, name = (self.init or "").partition(":")
        relative = getattr(episodes.task, "reward", "") == "relative"
        self.on_training = best_of(episodes, sample, config.validate_by)
        base = config.base or (episodes.task.base if relative else "")
        base = base or (name if kind == "imitate" and name in known else self.on_training)
        self.grounds = [
            Ground(source, parts, batch_for(source, config), Baseline(source, base, greedy=relative))
            for source, parts in self._sources
        ]
        self.baseline = self.grounds[0].baseline

    def _begin(self) -> None:
        """Set the weights that training starts from, and validate them: training must improve on them."""
        told: dict[str, float] = {}
        kind, _, name = (self.init or "").partition(":")
        if kind == "imitate" or self.init == "search":
            teacher = None if self.init == "search" else name
            told = imitate(teacher, self.ppo.model, self.batch, self.course, self.config, self._identity())
        elif kind == "agent":
            from tracekit.sim.agents.networks import load_flat

            load_flat(self.ppo.model.actor, matching(Agent.load(name), agent_of(self.ppo, self.episodes.task, {})))
        elif self.init:
            raise UsageError(f"--init {self.init}: write imitate:NAME, imitate:best, search or agent:DIR")
        write_text(self.out / SETTINGS, self.config.to_toml(), force=True)
        self._remember()
        self.start_score = self._validate()
        self._write({"iteration": 0, "steps": 0, **told, **self._validated()})
        shutil.rmtree(self.out / checkpoint.LESSONS, ignore_errors=True)  # learnt, and in the checkpoint

    def _iterate(self) -> dict[str, float]:
        """Play windows with the current policy, learn from them, and return the line of the log."""
        config, number = self.config, self.iteration + 1
        ground = drawn(self.grounds, [self.seed, _GROUND, number])
        plays = config.plays if config.algorithm == "grpo" else 1
        different = ground.windows(config.windows // plays, config.jobs, [self.seed, _WINDOWS, number])
        windows = [window for window in different for _ in range(plays)]
        progress = self.steps / config.steps
        self.ppo.explore(progress)
        keys = np.random.default_rng([self.seed, _CHOICES, number]).integers(0, 2**64, len(windows), dtype=np.uint64)
        played = play(ground.batch, windows, self.ppo.model.play_by(), keys=keys)
        if not len(played):
            raise NothingToLearn(NOTHING)
        if plays > 1:
            reward, context = group_advantages(played, plays), np.zeros((len(played), 0), np.float32)
        else:
            reward, context = self.episodes.task.rewards(played, windows, ground.baseline, dense=config.dense)
        told = self.ppo.update(played, reward, context, number, progress)
        self.iteration, self.steps = number, self.steps + len(played)
        self._remember()
        base = np.repeat([ground.baseline.cost(window) for window in different], plays)
        line = {
            "iteration": number,
            "steps": self.steps,
            "train_score": float(played.score.mean()),
            "train_base": float(base.mean()),
            "train_gain": float(np.mean((base - played.score) / np.maximum(np.abs(base), 1e-9))),
            **told,
        }
        if number % config.validate_every == 0 or self.steps >= config.steps:
            self._validate()
            line |= self._validated()
        return line

    def _remember(self) -> None:
        """Take the actor's weights into their running mean."""
        flat, share = self.ppo.model.flat(), np.float32(self.config.average)
        self.average = flat if self.average is None else share * self.average + (1 - share) * flat

    def _validate(self) -> float:
        """Play the validation windows greedily; remember the weights if they are the best so far."""
        assert self.average is not None
        played = play(self.batch, self.validation, self.ppo.model.play_by(self.average), keep=False)
        self.score = mean(played.score, self.config.validate_by)
        pairs = zip(self.validation, played.starts, strict=True)
        parts = [self.episodes.parts(window, start) for window, start in pairs]
        self.parts_now = {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
        self.waited += 1
        if not self.start_costs:
            self.start_costs = played.score.tolist()
        if self.score < self.best_score and (self.iteration == 0 or self._shown(played.score)):
            if not self.best_score - self.score <= self.config.least_gain * abs(self.best_score):
                self.waited = 0
            self.best_score, self.best_iteration = self.score, self.iteration
            self.best_parts = self.parts_now
            self.best = self.average
        return self.score

    def _shown(self, costs: NDArray[np.float64]) -> bool:
        """Whether validation shows that these costs are below those of the start, where settings ask for that."""
        if not self.config.sure:
            return True
        order = np.argsort([first for first, _ in self.validation], kind="stable")
        found = against(costs[order], np.array(self.start_costs)[order])
        return bool(found["geometric_high"] < 0 and found["arithmetic"] <= 0)

    def _validated(self) -> dict[str, float]:
        return {
            "validation_score": self.score,
            "validation_best": self.best_score,
            "validation_heuristic": self.heuristic_score,
            **{f"validation_{name}": value for name, value in self.parts_now.items() if len(self.parts_now) > 1},
        }

    def _exhausted(self) -> bool:
        return 0 < self.config.patience <= self.waited

    def _status(self, line: dict[str, float]) -> Status:
        return Status(
            self.steps,
            self.config.steps,
            self.iteration,
            self.score,
            self.best_score,
            self.heuristic,
            self.heuristic_score,
        )

    def _identity(self) -> dict[str, Any]:
        """Return what must not change between the parts of one training."""
        config = {name: v for name, v in self.config.to_dict().items() if name not in ("threads", "steps")}
        return {
            "trace": self.source["jobs_sha256"],
            **({"windows_from": self.source["windows_from"]} if "windows_from" in self.source else {}),
            "seed": self.seed,
            "init": self.init,
            "split": self.parts.to_dict(),
            **{f"task {name}": value for name, value in self.episodes.task.to_dict().items() if name != "predict"},
            **config,
        }

    def _write(self, line: dict[str, Any]) -> None:
        arrays, numbers = self.ppo.state()
        assert self.best is not None  # the first validation sets both
        assert self.average is not None
        facts = {
            "iteration": self.iteration,
            "steps": self.steps,
            "waited": self.waited,
            "score": self.score,
            "best_score": self.best_score,
            "best_iteration": self.best_iteration,
            "best_parts": self.best_parts,
            "start_score": self.start_score,
            "start_costs": self.start_costs,
            "numbers": numbers,
            "identity": self._identity(),
        }
        checkpoint.log(self.out, line)
        last = self.steps >= self.config.steps or self._exhausted()
        if self.iteration % self.config.checkpoint_every and not last:
            return
        checkpoint.write(self.out, arrays | {"best": self.best, "average": self.average}, facts)

    def _resumed(self, resume: bool, force: bool) -> bool:
        """Continue from the last checkpoint, if requested and present."""
        found = checkpoint.read(self.out) if resume else None
        if found is None:
            if not (resume and checkpoint.has_lessons(self.out, self._identity())):
                checkpoint.begin(self.out, force=force)
            return False
        arrays, facts = found
        checkpoint.check_same(self.out, facts["identity"], self._identity())
        self.best, self.average = arrays.pop("best"), arrays.pop("average")
        self.ppo.restore(arrays, facts["numbers"])
        for name in ("iteration", "steps", "waited", "score", "best_score", "best_iteration"):
            setattr(self, name, facts[name])
        self.best_parts = facts.get("best_parts", {})
        self.start_score = facts.get("start_score", np.nan if self.best_iteration else self.best_score)
        self.start_costs = facts.get("start_costs", [])
        checkpoint.cut_log(self.out, self.iteration)
        return True

    def _finish(self) -> Agent:
        told = (self.init, self.episodes.task.objective, self.start_score, self.score)
        facts = {
            "config": {name: v for name, v in self.config.to_dict().items() if name != "threads"},
            "seed": self.seed,
            "init": self.init,
            "trace": self.source,
            "split": self.parts.to_dict(),
            "metrics": {
                "objective": self.episodes.task.objective,
                "validation_score": self.best_score,
                "validation_windows": len(self.validation),
                "weights": dict(self.episodes.task.objectives.terms),
                "validation_parts": self.best_parts,
                "best_heuristic": self.heuristic,
                "best_heuristic_score": self.heuristic_score,
                "base_policy": self.baseline.policy,
                "best_on_training": self.on_training,
                "iterations": self.iteration,
                "best_iteration": self.best_iteration,
                "steps": self.steps,
                "start_score": self.start_score if np.isfinite(self.start_score) else None,
                "note": not_improved(*told) if self.iteration > self.best_iteration == 0 else "",
            },
            "versions": versions(),
        }
        assert self.best is not None
        shutil.rmtree(self.out / HALVES, ignore_errors=True)
        return agent_of(self.ppo, self.episodes.task, facts, self.best).save(self.out)
