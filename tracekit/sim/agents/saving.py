"""What a training writes: the agent, and event files for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, UsageError
from tracekit.sim.agents.agent import Agent
from tracekit.sim.tasks.base import Task

if TYPE_CHECKING:
    from tracekit.sim.agents.ppo import PPO


def agent_of(ppo: PPO, task: Task, facts: dict[str, Any], flat: NDArray[np.float32] | None = None) -> Agent:
    """Return the current agent of a training; ``flat`` = other weights of the same network."""
    model = ppo.model
    compiled = model.actor.net(model.flat()) is not None
    return Agent(
        ppo.config.network,
        tuple(model.actor.sizes),
        model.flat() if flat is None else flat,
        task.feature_names,
        task.to_dict(),
        facts,
        layout=() if compiled else model.layout(),
    )


def matching(agent: Agent, ours: Agent) -> NDArray[np.float32]:
    """Return the weights of an agent to start from, if its network and what it sees are the same."""
    alike = (agent.network, agent.sizes, agent.layout) == (ours.network, ours.sizes, ours.layout)
    if not alike or agent.features != ours.features:
        raise UsageError(
            f"{agent.name} has the network {agent.network} {list(agent.sizes)} on {', '.join(agent.features)}; "
            "train with the same --network, widths and observer to start from it"
        )
    return agent.flat


def event_writer(out: Path) -> Any:
    """Return what writes event files."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError:
        raise MissingExtra("tensorboard", "rl") from None
    return SummaryWriter(str(out / "tensorboard"))
