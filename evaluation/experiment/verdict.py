"""Are agents trained on synthetic jobs as good as agents trained on real ones? Statistics only; no trace is read here.

Every agent is scored on the same held-out windows, so all comparisons are paired by window, and on the logarithm of the
score, so that a difference is a ratio and a window with a long queue does not outweigh all others.

*Two one-sided tests* (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987): equivalent means that both "worse by the
margin or more" and "better by the margin or more" are rejected at level α, which is when the 1 − 2α interval lies
within the margin.

*The interval.* Windows, seeds of agents and synthetic samples are crossed, and all of them vary, so all are resampled
(Owen, "The pigeonhole bootstrap", Ann. Appl. Stat. 1, 2007: a little too wide rather than too narrow). Agents of one
seed begin alike and see the same windows, so they are compared with each other. Of n units n − 1 are drawn, which makes
the bootstrap variance of a mean unbiased even for three seeds (Rao & Wu, JASA 83, 1988); t quantiles with
Satterthwaite's degrees of freedom account for how few there are. A lone seed or sample cannot vary: then the verdict is
about it alone.

*Other real jobs.* The interval is about the real jobs at hand. What two sets of real jobs of one machine teach
differs, too (`between_halves`), and a trace is *worse* (or *better*) only beyond that: these two tests have that
variance added, with a degree of freedom for each pair of halves that it comes from, so that real jobs in place of
synthetic ones are found worse at the stated rate. Part of it is due to windows and seeds, which the interval has
already. That is not taken off: a difference of two such variances is known so badly (Gaylor & Hopper, Technometrics 11,
1969) that too many are found worse. For a model that was fitted to the same real jobs these tests are too cautious.

*Good enough* is the one-sided question (non-inferiority; ICH E9, CPMP/EWP/482/99): "worse by the margin or more" is
rejected at level α, so the upper end of the interval lies below the margin. It is one of the two tests of an
equivalence, so every equivalence is good enough, and so is what may be better by more than the margin. Nothing can be
both good enough and worse: what is above 0 and below the margin is equivalent. False claims of the one need a true
difference above the margin, of the other one of at most 0, so the level α holds for both together.

*Neighbours.* Windows follow each other in time, and where one differs the next tends to. n windows whose differences
form a first-order autoregression with coefficient ρ are worth n (1 − ρ) / (1 + ρ) independent ones (Bayley &
Hammersley, Suppl. J. R. Stat. Soc. 8, 1946), so only so many are drawn. ρ is estimated, less its bias (Marriott & Pope,
Biometrika 41, 1954); a negative one counts as none, so that it only ever widens an interval.

*Several looks.* When verdicts are looked at while samples and seeds grow, each look spends a part of α, later ones more
(α(t) = α t², Kim & DeMets, Biometrika 74, 1987). The parts add up to α, so by Bonferroni's inequality the error rates
hold over all looks together, however the looks depend on each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from evaluation.experiment.control import Controls

Floats = NDArray[np.float64]
Outcome = Literal["equivalent", "worse", "better", "undecided", "failed"]

#: Windows below which no verdict is given.
MIN_WINDOWS = 3
#: Windows below which nothing can be said about how alike neighbours are.
MIN_FOR_LIKENESS = 8
#: The answer to "how many more windows?" aims at this chance of a decision; beyond that number no advice is given.
POWER = 0.8
MAX_WINDOWS = 100_000


@dataclass(frozen=True)
class Between:
    """The variance of a difference that is due to which real jobs were learnt from, and its degrees of freedom."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class Estimate:
    """A difference of mean logarithms with its standard error and where that comes from."""

    value: float
    error: float  # standard error, bootstrap
    freedom: float  # degrees of freedom of the t quantiles
    other_error: float  # standard error and degrees of freedom against other real jobs of the machine
    other_freedom: float
    seeds: float  # variance due to seeds and samples, which no number of windows takes away
    units: tuple[int, int]  # samples, and seeds of agents
    per_window: Floats  # (windows,)
    independent: float  # equivalent number of independent windows
    reduced: float = 0.0  # share of the windows' variance that control variates took away
    parts: float = 0.0  # variance between two sets of real jobs

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the 1 − 2α interval."""
        half = self.error * float(scipy_stats.t.ppf(1 - alpha, self.freedom)) if self.error > 0 else 0.0
        return self.value - half, self.value + half

    def p_above(self, bound: float) -> float:
        """Return the p-value of the one-sided test that the difference is above ``bound``."""
        return _tail(bound - self.value, self.error, self.freedom)

    def p_below(self, bound: float) -> float:
        """Return the p-value of the one-sided test that the difference is below ``bound``."""
        return _tail(self.value - bound, self.error, self.freedom)

    @property
    def p_worse(self) -> float:
        """The p-value of the one-sided test that the difference is above 0, against other real jobs, too."""
        return _tail(-self.value, self.other_error, self.other_freedom)

    @property
    def p_better(self) -> float:
        """The p-value of the one-sided test that the difference is below 0, against other real jobs, too."""
        return _tail(self.value, self.other_error, self.other_freedom)

    @property
    def effect_size(self) -> float:
        """Return Cohen's d of the paired differences over windows; NaN when they are all the same."""
        spread = float(self.per_window.std(ddof=1)) if len(self.per_window) > 1 else 0.0
        mean = float(self.per_window.mean())
        return mean / spread if spread > 1e-9 * abs(mean) else float("nan")

    @property
    def share_worse(self) -> float:
        """Return the share of windows in which the second side has the higher score; ties count half."""
        return float(np.mean((self.per_window > 0) + 0.5 * (self.per_window == 0)))

    @property
    def autocorrelation(self) -> float:
        """Return the lag-1 autocorrelation of the differences: far from 0, windows are not independent."""
        return _autocorrelation(self.per_window)


def _autocorrelation(values: Floats) -> float:
    gaps = values - values.mean()
    total = float((gaps**2).sum())
    return float((gaps[1:] * gaps[:-1]).sum() / total) if total > 0 else float("nan")


def _independent(per_window: Floats) -> float:
    """Return the effective number of independent windows, given that neighbours may be correlated."""
    n, seen = len(per_window), _autocorrelation(per_window)
    if n < MIN_FOR_LIKENESS or not math.isfinite(seen):
        return float(n)
    likeness = (n * seen + 1) / (n - 4)  # without the bias of about −(1 + 4 ρ) / n
    if likeness <= 0:
        return float(n)
    return max(float(MIN_WINDOWS), n * (1 - likeness) / (1 + likeness))


def _tail(excess: float, error: float, freedom: float) -> float:
    if error > 0:
        return float(scipy_stats.t.cdf(excess / error, freedom))
    return 0.0 if excess < 0 else 1.0 if excess > 0 else 0.5


def estimate(
    differences: Floats,
    *,
    draws: int = 4000,
    seed: int = 0,
    controls: Controls | None = None,
    parts: Between | None = None,
) -> Estimate:
    """Return the mean of log score differences, (samples, seeds, windows), all on the same windows."""
    other = parts or Between(0.0, 1)
    samples, seeds, windows = differences.shape
    before, added = float(differences.mean(axis=(0, 1)).var()), 0.0
    if controls is not None:
        differences, added = controls.adjust(differences)
    rng = np.random.default_rng([seed, samples, seeds, windows])
    means = [differences.mean(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
    independent = _independent(means[2])
    taken = [samples - 1, seeds - 1, int(independent) - 1]  # units drawn, and degrees of freedom
    drawn = np.einsum(
        "ds,da,dw,saw->d",
        *(_weights(units, take, draws, rng) for units, take in zip(differences.shape, taken, strict=True)),
        differences,
        optimize=True,
    )
    shares = [_variance_of_mean(values) for values in means]
    shares[2] = shares[2] * windows / independent + added
    own = sum(share**2 / take for share, take in zip(shares, taken, strict=True) if share > 0)
    bootstrapped = float(drawn.var(ddof=1)) + added if sum(shares) > 0 else 0.0
    return Estimate(
        value=float(differences.mean()),
        error=math.sqrt(bootstrapped),
        freedom=_freedom(sum(shares), own),
        other_error=math.sqrt(bootstrapped + other.variance),
        other_freedom=_freedom(sum(shares) + other.variance, own + other.variance**2 / other.freedom),
        seeds=_lasting(differences.mean(axis=1)) + _lasting(differences.mean(axis=0)),
        units=(samples, seeds),
        per_window=means[2],
        independent=independent,
        reduced=1 - (float(means[2].var()) + windows * added) / before if added > 0 else 0.0,
        parts=other.variance,
    )


def _freedom(variance: float, doubt: float) -> float:
    """Return Satterthwaite's degrees of freedom; ``doubt``: of each part its square over its degrees of freedom."""
    return variance**2 / doubt if doubt > 0 else math.inf


def between_halves(differences: Floats) -> Between:
    """Return how much two sets of real jobs differ.

    ``differences``: log scores of agents trained on one half of the real jobs minus those of the other half, (pairs,
    windows). A difference has twice the variance of what one half teaches, and a half has twice that of all jobs
    (inversely proportional to blocks, as for half-samples: McCarthy, Rev. Int. Stat. Inst. 37, 1969), so half the mean
    square is the variance between two sets as large as all. The pairs are balanced (`halves`), so each has a degree of
    freedom of its own.
    """
    return Between(float(np.mean(differences.mean(axis=1) ** 2)) / 2, len(differences))


def _weights(units: int, taken: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the weights of ``draws`` resamples, (draws, units), each of ``taken`` of the units; a lone unit stays."""
    if units == 1:
        return np.ones((draws, 1))
    return rng.multinomial(taken, np.full(units, 1 / units), size=draws) / taken


def _lasting(table: Floats) -> float:
    """Return the variance of the mean that units, (units, windows), would leave with endless windows.

    That of their means, less what comes from windows in which units differ by chance (two-way analysis of variance).
    """
    units, windows = table.shape
    if units < 2 or windows < 2:
        return 0.0
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    chance = float((rest**2).sum()) / ((units - 1) * (windows - 1))
    return max(0.0, float(_variance_of_mean(table.mean(axis=1)) - chance / (units * windows)))


def _variance_of_mean(values: Floats) -> float:
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0


def spent(alpha: float, look: int, looks: int) -> float:
    """Return the level of one look; those of all looks add up to ``alpha``.

    >>> [round(spent(0.09, look, 3), 3) for look in (1, 2, 3)]
    [0.01, 0.03, 0.05]
    """
    return alpha * (look**2 - (look - 1) ** 2) / looks**2


@dataclass(frozen=True)
class Verdict:
    """What is said of one model. Differences are fractions: 0.08 = a score 8 % higher, that is worse."""

    model: str
    verdict: Outcome
    sentence: str
    difference: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    facts: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values as verdict.json has them; what there is not is null."""
        numbers = {name: getattr(self, name) for name in ("difference", "low", "high")}
        plain = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return {"model": self.model, "verdict": self.verdict, **plain, "sentence": self.sentence, **self.facts}


def failed(model: str, reason: str) -> Verdict:
    """Return the verdict on a model that gave nothing to compare."""
    return Verdict(model, "failed", f"failed: {reason}", facts={"good_enough": False, "at_most_worse": None})


def judge(
    model: str, found: Estimate, *, margin: float, alpha: float = 0.05, against: str = "agents trained on real jobs"
) -> Verdict:
    """Turn an estimate into a verdict. The margin is a ratio: 0.1 means within a factor of 1.1 either way."""
    bound = math.log1p(margin)
    low, high = found.interval(alpha)
    p_equivalent = max(found.p_below(bound), found.p_above(-bound))
    p_worse, p_better = found.p_worse, found.p_better
    windows = len(found.per_window)
    not_inferior = windows >= MIN_WINDOWS and found.p_below(bound) < alpha
    shown = tuple(math.expm1(value) for value in (found.value, low, high))
    more: int | None = None
    outcome: Outcome
    if windows < MIN_WINDOWS:
        outcome, more = "undecided", MIN_WINDOWS - windows
        sentence = f"undecided: {windows} windows are too few; at least {MIN_WINDOWS} are needed"
    elif p_equivalent < alpha:
        outcome = "equivalent"
        sentence = (
            f"equivalent to {against} within ±{margin * 100:g} %: {percent(shown[0])} {bracket(shown[1], shown[2])}"
        )
    elif p_worse < alpha:
        outcome, sentence = "worse", f"worse by {plain_percent(shown[0])} {bracket(shown[1], shown[2])} than {against}"
    elif p_better < alpha:
        outcome, sentence = (
            "better",
            f"better by {plain_percent(-shown[0])} {bracket(shown[1], shown[2])} than {against}",
        )
    elif not_inferior:
        outcome = "undecided"
        sentence = (
            f"at most {plain_percent(shown[2])} worse than {against}: {percent(shown[0])} "
            f"{bracket(shown[1], shown[2])}; undecided whether better"
        )
    else:
        outcome, more = "undecided", more_windows(found, bound, alpha)
        sentence = f"undecided: {percent(shown[0])} {bracket(shown[1], shown[2])}; {_what_helps(found, bound, more)}"
    facts = {
        "good_enough": not_inferior,
        "at_most_worse": shown[2],
        "p_equivalent": p_equivalent,
        "p_worse": p_worse,
        "p_better": p_better,
        "effect_size": _finite(found.effect_size),
        "windows_worse": found.share_worse,
        "windows": windows,
        "window_autocorrelation": _finite(found.autocorrelation),
        "windows_independent": found.independent,
        "more_windows": more,
        "variance_reduced": found.reduced,
        "alpha": alpha,
        "standard_error": found.error,
        "degrees_of_freedom": _finite(found.freedom),
        "standard_error_other_jobs": found.other_error,
        "degrees_of_freedom_other_jobs": _finite(found.other_freedom),
        "real_parts_differ": math.expm1(math.sqrt(found.parts)),
        "share_of_seeds": found.seeds / found.error**2 if found.error > 0 else None,
        "samples": found.units[0],
        "agent_seeds": found.units[1],
    }
    return Verdict(model, outcome, sentence, shown[0], shown[1], shown[2], facts)


def more_windows(found: Estimate, bound: float, alpha: float) -> int | None:
    """Return how many more windows would decide with a chance of 80 %, if the difference is what it seems.

    None: no number of windows would, because seeds alone leave it open or the difference sits on the margin.
    """
    inside = abs(found.value) < bound
    gap = _gap(found, bound)
    chance = (1 + POWER) / 2 if inside else POWER  # within the margin, both tests have to reject
    freedom = found.freedom if inside else found.other_freedom
    reach = float(scipy_stats.t.ppf(1 - alpha, freedom) + scipy_stats.t.ppf(chance, freedom))
    left = (gap / reach) ** 2 - found.seeds - (0.0 if inside else found.parts)
    have = len(found.per_window)
    if left <= 0:
        return None
    needed = math.ceil(max(found.error**2 - found.seeds, 0.0) * have / left)
    return None if needed - have > MAX_WINDOWS else max(1, needed - have)


def _gap(found: Estimate, bound: float) -> float:
    """Return how far the estimate is from where it would be open: the margin for an equivalence, else 0."""
    return bound - abs(found.value) if abs(found.value) < bound else abs(found.value)


def _what_helps(found: Estimate, bound: float, more: int | None) -> str:
    if more is not None:
        return f"about {more:,} more windows needed"
    if _gap(found, bound) < bound / 5:
        return "more windows would hardly decide it: the difference is close to the margin"
    if abs(found.value) >= bound and found.parts > found.seeds:
        return (
            "more windows would not decide it: parts of the real log differ as much, so a longer real trace is needed"
        )
    return "more windows would not decide it: samples and seeds differ too much, so more seeds are needed"


def percent(value: float) -> str:
    """Return a signed percentage.

    >>> percent(0.0123), percent(-0.4)
    ('+1.2 %', '−40.0 %')
    """
    return ("+" if value >= 0 else "−") + plain_percent(abs(value))


def plain_percent(value: float) -> str:
    """Return a percentage without its sign."""
    return f"{value * 100:.1f} %"


def bracket(low: float, high: float) -> str:
    """Return an interval of percentages."""
    return f"[{percent(low)}, {percent(high)}]"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
