"""How much better than the heuristic that was chosen beforehand: geometric and arithmetic means, block bootstrap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.intervals import LEVEL, RESAMPLES

Floats = NDArray[np.float64]


def mean(costs: Floats, by: str) -> float:
    """Return the mean of the costs of windows, (windows,), by a name of `tracekit.sim.agents.config.MEANS`."""
    if by == "mean":
        return float(costs.mean())
    return float(np.exp(np.log(np.maximum(costs, 1e-9)).mean()))


def against(score: Floats, base: Floats, seed: int = 0, *, overlap: int = 1) -> dict[str, Any]:
    """Return by which share costs are above (below zero: better than) those of a base on the same windows.

    ``score`` and ``base`` are (windows,), or (plays, windows) for several agents, in the order of time. Neighbouring
    windows have users and busy days in common, so blocks of windows are drawn (circular block bootstrap: Politis &
    Romano 1992), cube root of the number of windows long. With several agents, one is drawn beside each block, too.
    ``overlap`` is how many windows each job is in; it counts as one window in the length of blocks.

    >>> found = against(np.array([1.0, 2.0, 4.0, 8.0]), np.array([2.0, 4.0, 8.0, 16.0]))
    >>> found["geometric"], found["geometric_low"], found["arithmetic_high"], found["block"]
    (-0.5, -0.5, -0.5, 2)
    """
    score = np.atleast_2d(score)
    agents, windows = score.shape
    block = overlap * max(1, round((windows / overlap) ** (1 / 3)))
    rng = np.random.default_rng([seed, windows])
    blocks = -(-windows // block)
    first = rng.integers(0, windows, (RESAMPLES, blocks, 1))
    drawn = ((first + np.arange(block)) % windows).reshape(RESAMPLES, -1)[:, :windows]
    which = np.repeat(rng.integers(0, agents, (RESAMPLES, blocks)), block, axis=1)[:, :windows]
    logs = np.log(np.maximum(score, 1e-9)) - np.log(np.maximum(base, 1e-9))
    geometric = np.exp(logs[which, drawn].mean(1)) - 1
    arithmetic = score[which, drawn].mean(1) / base[drawn].mean(1) - 1
    found: dict[str, Any] = {"windows": windows, "block": block}
    for name, value, draws in (
        ("geometric", np.exp(logs.mean()) - 1, geometric),
        ("arithmetic", score.mean() / base.mean() - 1, arithmetic),
    ):
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if windows > 1 else (np.nan, np.nan)
        found |= {name: round(float(value), 9), f"{name}_low": round(float(low), 9)}
        found |= {f"{name}_high": round(float(high), 9)}
    return found
