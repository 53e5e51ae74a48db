"""The decision maker: a network for inference, compiled where possible, else run by torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.agents.distributions import Choice, Distribution
from tracekit.sim.agents.inference import Net, Scratch, room, score


@dataclass(eq=False)
class Actor:
    """A network that decides: ``net`` has the arrays of a compiled forward pass, else ``module`` is torch's."""

    net: Net | None
    module: Any = None
    _scratch: Scratch | None = None

    def distribution(self, rows: NDArray[np.float32], skip: bool) -> Distribution:
        """Return the distribution of one decision among ``rows`` (rows, features) and, with ``skip``, doing nothing."""
        if self.net is None:
            found: Distribution = self.module.distribution_of(rows, skip)
            return found
        count = len(rows) + int(skip)
        if self._scratch is None or len(self._scratch.score) < count:
            self._scratch = room(self.net, count)
        score(self.net, rows, len(rows), skip, self._scratch)
        return Choice(self._scratch.score[:count])
