"""Orders from a pointer network: the best choice each time, samples, or a beam. Same seed, same orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracekit.sim.agents.order.network import Pointer
from tracekit.sim.orders.cases import some_jobs
from tracekit.sim.orders.evaluate import Case
from tracekit.sim.orders.features import Lanes, kept, lanes_of, moving, place, static

Ints = NDArray[np.int64]


class Batch(NamedTuple):
    """Queues of the same number of jobs N, for the network."""

    cases: Sequence[Case]  # jobs arranged
    features: Tensor  # (queues, N, features)
    places: Ints  # (queues, N) position of each arranged job in the queue as given


def batch_of(cases: Sequence[Case]) -> Batch:
    """Return queues with their jobs arranged by their features, so that the order in which they are given is lost.

    The network is equivariant up to rounding; after this, shuffled queues give the same bits.
    """
    found = [static(case) for case in cases]
    places = [np.lexsort(rows.T[::-1]) for rows in found]
    arranged = [taken(case, order) for case, order in zip(cases, places, strict=True)]
    features = np.stack([rows[order] for rows, order in zip(found, places, strict=True)])
    return Batch(arranged, torch.from_numpy(features), np.stack(places))


def taken(case: Case, order: Ints) -> Case:
    """Return the case with its jobs in another order."""
    made: Case = some_jobs(case, order)
    return made


def seen(lanes: Lanes, queues: int) -> Tensor:
    """Return the moving features, (queues, lanes of each, N, features)."""
    rows = moving(lanes)
    return torch.from_numpy(rows).view(queues, -1, *rows.shape[1:])


@torch.no_grad()
def decode(network: Pointer, cases: Sequence[Case], kind: str = "greedy", count: int = 1, seed: int = 0) -> Ints:
    """Return orders of queues of the same number of jobs, (queues, count, N), as positions; greedy gives one.

    ``sample``: the first is greedy, the others are drawn. ``beam``: the most likely that a beam of that width finds.
    """
    batch = batch_of(cases)
    encoded = network.encode(batch.features)
    rng = np.random.default_rng(seed)
    queues, jobs = batch.places.shape
    lanes = lanes_of(batch.cases, count)
    orders = np.zeros((queues, count, jobs), np.int64)
    placed = torch.zeros(queues, count, jobs, dtype=torch.bool)
    score = torch.full((queues, count), -torch.inf)
    score[:, 0] = 0.0  # all lanes of a beam begin alike: one of them counts
    first = last = torch.full((queues, count), -1)
    for step in range(jobs):
        context = network.context(encoded, first, last)
        logs = network.log_probabilities(encoded, context, seen(lanes, queues), placed)
        if kind == "beam":
            score, which = (score.unsqueeze(-1) + logs).flatten(1).topk(count)
            which = torch.where(score.isinf(), which[:, :1], which)  # fewer orders than the beam is wide
            source, chosen = which // jobs, which % jobs
            lanes = kept(lanes, (source + torch.arange(queues).unsqueeze(1) * count).flatten().numpy())
            orders = np.take_along_axis(orders, source.unsqueeze(-1).numpy(), 1)
            placed = placed.gather(1, source.unsqueeze(-1).expand(-1, -1, jobs))
            first = first.gather(1, source)
        else:
            chosen = _drawn(logs, rng) if kind == "sample" else logs.argmax(-1)
        last = chosen
        first = chosen if step == 0 else first
        orders[:, :, step] = chosen.numpy()
        placed = placed.scatter(2, chosen.unsqueeze(-1), True)
        place(lanes, chosen.flatten().numpy())
    return np.take_along_axis(np.broadcast_to(batch.places[:, None], orders.shape), orders, 2)


def _drawn(logs: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a draw of every lane but the first of each queue, which takes the likeliest (Gumbel's trick)."""
    noise = rng.gumbel(size=tuple(logs.shape)).astype(np.float32)
    noise[:, 0] = 0.0
    return (logs + torch.from_numpy(noise)).argmax(-1)
