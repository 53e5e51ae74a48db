"""A pointer network: a graph encoder of the waiting jobs, and a decoder that chooses them one by one.

The encoder is the gated graph network of Joshi, Laurent & Bresson (2019) on nearest neighbours, as ILOS uses it; the
decoder is that of Kool, van Hoof & Welling (ICLR 2019). Three things differ. Layers are normalised over the channels
of a job and not over a batch, so that an order does not depend on what else is in the batch. The decoder also sees what
the jobs placed so far leave of the machine. And the pointer is a small network of job, context and machine
(Bahdanau et al. 2015), because whether a job fits changes its rank altogether.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

#: Neighbours of a job, as a share of the queue.
NEIGHBOURS = 0.2
#: Scores lie between −CLIP and CLIP.
CLIP = 10.0


class Encoded(NamedTuple):
    """What the decoder needs of some queues of N jobs."""

    jobs: Tensor  # (queues, N, width)
    mean: Tensor  # (queues, width)
    keys: Tensor  # (queues, N, heads, width / heads)
    values: Tensor  # (queues, N, heads, width / heads)
    pointed: Tensor  # (queues, 1, N, width / 2)


class GatedLayer(nn.Module):
    """One round of messages: h_i + ReLU(LN(U h_i + max_j σ(e_ij) ⊙ V h_j)), e_ij = A h_j + B h_i + C e_ij."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.sent, self.far, self.near, self.edge = (nn.Linear(width, width) for _ in range(5))
        self.norm, self.edge_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, jobs: Tensor, edges: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
        """Return jobs (queues, N, width) and edges (queues, N, k, width); ``neighbours`` (queues, N, k)."""
        gates = gathered(self.far(jobs), neighbours) + self.near(jobs).unsqueeze(2) + self.edge(edges)
        message = (gates.sigmoid() * gathered(self.sent(jobs), neighbours)).amax(2)
        jobs = jobs + self.norm(self.own(jobs) + message).relu()
        return jobs, edges + self.edge_norm(gates).relu()


class Pointer(nn.Module):
    """The network. ``sizes``: width, rounds of messages, heads."""

    def __init__(self, features: int, moving: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = (width, rounds, heads) = sizes
        self.heads = heads
        self.enter, self.enter_edge = nn.Linear(features, width), nn.Linear(features, width)
        self.rounds = nn.ModuleList(GatedLayer(width) for _ in range(rounds))
        self.nothing = nn.Parameter(torch.zeros(2, width))  # in place of the first and the last job, before the first
        self.query = nn.Linear(3 * width, width)
        self.keys, self.values, self.mix = (nn.Linear(width, width) for _ in range(3))
        self.machine = nn.Linear(moving, heads)
        half = max(width // 2, 1)  # the pointer is applied to every job at every step: most of the work
        self.point_context, self.point_job = nn.Linear(width, half), nn.Linear(width, half)
        self.point_machine = nn.Linear(moving, half)
        self.point = nn.Sequential(nn.ReLU(), nn.Linear(half, half), nn.ReLU(), nn.Linear(half, 1))

    def parts(self) -> list[tuple[str, Tensor]]:
        """Return every part of the flat weights by name, in order."""
        return list(self.named_parameters())

    def encode(self, features: Tensor) -> Encoded:
        """Encode queues, (queues, N, features)."""
        count = features.shape[1]
        near = nearest(features, min(max(math.ceil(NEIGHBOURS * count), 1), max(count - 1, 1)))
        jobs = self.enter(features)
        edges = self.enter_edge(gathered(features, near) - features.unsqueeze(2))
        for layer in self.rounds:
            jobs, edges = layer(jobs, edges, near)
        split = (*jobs.shape[:2], self.heads, -1)
        return Encoded(
            jobs,
            jobs.mean(1),
            self.keys(jobs).view(split),
            self.values(jobs).view(split),
            self.point_job(jobs).unsqueeze(1),
        )

    def context(self, encoded: Encoded, first: Tensor, last: Tensor) -> Tensor:
        """Return what choices depend on, (queues, T, 3 width); first and last job placed, (queues, T), −1 = none."""
        mean = encoded.mean.unsqueeze(1).expand(-1, first.shape[1], -1)
        return torch.cat([mean, self._chosen(encoded, first, 0), self._chosen(encoded, last, 1)], -1)

    def _chosen(self, encoded: Encoded, job: Tensor, which: int) -> Tensor:
        rows = job.clamp(min=0).unsqueeze(-1).expand(-1, -1, encoded.jobs.shape[-1])
        return torch.where((job < 0).unsqueeze(-1), self.nothing[which], encoded.jobs.gather(1, rows))

    def log_probabilities(self, encoded: Encoded, context: Tensor, moving: Tensor, placed: Tensor) -> Tensor:
        """Return log-probabilities of the next job, (queues, T, N), for T choices in each queue at once.

        ``moving`` (queues, T, N, moving features), ``placed`` (queues, T, N): what cannot be chosen any more.
        """
        query = self.query(context).view(*context.shape[:2], self.heads, -1)
        scale = 1 / math.sqrt(query.shape[-1])
        attention = torch.einsum("qthd,qnhd->qtnh", query, encoded.keys) * scale + self.machine(moving)
        attention = attention.masked_fill(placed.unsqueeze(-1), -torch.inf).softmax(2)
        glimpse = self.mix(torch.einsum("qtnh,qnhd->qthd", attention, encoded.values).flatten(2))
        hidden = self.point_context(glimpse).unsqueeze(2) + encoded.pointed + self.point_machine(moving)
        scores = CLIP * torch.tanh(self.point(hidden).squeeze(-1))
        return scores.masked_fill(placed, -torch.inf).log_softmax(-1)


def gathered(rows: Tensor, neighbours: Tensor) -> Tensor:
    """Return the rows of each job's neighbours, (queues, N, k, width)."""
    queues, count, near = neighbours.shape
    index = neighbours.reshape(queues, count * near, 1).expand(-1, -1, rows.shape[-1])
    return rows.gather(1, index).view(queues, count, near, -1)


def nearest(features: Tensor, near: int) -> Tensor:
    """Return the jobs most like each job, itself left out, (queues, N, k); of one job alone: itself."""
    distance = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    if features.shape[1] > 1:
        distance = distance + torch.diag(torch.full((features.shape[1],), torch.inf))
    return distance.topk(near, dim=-1, largest=False).indices
