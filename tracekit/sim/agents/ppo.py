"""Proximal policy optimisation with masked choices: from played windows to a better policy.

Schulman, Wolski, Dhariwal, Radford & Klimov, "Proximal policy optimization algorithms", 2017; advantages: Schulman et
al., "High-dimensional continuous control using generalized advantage estimation", ICLR 2016; invalid actions are
masked: Huang & Ontañón, "A closer look at invalid action masking in policy gradient algorithms", FLAIRS 2022 (here it
is not even computed). `A2C`, advantage actor-critic, differs in its loss alone: Mnih et al., "Asynchronous methods for
deep reinforcement learning", ICML 2016, without the asynchrony. Every draw is keyed by (seed, iteration), so that a
resumed training gives the same results and no generator's state has to be stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracekit.errors import TracekitError
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.lr_schedules import adapted, scheduled
from tracekit.sim.agents.networks import ActorCritic, Decisions
from tracekit.sim.compile import jit
from tracekit.sim.tasks.base import Task
from tracekit.sim.tasks.played import Played

Floats = NDArray[np.float64]

#: Normalised advantages beyond this many deviations are clipped: one very bad window must not dominate the others.
_EXTREME = 4.0
#: A policy that moves by more nats than this in one iteration counts as diverged.
_JUMP = 20.0


class Diverged(TracekitError):
    """Raised when values are no longer finite, or the policy changed too much in one iteration."""


@jit
def generalised_advantages(
    reward: Floats, value: Floats, last: NDArray[np.bool_], gamma: float, lam: float, advantage: Floats
) -> None:
    """Write A(t) = Σ (γλ)^k δ(t+k) with δ(t) = r(t) + γ V(t+1) − V(t) within each window; all (decisions,).

    ``last`` marks the last decision of a window, after which there is no further reward.
    """
    following, carried = 0.0, 0.0
    for t in range(len(reward) - 1, -1, -1):
        if last[t]:
            following, carried = 0.0, 0.0
        carried = reward[t] + gamma * following - value[t] + gamma * lam * carried
        advantage[t] = carried
        following = value[t]


@dataclass
class ValueScale:
    """The running mean and deviation of returns: the unit in which the critic learns."""

    mean: float = 0.0
    square: float = 1.0
    seen: float = 0.0  # iterations

    def see(self, returns: Floats) -> None:
        """Update with the returns of an iteration: a plain mean at first, then an exponential one."""
        part = max(1 / (self.seen + 1), 0.05)
        self.mean += part * (float(returns.mean()) - self.mean)
        self.square += part * (float((returns**2).mean()) - self.square)
        self.seen += 1

    @property
    def deviation(self) -> float:
        """The standard deviation, never zero."""
        return math.sqrt(max(self.square - self.mean**2, 1e-8))


class PPO:
    """An actor, a critic, their optimiser, and the update that makes the actor better."""

    def __init__(self, config: Config, task: Task, seed: int) -> None:
        torch.manual_seed(seed)
        self.config, self.seed = config, seed
        self.model = ActorCritic(config, task)
        actor, critic = list(self.model.actor.parameters()), list(self.model.critic.parameters())
        self.optimiser = torch.optim.Adam([{"params": actor}, {"params": critic}], lr=config.learning_rate, eps=1e-5)
        self.scale = ValueScale()
        self.speed = 1.0  # factor of the KL-adaptive learning rate

    @property
    def epochs(self) -> int:
        """How often an update uses each decision."""
        return self.config.epochs

    def explore(self, progress: float) -> None:
        """Set the deviation that is added to priorities; ``progress`` is the share of the budget spent."""
        config = self.config
        self.model.actor.exploration = scheduled(
            config.exploration_schedule, config.exploration, config.final_exploration, progress
        )

    def update(
        self, played: Played, reward: Floats, context: NDArray[np.float32], iteration: int, progress: float
    ) -> dict[str, float]:
        """Learn from the windows of an iteration; ``progress`` is the share of the budget spent before it.

        ``reward`` (decisions,) and ``context`` (decisions, critic_inputs) are those of the task.
        """
        config, rng = self.config, np.random.default_rng([self.seed, iteration, 1])
        rate = self.speed * scheduled(
            config.schedule, config.learning_rate, config.final_learning_rate, progress, config.warmup
        )
        bonus = scheduled(config.entropy_schedule, config.entropy, config.final_entropy, progress)
        actor, critic = self.optimiser.param_groups
        actor["lr"] = rate if iteration > config.critic_first else 0.0
        critic["lr"] = rate * config.critic_speed

        advantage, returns, value, old = self._advantages(played, reward, context)
        if config.value_norm:
            self.scale.see(returns)
        chosen = rng.permutation(len(played))[: max(1, math.ceil(config.keep * len(played)))]
        parts = [
            self._part(played, context, np.sort(chosen[i : i + config.minibatch]), advantage, returns, old)
            for i in range(0, len(chosen), config.minibatch)
        ]
        sums: dict[str, float] = {}
        steps, stopped = 0, False
        for _ in range(self.epochs):
            moved = []
            for part in rng.permutation(len(parts)):
                told = self._step(parts[part], bonus)
                moved.append(told["kl"])
                steps += 1
                for name, number in told.items():
                    sums[name] = sums.get(name, 0.0) + number
            kl = float(np.mean(moved))
            if kl > _JUMP:
                raise Diverged(f"the policy changed too much in one iteration (KL {kl:.3g})")
            if config.target_kl and kl > 1.5 * config.target_kl:
                stopped = True
                break
        if config.kl_adaptive and config.target_kl:
            self.speed = adapted(self.speed, kl, config.target_kl)
        spread = float(np.var(returns))
        return {
            **{name: number / steps for name, number in sums.items()},
            "kl": kl,
            "gradient_steps": steps,
            "kl_stop": float(stopped),
            "learning_rate": rate,
            "entropy_weight": bonus,
            "explained_variance": 1 - float(np.var(returns - value)) / spread if spread > 0 else 0.0,
        }

    # ---- parts of an update ------------------------------------------------------------------------------------------

    def _advantages(
        self, played: Played, reward: Floats, context: NDArray[np.float32]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return advantages, returns, values and log-probabilities of what was chosen, by the policy that chose it."""
        config = self.config
        value, old = np.empty(len(played)), np.empty(len(played))
        with torch.no_grad():
            for begin in range(0, len(played), 8192):
                part = np.arange(begin, min(begin + 8192, len(played)))
                decisions, picked = gathered(played, context, part)
                old[part] = self.model.actor.distribution(decisions).log_probability(picked).numpy()
                value[part] = self.model.critic(decisions).numpy()
        if config.value_norm:
            value = value * self.scale.deviation + self.scale.mean
        advantage = np.empty(len(played))
        generalised_advantages(reward, value, played.last, config.gamma, config.critic_lam, advantage)
        returns = advantage + value
        generalised_advantages(reward, value, played.last, config.gamma, config.lam, advantage)
        if not (np.isfinite(returns).all() and np.isfinite(old).all()):
            raise Diverged("the critic's values or the policy's probabilities are not finite")
        return advantage, returns, value, old

    def _part(
        self,
        played: Played,
        context: NDArray[np.float32],
        which: NDArray[np.int64],
        advantage: Floats,
        returns: Floats,
        old: Floats,
    ) -> tuple[Decisions, Tensor, Tensor, Tensor, Tensor]:
        """Return a minibatch: decisions, the rows that were chosen, advantages, returns and old log-probabilities."""
        decisions, picked = gathered(played, context, which)
        target = returns[which]
        if self.config.value_norm:
            target = (target - self.scale.mean) / self.scale.deviation
        gain = advantage[which]
        if self.config.advantage_norm:
            gain = ((gain - advantage.mean()) / (advantage.std() + 1e-8)).clip(-_EXTREME, _EXTREME)
        singles = [torch.from_numpy(x.astype(np.float32)) for x in (gain, target, old[which])]
        return decisions, picked, singles[0], singles[1], singles[2]

    def _step(self, part: tuple[Decisions, Tensor, Tensor, Tensor, Tensor], bonus: float) -> dict[str, float]:
        """Take one gradient step on a minibatch."""
        decisions, picked, advantage, target, old = part
        config = self.config
        found = self.model.actor.distribution(decisions)
        change = found.log_probability(picked) - old
        ratio = change.exp()
        policy_loss = self._policy_loss(change, advantage)
        spread = found.entropy().mean()
        value_loss = self._value_loss(decisions, target)
        loss = (
            policy_loss - bonus * spread + value_loss
        )  # the two networks share no weights, so the losses need no relative weight
        self.optimiser.zero_grad()
        loss.backward()
        for part in (self.model.actor, self.model.critic):  # a critic without a loss has no gradients
            norm = torch.nn.utils.clip_grad_norm_(part.parameters(), config.max_grad_norm)
            if not (torch.isfinite(loss) and torch.isfinite(norm)):
                raise Diverged("the loss or its gradient is not finite")
        self.optimiser.step()
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": spread.item(),
            "kl": (ratio - 1 - change).mean().item(),
            "clipped": ((ratio - 1).abs() > config.clip).float().mean().item(),
        }

    def _value_loss(self, decisions: Decisions, target: Tensor) -> Tensor:
        """Return how far the critic is from what followed."""
        return (self.model.critic(decisions) - target).square().mean()

    def _policy_loss(self, change: Tensor, advantage: Tensor) -> Tensor:
        """Return the clipped loss; ``change`` is that of the log-probability of what was chosen, (decisions,)."""
        ratio, clip = change.exp(), self.config.clip
        return -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()

    # ---- what a checkpoint holds -------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        """Return everything that the next update depends on: arrays by name, and a few numbers."""
        arrays = {f"model.{name}": value.numpy() for name, value in self.model.state_dict().items()}
        for number, slot in self.optimiser.state_dict()["state"].items():
            arrays |= {f"adam.{number}.{name}": value.numpy() for name, value in slot.items()}
        numbers = {
            "speed": self.speed,
            "mean": self.scale.mean,
            "square": self.scale.square,
            "seen": self.scale.seen,
        }
        return arrays, numbers

    def restore(self, arrays: dict[str, NDArray[Any]], numbers: dict[str, float]) -> None:
        """Continue from a `state`."""
        tensors = {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}
        self.model.load_state_dict(
            {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        )
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("adam."):
                _, number, field = name.split(".")
                slots.setdefault(int(number), {})[field] = value
        groups = self.optimiser.state_dict()["param_groups"]  # their learning rates are set by every update
        self.optimiser.load_state_dict({"state": slots, "param_groups": groups})
        self.speed = numbers["speed"]
        self.scale = ValueScale(numbers["mean"], numbers["square"], numbers["seen"])


class A2C(PPO):
    """Advantage actor-critic: the plain policy gradient, each decision used once; no ``epochs``, no ``clip``."""

    @property
    def epochs(self) -> int:
        """How often an update uses each decision: once, because the gradient holds for the policy that decided."""
        return 1

    def _policy_loss(self, change: Tensor, advantage: Tensor) -> Tensor:
        return -(change * advantage).mean()  # the log-probability but for a constant


class GRPO(PPO):
    """Group-relative policy optimisation: what it is given as rewards are advantages already; there is no critic."""

    def _advantages(
        self, played: Played, reward: Floats, context: NDArray[np.float32]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        old, nothing = np.empty(len(played)), np.zeros(len(played))
        with torch.no_grad():
            for begin in range(0, len(played), 65536):
                part = np.arange(begin, min(begin + 65536, len(played)))
                decisions, picked = gathered(played, context, part)
                old[part] = self.model.actor.distribution(decisions).log_probability(picked).numpy()
        if not (np.isfinite(reward).all() and np.isfinite(old).all()):
            raise Diverged("the advantages or the policy's probabilities are not finite")
        return reward, nothing, nothing, old

    def _value_loss(self, decisions: Decisions, target: Tensor) -> Tensor:
        return torch.zeros(())


#: Learners by the name of their algorithm.
LEARNERS: dict[str, type[PPO]] = {"ppo": PPO, "a2c": A2C, "grpo": GRPO}


def gathered(played: Played, context: NDArray[np.float32], which: NDArray[np.int64]) -> tuple[Decisions, Tensor]:
    """Return some decisions as tensors, and what was taken: the chosen rows, (decisions,), or all rows' priorities."""
    count = played.count[which]
    first = np.cumsum(count) - count
    place = np.arange(count.sum()) - np.repeat(first, count)
    rows = played.rows[np.repeat(played.first[which], count) + place]
    slot = place
    skips = played.skips[which]
    if skips.any():
        slot = place.copy()
        slot[(first + count - 1)[skips]] = played.slots
    decisions = Decisions(
        torch.from_numpy(rows),
        torch.from_numpy(np.repeat(np.arange(len(which)), count)),
        torch.from_numpy(slot),
        torch.from_numpy(count),
        torch.from_numpy(context[which]),
    )
    if len(played.action):  # priorities of all rows
        taken = played.action[np.repeat(played.first[which], count) + place]
        return decisions, torch.from_numpy(taken.astype(np.float32))
    return decisions, torch.from_numpy(first + played.chosen[which])
