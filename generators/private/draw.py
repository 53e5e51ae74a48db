"""Making jobs from released numbers: users, their sessions and campaigns, shapes, run times, and the clock.

Shares are met by systematic sampling with weights, not by independent draws, so that a synthetic trace differs from the
released shares by little more than its largest campaign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.clock import Clock
from generators.private.domain import ACTIVITY, ALIKE, GAPS, LIMITS, OTHER, RUNS, Domain
from tracekit.schema import labels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Share of limits, and of sizes, that lie at the upper edge of their bin; the others are spread below it.
ROUND_LIMITS, ROUND_SIZES = 0.6, 0.65
#: A user who changes to another kind of job takes a new one with FRESH / (FRESH + changes so far), else an old one.
FRESH = 3.0
#: No user has much more than this share of all jobs.
BUSIEST = 0.08
#: No kind of job of one user has more than this share of all jobs.
LARGEST = 0.004
#: How alike the lengths of sessions are; near 1 a few of them hold most jobs.
TAIL = 3.0
#: As many kinds of jobs are dealt out one by one.
HEAVY = 3000
#: Run times of similar consecutive jobs differ by about this share.
JITTER = 0.08
#: Part of the trace in which a user is active: so much, and so much more with every session, at most all.
WINDOW, WINDOW_PER_SESSION = 0.15, 0.04
#: Classes of gaps that are small but not immediate: 5 s to 6 min.
SMALL = (1, 3)
#: 2024-01-01, a Monday: where every trace begins, because real dates are not released.
MONDAY = "2024-01-01"


@dataclass(frozen=True)
class Parameters:
    """What a trace is drawn from; all of it follows from released numbers."""

    domain: Domain
    users: float
    jobs: float  # of the real trace
    classes: Floats  # shares of users by class of jobs per user
    cells: Floats  # shares of limit × run time × size
    pairs: Floats  # shares of gap × likeness
    speed: Floats  # rate by hour of the week, shape (168,)
    load: float


def draw(parameters: Parameters, n_jobs: int, rng: np.random.Generator) -> tuple[pd.DataFrame, float | None]:
    """Return ``n_jobs`` jobs in submit order, and the Unix time of submit_time 0 (None without a calendar)."""
    user = _users(parameters, n_jobs, rng)
    first = np.append(True, user[1:] != user[:-1])
    gap, state = _steps(parameters.pairs, first, rng)
    item = _items(user, first, state, rng)
    limit, size, cell = _shapes(parameters, item, rng)
    run = _runs(parameters, cell, limit, first | (state != ALIKE), rng)
    span = float((size * run).sum()) / (parameters.load * parameters.domain.size)
    submit, epoch = _times(parameters, user, first, gap, max(span, 3600.0), rng)
    order = np.argsort(submit, kind="stable")
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, n_jobs + 1),
            "submit_time": submit[order] - submit[order][0],
            "run_time": run[order],
            f"req_{parameters.domain.unit}": size[order].astype(np.int64),
            "user": labels(
                pd.Series(np.array([f"u{k + 1}" for k in range(int(user.max()) + 1)], dtype=object)[user[order]])
            ),
        }
    )
    if np.isfinite(limit).any():
        jobs["req_time"] = limit[order]
    return jobs, None if epoch is None else epoch + float(submit[order][0])


def _systematic(shares: Floats, weights: Floats, rng: np.random.Generator) -> Ints:
    """Deal categories out to things of some weight, so that every category gets its share of the weight."""
    order = rng.permutation(len(weights))
    reached = np.cumsum(weights[order])
    place = (reached - weights[order] * rng.random(len(weights))) / reached[-1]
    found = np.empty(len(weights), np.int64)
    found[order] = np.minimum(np.searchsorted(np.cumsum(shares), place * shares.sum()), len(shares) - 1)
    return found


def _dealt(shares: Floats, weights: Floats, rng: np.random.Generator) -> Ints:
    """Deal categories out as `_systematic` does, but heavy things first, so that light ones make up for them."""
    need = shares / shares.sum() * weights.sum()
    found = np.full(len(weights), -1, np.int64)
    heavy = np.argsort(-weights, kind="stable")[:HEAVY]
    for thing in heavy:
        room = np.maximum(need, 0.0)
        room = np.where(room >= weights[thing], room, 0.05 * room)  # rather where it fits
        found[thing] = min(int(np.searchsorted(np.cumsum(room), rng.random() * room.sum())), len(need) - 1)
        need[found[thing]] -= weights[thing]
    light = np.flatnonzero(found < 0)
    if len(light):
        found[light] = _systematic(np.maximum(need, 1e-12), weights[light], rng)
    return found


def _users(parameters: Parameters, n_jobs: int, rng: np.random.Generator) -> Ints:
    """Return the user of every job, sorted. A shorter trace has fewer users, as the square root of its length."""
    known = max(round(parameters.users * min(1.0, np.sqrt(n_jobs / max(parameters.jobs, 1.0)))), 1)
    count = min(known, n_jobs)
    group = _systematic(parameters.classes, np.ones(count), rng)
    low, high = np.append(1.0, ACTIVITY)[group], np.append(ACTIVITY, 3 * ACTIVITY[-1])[group]
    jobs = np.maximum(low * (high / low) ** rng.random(count), 1.0)
    extra = np.minimum(jobs, max(BUSIEST * jobs.sum(), 2.0)) - 1
    wanted = n_jobs - count
    if not extra.sum() > 0:
        extra = np.ones(count)
    reached = np.floor(np.cumsum(extra) / extra.sum() * wanted + 0.5).astype(np.int64)
    reached[-1] = wanted
    return np.repeat(np.arange(count), 1 + np.diff(reached, prepend=0))


def _steps(pairs: Floats, first: NDArray[np.bool_], rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the class of the gap before every job, and its likeness to the job before; a first job is new.

    Sessions have long-tailed lengths, and one pace each: the class of all gaps in it.
    """
    gaps = pairs.sum(axis=1)
    begins = first | _breaks(float(np.clip(gaps[-1], 0.01, 1.0)), len(first), rng)
    session = np.cumsum(begins) - 1
    short = np.maximum(gaps[:-1], 1e-9)
    within = _systematic(short, np.ones(len(first)), rng)
    # Runs of three small gaps would now and then be those of a real user, by chance: no third one in a row.
    place = np.arange(len(first)) - np.flatnonzero(begins)[session]
    odd = (place % 3 == 0) & (within >= SMALL[0]) & (within <= SMALL[1])
    within = np.where(odd, np.where(rng.random(len(first)) < 0.5, SMALL[0] - 1, SMALL[1] + 1), within)
    gap = np.where(begins, len(GAPS), within)
    state = np.empty(len(first), np.int64)
    for number, likeness in enumerate(pairs):
        rows = np.flatnonzero(gap == number)
        if len(rows):
            state[rows] = _systematic(likeness + 1e-12, np.ones(len(rows)), rng)
    return gap, np.where(first, OTHER, state)


def _breaks(share: float, n_jobs: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return where sessions begin: a ``share`` of the jobs, at distances with a long tail (beta-geometric)."""
    chance = rng.beta(1 + share * (TAIL - 1), (1 - share) * (TAIL - 1) + 1e-9, n_jobs)
    length = rng.geometric(np.clip(chance, 1e-4, 1.0))
    begins = np.zeros(n_jobs, dtype=bool)
    place = np.cumsum(length)
    begins[place[place < n_jobs]] = True
    return begins


def _items(user: Ints, first: NDArray[np.bool_], state: Ints, rng: np.random.Generator) -> Ints:
    """Return the number of every job's kind: a change leads to a new kind, or to one that the user had before."""
    change = first | (state == OTHER)
    number = np.cumsum(change) - 1  # of the change that a job follows
    who = user[change]
    begin = np.searchsorted(who, who, side="left")
    rank = np.arange(len(who)) - begin
    fresh = rng.random(len(who)) < FRESH / (FRESH + rank)
    parent = np.where(fresh, np.arange(len(who)), begin + np.floor(rng.random(len(who)) * rank).astype(np.int64))
    while True:
        above = parent[parent]
        if np.array_equal(above, parent):
            break
        parent = above
    kind = parent[number]
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(kind), np.int64)
    rank[order] = np.arange(len(kind)) - np.searchsorted(kind[order], kind[order], side="left")
    most = max(20, int(LARGEST * len(kind)))
    return np.unique(np.stack([kind, rank // most]), axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def _shapes(parameters: Parameters, item: Ints, rng: np.random.Generator) -> tuple[Floats, Floats, Ints]:
    """Return limit (NaN = none), size and the cell of both of every job; jobs of one kind have the same."""
    weights = np.bincount(item).astype(np.float64)
    both = parameters.cells.sum(axis=1)  # limits × sizes
    cell = _dealt(both.ravel(), weights, rng)
    limit_bin, size_bin = cell // both.shape[1], cell % both.shape[1]
    limit = _limits(limit_bin, rng)
    edges = parameters.domain.sizes
    low, high = np.append(0.0, edges)[size_bin], edges[size_bin]
    spread = low + 1 + np.floor(rng.random(len(low)) * (high - low))
    size = np.where(rng.random(len(low)) < ROUND_SIZES, high, np.minimum(spread, high))
    return limit[item], size[item], cell[item]


def _limits(limit_bin: Ints, rng: np.random.Generator) -> Floats:
    """Return limits in whole minutes: the bin's round value, or another multiple of 1, 5 or 10 minutes below it."""
    values, below = np.append(LIMITS, np.nan), np.append(np.append(0.0, LIMITS[:-1]), np.nan)
    high, low = values[limit_bin], below[limit_bin]
    grain = np.where(high <= 600, 60.0, np.where(high <= 7200, 300.0, 600.0))
    spread = np.ceil((low + (high - low) * rng.random(len(high))) / grain) * grain
    return np.where(rng.random(len(high)) < ROUND_LIMITS, high, np.clip(spread, low + 60.0, high))


def _runs(
    parameters: Parameters, cell: Ints, limit: Floats, fresh: NDArray[np.bool_], rng: np.random.Generator
) -> Floats:
    """Return run times in whole seconds, never above the limit; jobs after one another may be similar."""
    streak = np.cumsum(fresh) - 1
    weights = np.bincount(streak).astype(np.float64)
    own = cell[fresh]
    flat = parameters.cells.transpose(0, 2, 1).reshape(-1, parameters.cells.shape[1])  # cell of limit and size × runs
    # Systematic inside every cell: streaks in random order, at the place that their weights reach.
    order = np.lexsort((rng.random(len(own)), own))
    reached = np.cumsum(weights[order])
    begin = np.searchsorted(own[order], own[order], side="left")
    before = np.where(begin > 0, reached[begin - 1], 0.0)
    total = np.bincount(own, weights=weights)[own[order]]
    place = np.empty(len(own))
    place[order] = (reached - weights[order] * rng.random(len(own)) - before) / total
    chosen = np.cumsum(flat, axis=1)[own]
    bins = np.minimum((chosen < (place * chosen[:, -1])[:, None]).sum(axis=1), len(RUNS) - 1)
    high, low = RUNS[bins], np.append(-1.0, RUNS[:-1])[bins] + 1
    high = np.fmin(high, limit[fresh])
    low = np.minimum(low, high)
    base = (low + 1) * ((high + 1) / (low + 1)) ** rng.random(len(own)) - 1
    run = np.round(base[streak] * np.exp(JITTER * rng.standard_normal(len(streak)) * ~fresh))
    return np.asarray(np.fmin(np.clip(run, low[streak], high[streak]), limit), np.float64)


def _times(
    parameters: Parameters, user: Ints, first: NDArray[np.bool_], gap: Ints, span: float, rng: np.random.Generator
) -> tuple[Floats, float | None]:
    """Return submit times in whole seconds from 0 on: sessions by the week's rate, jobs by their gaps."""
    begins = first | (gap == len(GAPS))
    session = np.cumsum(begins) - 1
    owner = user[begins]
    sessions = np.bincount(owner).astype(np.float64)
    part = np.minimum(WINDOW + WINDOW_PER_SESSION * sessions, 1.0)
    left = rng.random(len(part)) * (1 - part)
    place = left[owner] + part[owner] * rng.random(len(owner))
    order = np.argsort(place, kind="stable")
    steps = np.diff(place[order] * span, prepend=0.0)
    epoch = None
    if parameters.domain.calendar:
        epoch = float(pd.Timestamp(MONDAY, tz=parameters.domain.timezone or "UTC").timestamp())
    clock = Clock(parameters.speed, epoch or 0.0, parameters.domain.timezone)
    start = np.empty(len(place))
    # The first gap of `wall` is not used: lead in with one that begins at midnight.
    start[order] = clock.wall(0.0, np.append(0.0, steps))[1:] if epoch is not None else place[order] * span
    pace = np.minimum(gap, len(GAPS) - 1)
    low, high = np.append(0.0, GAPS)[pace], GAPS[pace]
    pause = np.where(begins, 0.0, (low + 1) * ((high + 1) / (low + 1)) ** rng.random(len(gap)) - 1)
    passed = np.cumsum(pause)
    return np.floor(start[session] + passed - passed[begins][session]), epoch
