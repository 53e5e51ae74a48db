"""Imitation: a network first learns to choose as a heuristic does, before it learns to choose better.

Behaviour cloning: the heuristic plays windows, the network learns its choices as labels. A formula plays in compiled
code. A policy written in Python, such as a search, takes its time, so each window that it has played is kept in the
agent's folder until the network has learnt from it: an interrupted training does not play it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tracekit.files import writing
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.checkpoint import LESSONS, keep_identity
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.networks import ActorCritic
from tracekit.sim.agents.ppo import gathered
from tracekit.sim.agents.rollout import play
from tracekit.sim.tasks.base import Batch
from tracekit.sim.tasks.played import Played, joined
from tracekit.sim.windows import Window

Say = Callable[[str], None]

#: How often the progress of a slow teacher is told.
_TOLD = 8


@dataclass(frozen=True)
class Shelf:
    """Where the windows of a slow teacher are kept, what they depend on, and who is told how far it is."""

    folder: Path  # of the agent
    identity: dict[str, Any]
    say: Say


def lessons(batch: Batch, windows: Sequence[Window], name: str, shelf: Shelf | None = None) -> Played:
    """Play windows with a heuristic, or with a policy written in Python; what is on the shelf is not played again."""
    teacher = batch.task.teacher(batch, windows, name)
    if not callable(teacher[0]):
        return play(batch, windows, None, teacher=teacher)
    if shelf is None:
        return play(batch, windows, Actor(None), teacher=teacher)
    shelf.say(f"{name} plays the windows one after the other")
    keep_identity(shelf.folder, shelf.identity)
    found: list[Played] = []
    for number, window in enumerate(windows):
        path = shelf.folder / LESSONS / f"{number:04d}.npz"
        if not path.is_file():
            _write(path, play(batch, [window], Actor(None), teacher=[teacher[number]]))
            if (number + 1) * _TOLD // len(windows) > number * _TOLD // len(windows):
                shelf.say(f"{name} has played {number + 1} of {len(windows)} windows")
        found.append(_read(path, batch.task.slots))
    return joined(found)


def visited_lessons(batch: Batch, windows: Sequence[Window], name: str, model: ActorCritic) -> Played:
    """Let the network play windows, and a policy written in Python label what it comes to.

    Ross, Gordon & Bagnell, "A reduction of imitation learning and structured prediction to no-regret online learning",
    AISTATS 2011 (DAgger): a network that is not as good as its teacher comes to states that the teacher never shows.
    """
    teacher = batch.task.teacher(batch, windows, name)
    return play(batch, windows, model.play_by(), teacher=teacher, teacher_labels=True)


_ARRAYS = ("rows", "first", "count", "chosen", "window", "time", "last", "score", "left", "skips", "action", "earned")


def _write(path: Path, played: Played) -> None:
    """Write what is learnt from."""
    with writing(path, force=True) as out:
        np.savez(out, **{name: getattr(played, name) for name in _ARRAYS})


def _read(path: Path, slots: int) -> Played:
    """Read what `_write` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return Played(**{name: arrays[name] for name in _ARRAYS}, slots=slots)


def clone(
    model: ActorCritic,
    lessons: Played,
    config: Config,
    seed: int,
) -> dict[str, float]:
    """Teach the actor the choices of a heuristic; returns the final loss (nats) and rate of agreement."""
    optimiser = torch.optim.Adam(model.actor.parameters(), lr=3e-3)
    context = np.zeros((len(lessons), 0), np.float32)  # the critic takes no part
    size = min(config.minibatch, 256)  # small steps: a few windows must suffice
    total = config.teacher_epochs * -(-len(lessons) // size)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=max(total, 2))
    loss_sum = agreed = 0.0
    for epoch in range(config.teacher_epochs):
        order = np.random.default_rng([seed, epoch, 3]).permutation(len(lessons))
        loss_sum = agreed = 0.0
        for begin in range(0, len(order), size):
            which = np.sort(order[begin : begin + size])
            decisions, picked = gathered(lessons, context, which)
            found = model.actor.distribution(decisions)
            loss = -found.log_probability(picked).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rates.step()
            with torch.no_grad():
                agreed += float(found.agreement(picked))
                loss_sum += float(loss) * len(which)
    with torch.no_grad():
        model.actor.soften(config.soften)
    return {"loss": loss_sum / max(len(lessons), 1), "agreement": agreed / max(len(lessons), 1)}
