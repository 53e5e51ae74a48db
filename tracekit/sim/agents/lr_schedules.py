"""How a learning rate or an entropy weight moves from its first to its last value during training."""

from __future__ import annotations

import math

from tracekit.errors import UnknownName

#: Bounds of the KL-adaptive factor on the learning rate.
SLOWEST, FASTEST = 1 / 64, 4.0


def scheduled(kind: str, first: float, last: float, progress: float, warmup: float = 0.0) -> float:
    """Return the value at ``progress`` (0 … 1 of the budget); below ``warmup`` it rises linearly from zero.

    >>> [scheduled("linear", 1.0, 0.0, p) for p in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    >>> scheduled("cosine", 1.0, 0.0, 0.55, warmup=0.1)
    0.5
    >>> scheduled("constant", 1.0, 0.0, 0.05, warmup=0.1)
    0.5
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return first * progress / warmup
    left = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
    if kind == "constant":
        return first
    if kind == "linear":
        return first + (last - first) * left
    if kind == "cosine":
        return round(last + (first - last) * (1 + math.cos(math.pi * left)) / 2, 15)
    if kind == "exponential":
        floor = max(last, first * 1e-6)  # a geometric path never reaches zero
        return first * (floor / first) ** left if first > 0 else 0.0
    raise UnknownName("schedule", kind, ("constant", "linear", "exponential", "cosine"))


def adapted(factor: float, kl: float, target: float) -> float:
    """Return the factor on the learning rate after an iteration moved the policy by ``kl``.

    Schulman et al., "Proximal policy optimization algorithms", 2017, section 4, applied to the learning rate: halved
    when the policy moved more than twice the target, raised when it moved less than half of it.

    >>> adapted(1.0, 0.05, 0.01), adapted(1.0, 0.001, 0.01), adapted(1.0, 0.01, 0.01)
    (0.5, 1.5, 1.0)
    """
    if kl > 2 * target:
        factor /= 2
    elif kl < target / 2:
        factor *= 1.5
    return min(max(factor, SLOWEST), FASTEST)
