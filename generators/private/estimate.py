"""From noisy numbers to parameters. Nothing here sees the real trace, so nothing here costs budget.

A released table is combined with a public prior: shares have a Dirichlet prior's mean and covariance, the noise is
Gaussian, and the posterior mean is taken. With little noise the data count, with much the prior.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from generators.private.domain import ACTIVITY, GAPS, LIMITS, RUNS, STATES, WEEKDAY_BLOCKS, WEEKEND_BLOCKS, Domain
from generators.private.tables import Noisy, Released

Floats = NDArray[np.float64]

#: Strength of the priors: as many jobs' worth of opinion as this, in the sense of a Dirichlet distribution.
STRENGTH = {"marginal": 8.0, "joint": 30.0, "week": 60.0, "pairs": 20.0, "activity": 200.0}
#: Shares of jobs by hour on a weekday and at the weekend, and the weekend's share: round numbers after KTH and CTC.
WEEKDAY = np.array([22, 16, 12, 9, 8, 7, 9, 15, 32, 60, 78, 80, 69, 75, 82, 77, 75, 64, 49, 33, 29, 28, 31, 27])
WEEKEND = np.array([36, 32, 20, 16, 11, 9, 10, 15, 20, 33, 45, 68, 62, 62, 62, 66, 68, 62, 55, 54, 48, 50, 48, 40])
AT_WEEKEND = 0.16
#: A user's share of the load is long-tailed: the share of all load that is left below a cap of c is
#: 1 − exp(−(c / KNEE) ^ BEND), after KTH and CTC.
KNEE, BEND = 0.0115, 0.75
#: What is known of the load of production machines before looking: a geometric mean and a spread in logarithms.
USUAL_LOAD, LOAD_SPREAD = 0.7, 0.15
#: Classes of limits, run times and sizes whose joint table is bought.
COARSE = (3, 4, 3)


def number_of_users(activity: Floats) -> float:
    """Return the released number of users; at least 0."""
    return float(max(activity.sum(), 0.0))


def class_means() -> Floats:
    """Return the mean jobs per user of every class of activity, log-uniform inside."""
    low = np.append(1.0, ACTIVITY)
    high = np.append(ACTIVITY, 3 * ACTIVITY[-1])
    return np.asarray(np.where(low == 1.0, 1.0, (high - low) / np.log(high / low)))


def users_by_class(activity: Floats, noise: float) -> Floats:
    """Return shares of users by class: the noisy ones, leaning on the Weibull curves that fit them.

    Jobs per user have a tail that falls faster than a log-normal one; a shape of about one half fits (KTH, CTC).
    """
    edges = np.log(np.concatenate([[0.5], ACTIVITY - 0.5, [3 * ACTIVITY[-1]]]))
    scales, shapes = np.meshgrid(np.linspace(0.0, 8.0, 65), [0.4, 0.45, 0.5, 0.55, 0.6, 0.7], indexing="ij")
    below = 1 - np.exp(-np.exp((edges - scales.ravel()[:, None]) * shapes.ravel()[:, None]))
    curves = np.diff(below, axis=1)
    curves /= curves.sum(axis=1, keepdims=True)
    misfit = ((activity - max(activity.sum(), 1.0) * curves) ** 2).sum(axis=1) / max(noise, 0.5) ** 2
    misfit += ((shapes.ravel() - 0.5) / 0.05) ** 2
    weight = np.exp(-0.5 * (misfit - misfit.min()))
    return posterior(activity, noise, weight @ curves / weight.sum(), STRENGTH["activity"])


def number_of_jobs(activity: Floats, noise: float) -> float:
    """Return the number of jobs that follows from the classes of users."""
    return float(max(number_of_users(activity), 1.0) * (users_by_class(activity, noise) * class_means()).sum())


def choose_cap(activity: Floats, noise: float, deviation: float) -> float:
    """Return the cap on jobs per user with the least expected error: what it cuts off, and the noise it costs.

    ``deviation`` is the noise on a table in multiples of the cap. What is cut off costs about a tenth of the share of
    jobs that is lost, in Kolmogorov–Smirnov distance, and the noise about twice its share of the jobs (KTH, CTC).
    """
    users = users_by_class(activity, noise) * max(number_of_users(activity), 1.0)
    jobs = class_means()
    caps = 10.0 * 1.25 ** np.arange(30)
    kept = (users * np.minimum(jobs, caps[:, None])).sum(axis=1)
    error = np.hypot(0.1 * (1 - kept / (users * jobs).sum()), 2 * deviation * caps / np.maximum(kept, 1.0))
    return float(np.round(caps[np.argmin(error)]))


def posterior(counts: Floats, noise: float, prior: Floats, strength: float) -> Floats:
    """Return shares: the posterior mean of noisy counts under a prior, moved to the nearest point of the simplex."""
    total = float(counts.sum())
    if not total > noise * np.sqrt(len(counts)):
        return prior
    deviation = noise / total
    spread = (np.diag(prior) - np.outer(prior, prior)) / (strength + 1)
    gain = spread @ np.linalg.inv(spread + deviation**2 * np.eye(len(prior)))
    return nearest_shares(prior + gain @ (counts / total - prior))


def nearest_shares(values: Floats) -> Floats:
    """Return the nearest vector of shares: not negative, sum 1."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    found = np.maximum(values - excess[last], 0.0)
    return np.asarray(found / found.sum())


def limit_prior() -> Floats:
    """Return the prior of limits: round values, popular ones twice; one job in twenty has none."""
    popular = np.isin(LIMITS / 60, (5, 10, 15, 30, 60, 120, 240, 360, 720, 1080, 1440))
    within = np.where(LIMITS <= 2880 * 60, 1.0, 0.2) * np.where(popular, 2.0, 1.0)
    return np.append(0.95 * within / within.sum(), 0.05)


def run_prior() -> Floats:
    """Return the prior of run times: equal shares of all bins up to a day, little beyond."""
    shares = np.where(RUNS <= 86400, 1.0, 0.3)
    shares[0] = 0.3
    return np.asarray(shares / shares.sum())


def size_prior(bins: int) -> Floats:
    """Return the prior of sizes: a fifth on one unit, the others falling off slowly."""
    if bins == 1:
        return np.ones(1)
    rest = 0.9 ** np.arange(bins - 1)
    return np.append(0.2, 0.8 * rest / rest.sum())


def week_prior() -> Floats:
    """Return the prior of the blocks of the week."""
    day = WEEKDAY.reshape(WEEKDAY_BLOCKS, -1).sum(axis=1) / WEEKDAY.sum()
    end = WEEKEND.reshape(WEEKEND_BLOCKS, -1).sum(axis=1) / WEEKEND.sum()
    return np.concatenate([(1 - AT_WEEKEND) * day, AT_WEEKEND * end])


def pairs_prior() -> Floats:
    """Return the prior of (gap, likeness): half of the gaps are short, and short gaps go with similar jobs."""
    gaps = np.append(np.array([0.08, 0.1, 0.1, 0.1, 0.1, 0.08]), 0.44)
    likeness = np.vstack([np.tile([0.45, 0.3, 0.25], (len(GAPS), 1)), [[0.2, 0.25, 0.55]]])
    return np.asarray((gaps[:, None] * likeness).reshape(len(gaps) * STATES))


def marginals(limit: Noisy, run: Noisy, size: Noisy) -> tuple[Floats, Floats, Floats]:
    """Return the shares of limits, run times and sizes."""
    strength = STRENGTH["marginal"]
    return (
        posterior(limit.values, limit.noise, limit_prior(), strength),
        posterior(run.values, run.noise, run_prior(), strength),
        posterior(size.values, size.noise, size_prior(len(size.counts)), strength),
    )


def coarse(shares: Floats, classes: int) -> list[int]:
    """Return the class of every bin: consecutive bins of about equal share."""
    middle = np.cumsum(shares) - shares / 2
    found = np.minimum((middle * classes).astype(int), classes - 1)
    return [int(number) for number in np.unique(found, return_inverse=True)[1]]


def joint(released: Released, domain: Domain) -> Floats:
    """Return shares of limit × run time × size: the joint of most entropy with the released tables.

    A run time is never above its limit. Fitted by iterative proportional fitting, the margins last.
    """
    limit, run, size = marginals(released.limit, released.run, released.size)
    lowest = np.append(0.0, RUNS[:-1])
    possible = np.ones((len(limit), len(run)))
    possible[:-1] = lowest[None, :] < LIMITS[:, None]
    cells = (limit[:, None] * run[None, :] * possible)[:, :, None] * size[None, None, :] + 1e-15
    cells *= possible[:, :, None]
    cells = _fitted(cells, limit, run, size)
    groups = _groups(released.cuts)
    shape = released.joint.values.shape[0]
    before = np.bincount(groups.ravel(), weights=cells.ravel(), minlength=shape)
    wanted = posterior(released.joint.values, released.joint.noise, before / before.sum(), STRENGTH["joint"])
    for _ in range(40):
        now = np.bincount(groups.ravel(), weights=cells.ravel(), minlength=shape)
        cells = cells * np.where(now > 0, wanted / np.maximum(now, 1e-300), 0.0)[groups]
        cells = _fitted(cells, limit, run, size, rounds=1)
    return np.asarray(cells / cells.sum())


def _groups(cuts: list[list[int]]) -> NDArray[np.intp]:
    """Return the coarse cell of every fine cell."""
    classes = [np.array(cut) for cut in cuts]
    shape = tuple(int(c.max()) + 1 for c in classes)
    return np.asarray(np.ravel_multi_index(np.ix_(*classes), shape))


def _fitted(cells: Floats, limit: Floats, run: Floats, size: Floats, rounds: int = 20) -> Floats:
    for _ in range(rounds):
        for axis, wanted in ((2, size), (1, run), (0, limit)):
            others = tuple(a for a in range(3) if a != axis)
            now = cells.sum(axis=others)
            factor = np.where(now > 0, wanted / np.maximum(now, 1e-300), 0.0)
            cells = cells * np.expand_dims(factor, others)
    return cells


def week_speed(week: Noisy | None) -> Floats:
    """Return the rate of submits by hour of the week, mean 1; even without a calendar. Shape (168,)."""
    if week is None:
        return np.ones(168)
    shares = posterior(week.values, week.noise, week_prior(), STRENGTH["week"]) / week_prior()
    day = WEEKDAY / WEEKDAY.sum() * (1 - AT_WEEKEND) / 5 * np.repeat(shares[:WEEKDAY_BLOCKS], 24 // WEEKDAY_BLOCKS)
    end = WEEKEND / WEEKEND.sum() * AT_WEEKEND / 2 * np.repeat(shares[WEEKDAY_BLOCKS:], 24 // WEEKEND_BLOCKS)
    speed = np.maximum(np.concatenate([np.tile(day, 5), np.tile(end, 2)]) * 168, 0.02)
    return np.asarray(speed / speed.mean())


def pair_shares(released: Released) -> Floats:
    """Return shares of (gap, likeness) of consecutive jobs of one user, shape (gaps, states)."""
    shares = posterior(released.pairs.values, released.pairs.noise, pairs_prior(), STRENGTH["pairs"])
    return shares.reshape(-1, STATES)


def load_cap(deviation: float, *, by_job: bool) -> float:
    """Return the largest share of the machine that one user may count for: the noise is then 6 % of the machine.

    A single job counts for less, and its noise is 1 %.
    """
    return float(np.clip(0.01 / deviation, 0.0005, 0.05) if by_job else np.clip(0.06 / deviation, 0.002, 0.06))


def load_of(released: Released, *, by_job: bool) -> float:
    """Return the offered load: the released clipped sum, corrected for what the cap cut off, leaning on usual loads."""
    found, noise = released.load.counts[0], released.load.noise
    below = 1.0 if by_job else 1 - float(np.exp(-((released.load_cap / KNEE) ** BEND)))
    floor = max(found, noise / 2, 1e-4)
    spread = np.hypot(0.5 * (1 - below), noise / floor)
    trust = LOAD_SPREAD**2 / (LOAD_SPREAD**2 + spread**2)
    return float(np.exp(trust * np.log(floor / below) + (1 - trust) * np.log(USUAL_LOAD)))
