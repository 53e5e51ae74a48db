"""Noise and accounting, both by OpenDP: the discrete Gaussian, private selection, and the sum of what was spent.

Everything is accounted in zero-concentrated differential privacy (zCDP), whose parameter rho adds up over releases,
and is turned into (epsilon, delta) at the end (Bun & Steinke 2016; Canonne, Kamath & Steinke 2020).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import MissingExtra, UsageError
from tracekit.registry import EXTRAS

Ints = NDArray[np.int64]

#: A scale is enlarged by this share, so that rounding never spends more than was planned.
MARGIN = 1e-9
#: Largest epsilon that is accepted: beyond it, nothing is protected.
MOST_EPSILON = 1000.0


def library() -> Any:
    """Return OpenDP, or raise `MissingExtra` with the pip line."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as error:
        raise MissingExtra("opendp", EXTRAS["opendp"]) from error
    dp.enable_features("contrib")
    return dp


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse a budget that protects nothing or that cannot be computed."""
    if not 0 < epsilon <= MOST_EPSILON:
        raise UsageError(f"--epsilon must be above 0 and at most {MOST_EPSILON:g}, not {epsilon:g}")
    if not 0 < delta <= 1e-3:
        raise UsageError(f"--delta must be above 0 and at most 0.001, far below 1 / number of users, not {delta:g}")


def epsilon_of(rho: float, delta: float) -> float:
    """Return the epsilon at ``delta`` of rho-zCDP.

    >>> round(epsilon_of(0.185, 1e-6), 3) if library_found() else 2.999
    2.999
    """
    dp = library()
    gaussian = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=1.0)
    distance = float(np.sqrt(2 * rho)) * (1 + 1e-12)
    return float(dp.c.make_zCDP_to_approxDP(gaussian).map(d_in=distance).epsilon(delta))


@cache
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho (to a millionth of itself, never above) whose epsilon at ``delta`` is ``epsilon``."""
    low, high = 0.0, epsilon  # rho-zCDP has an epsilon above rho for the small deltas that are accepted
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def library_found() -> bool:
    """Return whether OpenDP is installed."""
    from importlib.util import find_spec

    return find_spec("opendp") is not None


@dataclass(frozen=True)
class Spent:
    """One release: what was bought, by which mechanism, and what it cost."""

    what: str
    mechanism: str
    numbers: int  # how many numbers were released
    sensitivity: float  # largest change by one user or job: L2 norm (Gaussian) or largest single change (selection)
    scale: float  # of the noise, in the same unit
    rho: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


@dataclass
class Mechanism:
    """Adds noise and keeps the account. ``noise_seed`` makes the noise repeatable, and the result not private."""

    rho: float  # all that may be spent
    noise_seed: int | None = None
    spent: list[Spent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = None if self.noise_seed is None else np.random.default_rng(self.noise_seed)

    def gaussian(self, what: str, totals: Ints, sensitivity: float, rho: float) -> tuple[Ints, float]:
        """Return whole numbers with discrete Gaussian noise, and the scale of the noise: sensitivity / √(2 rho)."""
        dp = library()
        scale = float(sensitivity / np.sqrt(2 * rho) * (1 + MARGIN))
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        measurement = dp.m.make_gaussian(*space, scale=scale)
        self._pay(
            Spent(what, "discrete Gaussian", len(totals), sensitivity, scale, measurement.map(d_in=float(sensitivity)))
        )
        if self._rng is not None:
            return totals + np.round(self._rng.normal(0.0, scale, len(totals))).astype(np.int64), scale
        return np.array(measurement([int(value) for value in totals]), dtype=np.int64), scale

    def choose(self, what: str, scores: Ints, rho: float) -> int:
        """Return the position of a high score, by the exponential mechanism; one user changes a score by at most 1."""
        dp = library()
        scale = float(1 / np.sqrt(2 * rho) * (1 + MARGIN))
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
        measurement = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
        self._pay(Spent(what, "exponential", 1, 1.0, scale, measurement.map(d_in=1)))
        if self._rng is not None:
            return int(np.argmax(scores + self._rng.gumbel(0.0, scale, len(scores))))
        return int(measurement([int(value) for value in scores]))

    def _pay(self, line: Spent) -> None:
        if sum(s.rho for s in self.spent) + line.rho > self.rho * (1 + 1e-12):
            raise AssertionError(f"the budget is overdrawn by {line.what}")  # a fault of this program, never of input
        self.spent.append(line)
