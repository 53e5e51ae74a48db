"""How long users say their jobs will run: Tsafrir, Etsion & Feitelson, "Modeling user runtime estimates", JSSPP 2005.

Users choose from few, round values: twenty of them cover most jobs, the largest allowed one is always among them, and
an estimate is (nearly) never below the run time. Two steps: `modal_limits` draws the values and their popularity,
`assign_limits` deals them out so that each lands on a job that fits below it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HEAD = 20  # how many values count as popular; their shares have a formula of their own

#: Round values in minutes that people type; the popular limits are taken from here.
_ROUND_MINUTES = np.array([
    5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 720, 900, 1080, 1200, 1440, 1800, 2160, 2880,
    4320, 5760, 7200, 10080, 14400, 20160, 30240, 43200,
])  # fmt: skip


def modal_count(n_jobs: int) -> int:
    """Return how many different limits ``n_jobs`` jobs use: K = 0.653566 · n^0.547761, at least one."""
    return max(1, round(0.653566 * float(np.power(n_jobs, 0.547761))))


def popularity(count: int) -> Floats:
    """Return the shares of ``count`` limits by rank, most popular first; they sum to 1. Shape (count,).

    In percent: 14.0491 · e^(−0.177531 x) + 0.462513 for ranks x ≤ 20, 795.6 · x^(−2.267) beyond.
    """
    rank = np.arange(1, count + 1, dtype=np.float64)
    percent = np.where(rank <= HEAD, 14.0491 * np.exp(-0.177531 * rank) + 0.462513, 795.6 * rank**-2.267)
    return np.asarray(percent / percent.sum())


def spread(count: int, longest: float) -> Floats:
    """Return ``count`` increasing times in seconds, the last of them ``longest``.

    The x-th of them by size, as a fraction of all, is t(x) = (a − 1) x / (a − x) of the longest, with
    a = 1 + 12.1039 · K^(−0.6026): many short values, few long ones.
    """
    x = np.arange(1, count + 1) / count
    a = 1 + 12.1039 * count**-0.6026
    return np.asarray(longest * (a - 1) * x / (a - x))


def modal_limits(n_jobs: int, longest: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the limits that ``n_jobs`` jobs choose from: times in seconds (increasing) and their shares (sum 1).

    The popular values are round ones and always include ``longest``; which of them is how popular is dealt at random
    (the paper leaves this pairing to the site). The others follow `spread`, in whole minutes.
    """
    count = modal_count(n_jobs)
    head = min(HEAD, count)
    round_times = 60.0 * _ROUND_MINUTES
    round_times = round_times[round_times < longest]
    if len(round_times) > head - 1:
        round_times = rng.choice(round_times, head - 1, replace=False)
    popular = np.append(round_times, longest)
    rest = np.ceil(spread(count, longest) / 60.0) * 60.0
    rest = np.setdiff1d(rest[rest < longest], popular)
    rest = rng.permutation(rest)[: count - len(popular)]
    times = np.concatenate([rng.permutation(popular), rest])
    order = np.argsort(times)
    return times[order], popularity(len(times))[order]


def assign_limits(run: Floats, times: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
    """Give each job a limit at or above its run time, so that the limits keep their shares; all in seconds.

    The paper matches jobs and estimates at random among the pairs that fit. The same law, without a loop over jobs:
    go through the limits from short to long; limit k takes each job that fits below it and has none yet with one
    probability (its hazard) h_k = wanted / waiting. What a limit cannot place goes to the next longer one; the
    longest takes all that are left. A job that runs longer than the longest limit gets that one.

    ``run`` has shape (jobs,), ``times`` (increasing) and ``shares`` have shape (limits,).
    """
    first = np.minimum(np.searchsorted(times, run, side="left"), len(times) - 1)
    arriving = np.bincount(first, minlength=len(times)).astype(np.float64)
    wanted = shares / shares.sum() * len(run)
    hazard = np.empty(len(times))
    waiting = surplus = 0.0
    for k in range(len(times)):
        waiting += arriving[k]
        want = wanted[k] + surplus
        taken = min(want, waiting)
        hazard[k] = taken / waiting if waiting > 0 else 0.0
        waiting -= taken
        surplus = want - taken
    # A job's limit is the first k at which the summed −log(1 − h) has grown by a draw from Exp(1) since it arrived.
    grown = np.cumsum(-np.log1p(-np.minimum(hazard, 1 - 1e-15)))
    grown[-1] = np.inf
    before = np.concatenate([[0.0], grown[:-1]])[first]
    return times[np.searchsorted(grown, before + rng.exponential(size=len(run)), side="left")]
