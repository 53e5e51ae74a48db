"""Beginning with what is known: a network learns to choose as a heuristic does, before it learns to choose better.

Behaviour cloning: the heuristic plays windows, the network learns its choices as labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tracekit.errors import UnknownName
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.networks import ActorCritic, log_softmax
from tracekit.sim.agents.ppo import gathered
from tracekit.sim.agents.rewards import EXTRAS
from tracekit.sim.agents.rollout import Played, play
from tracekit.sim.policies.formulas import CODES, MULTIFACTOR
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.windows import Window

#: Heuristics that can be imitated: formulas of one job. What ``imitate:best`` chooses from, window by window.
TEACHERS = tuple(name for name, code in CODES.items() if code != MULTIFACTOR)
GOOD_TEACHERS = ("fcfs", "sjf", "smallest", "saf", "srf", "wfp3", "unicep", "f1", "f2", "f3", "f4")


def teachers(batch: Batch, windows: Sequence[Window], name: str) -> NDArray[np.int64]:
    """Return the formula that teaches on each window, (windows,): the named one, or the best of all there."""
    if name == "best":
        costs = batch.source.policy_costs(windows, GOOD_TEACHERS)
        return np.array([CODES[GOOD_TEACHERS[best]] for best in costs.argmin(1)], dtype=np.int64)
    if name not in TEACHERS:
        raise UnknownName("heuristic to imitate", name, [*TEACHERS, "best"])
    return np.full(len(windows), CODES[name], dtype=np.int64)


def lessons(batch: Batch, windows: Sequence[Window], name: str) -> Played:
    """Let a heuristic play windows."""
    return play(batch, windows, None, teacher=teachers(batch, windows, name))


def clone(
    model: ActorCritic,
    lessons: Played,
    config: Config,
    seed: int,
) -> dict[str, float]:
    """Teach the actor the choices of a heuristic; returns the loss (nats) and how often it agrees, at the end."""
    optimiser = torch.optim.Adam(model.actor.parameters(), lr=3e-3)
    extra = np.zeros((len(lessons), EXTRAS), np.float32)
    size = min(config.minibatch, 256)  # small steps: a few windows must suffice
    total = config.teacher_epochs * -(-len(lessons) // size)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=max(total, 2))
    loss_sum = agreed = 0.0
    for epoch in range(config.teacher_epochs):
        order = np.random.default_rng([seed, epoch, 3]).permutation(len(lessons))
        loss_sum = agreed = 0.0
        for begin in range(0, len(order), size):
            which = np.sort(order[begin : begin + size])
            decisions, picked = gathered(lessons, extra, which)
            every = log_softmax(model.actor(decisions), decisions)
            loss = -every[picked].mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rates.step()
            with torch.no_grad():
                best = torch.full((len(which),), -torch.inf).scatter_reduce(0, decisions.segment, every, "amax")
                agreed += float((every[picked] == best).sum())
                loss_sum += float(loss) * len(which)
    with torch.no_grad():
        for values in model.actor.linears()[-1].parameters():
            values /= config.soften
    return {"loss": loss_sum / max(len(lessons), 1), "agreement": agreed / max(len(lessons), 1)}
