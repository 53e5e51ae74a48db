"""What a network returns about an action: a distribution, over the rows of a question or over priorities of the rows.

This module has them for one decision in numpy, to play; `tracekit.sim.agents.networks` has the same for many decisions
in torch, to learn. What is drawn depends on a key and on the number of the decision alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.inference import NOT_NUMBERS, drawn, largest
from tracekit.sim.engine.chance import uniform

Singles = NDArray[np.float32]


class Distribution(Protocol):
    """A distribution of actions of one decision."""

    def best(self) -> Any:
        """Return the most likely action."""
        ...

    def draw(self, key: np.uint64, turn: int) -> Any:
        """Return a sampled action."""
        ...


@dataclass(frozen=True, eq=False)
class Choice:
    """One of the rows, with probability softmax(scores)."""

    scores: Singles  # (rows,)

    def best(self) -> int:
        """Return the row with the largest score, the first of equal ones."""
        return self._checked(largest(self.scores, len(self.scores)))

    def draw(self, key: np.uint64, turn: int) -> int:
        """Return a sampled row."""
        return self._checked(drawn(self.scores, len(self.scores), uniform(key, turn)))

    def _checked(self, row: int) -> int:
        if row < 0:
            raise TracekitError(NOT_NUMBERS)
        return int(row)


@dataclass(frozen=True, eq=False)
class Priorities:
    """A priority for every row, normally distributed around ``mean``."""

    mean: Singles  # (rows,)
    deviation: float

    def best(self) -> Singles:
        """Return the means."""
        if not np.isfinite(self.mean).all():
            raise TracekitError(NOT_NUMBERS)
        return self.mean

    def draw(self, key: np.uint64, turn: int) -> Singles:
        """Return sampled priorities (Box & Muller, 1958, on two uniform numbers per row)."""
        count = len(self.mean)
        chance = np.array([uniform(key, 2 * count * turn + i) for i in range(2 * count)])
        normal = np.sqrt(-2 * np.log1p(-chance[:count])) * np.cos(2 * np.pi * chance[count:])
        return np.asarray(self.best() + self.deviation * normal, dtype=np.float32)
