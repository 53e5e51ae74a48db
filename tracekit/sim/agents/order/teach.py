"""Training of a pointer network by imitation: it is shown the best orders known, and raises their probability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.files import write_text
from tracekit.sim.agents import checkpoint
from tracekit.sim.agents.agent import CHECKPOINT, SETTINGS, Agent
from tracekit.sim.agents.lr_schedules import scheduled
from tracekit.sim.agents.networks import load_flat
from tracekit.sim.agents.order.config import OrderConfig
from tracekit.sim.agents.order.decode import decode
from tracekit.sim.agents.order.lessons import Lesson, lesson_of, loss_of
from tracekit.sim.agents.order.network import Pointer
from tracekit.sim.agents.provenance import fingerprint, versions
from tracekit.sim.agents.training import Report, Status
from tracekit.sim.orders.evaluate import Case
from tracekit.sim.orders.features import MOVING, STATIC
from tracekit.sim.orders.labels import Label, Labelling, LabelSet, parts_of, read_labels, write_labels
from tracekit.sim.orders.problem import order_cost
from tracekit.sim.orders.task import Order, Queues
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The label set in an agent's folder, where none was given.
LABELS = "labels.parquet"
#: Orders that are sampled of each validation queue.
SAMPLES = 16
_DRAWS = 40  # what a draw is for: the second number of every key of randomness, after the seed


@dataclass(frozen=True)
class Course:
    """Where a training writes, where its labels come from, and how it tells of itself."""

    out: Path
    seed: int = 0
    share: float = 0.7
    labels: Path | None = None  # a label set; None = it makes its own
    source: dict[str, Any] | None = None  # where the trace comes from (file, sha256)
    report: Report | None = None
    say: Callable[[str], None] = lambda text: None
    progress: Callable[[int, int, str], None] | None = None  # of the labels


def train_order(
    trace: Trace, task: Order, config: OrderConfig, course: Course, *, resume: bool = False, force: bool = False
) -> Agent:
    """Train a network to order queues, and write it into the folder ``course.out``; same seed, same bytes.

    Labels that are given decide what the queues are, and what is seen of them; ``task`` and ``config`` must not differ.
    """
    if course.labels is not None:
        task = read_labels(course.labels).made.task
    queues = Queues.of(trace, task)
    if not (resume and (course.out / CHECKPOINT).exists()):
        _clear(course.out, resume=resume, force=force)
    labels = _labels(queues, config, course)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of sums changes the last bits: one thread gives the same bytes on any machine
    try:
        return _Teaching(queues, labels, config, course).go(resume=resume)
    finally:
        torch.set_num_threads(threads)


def _clear(out: Path, *, resume: bool, force: bool) -> None:
    """Make the folder; labels that an interrupted run left are kept for ``resume``."""
    if resume:
        out.mkdir(parents=True, exist_ok=True)
        return
    checkpoint.begin(out, force=force)


def _labels(queues: Queues, config: OrderConfig, course: Course) -> LabelSet:
    """Return the labels: those given, those that an interrupted run has made, or new ones."""
    ours = fingerprint(queues.table)
    path = course.labels or course.out / LABELS
    if path.exists():
        found = read_labels(path)
        if found.fingerprint != ours:
            raise UsageError(f"{path}: these labels are of other jobs; give the trace that they were made from")
        if course.labels is None:
            now = config.labelling(queues.task, course.share, course.seed)
            checkpoint.check_same(course.out, found.made.to_dict(), now.to_dict())
        return found
    made = config.labelling(queues.task, course.share, course.seed)
    course.say(f"labels: {len(made):,} queues, {made.solver} with {made.evaluations:,} evaluations each")
    told = course.progress

    def report(done: int, total: int) -> None:
        if told is not None:
            told(done, total, "labels")

    return write_labels(queues, made, path, fingerprint=ours, report=report)


class _Teaching:
    """One training, and its state between two validations."""

    def __init__(self, queues: Queues, labels: LabelSet, config: OrderConfig, course: Course) -> None:
        self.queues, self.labels, self.config, self.course = queues, labels, config, course
        self.task = queues.task
        self.network = _first_network(config, course.seed)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.by_length: dict[int, list[tuple[Case, Ints]]] = defaultdict(list)
        for case, label in self._cases("train"):
            self.by_length[len(label.order)].append((case, label.order))
        self.lengths = sorted(self.by_length)
        jobs = np.array([length * len(self.by_length[length]) for length in self.lengths], np.float64)
        self.chance = jobs / jobs.sum()
        self.validation = self._cases("validation")
        self.judged = [label.queue(queues).counted(self.task.judged_by) for _, label in self.validation]
        self.iteration = self.steps = 0
        self.best_iteration, self.best_score, self.best_gap, self.score = 0, np.inf, np.inf, np.inf
        self.best = _flat(self.network)
        first = [label.first_cost for _, label in self.validation]
        self.heuristic_score = float(np.mean(first))
        if not self.validation:
            raise TracekitError("the label set has no labels for validation")

    def _cases(self, part: str) -> list[tuple[Case, Label]]:
        made = [(label.queue(self.queues), label) for label in self.labels.of(part)]
        return [(queue.counted(self.task.estimates), label) for queue, label in made]

    # ---- the course of a training ------------------------------------------------------------------------------------

    def go(self, *, resume: bool) -> Agent:
        """Train to the end of the budget."""
        found = checkpoint.read(self.course.out) if resume else None
        if found is not None:
            self._restore(*found)
        else:
            write_text(self.course.out / SETTINGS, self.config.to_toml(), force=True)
            self._validate()
        while self.steps < self.config.steps:
            line = self._iterate()
            checkpoint.log(self.course.out, line)
            checkpoint.write(self.course.out, *self._state())
            if self.course.report is not None:
                self.course.report(
                    Status(
                        self.steps,
                        self.config.steps,
                        self.iteration,
                        self.score,
                        self.best_score,
                        "best heuristics",
                        self.heuristic_score,
                    )
                )
        return self._agent().save(self.course.out)

    def _iterate(self) -> dict[str, float]:
        """Take some gradient steps, validate, and return the line of the log."""
        config, number = self.config, self.iteration + 1
        rng = np.random.default_rng([self.course.seed, _DRAWS, number])
        losses = []
        for _ in range(config.validate_every):
            if self.steps >= config.steps:
                break
            length = int(rng.choice(self.lengths, p=self.chance))
            known = self.by_length[length]
            drawn = rng.integers(0, len(known), config.batch)
            losses.append(self._learn(lesson_of([known[k] for k in drawn.tolist()])))
            self.steps += config.batch * length
        if not np.isfinite(losses).all():
            raise TracekitError(
                f"training diverged in iteration {number}; try a smaller learning rate than {config.learning_rate:g}"
            )
        self.iteration = number
        gap = self._validate()
        return {
            "iteration": number,
            "steps": self.steps,
            "loss": float(np.mean(losses)),
            "validation_score": self.score,
            "validation_gap": gap,
            "validation_best": self.best_score,
            "validation_heuristic": self.heuristic_score,
        }

    def _learn(self, lesson: Lesson) -> float:
        """Take one gradient step; return the loss before it."""
        config = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = scheduled(
                config.schedule, config.learning_rate, config.final_learning_rate, self.steps / config.steps
            )
        loss = loss_of(self.network, lesson)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.max_grad_norm)
        self.optimiser.step()
        return float(loss.detach())

    def _validate(self) -> float:
        """Order the validation queues, keep the weights if that is the best so far; return the gap.

        The best of several sampled orders counts, as where a search begins; the greedy one alone says little of that.
        Where orders are judged by run times that are not seen, none can be chosen among, and the greedy one counts.
        """
        hidden = self.task.judged_by != self.task.estimates
        cost = np.empty(len(self.validation))
        groups: dict[int, list[int]] = defaultdict(list)
        for number, (_, label) in enumerate(self.validation):
            groups[len(label.order)].append(number)
        for numbers in groups.values():
            cases = [self.validation[k][0] for k in numbers]
            how, several = ("greedy", 1) if hidden else ("sample", SAMPLES)
            for number, orders in zip(
                numbers, decode(self.network, cases, how, several, self.course.seed), strict=True
            ):
                cost[number] = min(order_cost(self.judged[number], order) for order in orders)
        known = np.array([label.cost for _, label in self.validation])
        gap = float(np.mean((cost - known) / np.maximum(np.abs(known), 1e-12)))
        self.score = float(cost.mean())
        if gap < self.best_gap:
            self.best, self.best_gap, self.best_score = _flat(self.network), gap, self.score
            self.best_iteration = self.iteration
        return gap

    # ---- what is kept ------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """Return what must not change between the parts of one training."""
        return {
            "seed": self.course.seed,
            "jobs": self.labels.fingerprint,
            "labels": self.labels.made.to_dict(),
            **{name: value for name, value in self.config.to_dict().items() if name not in ("steps",)},
        }

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything that the next iteration depends on."""
        arrays: dict[str, Any] = {"weights": _flat(self.network), "best": self.best}
        for number, (_, part) in enumerate(self.network.parts()):
            for name, value in self.optimiser.state[part].items():
                arrays[f"adam.{number}.{name}"] = value.detach().numpy()
        names = ("iteration", "steps", "score", "best_score", "best_gap", "best_iteration")
        return arrays, {name: getattr(self, name) for name in names} | {"identity": self._identity()}

    def _restore(self, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
        """Go back to a checkpoint."""
        checkpoint.check_same(self.course.out, facts["identity"], self._identity())
        load_flat(self.network, arrays["weights"])
        self.best = arrays["best"]
        for number, (_, part) in enumerate(self.network.parts()):
            start = f"adam.{number}."
            known = {name: torch.from_numpy(value) for name, value in arrays.items() if name.startswith(start)}
            if known:  # the last edges are not used: their norm has no gradient
                self.optimiser.state[part] = {name.removeprefix(start): value for name, value in known.items()}
        for name in ("iteration", "steps", "score", "best_score", "best_gap", "best_iteration"):
            setattr(self, name, facts[name])
        checkpoint.cut_log(self.course.out, self.iteration)

    def _agent(self) -> Agent:
        made = self.labels.made
        facts = {
            "config": self.config.to_dict() | {"jobs": made.jobs},
            "seed": self.course.seed,
            "init": None,
            "trace": {"jobs": len(self.queues), "jobs_sha256": self.labels.fingerprint, **(self.course.source or {})},
            "split": _split(self.queues, made),
            "labels": {name: value for name, value in made.to_dict().items() if name != "task"},
            "metrics": {
                "objective": self.task.objective,
                "validation_score": self.best_score,
                "validation_gap": self.best_gap,
                "validation_windows": len(self.validation),
                "best_heuristic": "best of each window",
                "best_heuristic_score": self.heuristic_score,
                "iterations": self.iteration,
                "best_iteration": self.best_iteration,
                "steps": self.steps,
                "note": "",
            },
            "versions": versions(),
        }
        return _agent_of(self.network, self.best, self.task, facts)


def newborn(task: Order, config: OrderConfig, seed: int) -> Agent:
    """Return the agent that a training with this seed would begin with."""
    network = _first_network(config, seed)
    return _agent_of(network, _flat(network), task, {"config": config.to_dict(), "seed": seed})


def _first_network(config: OrderConfig, seed: int) -> Pointer:
    torch.manual_seed(seed)
    return Pointer(len(STATIC), len(MOVING), (config.width, config.rounds, config.heads))


def _flat(network: Pointer) -> NDArray[np.float32]:
    parts = [value.detach().reshape(-1) for _, value in network.parts()]
    return torch.cat(parts).numpy().astype(np.float32, copy=True)  # type: ignore[no-any-return]


def _agent_of(network: Pointer, flat: NDArray[np.float32], task: Order, facts: dict[str, Any]) -> Agent:
    layout = tuple((name, tuple(value.shape)) for name, value in network.parts())
    return Agent("pointer", network.sizes, flat, task.feature_names, task.to_dict(), facts, layout=layout)


def _split(queues: Queues, made: Labelling) -> dict[str, Any]:
    """Return the positions of each part, as agents keep them."""
    return {name: [list(span)] for name, span in parts_of(queues, made).items()} | {"overlap": False}
