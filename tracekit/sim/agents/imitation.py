"""Imitation: a network first learns to choose as a heuristic does, before it learns to choose better.

Behaviour cloning: the heuristic plays windows, the network learns its choices as labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tracekit.sim.agents.config import Config
from tracekit.sim.agents.networks import ActorCritic
from tracekit.sim.agents.ppo import gathered
from tracekit.sim.agents.rollout import play
from tracekit.sim.tasks.base import Batch
from tracekit.sim.tasks.played import Played
from tracekit.sim.windows import Window


def lessons(batch: Batch, windows: Sequence[Window], name: str) -> Played:
    """Play windows with a heuristic."""
    return play(batch, windows, None, teacher=batch.task.teacher(batch, windows, name))


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
