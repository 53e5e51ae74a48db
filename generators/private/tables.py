"""The released numbers, as they are kept and saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noisy:
    """A released table, in jobs (or users): noisy counts and the standard deviation of their noise."""

    counts: list[float]
    noise: float

    @property
    def values(self) -> Floats:
        """Return the counts as an array."""
        return np.array(self.counts, dtype=np.float64)


@dataclass(frozen=True)
class Released:
    """All that is known of the real trace; what follows from it needs no more budget."""

    activity: Noisy  # users by class of jobs per user
    limit: Noisy
    run: Noisy
    size: Noisy
    joint: Noisy  # by coarse classes of limit, run time and size
    cuts: list[list[int]]  # the coarse class of every bin of limit, run time and size
    pairs: Noisy
    week: Noisy | None
    load: Noisy  # clipped share of the capacity; one number
    load_cap: float
    cap: float  # jobs per user (length of the vector of counts); 1 for unit job
    span: float  # seconds

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read back what `to_dict` gave."""
        read: dict[str, Any] = {k: Noisy(**v) if isinstance(v, dict) else v for k, v in values.items()}
        return cls(**read)
