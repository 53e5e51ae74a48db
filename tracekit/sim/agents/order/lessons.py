"""From labels to a loss: the queues as the network sees them along the orders that it is to learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracekit.sim.agents.order.decode import batch_of
from tracekit.sim.agents.order.network import Pointer
from tracekit.sim.orders.evaluate import Case
from tracekit.sim.orders.features import lanes_of, moving, place

Ints = NDArray[np.int64]


class Lesson(NamedTuple):
    """Queues of one length with their labels, for the network."""

    features: Tensor  # (queues, N, features)
    order: Tensor  # (queues, N) job that is to be placed at each step
    moving: Tensor  # (queues, N steps, N, moving features)
    placed: Tensor  # (queues, N steps, N)


def lesson_of(queues: Sequence[tuple[Case, Ints]]) -> Lesson:
    """Return some queues and their orders as the network sees them along these orders."""
    batch = batch_of([case for case, _ in queues])
    jobs = batch.places.shape[1]
    order = np.stack([np.argsort(at)[order] for at, (_, order) in zip(batch.places, queues, strict=True)])
    lanes, seen = lanes_of(batch.cases), []
    for step in range(jobs):
        seen.append(moving(lanes))
        place(lanes, np.ascontiguousarray(order[:, step]))
    rank = np.argsort(order, axis=1)
    placed = rank[:, None, :] < np.arange(jobs)[None, :, None]
    return Lesson(
        batch.features, torch.from_numpy(order), torch.from_numpy(np.stack(seen, 1)), torch.from_numpy(placed)
    )


def loss_of(network: Pointer, lesson: Lesson) -> Tensor:
    """Return the mean of −log p of every choice of the labels, given those before it (teacher forcing)."""
    order = lesson.order
    none = torch.full_like(order[:, :1], -1)
    first = torch.cat([none, order[:, :1].expand(-1, order.shape[1] - 1)], 1)
    last = torch.cat([none, order[:, :-1]], 1)
    encoded = network.encode(lesson.features)
    logs = network.log_probabilities(encoded, network.context(encoded, first, last), lesson.moving, lesson.placed)
    return -logs.gather(2, order.unsqueeze(-1)).mean()
