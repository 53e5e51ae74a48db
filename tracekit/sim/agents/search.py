"""A search for a starting policy: weights of the features whose sum orders waiting jobs best.

A policy that samples its choices one by one rarely deviates in the same direction throughout a window, and a
window's score is chaotic, so gradients show little of the effect of a steady preference, such as "of two jobs of equal
area, the one that cannot start at once". A search that changes the weights and plays whole windows greedily measures
exactly that: it explores parameters, not actions (Salimans, Ho, Chen, Sidor & Sutskever, "Evolution strategies as a
scalable alternative to reinforcement learning", 2017). The network then imitates the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.agents.config import Config
from tracekit.sim.agents.inference import KERNEL, Net
from tracekit.sim.agents.rollout import play
from tracekit.sim.tasks.base import Batch
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]

#: Deviation of the first changes, in units of the one weight that the search begins with.
_FIRST_STEP = 0.1
#: Weights of an age or a delay beside the one weight of 1.
_SHARES = (0.1, 0.3, 1.0)


def linear(weights: Floats) -> Net:
    """Return the network whose score of a job is the weighted sum of its features: its positive and negative part."""
    pair = np.stack([weights, -weights], 1).reshape(-1)
    flat = np.concatenate([pair, [0.0, 0.0], [1.0, -1.0], [0.0]]).astype(np.float32)
    return Net(KERNEL, np.array([len(weights), 2, 1], np.int64), flat, len(weights))


def search(
    batch: Batch, windows: Callable[[int], list[Window]], config: Config, seed: int
) -> tuple[Floats, dict[str, float]]:
    """Return the weights found, (features,), and how much better they are than what the search began with.

    Separable natural evolution strategies (Schaul, Glasmachers & Schmidhuber, "High dimensions and heavy tails for
    natural evolution strategies", GECCO 2011), tries in mirrored pairs. ``windows(round)`` draws those of a round. The
    scores are noisy, so the answer is the mean of the centres of the second half of all rounds. Where fresh windows do
    not show that it, or the point halfway to it, is better than what the search began with, that is the answer.
    """
    features = len(batch.task.feature_names)

    def costs(weights: Floats, some: list[Window]) -> Floats:
        return play(batch, some, linear(weights), keep=False).score

    first = windows(0)
    begin = min(_beginnings(batch, lambda weights: _level(costs(weights, first))), key=lambda pair: pair[0])[1]
    centre, deviation = begin.copy(), np.full(features, _FIRST_STEP)
    pairs = config.search_tries // 2
    useful = np.maximum(0.0, np.log(pairs + 1) - np.log(np.arange(1, 2 * pairs + 1)))
    utility = useful / useful.sum() - 1 / (2 * pairs)
    speed = (3 + np.log(features)) / (10 * np.sqrt(features))
    late: list[Floats] = []
    for number in range(1, config.search_rounds + 1):
        some = windows(number)
        half = np.random.default_rng([seed, number, 4]).normal(size=(pairs, features))
        change = np.concatenate([half, -half])
        dear = [_level(costs(centre + one * deviation, some)) for one in change]
        ranked = change[np.argsort(dear, kind="stable")]
        centre = centre + deviation * (utility @ ranked)
        deviation = deviation * np.exp(speed * (utility @ (ranked**2 - 1)))
        if 2 * number > config.search_rounds:
            late.append(centre)
    found = np.mean(late, axis=0) if late else begin
    other = [window for number in (1, 2) for window in windows(config.search_rounds + number)]
    base = costs(begin, other)
    tried = [(costs(weights, other), weights) for weights in (found, (begin + found) / 2)]
    best, chosen = min(tried, key=lambda pair: _level(pair[0]))
    if not _shown(best, base):
        best, chosen = base, begin
    return chosen, {"gain": _level(base) - _level(best)}


def _beginnings(batch: Batch, level: Callable[[Floats], float]) -> Iterator[tuple[float, Floats]]:
    """Yield weights to begin with and their levels: each feature alone; the best three with an age or a delay added.

    A job that has waited long comes earlier with a positive weight of its age, as in `multifactor`.
    """
    names = batch.task.feature_names
    alone = [(level(weights), weights) for unit in np.eye(len(names)) for weights in (-unit, unit)]
    yield from alone
    for _, weights in sorted(alone, key=lambda pair: pair[0])[:3]:
        for name in ("wait", "long-wait", "stretch", "delay"):
            if name in names:
                unit = np.eye(len(names))[names.index(name)]
                for share in _SHARES:
                    yield level(weights + share * unit), weights + share * unit


def _shown(costs: Floats, base: Floats) -> bool:
    """Whether costs are below others on the same windows by more than a standard error, and not above in the mean."""
    gaps = np.arcsinh(costs) - np.arcsinh(base)
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return bool(gaps.mean() + error < 0 and costs.mean() <= base.mean())


def _level(cost: Floats) -> float:
    """Return the mean of two logarithms: that of the geometric mean of costs, and that of their arithmetic mean.

    In the first, doubling and halving the cost cancel out; the second looks at the windows that cost most. asinh equals
    the logarithm for large costs and is defined for costs near and below zero.
    """
    return float((np.arcsinh(cost).mean() + np.arcsinh(cost.mean())) / 2)
