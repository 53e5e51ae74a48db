"""The noise floor: how far apart two halves of the real trace are, and how sure any score is.

Real odd weeks are scored against real even weeks as if those were synthetic. Intervals come from drawing whole weeks
with replacement (weeks, because jobs of one week are not independent): 95 %, normal, from the spread of the draws.
Drawing with replacement makes two samples look less alike than they are, so the draws give the width only; the middle
is the score itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.base import NAN, Metric, Quantity, Score, Setting
from evaluation.view import WEEK, Seen, halves, resampled

#: Runs one metric on two views with its own random numbers.
Run = Callable[[Metric, Seen, Seen, Setting], Mapping[str, Score]]
Tick = Callable[[], None]
MIN_JOBS = 5  # in each half, below which there is no noise floor


@dataclass(frozen=True)
class Scoring:
    """How scores are made: the metrics, their setting, what runs one of them, and what is called after each step."""

    metrics: Sequence[Metric]
    setting: Setting
    run: Run
    tick: Tick

    @property
    def cheap(self) -> list[Metric]:
        """The metrics that are recomputed for every draw."""
        return [metric for metric in self.metrics if metric.resampled]

    def merged(self, metrics: Iterable[Metric], real: Seen, synth: Seen) -> dict[str, Score]:
        """Return the scores of some metrics in one table."""
        found: dict[str, Score] = {}
        for metric in metrics:
            found.update(self.run(metric, real, synth, self.setting))
        return found


@dataclass(frozen=True)
class Floor:
    """What one key comes to between halves of the real trace."""

    value: float
    low: float
    high: float
    note: str = ""

    def holds(self, score: Score) -> bool | None:
        """Return whether a score is no worse than what two halves of the real trace show; None where unknown."""
        if np.isnan(score.value) or np.isnan(self.low) or np.isnan(self.high):
            return None
        if score.better == "lower":
            return score.value <= self.high
        if score.better == "higher":
            return score.value >= self.low
        return self.low <= score.value <= self.high


def _spreads(draws: Iterable[Mapping[str, Score]]) -> dict[str, float]:
    """Return each key's standard deviation over the draws in which it had a value; none for fewer than five."""
    values: dict[str, list[float]] = {}
    for draw in draws:
        for key, score in draw.items():
            if np.isfinite(score.value):
                values.setdefault(key, []).append(score.value)
    return {key: float(np.std(found, ddof=1)) for key, found in values.items() if len(found) >= 5}


def _interval(score: Score, spread: float) -> tuple[float, float]:
    """Return the 95 % interval around a score; distances do not go below zero."""
    if not np.isfinite(score.value + spread):
        return NAN, NAN
    low, high = score.value - 1.96 * spread, score.value + 1.96 * spread
    return (max(0.0, low) if score.better == "lower" else low), high


def _own_range(score: Score, whole: float, spread: float) -> tuple[float, float]:
    """Return where the real trace's own quantity lies: its value give or take the spread, and both halves."""
    ends = [whole - 1.96 * spread, whole + 1.96 * spread, score.value, score.real]
    known = [end for end in ends if np.isfinite(end)]
    return (min(known), max(known)) if np.isfinite(spread) else (NAN, NAN)


def noise_floor(scoring: Scoring, real: Seen, times: int, rng: np.random.Generator) -> tuple[dict[str, Floor], str]:
    """Score real odd weeks against real even weeks, with a note on the split; a step is a metric or a draw."""
    blocks, odd, even, how = halves(real)
    sizes = np.diff(blocks.edges)
    if min(sizes[odd].sum(), sizes[even].sum()) < MIN_JOBS:
        return {}, f"none: fewer than {MIN_JOBS} jobs in one of the halves ({how})"
    first, second = blocks.lay(odd), blocks.lay(even)
    floors: dict[str, Floor] = {}
    scores: dict[str, Score] = {}
    cheap = scoring.cheap
    for metric in scoring.metrics:
        if metric.family == "privacy":
            found = _stranger(metric, real, scoring)
        else:
            found = dict(scoring.run(metric, first, second, scoring.setting))
        if metric.resampled:
            scores.update(found)
        else:
            for key, s in found.items():
                low, high = (min(s.low, s.real), max(s.high, s.real)) if s.better == "real" else (s.low, s.high)
                floors[key] = Floor(s.value, low, high, s.note or how)
        scoring.tick()
    draws = []
    for a, b in zip(resampled(blocks, odd, rng, times), resampled(blocks, even, rng, times), strict=True):
        draws.append(scoring.merged(cheap, a, b))
        scoring.tick()
    spreads = _spreads(draws)
    whole = scoring.merged([m for m in cheap if isinstance(m, Quantity)], real, real)
    for key, score in scores.items():
        spread = spreads.get(key, NAN)
        ends = (
            _own_range(score, whole[key].value if key in whole else NAN, spread)
            if score.better == "real"
            else _interval(score, spread)
        )
        floors[key] = Floor(score.value, *ends, score.note or how)
    return floors, how


def _stranger(metric: Metric, real: Seen, scoring: Scoring) -> dict[str, Score]:
    """Score one half of the hold-out as if it were synthetic, the other half being the hold-out: no copies there."""
    holdout = scoring.setting.holdout
    if holdout is None:
        return {}
    blocks, odd, even, _ = halves(holdout)
    found = scoring.run(metric, real, blocks.lay(even), replace(scoring.setting, holdout=blocks.lay(odd)))
    return {key: replace(score, note="one half of the hold-out against the other") for key, score in found.items()}


def with_intervals(
    scoring: Scoring,
    real: Seen,
    synth: Seen,
    scores: Mapping[str, Score],
    times: int,
    rng: np.random.Generator,
) -> dict[str, Score]:
    """Return the scores with intervals from resampling the synthetic trace's weeks (or tenths, when it is short)."""
    if times < 5 or len(synth) < 100 or not synth.span > 0:
        return dict(scores)
    blocks = synth.cut(WEEK if synth.span >= 10 * WEEK else synth.span / 10 * (1 - 1e-9))
    draws = []
    for view in resampled(blocks, np.arange(len(blocks)), rng, times):
        draws.append(scoring.merged(scoring.cheap, real, view))
        scoring.tick()
    spreads = _spreads(draws)
    return {
        key: score.with_interval(*_interval(score, spreads[key]))
        if key in spreads and np.isfinite(score.value)
        else score
        for key, score in scores.items()
    }
