"""Success rates with a control: intervals, a test, and how many independent trials a number of jobs is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from evaluation.base import NAN, Score
from evaluation.view import Codes, Floats
from tracekit.intervals import wilson

#: Share of users that is expected where there is no control.
UNCONTROLLED = 0.05
#: About the level of a single test.
SMALL = 0.0025


@dataclass(frozen=True)
class Count:
    """Successes among trials; ``worth`` is how many independent trials they are, at most all of them."""

    hits: float
    trials: int
    worth: float = NAN  # NaN = all

    @classmethod
    def of(cls, hit: NDArray[np.bool_], cluster: Codes | None = None) -> Count:
        """Count; trials of one cluster (the jobs of a week) are not independent."""
        worth = NAN if cluster is None else effective(hit, cluster)
        return cls(float(hit.sum()), len(hit), worth)

    @property
    def rate(self) -> float:
        """Return the share of successes; NaN without trials."""
        return self.hits / self.trials if self.trials else NAN

    @property
    def independent(self) -> int:
        """Return the number of independent trials."""
        return self.trials if np.isnan(self.worth) else max(1, min(self.trials, round(self.worth)))

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval (Wilson)."""
        return wilson(self.rate * self.independent, self.independent) if self.trials else (NAN, NAN)


def effective(hit: NDArray[np.bool_], cluster: Codes) -> float:
    """Return how many independent trials have the variance of a share whose trials come in clusters.

    The variance over clusters is that of a ratio estimator. It is itself uncertain where clusters are few, so the
    number is reduced as Student's t is wider than the normal distribution at the tests' level (Korn & Graubard 1998).
    With fewer than three clusters it is one trial per cluster.
    """
    _, place = np.unique(cluster, return_inverse=True)
    size = np.bincount(place).astype(np.float64)
    if len(size) < 3:
        return float(len(size))
    share, total = float(hit.mean()), size.sum()
    if share == 1.0:
        return float(total)
    if share == 0.0:
        return float(total**2 / (size**2).sum())  # as if every cluster were one trial: the safe side
    residual = np.bincount(place, weights=hit.astype(np.float64)) - share * size
    variance = float((residual**2).sum()) / total**2 * len(size) / (len(size) - 1)
    wider = scipy_stats.norm.isf(SMALL) / scipy_stats.t.isf(SMALL, len(size) - 1)
    return float(share * (1 - share) / max(variance, 1e-300) * wider**2)


def excess_p(found: Count, control: Count, exposure: float = 1.0) -> float:
    """Return the one-sided p value of "the rate is not above the control's": Fisher's exact test.

    ``exposure``: how many times as many chances of an accidental match a trial has as one of the control. Without a
    control the rate is compared with `UNCONTROLLED`.
    """
    trials, hits = found.independent, round(found.rate * found.independent) if found.trials else 0
    if not found.trials:
        return NAN
    if not control.trials:
        return float(scipy_stats.binom.sf(hits - 1, trials, UNCONTROLLED))
    usual = 1 - (1 - control.rate) ** exposure
    others = control.independent
    usual_hits = min(others, round(usual * others))
    table = np.array([[hits, trials - hits], [usual_hits, others - usual_hits]])
    return float(scipy_stats.fisher_exact(table, alternative="greater").pvalue)


def drawn_score(
    value: float, draws: Floats, usual: float, usual_draws: Floats, chance: float, note: str, extra: Mapping[str, float]
) -> Score:
    """Return a score whose 95 % intervals come from draws of whole weeks, with the p value of exceeding the control.

    The control counts as ``chance`` where it lies below: less than guessing is an accident.
    """
    (low, high), (usual_low, usual_high) = (
        (float(end) for end in np.quantile(part, [0.025, 0.975])) if len(part) else (NAN, NAN)
        for part in (draws, usual_draws)
    )
    one, other = (float(np.std(part, ddof=1)) if len(part) > 1 else np.inf for part in (draws, usual_draws))
    spread = float(np.hypot(one, other))
    excess = value - max(usual, chance) if np.isfinite(usual) else NAN
    p = float(scipy_stats.norm.sf(excess / max(spread, 1e-9))) if np.isfinite(excess) else NAN
    detail = {"control_low": usual_low, "control_high": usual_high, "p": p, **extra}
    return Score(value, real=usual, low=low, high=high, note=note, detail=detail)


@dataclass(frozen=True)
class Worst:
    """The real user whom the attack finds best: its rank by number of jobs (1 = most), and by how many matches."""

    rank: int = 0  # 0 = nobody
    matches: int = 0

    @classmethod
    def of(cls, user: Codes, everyone: Codes) -> Worst:
        """Return the most frequent of the found users; ``everyone``: the users of all real jobs."""
        if not len(user):
            return cls()
        counts = np.bincount(user)
        jobs = np.bincount(everyone[everyone >= 0], minlength=len(counts))
        who = int(np.lexsort((-jobs[: len(counts)], -counts))[0])
        return cls(1 + int((jobs > jobs[who]).sum()), int(counts[who]))


@dataclass(frozen=True)
class Result:
    """What an attack reached, and what it reaches on real weeks that no model has seen."""

    found: Count
    control: Count
    source: str  # of the control
    what: str = "synthetic users"
    exposure: float = 1.0
    worst: Worst = field(default_factory=Worst)
    extra: Mapping[str, float] = field(default_factory=dict)

    def score(self) -> Score:
        """Return it as a score, with all numbers in the detail."""
        low, high = self.found.interval()
        control_low, control_high = self.control.interval()
        detail = {
            "found": self.found.hits,
            "of": float(self.found.trials),
            "control_found": self.control.hits,
            "control_of": float(self.control.trials),
            "low": low,
            "high": high,
            "control_low": control_low,
            "control_high": control_high,
            "p": excess_p(self.found, self.control, self.exposure),
            "worst_rank": float(self.worst.rank),
            "worst_matches": float(self.worst.matches),
            **self.extra,
        }
        said = f"{self.found.hits:,.0f} of {self.found.trials:,} {self.what}"
        usual = f"control ({self.source}): {self.control.hits:,.0f} of {self.control.trials:,}"
        return Score(self.found.rate, real=self.control.rate, note=f"{said}; {usual}", detail=detail)
