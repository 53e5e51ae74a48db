"""The networks as torch modules, for training. Every decision brings only the jobs that are there.

The jobs of many decisions lie below each other in one matrix (rows, features); ``segment`` says which decision a row
belongs to. So a decision among three jobs costs three rows, not 128. `tracekit.sim.agents.inference` computes the same
scores from the same weights without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tracekit.sim.agents.config import Config
from tracekit.sim.agents.inference import KINDS, Net
from tracekit.sim.agents.rewards import EXTRAS


@dataclass(frozen=True)
class Decisions:
    """Some decisions and their jobs, packed."""

    rows: Tensor  # (rows, features)
    segment: Tensor  # (rows,) which decision
    slot: Tensor  # (rows,) which slot; skipping is the slot behind the last
    count: Tensor  # (decisions,) rows of each
    extra: Tensor  # (decisions, EXTRAS)

    def __len__(self) -> int:
        return len(self.count)


def layers(*sizes: int, last: bool = False) -> nn.Sequential:
    """Return linear layers with ReLU between them, and behind the last one too if asked."""
    made: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        made += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*(made if last else made[:-1]))


def log_softmax(scores: Tensor, decisions: Decisions) -> Tensor:
    """Return the log-probability of every row within its decision, (rows,)."""
    size, segment = len(decisions), decisions.segment
    top = torch.full((size,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    shifted = scores - top[segment]
    total = torch.zeros(size).index_add(0, segment, shifted.exp())
    return shifted - total.log()[segment]


def entropy(log_probability: Tensor, decisions: Decisions) -> Tensor:
    """Return the entropy of each decision, (decisions,), in nats."""
    inside = -(log_probability.exp() * log_probability)
    return torch.zeros(len(decisions)).index_add(0, decisions.segment, inside)


class Critic(nn.Module):
    """Guesses what a state is worth: a small network on every job, their mean and sum, then another one."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.each = layers(features, width, width, last=True)
        self.all = layers(2 * width + EXTRAS, width, width // 2, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the values, (decisions,)."""
        each = self.each(decisions.rows)
        total = torch.zeros(len(decisions), each.shape[1]).index_add(0, decisions.segment, each)
        mean = total / decisions.count[:, None]
        return self.all(torch.cat([mean, total / 32, decisions.extra], 1)).squeeze(1)


class Kernel(nn.Module):
    """One small network that scores every job by itself (RLScheduler's kernel, SC 2020)."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = (features, *hidden, 1)
        self.body = layers(*self.sizes)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,)."""
        return self.body(decisions.rows).squeeze(1)

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        return [module for module in self.body if isinstance(module, nn.Linear)]


class Attention(nn.Module):
    """Jobs look at each other once before they are scored; one head, as wide as the first layer."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = (features, *hidden, 1)
        width = hidden[0]
        self.embed = layers(features, width, last=True)
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.body = layers(*hidden, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,). Only the table of who looks at whom is as wide as the longest queue in it."""
        h = self.embed(decisions.rows)
        size, longest, width = len(decisions), int(decisions.count.max()), h.shape[1]
        first = torch.cumsum(decisions.count, 0) - decisions.count
        place = torch.arange(len(h)) - first[decisions.segment]
        at = decisions.segment * longest + place

        def spread(x: Tensor) -> Tensor:
            return torch.zeros(size * longest, width).index_copy(0, at, x).view(size, longest, width)

        looks = spread(self.query(h)) @ spread(self.key(h)).transpose(1, 2) / width**0.5
        there = torch.arange(longest)[None, :] < decisions.count[:, None]
        looks = looks.masked_fill(~there[:, None, :], -torch.inf).softmax(2)
        learnt = (looks @ spread(self.value(h))).view(size * longest, width)[at]
        return self.body(h + learnt).squeeze(1)

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        return [
            self.embed[0],
            self.query,
            self.key,
            self.value,
            *(module for module in self.body if isinstance(module, nn.Linear)),
        ]


class Mlp(nn.Module):
    """All slots at once, empty ones as zeros: the plain network that the others are compared with."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.features, self.slots = features, slots
        self.sizes = (slots * features, *hidden, slots)
        self.body = layers(*self.sizes)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,). The matrix is as wide as the last slot in use."""
        used = int(decisions.slot.max()) + 1
        at = decisions.segment * used + decisions.slot
        flat = torch.zeros(len(decisions) * used, self.features).index_copy(0, at, decisions.rows)
        flat = flat.view(len(decisions), used * self.features)
        first: Any = self.body[0]
        hidden = nn.functional.linear(flat, first.weight[:, : used * self.features], first.bias)
        scores = self.body[1:](hidden)
        return scores[decisions.segment, decisions.slot]

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        return [module for module in self.body if isinstance(module, nn.Linear)]


ACTORS: dict[str, Any] = {"kernel": Kernel, "attention": Attention, "mlp": Mlp}


class ActorCritic(nn.Module):
    """The two networks that PPO trains; only the actor is saved in an agent."""

    def __init__(self, config: Config, features: int, slots: int) -> None:
        super().__init__()
        self.kind, self.features = config.network, features
        self.actor = ACTORS[config.network](features, slots, config.hidden)
        self.critic = Critic(features, max(config.hidden))
        with torch.no_grad():  # begin with nearly equal scores: everything is tried
            last = self.actor.linears()[-1]
            last.weight *= 0.1
            last.bias.zero_()

    def net(self) -> Net:
        """Return the actor as plain arrays."""
        return Net(KINDS[self.kind], np.array(self.actor.sizes, np.int64), self.flat(), self.features)

    def flat(self) -> NDArray[np.float32]:
        """Return the actor's weights, layer by layer: (in, out) then bias."""
        parts = []
        for linear in self.actor.linears():
            parts += [linear.weight.detach().t().reshape(-1), linear.bias.detach()]
        return torch.cat(parts).numpy().astype(np.float32, copy=True)  # type: ignore[no-any-return]

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Take the actor's weights from plain arrays."""
        at = 0
        with torch.no_grad():
            for linear in self.actor.linears():
                narrow, wide = linear.weight.shape
                values = torch.from_numpy(flat[at : at + wide * narrow].copy())
                linear.weight.copy_(values.view(wide, narrow).t())
                at += wide * narrow
                linear.bias.copy_(torch.from_numpy(flat[at : at + narrow].copy()))
                at += narrow
