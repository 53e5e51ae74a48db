"""Agents that learn to schedule: train one, keep it in a folder, evaluate it, simulate with it.

    agent = train(trace, PickJob(), Config(steps=200_000), out="agent", seed=1, init="imitate:best")
    evaluate(agent, trace, windows).to_dict()
    tracekit.simulate(trace, "agent:agent")

Loading and using an agent needs neither torch nor gymnasium; training needs the extra ``rl``.
"""

from __future__ import annotations

from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.evaluate import HEURISTICS, Evaluation, evaluate, heuristics
from tracekit.sim.agents.splits import Split, split
from tracekit.sim.agents.starts import NothingToLearn
from tracekit.sim.agents.training import Status, train

__all__ = [
    "HEURISTICS",
    "Agent",
    "Config",
    "Evaluation",
    "NothingToLearn",
    "Split",
    "Status",
    "evaluate",
    "heuristics",
    "split",
    "train",
]
