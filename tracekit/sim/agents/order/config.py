"""How a network that orders queues is trained: every choice a field with a default."""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.errors import UsageError
from tracekit.sim.agents.config import Settings
from tracekit.sim.orders.labels import Labelling
from tracekit.sim.orders.task import Order


@dataclass(frozen=True)
class OrderConfig(Settings):
    """The settings of one training. Budgets are counts, never seconds."""

    width: int = 64  # of the network
    rounds: int = 3  # of messages between neighbours
    heads: int = 4  # of the decoder's attention
    steps: int = 1_200_000  # choices to learn from, one for each job of a queue, all passes over the labels together
    batch: int = 16  # queues of a gradient step
    learning_rate: float = 1e-3
    schedule: str = "cosine"  # of the learning rate: constant, linear, exponential or cosine
    final_learning_rate: float = 1e-5
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    validate_every: int = 60  # gradient steps between validations; each is followed by a checkpoint
    windows: int = 8000  # labelled queues for training
    validation_windows: int = 20
    jobs: int = 64  # of a queue
    solver: str = "anneal"  # that makes the labels
    evaluations: int = 10_000  # of each label

    def __post_init__(self) -> None:
        whole = ("width", "rounds", "heads", "steps", "batch", "validate_every")
        for name in whole:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise UsageError(f"width must be a multiple of heads, not {self.width} with {self.heads} heads")
        for name in ("learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{getattr(self, name)} is not a valid value of {name}")

    def labelling(self, task: Order, share: float, seed: int) -> Labelling:
        """Return how the labels are made."""
        return Labelling(
            task,
            self.windows,
            self.validation_windows,
            0,
            self.jobs,
            self.solver,
            self.evaluations,
            share,
            seed,
        )
