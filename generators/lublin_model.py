"""The parts of the Lublin–Feitelson model: its parameters, how jobs are drawn from them, and what a fit learns.

* sizes: serial, or 2^u with u two-stage uniform, rounded to a power of two for most jobs;
* run times: e^g with g from a mixture of two gammas; larger jobs more often draw the long one;
* arrivals: gaps e^g with g from a gamma, on a clock that runs faster by day than by night.

The paper is cited in `generators.lublin`, the generator that uses these parts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tracekit.errors import UsageError
from tracekit.machine import Machine

Floats = NDArray[np.float64]

BUCKETS = 48  # half-hours of a day
BUCKET = 1800.0  # seconds
DAY = BUCKETS * BUCKET


@dataclass(frozen=True)
class JobType:
    """Parameters of one kind of job; the defaults are the published ones for jobs of one type on 128 processors.

    Sizes are in processors (or nodes, gpus: what the machine hands out), times in seconds.
    """

    serial: float = 0.244  # share of jobs on one processor
    power2: float = 0.576  # share of jobs rounded to a power of two
    low: float = 0.8  # two-stage uniform in log2 of the size: [low, med] with probability prob, else [med, high]
    med: float = 4.5
    high: float = 7.0
    prob: float = 0.86
    a1: float = 4.2  # ln(run): gamma(a1, b1) with probability p = pa · size + pb (clipped), else gamma(a2, b2)
    b1: float = 0.94
    a2: float = 312.0
    b2: float = 0.03
    pa: float = -0.0054
    pb: float = 0.78
    longest: float = 12.0  # ln(run) above this is drawn again
    gap_a: float = 10.2303 * 1.0225  # ln(gap): gamma(gap_a, gap_b); 1.0225 leads from the rush hours to all hours
    gap_b: float = 0.4871
    longest_gap: float = 13.0  # ln(gap) above this is drawn again
    gap_scale: float = 1.0  # seconds per unit of gap
    day_a: float | None = 8.1737  # jobs over the day: gamma(day_a, day_b) in half-hours; None = no daily cycle
    day_b: float = 3.9631
    day_start: int = 11  # the half-hour (from 1) at which the day of the gamma begins

    def __post_init__(self) -> None:
        shares = (self.serial, self.power2, self.prob)
        if not all(0 <= share <= 1 for share in shares) or self.serial + self.power2 > 1 + 1e-9:
            raise UsageError(f"lublin: shares must lie within 0..1 and serial + power2 within 1, not {shares}")
        if not 0 <= self.low <= self.med <= self.high:
            raise UsageError(f"lublin: sizes need 0 ≤ low ≤ med ≤ high, not {self.low}, {self.med}, {self.high}")
        if min(self.a1, self.b1, self.a2, self.b2, self.gap_a, self.gap_b, self.gap_scale) <= 0:
            raise UsageError("lublin: the parameters of gamma distributions must be above 0")


def one_type(procs: int) -> JobType:
    """Return the published parameters for jobs of one type on a machine of ``procs`` processors."""
    high = float(np.log2(procs))
    return _sized(JobType(), low=0.8, med=high - 2.5, high=high)


def batch(procs: int) -> JobType:
    """Return the published parameters of batch jobs, their sizes moved from 128 to ``procs`` processors."""
    high = float(np.log2(procs))
    kind = JobType(
        serial=0.2927, power2=0.6686, prob=0.875, a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
        gap_a=6.0415 * 1.0519, gap_b=0.8531, day_a=6.1271, day_b=5.2740,
    )  # fmt: skip
    return _sized(kind, low=1.2, med=high - 2.0, high=high)


def interactive(procs: int) -> JobType:
    """Return the published parameters of interactive jobs, their sizes moved from 128 to ``procs`` processors."""
    high = max(float(np.log2(procs)) - 1.5, 0.0)
    kind = JobType(
        serial=0.1541, power2=0.625, prob=0.705, a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
        gap_a=6.5510 * 0.9797, gap_b=0.6621, day_a=8.9186, day_b=3.6680,
    )  # fmt: skip
    return _sized(kind, low=1.0, med=high - 2.5, high=high)


def _sized(kind: JobType, *, low: float, med: float, high: float) -> JobType:
    """Put the sizes' bounds in order on machines too small for the published ones."""
    low = min(low, high)
    return dataclasses.replace(kind, low=low, med=min(max(med, low), high), high=high)


def sample_sizes(kind: JobType, n_jobs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw job sizes, shape (n_jobs,), from 1 to 2^high."""
    u = rng.random(n_jobs)
    stage = rng.random(n_jobs) <= kind.prob
    low, high = np.where(stage, kind.low, kind.med), np.where(stage, kind.med, kind.high)
    exponent = low + rng.random(n_jobs) * (high - low)
    # Rounding up could pass the largest size where that is not a power of two (the reference program lets it).
    rounded = np.minimum(np.floor(exponent + 0.5), np.floor(kind.high + 1e-9))
    exponent = np.where(u <= kind.serial + kind.power2, rounded, exponent)
    return np.where(u <= kind.serial, 1, np.floor(2.0**exponent + 0.5)).astype(np.int64)


def first_gamma_share(kind: JobType, size: NDArray[Any]) -> Floats:
    """Return p = pa · size + pb, clipped to 0..1: how likely a job of this size draws the first gamma."""
    return np.clip(kind.pa * np.asarray(size, dtype=np.float64) + kind.pb, 0.0, 1.0)


def sample_log_runs(kind: JobType, size: NDArray[Any], rng: np.random.Generator) -> Floats:
    """Draw ln(run time in seconds) for jobs of the given sizes; a draw above ``kind.longest`` is made again."""
    p = first_gamma_share(kind, size)
    log_run = np.empty(len(p))
    todo = np.arange(len(p))
    while len(todo):
        first = rng.random(len(todo)) <= p[todo]
        shape, scale = np.where(first, kind.a1, kind.a2), np.where(first, kind.b1, kind.b2)
        log_run[todo] = rng.gamma(shape, scale)
        todo = todo[log_run[todo] > kind.longest]
    return log_run


def day_weights(kind: JobType) -> Floats:
    """Return how dense arrivals are in each half-hour of the day, from midnight; their mean is 1. Shape (48,)."""
    if kind.day_a is None:
        return np.ones(BUCKETS)
    # The gamma's day runs from bucket `day_start` to the same one of the next day, then is moved back cyclically.
    i = np.arange(kind.day_start, kind.day_start + BUCKETS, dtype=np.float64)
    upper = special.gammainc(kind.day_a, (i + 0.5) / kind.day_b)
    weight = upper - special.gammainc(kind.day_a, (i - 0.5) / kind.day_b)
    weights = np.empty(BUCKETS)
    weights[(i.astype(np.int64) - 1) % BUCKETS] = weight
    # A bucket of weight zero would stop the clock for ever.
    weights = np.maximum(weights, 1e-6 * weights.mean())
    return np.asarray(weights / weights.mean())


def to_clock(busy: Floats, weights: Floats) -> Floats:
    """Turn operational seconds (which pass faster in busy hours) into seconds since a midnight; see `to_busy`."""
    edges = np.concatenate([[0.0], np.cumsum(weights)]) * BUCKET
    day = np.floor(busy / DAY)
    return np.asarray(day * DAY + np.interp(busy - day * DAY, edges, np.arange(BUCKETS + 1) * BUCKET))


def to_busy(clock: Floats, weights: Floats) -> Floats:
    """Turn seconds since a midnight into operational seconds: the integral of the day's weights up to then."""
    edges = np.concatenate([[0.0], np.cumsum(weights)]) * BUCKET
    day = np.floor(clock / DAY)
    return np.asarray(day * DAY + np.interp(clock - day * DAY, np.arange(BUCKETS + 1) * BUCKET, edges))


def sample_log_gaps(kind: JobType, n_gaps: int, rng: np.random.Generator) -> Floats:
    """Draw ln(gap in operational seconds), before ``gap_scale``; a draw above ``longest_gap`` is made again."""
    log_gap = rng.gamma(kind.gap_a, kind.gap_b, n_gaps)
    todo = np.flatnonzero(log_gap > kind.longest_gap)
    while len(todo):
        log_gap[todo] = rng.gamma(kind.gap_a, kind.gap_b, len(todo))
        todo = todo[log_gap[todo] > kind.longest_gap]
    return log_gap


def sample_arrivals(kind: JobType, n_jobs: int, rng: np.random.Generator, *, start: float = 0.0) -> Floats:
    """Draw increasing submit times in seconds since a midnight, each a gap after the one before, from ``start`` on.

    The reference program pays for each half-hour with "points" until a gap is used up. That is the inverse of the
    cumulated weights, so all jobs can be done at once.
    """
    weights = day_weights(kind)
    gaps = np.exp(sample_log_gaps(kind, n_jobs, rng)) * kind.gap_scale
    return to_clock(to_busy(np.array([start]), weights) + np.cumsum(gaps), weights)


@dataclass(frozen=True)
class Limits:
    """The limits that users ask for, and how jobs end; shapes (limits,)."""

    times: Floats  # seconds, increasing
    shares: Floats  # sum 1
    missing: float = 0.0  # share of jobs without a limit
    reached: float = 0.0  # share of jobs that run to their limit


@dataclass(frozen=True)
class State:
    """All that is learnt; plain values, so that it can be saved as JSON beside one npz."""

    machine: Machine
    types: tuple[JobType, ...]
    first_submit: float  # seconds since the machine's epoch
    midnight: float  # a local midnight before it, on the same clock
    fitted_to: int = 0  # jobs; 0 = published parameters
    left_out: int = 0  # jobs of the trace that lack a size, a run time or a submit time
    history: tuple[str, ...] = ()
    size_column: str = "req_procs"
    grain: int = 1  # every size is a multiple of this (whole nodes of a machine that counts processors)
    derived: dict[str, float] = dataclasses.field(default_factory=dict)  # other size columns: a fixed multiple
    status: dict[str, list[float]] | None = None  # shares of STATUSES for jobs that "reached" their limit, or not
    limits: Limits | None = None
