"""The networks as torch modules, for training. Every decision has only the rows that are present.

The rows (jobs, for pick-job) of many decisions lie below each other in one matrix (rows, features); ``segment`` says
which decision a row belongs to. So a decision among three jobs costs three rows, not 128. A network returns one number
for each row and names the distribution that these are the parameters of: a choice among the rows, or priorities of
them. `tracekit.sim.agents.inference` computes the scores of those of this package from the same weights without torch;
a network that it does not know plays by torch, step by step.

A network of your own inherits `Network` and is registered by the entry point group ``tracekit.networks``, or by
``NETWORKS.add(name, "module:Class")``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tracekit.errors import UsageError
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.config import NETWORKS, Config
from tracekit.sim.agents.distributions import Choice, Priorities
from tracekit.sim.agents.inference import KINDS, Net, shapes_of
from tracekit.sim.tasks.base import Task
from tracekit.sim.tasks.jobgraph import LINKS, NO_LINK

NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Decisions:
    """Some decisions and their jobs, packed."""

    rows: Tensor  # (rows, features)
    segment: Tensor  # (rows,) which decision
    slot: Tensor  # (rows,) which slot; skipping is the slot behind the last
    count: Tensor  # (decisions,) rows of each
    context: Tensor  # (decisions, critic_inputs) what only the critic sees

    def __len__(self) -> int:
        return len(self.count)


def layers(*sizes: int, last: bool = False) -> nn.Sequential:
    """Return linear layers with ReLU between them, and after the last one if requested."""
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


class Chosen:
    """Choices among rows, with probability softmax(scores) within each decision."""

    def __init__(self, scores: Tensor, decisions: Decisions, network: Network) -> None:
        self.every, self._decisions = log_softmax(scores, decisions), decisions

    def log_probability(self, taken: Tensor) -> Tensor:
        """Return the log-probability of what was taken, the numbers of the chosen rows, (decisions,)."""
        return self.every[taken]

    def entropy(self) -> Tensor:
        """Return the entropy of each decision, (decisions,), in nats."""
        return entropy(self.every, self._decisions)

    def agreement(self, taken: Tensor) -> Tensor:
        """Return how many decisions would greedily take the same action."""
        best = torch.full((len(self._decisions),), -torch.inf)
        best = best.scatter_reduce(0, self._decisions.segment, self.every, "amax")
        return (self.every[taken] == best).sum()


class Prioritised:
    """Priorities of rows, each normally distributed around the network's number with one learnt deviation."""

    def __init__(self, mean: Tensor, decisions: Decisions, network: Network) -> None:
        self._normal = torch.distributions.Normal(mean, network.log_deviation.exp() + network.exploration)
        self._decisions = decisions

    def _sum(self, values: Tensor) -> Tensor:
        return torch.zeros(len(self._decisions)).index_add(0, self._decisions.segment, values)

    def log_probability(self, taken: Tensor) -> Tensor:
        """Return the log-density of what was taken, the priorities of all rows, (decisions,)."""
        return self._sum(self._normal.log_prob(taken))

    def entropy(self) -> Tensor:
        """Return the entropy of each decision, (decisions,), in nats."""
        return self._sum(self._normal.entropy())

    def agreement(self, taken: Tensor) -> Tensor:
        """Return how many decisions lie, in every row, within half a deviation of what was taken."""
        near = ((taken - self._normal.mean).abs() < 0.5 * self._normal.stddev).float()
        return (self._sum(near) == self._decisions.count).sum()


DISTRIBUTIONS = {"choice": Chosen, "priorities": Prioritised}


class Network(nn.Module):
    """What an actor is: rows in, one number for each out. ``__init__(features, slots, hidden)``."""

    sizes: tuple[int, ...]  # what `tracekit.sim.agents.agent` writes down; hidden widths by default
    sees_links: ClassVar[bool] = False  # whether the last features are `tracekit.sim.tasks.jobgraph.LINKS`

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes, self.actions_are = hidden, "choice"
        self.exploration = 0.0  # added to the deviation of priorities while training

    def decide(self, actions_are: str) -> None:
        """Set what the outputs parametrise: a choice, or priorities with a learnt deviation."""
        self.actions_are = actions_are
        if actions_are == "priorities":
            self.log_deviation = nn.Parameter(torch.full((), -0.5))

    def distribution(self, decisions: Decisions) -> Any:
        """Return the distributions of actions of many decisions."""
        return DISTRIBUTIONS[self.actions_are](self(decisions), decisions, self)

    def distribution_of(self, rows: NDArray[np.float32], skip: bool) -> Choice | Priorities:
        """Return the distribution of one decision, in numpy, for playing."""
        if skip:
            rows = np.concatenate([rows, np.ones((1, rows.shape[1]), np.float32)])
        one = torch.zeros(len(rows), dtype=torch.long)
        packed = Decisions(
            torch.from_numpy(np.ascontiguousarray(rows)),
            one,
            torch.arange(len(rows)),
            torch.tensor([len(rows)]),
            torch.zeros(1, 0),
        )
        with torch.no_grad():
            numbers = self(packed).numpy()
            if self.actions_are == "priorities":
                return Priorities(numbers, float(self.log_deviation.exp()) + self.exploration)
        return Choice(numbers)

    def start_evenly(self) -> None:
        """Start with nearly equal scores, so that all choices are explored; a network may override this."""

    def soften(self, divisor: float) -> None:
        """Divide the scores: the same choice stays best but others are explored; a network may override this."""

    def parts(self) -> list[tuple[str, Tensor]]:
        """Return the named weights in the order in which an agent keeps them."""
        return list(self.named_parameters())

    def net(self, flat: NDArray[np.float32]) -> Net | None:
        """Return the arrays of a compiled forward pass with these weights, or None where there is no such pass."""
        return None


class Critic(nn.Module):
    """The critic, which estimates the value of a state: a small network per row, mean and sum, another network."""

    def __init__(self, features: int, width: int, inputs: int) -> None:
        super().__init__()
        self.each = layers(features, width, width, last=True)
        self.all = layers(2 * width + inputs, width, width // 2, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the values, (decisions,)."""
        each = self.each(decisions.rows)
        total = torch.zeros(len(decisions), each.shape[1]).index_add(0, decisions.segment, each)
        mean = total / decisions.count[:, None]
        return self.all(torch.cat([mean, total / 32, decisions.context], 1)).squeeze(1)


class LayeredNetwork(Network):
    """A network of linear layers that `tracekit.sim.agents.inference` knows by its ``kind``."""

    kind: int
    features: int

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        raise NotImplementedError

    def start_evenly(self) -> None:
        """Start with nearly equal scores, so that all choices are explored."""
        with torch.no_grad():
            last = self.linears()[-1]
            last.weight *= 0.1
            last.bias.zero_()

    def soften(self, divisor: float) -> None:
        """Divide the scores."""
        for values in self.linears()[-1].parameters():
            values /= divisor

    def parts(self) -> list[tuple[str, Tensor]]:
        """Return weights (in, out) and biases (out), layer by layer, and the deviation of priorities."""
        names = [name for name, _, _ in shapes_of(NAMES[self.kind], self.sizes)]
        found = []
        for name, linear in zip(names, self.linears(), strict=True):
            found += [(f"{name}.weight", linear.weight.t()), (f"{name}.bias", linear.bias)]
        if self.actions_are == "priorities":
            found.append(("log_deviation", self.log_deviation))
        return found

    def net(self, flat: NDArray[np.float32]) -> Net | None:
        """Return the arrays of the compiled forward pass, which supports choices only."""
        if self.actions_are != "choice":
            return None
        return Net(self.kind, np.array(self.sizes, np.int64), flat, self.features)


class Kernel(LayeredNetwork):
    """One small network that scores every job by itself (RLScheduler's kernel, SC 2020)."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__(features, slots, hidden)
        self.kind, self.features, self.sizes = KINDS["kernel"], features, (features, *hidden, 1)
        self.body = layers(*self.sizes)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,)."""
        return self.body(decisions.rows).squeeze(1)

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        return [module for module in self.body if isinstance(module, nn.Linear)]


class Attention(LayeredNetwork):
    """One self-attention layer over the jobs before scoring; one head, as wide as the first layer."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__(features, slots, hidden)
        self.kind, self.features, self.sizes = KINDS["attention"], features, (features, *hidden, 1)
        width = hidden[0]
        self.embed = layers(features, width, last=True)
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.body = layers(*hidden, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,). Only the attention matrix is padded to the longest queue."""
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


class Hosts(LayeredNetwork):
    """For rows that are hosts, of any number: a host encoder, a job encoder, and one look of the job at all hosts.

    The job is encoded from the mean of the rows: its own features are the same in all of them. What it finds by
    attention over the hosts is added to every host's vector, and a small network scores each.
    """

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__(features, slots, hidden)
        self.kind, self.features, self.sizes = KINDS["hosts"], features, (features, *hidden, 1)
        width = hidden[0]
        self.embed, self.job = layers(features, width, last=True), layers(features, width, last=True)
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.body = layers(*hidden, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,)."""
        rows, segment, size = decisions.rows, decisions.segment, len(decisions)
        h = self.embed(rows)
        mean = torch.zeros(size, rows.shape[1]).index_add(0, segment, rows) / decisions.count[:, None]
        job = self.job(mean)
        looks = (self.query(job)[segment] * self.key(h)).sum(1) / h.shape[1] ** 0.5
        weight = log_softmax(looks, decisions).exp()
        mixed = torch.zeros(size, h.shape[1]).index_add(0, segment, weight[:, None] * h)
        return self.body(h + (self.value(mixed) + job)[segment]).squeeze(1)

    def linears(self) -> list[Any]:
        """Return the layers in the order of the flat weights."""
        return [
            self.embed[0],
            self.job[0],
            self.query,
            self.key,
            self.value,
            *(module for module in self.body if isinstance(module, nn.Linear)),
        ]


class Mlp(LayeredNetwork):
    """All slots at once, empty ones as zeros: the plain network that the others are compared with."""

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__(features, slots, hidden)
        self.kind, self.features, self.slots = KINDS["mlp"], features, slots
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


class ActorCritic(nn.Module):
    """The two networks that PPO trains; only the actor is saved in an agent."""

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__()
        features = len(task.feature_names)
        kind = NETWORKS.get(config.network)
        check_links(config.network, kind, task.feature_names)
        self.actor: Network = kind(features, task.slots + 1, config.hidden)
        self.critic = Critic(features, max(config.hidden, default=32), task.critic_inputs)
        self.actor.start_evenly()
        self.actor.decide(task.actions_are)

    def play_by(self, flat: NDArray[np.float32] | None = None) -> Actor:
        """Return the decision maker with the actor's weights, or with others of the same shape."""
        net = self.actor.net(self.flat() if flat is None else flat)
        if net is None and flat is not None:
            module = copy.deepcopy(self.actor)
            load_flat(module, flat)
            return Actor(None, module)
        return Actor(net, None if net is not None else self.actor)

    def flat(self) -> NDArray[np.float32]:
        """Return the actor's weights as one array, part by part."""
        parts = [value.detach().reshape(-1) for _, value in self.actor.parts()]
        return torch.cat(parts).numpy().astype(np.float32, copy=True)  # type: ignore[no-any-return]

    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return name and shape of every part of the flat weights."""
        return tuple((name, tuple(value.shape)) for name, value in self.actor.parts())


def check_links(name: str, network: Any, features: Sequence[str]) -> None:
    """Refuse a network without the links that it needs, and one that would take links for features."""
    linked = len(features) > len(LINKS) and all(name in (*LINKS, NO_LINK) for name in features[-len(LINKS) :])
    wants = getattr(network, "sees_links", False)
    if wants and not linked:
        raise UsageError(f"network {name} needs the graph of jobs: use --observer graph (pick-policy: --edges all)")
    if linked and not wants:
        raise UsageError(f"network {name} does not see the graph of jobs: use --network gat, or another --observer")


def load_flat(network: Any, flat: NDArray[np.float32]) -> None:
    """Give a network the weights of a flat array."""
    at = 0
    with torch.no_grad():
        for _, part in network.parts():
            part.copy_(torch.from_numpy(flat[at : at + part.numel()].copy()).view(part.shape))
            at += part.numel()
