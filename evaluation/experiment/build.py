"""From a plan to its tasks: which generator is fitted to what, which agent is trained on what, how they are compared.

    train ──fit──▶ samples ──train──▶ agents ──evaluate──▶ scores on held-out windows
      └──────────────────────train──▶ agents ──evaluate──▶ the same windows

Nothing is run here; the same plan and data give the same tasks with the same addresses.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import Plan
from evaluation.experiment.halves import name_of
from evaluation.experiment.tasks import Input, Task
from evaluation.experiment.uses import Use

ARMS = REAL, HALF, MODEL, BASELINE, CONTROL, OTHER, UNTRAINED, SCARCE, AUGMENTED = (
    "real",
    "half",
    "model",
    "baseline",
    "control",
    "other",
    "untrained",
    "scarce",
    "scarce+model",
)


@dataclass(frozen=True)
class GeneratorSpec:
    """A generator as the grid needs it: where it lives and what it costs. No target: its traces are given."""

    name: str
    target: str = ""
    baseline: bool = False
    copies: bool = False  # repeats real jobs by design
    load: str = ""  # offered load of its samples; empty: the plan's
    heavy: bool = False
    seconds: float = 1.0  # of one fit, a guess
    facts: Mapping[str, str] = field(default_factory=dict)  # family, licence, summary


@dataclass(frozen=True)
class Code:
    """Hashes of the source that each kind of task depends on; generators and learners by name."""

    fit: Mapping[str, str]
    score: str
    train: Mapping[str, str]  # by learner
    heuristics: str


@dataclass(frozen=True)
class Agent:
    """One agent: what it was trained on, and the tasks that train and evaluate it."""

    learner: str
    arm: str
    model: str
    seed: int | None  # number of the synthetic sample
    agent_seed: int
    train: Task
    evaluate: Task
    look: int = 1  # the first look at the verdicts that needs it


@dataclass
class Grid:
    """All tasks of an experiment."""

    fits: list[Task] = field(default_factory=list)
    samples: dict[str, list[Input]] = field(default_factory=dict)  # model -> its synthetic traces
    scores: dict[str, Task] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    heuristics: Task | None = None

    def until(self, looks: Mapping[str, int], decided: Collection[tuple[str, str]]) -> Grid:
        """Return the part of the grid that has been looked at so often, by learner.

        Agents of a model that is ``decided`` (learner, model) are those of the first look only, as no later one counts.
        """
        agents = [
            agent
            for agent in self.agents
            if agent.look <= looks[agent.learner]
            and (agent.look == 1 or agent.arm not in (MODEL, BASELINE) or (agent.learner, agent.model) not in decided)
        ]
        return replace(self, agents=agents)

    def tasks(self) -> list[Task]:
        """Return every task once, those that others need first."""
        found = [*self.fits, *self.scores.values(), *([self.heuristics] if self.heuristics else [])]
        found += [agent.train for agent in self.agents] + [agent.evaluate for agent in self.agents]
        return list({task.key: task for task in found}.values())


def derived(seed: int, purpose: str, *numbers: int) -> int:
    """Return a seed for one purpose, so that no two of them repeat each other's draws.

    >>> derived(0, "sample", 1) == derived(0, "sample", 1) != derived(0, "sample", 2)
    True
    """
    words = [seed, zlib.crc32(purpose.encode()), *numbers]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def build(
    plan: Plan,
    data: Mapping[str, Input],
    jobs: Mapping[str, int],
    specs: Sequence[GeneratorSpec],
    code: Code,
    windows: Mapping[str, Any],
    uses: Sequence[Use],
    *,
    real: str,
) -> Grid:
    """Return the grid.

    ``data``: inputs by name (train, validation, test, scarce, other, half-PAIR-SIDE, given/MODEL/NUMBER).
    """
    grid = Grid()
    trainer = _Trainer(plan, data, code, windows, uses, grid)
    trainer.add(REAL, "", None, {"trace": data["train"]})
    trainer.add(UNTRAINED, "", None, {"trace": data["train"]}, untrained=True)
    for pair, side in product(range(plan.verdict.halves), (0, 1)):
        trainer.add(HALF, "", side, {"trace": data[name_of(pair, side)]}, number=pair)
    floor = next((spec.name for spec in specs if spec.baseline), specs[0].name if specs else "")
    for spec in specs:
        samples = [data[f"given/{spec.name}/{k}"] for k in range(len(plan.models.traces.get(spec.name, ())))]
        samples = samples or list(_fitted(plan, spec, data["train"], jobs["train"], code, grid))
        grid.samples[spec.name] = samples
        grid.scores[spec.name] = _scored(plan, spec, data, samples, code, jobs, real, floor=spec.name == floor)
        for number, sample in enumerate(samples):
            trainer.add(BASELINE if spec.baseline else MODEL, spec.name, number, {"trace": sample})
    for control in dict.fromkeys(use.control for use in uses):
        by = [use for use in uses if use.control == control]
        for number, sample in enumerate(_damaged(plan, control, data["train"], jobs["train"], code, grid)):
            trainer.add(CONTROL, control, number, {"trace": sample}, uses=by)
    if "other" in data:
        trainer.add(OTHER, "", None, {"trace": data["other"]})
    if "scarce" in data:
        trainer.add(SCARCE, "", None, {"trace": data["scarce"]})
        wanted = plan.scarce.models
        for spec in specs:
            if spec.target and (not spec.baseline if wanted is None else spec.name in wanted):
                made = _fitted(plan, spec, data["scarce"], jobs["train"], code, grid, scarce=True)
                for number, sample in enumerate(made):
                    trainer.add(AUGMENTED, spec.name, number, {"trace": data["scarce"], "more": sample})
    grid.heuristics = Task(
        "heuristics",
        {"policies": list(plan.windows.heuristics), "windows": windows},
        {"test": data["test"], "train": data["train"]},
        code.heuristics,
        {"model": "heuristics"},
        cost=1.0 + 8e-6 * _decisions(windows) * len(plan.windows.heuristics),
    )
    return grid


def _fitted(
    plan: Plan, spec: GeneratorSpec, train: Input, jobs: int, code: Code, grid: Grid, *, scarce: bool = False
) -> Iterator[Input]:
    """Add the fits of a model and yield its samples in order."""
    arm = AUGMENTED if scarce else BASELINE if spec.baseline else MODEL
    by_number: dict[int, Input] = {}
    for number in range(plan.models.fits):
        samples = range(number, plan.models.samples, plan.models.fits)
        task = Task(
            "fit",
            {
                "target": spec.target,
                "fit_seed": derived(plan.seed, "fit", number),
                "samples": [[k, derived(plan.seed, "sample", k)] for k in samples],
                "jobs": jobs,
                "load": spec.load or plan.models.load,
                "options": {"budget": plan.models.budget_of(spec.name), "encoding": plan.models.encoding},
            },
            {"train": train},
            code.fit[spec.name],
            {"arm": arm, "model": spec.name, "seed": number if plan.models.fits > 1 else None},
            heavy=spec.heavy,
            cost=spec.seconds * (plan.scarce.share if scarce else 1.0) + 1.0,
        )
        grid.fits.append(task)
        by_number |= {k: Input(f"sample-{k}.parquet", task.key) for k in samples}
    yield from (by_number[k] for k in sorted(by_number))


def _damaged(plan: Plan, control: str, train: Input, jobs: int, code: Code, grid: Grid) -> list[Input]:
    """Add the task that damages the training jobs on purpose, and return its traces: two, or one where one is asked."""
    samples = range(min(2, plan.models.samples))
    task = Task(
        "fit",
        {
            "target": DAMAGES.target(control),
            "fit_seed": 0,
            "samples": [[k, derived(plan.seed, "damage", k)] for k in samples],
            "jobs": jobs,
            "load": "none",
            "options": {},
        },
        {"train": train},
        code.fit[control],
        {"arm": CONTROL, "model": control},
    )
    grid.fits.append(task)
    return [Input(f"sample-{k}.parquet", task.key) for k in samples]


def _scored(
    plan: Plan,
    spec: GeneratorSpec,
    data: Mapping[str, Input],
    samples: Sequence[Input],
    code: Code,
    jobs: Mapping[str, int],
    real: str,
    *,
    floor: bool,
) -> Task:
    families = plan.score.families
    return Task(
        "score",
        {
            "quick": plan.score.quick,
            "families": list(families) if families is not None else None,
            "floor": floor,
            "seed": derived(plan.seed, "score"),
            "real": real,
            "model": spec.name,
        },
        {"train": data["train"], "validation": data["validation"], **{f"sample-{k}": s for k, s in enumerate(samples)}},
        code.score,
        {"arm": BASELINE if spec.baseline else MODEL, "model": spec.name},
        cost=(len(samples) + 4 * floor) * (2.0 + jobs["train"] / 2000) * (1 if plan.score.quick else 4),
    )


@dataclass
class _Trainer:
    """Adds the agents of one arm after the other, all with the same configuration and the same seeds."""

    plan: Plan
    data: Mapping[str, Input]
    code: Code
    windows: Mapping[str, Any]
    uses: Sequence[Use]
    grid: Grid

    def add(
        self,
        arm: str,
        model: str,
        seed: int | None,
        inputs: Mapping[str, Input],
        *,
        untrained: bool = False,
        uses: Sequence[Use] | None = None,
        number: int | None = None,
    ) -> None:
        """Add agents of all seeds, or one agent of seed ``number``."""
        numbers = range(self.plan.agents.seeds) if number is None else [number]
        for use in self.uses if uses is None else uses:
            windows = {**self.windows, "loads": list(use.loads)}
            for number in numbers:
                about = {"arm": arm, "model": model, "seed": seed, "agent_seed": number, "learner": use.learner}
                train = Task(
                    "train",
                    {
                        "learner": use.learner,
                        "config": dict(use.config),
                        "backfill": self.plan.windows.backfill,
                        "seed": derived(self.plan.seed, "agent", number),
                        "untrained": untrained,
                    },
                    inputs,
                    self.code.train[use.learner],
                    about,
                    cost=1.0 if untrained else use.seconds,
                )
                evaluate = Task(
                    "evaluate",
                    {"learner": use.learner, "windows": windows},
                    {"agent": Input("agent", train.key), "test": self.data["test"]},
                    self.code.train[use.learner],
                    about,
                    cost=0.5 + 1e-5 * _decisions(windows),
                )
                look = 1 if arm == HALF else self._look(arm, seed, number)
                self.grid.agents.append(Agent(use.learner, arm, model, seed, number, train, evaluate, look))

    def _look(self, arm: str, sample: int | None, number: int) -> int:
        """Return the first look that has this sample and this seed; controls are whole at the first."""
        looks = self.plan.verdict.looks
        samples = 1 if sample is None or arm == CONTROL else first_look(sample, self.plan.models.samples, looks)
        return max(samples, first_look(number, self.plan.agents.seeds, looks))


def units_at(look: int, most: int, looks: int) -> int:
    """Return how many of ``most`` samples or seeds a look has: they grow evenly, from two on.

    >>> [units_at(look, 6, 3) for look in (1, 2, 3)], [units_at(look, 3, 3) for look in (1, 2, 3)]
    ([2, 4, 6], [2, 2, 3])
    """
    return max(min(2, most), math.ceil(most * look / looks))


def first_look(number: int, most: int, looks: int) -> int:
    """Return the first look that has unit ``number`` of ``most``."""
    return next((look for look in range(1, looks) if number < units_at(look, most, looks)), looks)


def _decisions(windows: Mapping[str, Any]) -> int:
    return len(windows["starts"]) * int(windows["jobs"]) * len(windows["loads"])
