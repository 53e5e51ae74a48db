"""The parts of the EDA model: hosts from menus, sizes, memory that goes with cores, run times, limits and arrivals.

After the generator of LoboShao/lsf_autohost (an LSF cluster for chip design). A job is small, medium or large by where
its cores lie between the smallest and the largest job. Memory is a share of the range of job memory: small jobs are
compile (little), timing (much) or synthesis (between) jobs, medium and large ones have a range each.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from generators import tsafrir
from tracekit.errors import UsageError
from tracekit.machine import HostGroup, Machine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GB = 1024.0 * 1024.0  # in KB
#: Hosts that can be bought: cores, and memory in GB.
CORES_MENU = (8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128)
MEMORY_MENU = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
#: Kinds of jobs; the first three are the small ones.
KINDS = ("compile", "timing", "synthesis", "medium", "large")
SMALL = 3
#: Where small ends and large begins, between the smallest (0) and the largest (1) job in cores.
SMALL_BELOW, LARGE_FROM = 0.2, 0.6
#: Limits that users ask for, in seconds; above the last one whole days.
LIMITS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


@dataclass(frozen=True)
class HostMenu:
    """Hosts to draw: how many, and the ranges of cores and memory (GB) within the menus; both ends included."""

    count: int = 20
    cores: tuple[int, int] = (32, 128)
    memory: tuple[int, int] = (128, 512)

    def draw(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return cores and memory (GB) of each host."""
        if self.count < 1:
            raise UsageError(f"eda: at least one host is needed, not {self.count}")
        return tuple(  # type: ignore[return-value]
            np.array(_within(menu, low, high), np.int64)[rng.integers(0, len(_within(menu, low, high)), self.count)]
            for menu, (low, high) in ((CORES_MENU, self.cores), (MEMORY_MENU, self.memory))
        )


def _within(menu: tuple[int, ...], low: int, high: int) -> list[int]:
    """Return the entries of a menu between two bounds; their middle if there is none."""
    if not 1 <= low <= high:
        raise UsageError(f"eda: a range of hosts must be two whole numbers from 1, smaller first, not {low}..{high}")
    return [size for size in menu if low <= size <= high] or [low + (high - low) // 2]


@dataclass(frozen=True)
class Jobs:
    """What jobs ask for. Knots are quantiles at equal steps from the least to the most, linear between them."""

    cores: tuple[int, ...] = tuple(range(1, 33))  # sizes that occur
    core_shares: tuple[float, ...] = ()  # of each size; empty = equal
    memory: tuple[float, float] = (2 * GB, 128 * GB)  # KB of a job, least and most
    mix: tuple[float, ...] = (0.6, 0.25, 0.15)  # of compile, timing and synthesis among small jobs
    bands: tuple[tuple[float, ...], ...] = (
        (0.05, 0.2),
        (0.5, 0.9),
        (0.2, 0.4),
        (0.3, 0.6),
        (0.4, 0.8),
    )  # knots, by kind
    run_times: tuple[tuple[float, ...], ...] = ((30.0, 300.0),) * 5  # knots in seconds, by kind
    slack: tuple[float, float] = (1.0, 3.0)  # limit over run time before rounding up, where limits have no shares
    limits: tuple[float, ...] = tuple(map(float, LIMITS))  # values of limits; empty = no limits
    limit_shares: tuple[float, ...] = ()  # of each value, dealt among the jobs below it (Tsafrir); empty = by slack
    unlimited: float = 0.0  # share of jobs without a limit

    def kinds(self, cores: Ints, rng: np.random.Generator) -> Ints:
        """Return each job's position in `KINDS`."""
        size = (cores - self.cores[0]) / max(self.cores[-1] - self.cores[0], 1)
        small = np.minimum(np.searchsorted(np.cumsum(self.mix), rng.random(len(cores)), side="right"), SMALL - 1)
        return np.where(size < SMALL_BELOW, small, np.where(size < LARGE_FROM, 3, 4)).astype(np.int64)


@dataclass(frozen=True)
class Arrivals:
    """Every ``every`` seconds 1 … ``most`` jobs arrive, or none in a share ``quiet`` of the steps."""

    every: float = 4.0
    most: int = 3
    skew: float = 1.0  # 1: uniform; else Beta(skew, 1), so 2 favours many jobs
    quiet: float = 0.0

    def mean(self) -> float:
        """Return the mean number of jobs in a step."""
        share = self.skew / (self.skew + 1)
        return (1 - self.quiet) * ((1 + self.most) / 2 if self.skew == 1 else 1 + share * (self.most - 1))

    def draw(self, n_jobs: int, rng: np.random.Generator) -> Floats:
        """Return ``n_jobs`` times from 0 on, in order; jobs of a step of one second or less arrive at its begin."""
        counts = np.empty(0, np.int64)
        while counts.sum() < n_jobs:
            steps = int((n_jobs - counts.sum()) / max(self.mean(), 1e-3)) + 16
            counts = np.concatenate([counts, self._counts(steps, rng)])
        step = np.repeat(np.arange(len(counts)), counts)[:n_jobs]
        within = rng.random(n_jobs) * self.every if self.every > 1 else 0.0
        times: Floats = np.sort(step * self.every + within)
        return times

    def _counts(self, steps: int, rng: np.random.Generator) -> Ints:
        u, quiet = rng.random(steps), rng.random(steps) < self.quiet
        skewed = np.round(1 + u ** (1 / self.skew) * (self.most - 1))
        counts = 1 + np.floor(u * self.most) if self.skew == 1 else skewed
        return np.where(quiet, 0, np.clip(counts, 1, self.most)).astype(np.int64)


class Drawn(NamedTuple):
    """Synthetic jobs, (jobs,) each; NaN in ``limit`` = none."""

    submit: Floats  # whole seconds
    run: Floats  # whole seconds, at least 1
    limit: Floats
    cores: Ints
    memory: Floats  # KB of the whole job; a multiple of the cores
    kind: Ints  # position in `KINDS`


def draw_jobs(jobs: Jobs, arrivals: Arrivals, n_jobs: int, rng: np.random.Generator) -> Drawn:
    """Draw jobs, in order of arrival."""
    submit = np.floor(arrivals.draw(n_jobs, rng))
    sizes = np.array(jobs.cores, np.int64)
    shares = np.array(jobs.core_shares) if jobs.core_shares else np.full(len(sizes), 1 / len(sizes))
    place = np.minimum(np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(n_jobs), "right"), len(sizes) - 1)
    cores = sizes[place]
    kind = jobs.kinds(cores, rng)
    share, run = _by_kind(jobs.bands, kind, rng), _by_kind(jobs.run_times, kind, rng)
    least, most = jobs.memory
    memory = least + share * (most - least)
    memory = np.clip(np.floor(memory / GB) * GB, least, most) if most - least >= 8 * GB else memory
    run = np.maximum(np.round(run), 1.0)
    return Drawn(submit, run, _limits(jobs, run, rng), cores, whole_per_core(memory, cores), kind)


def whole_per_core(memory: Floats, cores: Ints) -> Floats:
    """Return the memory of jobs (KB) rounded down to a whole number of KB per core, as traces hold it; at least 1."""
    return np.maximum(np.floor(memory / cores), 1.0) * cores


def _by_kind(knots: tuple[tuple[float, ...], ...], kind: Ints, rng: np.random.Generator) -> Floats:
    u, made = rng.random(len(kind)), np.empty(len(kind))
    for k, values in enumerate(knots):
        rows = kind == k
        made[rows] = quantile(values, u[rows])
    return made


def quantile(knots: tuple[float, ...], u: Floats) -> Floats:
    """Return values at the levels ``u`` of a distribution given by knots at equal steps."""
    return np.interp(u, np.linspace(0, 1, len(knots)), knots)


def _limits(jobs: Jobs, run: Floats, rng: np.random.Generator) -> Floats:
    """Return limits: the run time with some slack, rounded up to a value that users ask for; NaN = none."""
    u, none = rng.random(len(run)), rng.random(len(run)) < jobs.unlimited
    if not jobs.limits:
        return np.full(len(run), np.nan)
    values = np.array(jobs.limits)
    if jobs.limit_shares:
        wanted = tsafrir.assign_limits(np.minimum(run, values[-1]), values, np.array(jobs.limit_shares), rng)
    else:
        least = np.ceil(run * quantile(jobs.slack, u))
        above = np.searchsorted(values, least)
        wanted = np.where(above < len(values), values[np.minimum(above, len(values) - 1)], _days(least))
    return np.where(none, np.nan, np.maximum(wanted, np.where(run > values[-1], _days(run), 0.0)))


def _days(seconds: Floats) -> Floats:
    days: Floats = np.ceil(seconds / 86400) * 86400
    return days


def machine_of(cores: Ints, memory: Ints, name: str = "eda") -> Machine:
    """Return a cluster of such hosts (memory in GB); alike hosts are a group, groups in order of first appearance."""
    counts = Counter(zip(cores.tolist(), memory.tolist(), strict=True))
    groups = tuple(HostGroup(count, cores=c, memory=m * GB, name=f"c{c}m{m}") for (c, m), count in counts.items())
    return Machine(name=name, procs=int(cores.sum()), nodes=len(cores), groups=groups)


@lru_cache(maxsize=64)
def _mean_work(jobs: Jobs) -> tuple[float, float]:
    """Return the mean of core-seconds and of KB-seconds of a job, from the same sample for every seed."""
    sample = draw_jobs(jobs, Arrivals(), 4096, np.random.default_rng(0))
    return float(np.mean(sample.run * sample.cores)), float(np.mean(sample.run * sample.memory))


def with_load(jobs: Jobs, arrivals: Arrivals, machine: Machine, load: float) -> Arrivals:
    """Return arrivals whose steps are so long that the scarcer of cores and memory is offered ``load`` of itself."""
    cores = sum(group.count * (group.cores or 0) for group in machine.groups) or machine.procs or 0
    memory = sum(group.count * (group.memory or 0.0) for group in machine.groups)
    work = [mean / size for mean, size in zip(_mean_work(jobs), (cores, memory), strict=True) if size]
    if not work or not load > 0:
        raise UsageError(f"eda: the load must be above 0 and the machine's size known, not {load}")
    return dataclasses.replace(arrivals, every=max(work) * arrivals.mean() / load)
