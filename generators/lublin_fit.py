"""Fitting the Lublin–Feitelson model to a trace: maximum likelihood for each of its parts; nothing random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from generators.in_order import InOrder
from generators.lublin_counts import CELL, CELLS, Counts, Gaps, Look
from generators.lublin_model import (
    BUCKETS,
    Floats,
    JobType,
    Limits,
    State,
    day_weights,
    first_gamma_share,
)

_LINE_PULL = 0.3  # log error in mean run time or work that a change of 1 in p is worth

_TINY = 1e-12  # replaces a probability of zero, so that one odd job does not decide


def fit_state(jobs: InOrder) -> State:
    """Learn everything the model needs from jobs; a `TracekitError` names what is missing."""
    look = Look.at(jobs)
    counts = Counts(jobs, look)
    kind = fit_runs(fit_sizes(counts), counts)
    kind = fit_day(kind, counts.half_hours) if look.calendar else replace(kind, day_a=None)
    kind = fit_arrivals(kind, Gaps(jobs, look, kind))
    column, derived = _size_columns(counts, look, jobs.machine.unit)
    return State(
        machine=jobs.machine,
        types=(kind,),
        first_submit=look.first,
        midnight=look.midnight,
        fitted_to=look.jobs,
        left_out=jobs.count - look.jobs,
        history=jobs.history,
        size_column=column,
        grain=look.grain,
        derived=derived,
        status=_status_shares(counts) if "status" in look.columns else None,
        limits=fit_limits(counts),
    )


def _mean(values: Floats, weight: NDArray[Any]) -> float:
    """Return the weighted mean. Not as a matrix product: those differ in their last digits from machine to machine."""
    return float(np.sum(weight * values) / max(float(np.sum(weight)), _TINY))


def _simplex(cost: Callable[[Floats], float], start: Floats) -> tuple[Floats, float]:
    """Return where Nelder and Mead's simplex finds the least cost, and that cost."""
    options: Any = {"maxiter": 400, "xatol": 1e-3, "fatol": 1e-7}
    found = optimize.minimize(cost, start.tolist(), method="Nelder-Mead", options=options)
    return np.asarray(found.x), float(found.fun)


# ---- sizes ---------------------------------------------------------------------------------------------------------


def two_stage_cdf(kind: JobType, x: Floats) -> Floats:
    """Return P(u ≤ x) of the two-stage uniform in log2 of the size."""
    below = np.clip((x - kind.low) / max(kind.med - kind.low, _TINY), 0, 1)
    above = np.clip((x - kind.med) / max(kind.high - kind.med, _TINY), 0, 1)
    return np.asarray(kind.prob * below + (1 - kind.prob) * above)


def parallel_size_shares(kind: JobType, size: Floats) -> Floats:
    """Return the probability of each size above 1, given that the job is parallel; what rounds to 1 is left out."""
    whole = np.log2(size)
    other = two_stage_cdf(kind, np.log2(size + 0.5)) - two_stage_cdf(kind, np.log2(size - 0.5))
    top = np.floor(kind.high + 1e-9)
    upper = np.where(whole >= top, np.inf, whole + 0.5)  # what would round above the largest size stays at the top
    power = np.where(
        (whole == np.round(whole)) & (whole <= top), two_stage_cdf(kind, upper) - two_stage_cdf(kind, whole - 0.5), 0.0
    )
    p2 = kind.power2 / max(1 - kind.serial, _TINY)
    return np.asarray(p2 * power + (1 - p2) * other)


def stage_means(kind: JobType) -> tuple[float, float]:
    """Return the mean size of a parallel job drawn from the first and from the second stage."""
    p2 = kind.power2 / max(1 - kind.serial, _TINY)
    top = np.floor(kind.high + 1e-9)
    means = []
    for low, high in ((kind.low, kind.med), (kind.med, kind.high)):
        u = low + (np.arange(400) + 0.5) / 400 * (high - low)
        means.append(float(np.mean(p2 * 2 ** np.minimum(np.floor(u + 0.5), top) + (1 - p2) * 2**u)))
    return means[0], means[1]


def fit_sizes(jobs: Counts) -> JobType:
    """Return a job type with the most likely size parameters among those with the right mean.

    Sizes are whole numbers from 1. The mean is what the load depends on, and it is linear in ``prob``: so that one
    follows from the others, which maximise the likelihood.
    """
    parallel = jobs.sizes.values > 1
    values, counts = jobs.sizes.values[parallel], jobs.sizes.counts[parallel]
    serial = float(int(jobs.sizes.counts[~parallel].sum()) / jobs.jobs)
    if not len(values):
        return JobType(serial=1.0, power2=0.0, low=0.0, med=0.0, high=0.0)
    mean = _mean(values, counts)
    high = float(np.log2(values[-1]))
    # The smallest size s comes from u > log2(s − ½), so `low` lies between that and log2 s.
    low_from, low_to = float(np.log2(values[0] - 0.5)) + 1e-6, float(np.log2(values[0]))

    def kind_of(theta: Floats) -> JobType:
        """Map three unbounded numbers to parameters within their bounds."""
        part = special.expit(theta)
        low = float(low_from + part[0] * (low_to - low_from))
        med = min(float(low + part[1] * (high - low)), high)  # rounding may lead above
        kind = JobType(serial=serial, power2=float((1 - serial) * part[2]), low=low, med=med, high=high)
        small, large = stage_means(kind)
        prob = (large - mean) / (large - small) if large > small else 0.5
        return replace(kind, prob=float(np.clip(prob, 0, 1)))

    def cost(theta: Floats) -> float:
        shares = parallel_size_shares(kind_of(theta), values)
        return -_mean(np.log(np.maximum(shares, _TINY)), counts)

    power_share = float(np.clip(counts[np.log2(values) % 1 == 0].sum() / counts.sum(), 0.02, 0.98))
    best, lowest = np.zeros(3), np.inf
    for med in (0.1, 0.35, 0.6, 0.85):  # the likelihood has kinks at every size, so several starts
        start = special.logit(np.array([0.5, med, power_share]))
        found, value = _simplex(cost, start)
        if value < lowest:
            best, lowest = found, value
    return kind_of(best)


# ---- run times -----------------------------------------------------------------------------------------------------


def fit_runs(kind: JobType, jobs: Counts, *, steps: int = 200) -> JobType:
    """Return ``kind`` with the hyper-gamma of ln(run) fitted by EM, the share of the first gamma linear in size.

    The model cuts e^g to whole seconds, so a run of r seconds means g ≈ ln(r + ½); runs below a second count as
    one second. Equal (size, ln run) are pooled in cells, so a million jobs cost no more than a few thousand.
    """
    cells = jobs.cells.values
    sizes, x = (cells // CELLS).astype(np.float64), cells % CELLS * CELL
    w = jobs.cells.counts.astype(np.float64)
    longest = float(np.log(max(jobs.longest, 1.0) + 1.0)) + 1e-9  # never longer than any real job
    mean = _mean(x, w)
    if _mean((x - mean) ** 2, w) < CELL**2:  # (nearly) constant run times: one narrow gamma
        return replace(kind, a1=1e6, b1=mean / 1e6, a2=1e6, b2=mean / 1e6, pa=0.0, pb=1.0, longest=longest + 0.02)
    # Start: the short half and the long half.
    middle = _weighted_median(x, w)
    share = np.where(x <= middle, 0.9, 0.1)
    pa = pb = before = 0.0
    for step in range(steps):
        a1, b1 = fit_gamma(x, w * share)
        a2, b2 = fit_gamma(x, w * (1 - share))
        pa, pb = _linear_share(sizes, share, w, start=(pa, pb) if step else None)
        p = np.clip(pa * sizes + pb, 1e-3, 1 - 1e-3)
        log1, log2 = np.log(p) + _log_gamma(x, a1, b1), np.log(1 - p) + _log_gamma(x, a2, b2)
        total = np.logaddexp(log1, log2)
        share = np.exp(log1 - total)
        likelihood = _mean(total, w)
        if step and abs(likelihood - before) < 1e-7:
            break
        before = likelihood
    if a1 * b1 > a2 * b2:  # the first gamma is the short one, as in the paper
        a1, b1, a2, b2, pa, pb = a2, b2, a1, b1, -pa, 1 - pb
    kind = replace(kind, a1=a1, b1=b1, a2=a2, b2=b2, pa=pa, pb=pb, longest=longest)
    return _with_right_means(kind, jobs)


def mean_run(kind: JobType, size: Floats) -> Floats:
    """Return the expected run time in seconds of jobs of each size."""
    p = first_gamma_share(kind, size)
    (mean1, share1), (mean2, share2) = (
        _mean_exp_gamma(a, b, kind.longest) for a, b in ((kind.a1, kind.b1), (kind.a2, kind.b2))
    )
    weight1, weight2 = p * share1, (1 - p) * share2  # a draw that is too long is made again, whichever gamma it was
    return np.asarray((weight1 * mean1 + weight2 * mean2) / np.maximum(weight1 + weight2, _TINY))


def _with_right_means(kind: JobType, jobs: Counts) -> JobType:
    """Move the line p = pa · size + pb from the most likely one towards the right mean run time and mean work.

    Few long and large jobs make up the load, for which a likelihood of logarithms cares little. How far the line may
    go is a compromise (`_LINE_PULL`): where size and run time depend on each other in another way than by a line,
    matching the work in full would spoil the run times.
    """
    values, counts = jobs.sizes.values, jobs.sizes.counts
    real = np.array([jobs.run.mean, jobs.work.mean])
    if len(values) < 2 or real.min() <= 0:
        return kind
    middle = _mean(values, counts)  # the line by its level at the mean size: better conditioned
    likely = np.clip([kind.pa * middle + kind.pb, kind.pa * middle], [0.0, -5.0], [1.0, 5.0])

    def kind_of(line: Floats) -> JobType:
        pa = float(line[1]) / middle
        return replace(kind, pa=pa, pb=float(line[0]) - pa * middle)

    def miss(line: Floats) -> Floats:
        expected = mean_run(kind_of(line), values)
        made = np.array([_mean(expected, counts), _mean(values * expected, counts)])
        return np.concatenate([np.log(made / real), _LINE_PULL * (line - likely)])

    found = optimize.least_squares(miss, likely, bounds=([0.0, -5.0], [1.0, 5.0]), x_scale=0.1)
    return kind_of(found.x)


def fit_gamma(x: Floats, weight: Floats) -> tuple[float, float]:
    """Return shape and scale of the most likely gamma for weighted values above 0."""
    return gamma_of(_mean(x, weight), _mean(np.log(x), weight))


def gamma_of(mean: float, mean_log: float) -> tuple[float, float]:
    """Return shape and scale of the most likely gamma for values with these means of themselves and their logarithms.

    Minka's Newton steps.
    """
    mean = max(mean, _TINY)
    s = max(float(np.log(mean)) - mean_log, 1e-7)  # 0 only if all values are equal
    shape = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    for _ in range(6):  # the start is good to a per cent or two, and each step doubles the digits
        error = np.log(shape) - float(special.digamma(shape)) - s
        slope = 1 / shape - float(special.zeta(2, shape))  # zeta(2, a) is the derivative of digamma
        shape = 1 / (1 / shape + error / (shape**2 * slope))
    return float(shape), float(mean / shape)


def _log_gamma(x: Floats, shape: float, scale: float) -> Floats:
    return np.asarray((shape - 1) * np.log(x) - x / scale - special.gammaln(shape) - shape * np.log(scale))


def _linear_share(size: Floats, share: Floats, w: Floats, start: tuple[float, float] | None) -> tuple[float, float]:
    """Return (pa, pb) for which p = pa · size + pb explains the shares best: weighted least squares, reweighted twice.

    Reweighting by 1 / (p (1 − p)) makes it the maximum-likelihood line of a binomial with identity link.
    """
    mean = _mean(share, w)
    if np.ptp(size) == 0:
        return 0.0, mean
    pa, pb = start or (0.0, mean)
    for _ in range(3):
        p = np.clip(pa * size + pb, 0.02, 0.98)
        v = w / (p * (1 - p))
        centre, level = _mean(size, v), _mean(share, v)
        pa = _mean((size - centre) * (share - level), v) / _mean((size - centre) ** 2, v)
        pb = level - pa * centre
    return pa, pb


def _weighted_median(x: Floats, w: Floats) -> float:
    order = np.argsort(x)
    return float(x[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)])


# ---- arrivals ------------------------------------------------------------------------------------------------------


def fit_arrivals(kind: JobType, gaps: Gaps) -> JobType:
    """Return ``kind`` with the gamma of ln(gap), given the daily cycle.

    A gamma fitted to logarithms may miss the rate of arrivals by far, as few longest gaps decide it; so the length
    above which gaps are drawn again is set to give the real rate.
    """
    mean = gaps.mean()
    if mean <= 0:  # all at one instant: gaps of next to nothing
        return replace(kind, gap_a=1.0, gap_b=0.01, gap_scale=1e-9)
    # e^g is at least 1, so where jobs follow each other within seconds the gaps need a smaller unit than a second.
    unit = min(1.0, mean / 50.0)
    mean_x, mean_log, x = gaps.logarithms(unit)
    shape, scale = gamma_of(mean_x, mean_log)
    kind = replace(kind, gap_a=shape, gap_b=scale, gap_scale=unit)

    def excess(longest: float) -> float:
        return float(np.log(mean_gap(replace(kind, longest_gap=longest)) / mean))

    low, high = x.median(), 16.0  # from half of all gaps to a hundred days
    if excess(low) < 0 < excess(high):
        return replace(kind, longest_gap=float(optimize.brentq(excess, low, high, xtol=1e-6)))
    kind = replace(kind, longest_gap=x.high + 1e-9)
    return replace(kind, gap_scale=unit * mean / mean_gap(kind))


def mean_gap(kind: JobType) -> float:
    """Return the expected gap in operational seconds: E e^g for g gamma, cut at ``longest_gap``."""
    return kind.gap_scale * _mean_exp_gamma(kind.gap_a, kind.gap_b, kind.longest_gap)[0]


def _mean_exp_gamma(shape: float, scale: float, longest: float) -> tuple[float, float]:
    """Return E[e^g | g ≤ longest] and P(g ≤ longest) for g gamma, by the midpoint rule in 4,000 steps."""
    edges = np.linspace(0.0, longest, 4001)
    share = np.diff(special.gammainc(shape, edges / scale))
    total = float(share.sum())
    if total <= _TINY:  # (nearly) all of it lies beyond
        return float(np.exp(longest)), total
    return _mean(np.exp((edges[1:] + edges[:-1]) / 2), share), total


def fit_day(kind: JobType, half_hours: NDArray[np.int64]) -> JobType:
    """Return ``kind`` with the gamma over the half-hours of the day, and the start of that day, most likely.

    Each possible start is tried with the gamma of the same mean and variance; the best is then refined.
    """
    counts = half_hours.astype(np.float64)

    def cost(day_start: int, day_a: float, day_b: float) -> float:
        weights = day_weights(replace(kind, day_a=day_a, day_b=day_b, day_start=day_start))
        return -_mean(np.log(weights), counts)

    tried = []
    for day_start in range(1, BUCKETS + 1):
        i = np.arange(day_start, day_start + BUCKETS, dtype=np.float64)
        w = counts[(i.astype(np.int64) - 1) % BUCKETS] + 1e-9
        mean = _mean(i, w)
        variance = max(_mean((i - mean) ** 2, w), 1e-3)
        day_a, day_b = mean**2 / variance, variance / mean
        tried.append((cost(day_start, day_a, day_b), day_start, day_a, day_b))
    flat = 0.0  # the cost of equal weights
    best, day_start, day_a, day_b = min(tried)
    found, value = _simplex(lambda t: cost(day_start, *np.exp(t).tolist()), np.log(np.array([day_a, day_b])))
    if value < best:
        best, (day_a, day_b) = value, np.exp(found).tolist()
    if best >= flat:
        return replace(kind, day_a=None)
    return replace(kind, day_a=float(day_a), day_b=float(day_b), day_start=day_start)


# ---- limits, statuses, columns -------------------------------------------------------------------------------------


def fit_limits(jobs: Counts) -> Limits | None:
    """Return the trace's own modal limits with their shares; None without limits."""
    if not jobs.limited:
        return None
    times, counts = jobs.limits.values, jobs.limits.counts
    missing, reached = float(1 - jobs.limited / jobs.jobs), float(jobs.reached / jobs.jobs)
    return Limits(times, counts / counts.sum(), missing=missing, reached=reached)


def _status_shares(jobs: Counts) -> dict[str, list[float]]:
    """Return the shares of the statuses, apart for jobs that ran to their limit and others."""
    shares = {}
    for key, counts in (("reached", jobs.statuses[1]), ("other", jobs.statuses[0])):
        counts = counts if counts.any() else jobs.statuses.sum(axis=0)
        shares[key] = (counts / counts.sum()).tolist()
    return shares


def _size_columns(jobs: Counts, look: Look, unit: str) -> tuple[str, dict[str, float]]:
    """Return the column to write sizes to, and other size columns that are a fixed multiple of it in every job."""
    fixed = {name: ratio.value for name, ratio in jobs.ratios.items()}
    derived = {name: value for name, value in fixed.items() if value is not None and (value * look.grain).is_integer()}
    return look.size_columns(unit)[0], derived
