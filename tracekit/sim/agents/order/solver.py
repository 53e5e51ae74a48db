"""An agent of task order as a source of orders."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.networks import load_flat
from tracekit.sim.agents.order.decode import decode
from tracekit.sim.agents.order.network import Pointer
from tracekit.sim.orders.evaluate import Case
from tracekit.sim.orders.features import MOVING, STATIC

Ints = NDArray[np.int64]


def network_of(agent: Agent) -> Pointer:
    """Return the network of an agent; refuse one of another task."""
    if agent.task["name"] != "order":
        raise UsageError(
            f"{agent.name} was trained for task {agent.task['name']}; train one with 'tracekit train … --task order'"
        )
    network = Pointer(len(STATIC), len(MOVING), agent.sizes)
    load_flat(network, agent.flat)
    network.eval()
    return network


@lru_cache(maxsize=4)
def _loaded(folder: str) -> Pointer:
    return network_of(Agent.load(folder))


def decoded(folder: str, case: Case, kind: str, count: int, seed: int) -> Ints:
    """Return the orders that an agent gives a queue, (orders, jobs)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bits on any machine
    try:
        orders: Ints = decode(_loaded(folder), [case], kind, count, seed)[0]
        return orders
    finally:
        torch.set_num_threads(threads)
