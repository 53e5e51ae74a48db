"""An audit of privacy: is one user's presence visible? A lower bound on epsilon, from many trainings.

A canary (a user with conspicuous jobs) is added to the real trace. Models are fitted with and without it, and an
attacker guesses from each result which it was. If the attacker is right more often than (epsilon, delta) differential
privacy allows, the model does not have that epsilon. The threshold is chosen on one half of the runs and tried on the
other, and shares get exact (Clopper–Pearson) limits, so the bound holds with the stated confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from generators import MODELS
from generators.private import Private
from generators.private.evidence import evidence
from generators.private.statistics import Facts
from generators.progress import Progress, silent, stoppable
from tracekit.errors import TracekitError, UsageError
from tracekit.schema import labels
from tracekit.trace import Trace, check_trace

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
FEWEST_RUNS = 4
#: The canary: jobs of the whole machine, limit 7 h 13 min, in bursts 17 s apart on early Sundays.
CANARY_JOBS, BURST, LIMIT, RUN, GAP = 200, 20, 25_980.0, 24_420.0, 17.0
WEEK = 604_800.0
#: Jobs that are sampled from a model whose parameters are not looked at, at most.
MOST_JOBS = 10_000


@dataclass(frozen=True)
class Audit:
    """What an audit found; ``lower_bound`` is a bound on epsilon at ``delta``."""

    model: str
    claimed_epsilon: float | None
    lower_bound: float
    confidence: float
    delta: float
    unit: str
    runs: int  # in each world
    largest_possible: float  # the largest bound that so many runs can show
    attack: str
    guessed_with: float  # share of right guesses on the second half, with the canary
    guessed_without: float
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def canary_of(real: Trace, n_jobs: int) -> Trace:
    """Return the canary's jobs alone, on the real trace's machine."""
    size = real.machine.size() or int(np.nanmax(real.sizes()))
    submit = real.column("submit_time")
    begin, end = float(np.nanmin(submit)), float(np.nanmax(submit))
    number = np.arange(n_jobs)
    sunday = 6 * 86_400.0 + 3 * 3600.0 + begin
    bursts = sunday + WEEK * (number // BURST) + GAP * (number % BURST)
    inside = begin + (bursts - begin) % max(end - begin, 1.0)
    jobs = pd.DataFrame(
        {
            "job_id": int(real.jobs["job_id"].max()) + 1 + number,
            "submit_time": np.sort(np.floor(inside)),
            "run_time": RUN,
            f"req_{real.machine.unit}": size,
            "req_time": LIMIT,
            "user": labels(pd.Series(["canary of the audit"] * n_jobs, dtype=object)),
        }
    )
    return Trace(jobs, real.machine)


def with_canary(real: Trace, canary: Trace) -> Trace:
    """Return the real jobs and the canary's; columns that only the real trace has are unknown for the canary."""
    columns: dict[str, Any] = {}
    for name in real.jobs.columns:
        ours = real.jobs[name]
        theirs = canary.jobs[name] if name in canary.jobs.columns else pd.Series([None] * len(canary), dtype=object)
        if isinstance(ours.dtype, pd.CategoricalDtype):
            joined = [*ours.astype(object), *theirs.astype(object)]
            columns[name] = (
                pd.Series(joined, dtype=object)
                if name != "status"
                else pd.Categorical(joined, categories=ours.cat.categories)
            )
        else:
            given = theirs if name in canary.jobs.columns else pd.array([pd.NA] * len(canary), dtype="Float64")
            columns[name] = [*ours.astype(object), *pd.Series(given).astype(object)]
    table = pd.DataFrame({k: v for k, v in columns.items() if not k.startswith("x_")})
    return real.replace(jobs=table)


def look_alikes(made: Trace, canary: Trace) -> float:
    """Return the share of synthetic jobs that look like the canary's: as large, with a limit within a tenth."""
    size, limit = made.sizes(), made.column("req_time")
    wanted = float(canary.sizes()[0])
    with np.errstate(invalid="ignore"):
        return float(((size >= 0.95 * wanted) & (np.abs(limit / LIMIT - 1) < 0.1)).mean())


def lower_bound(
    with_: Floats, without: Floats, delta: float, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the bound on epsilon, and the shares of right guesses with and without the canary.

    The threshold, and the direction of the guess, come from the first halves; the shares from the second.

    >>> high, low = np.ones(200), np.zeros(200)
    >>> round(lower_bound(high, low, 1e-6)[0], 2) == round(largest_bound(200), 2)
    True
    """
    half = len(with_) // 2, len(without) // 2
    values = np.unique(np.concatenate([with_[: half[0]], without[: half[1]]]))
    tries = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    ways = [(t, above, error) for t in tries for above in (True, False) for error in (True, False)]
    first = [_bound(with_[: half[0]], without[: half[1]], *way, delta, confidence) for way in ways]
    # Where so few runs show nothing, the best guesses in the first half decide.
    right = [_right(with_[: half[0]], without[: half[1]], t, above) for t, above, _ in ways]
    threshold, above, error = ways[max(range(len(ways)), key=lambda k: (max(first[k], 0.0), right[k]))]
    in_, out = with_[half[0] :], without[half[1] :]
    found = _bound(in_, out, threshold, above, error, delta, confidence)
    hit = float(_says_in(in_, threshold, above).mean())
    return max(found, 0.0), hit, 1 - float(_says_in(out, threshold, above).mean())


def _says_in(values: Floats, threshold: float, above: bool) -> NDArray[np.bool_]:
    return values > threshold if above else values < threshold


def _right(in_: Floats, out: Floats, threshold: float, above: bool) -> float:
    return float(_says_in(in_, threshold, above).mean() - _says_in(out, threshold, above).mean())


def _bound(
    in_: Floats, out: Floats, threshold: float, above: bool, error: bool, delta: float, confidence: float
) -> float:
    """Return the bound of one test: by its false alarms (``error``), or by the canaries that it misses."""
    hits, alarms = int(_says_in(in_, threshold, above).sum()), int(_says_in(out, threshold, above).sum())
    if error:
        return _ratio(hits, len(in_), alarms, len(out), delta, confidence)
    return _ratio(len(out) - alarms, len(out), len(in_) - hits, len(in_), delta, confidence)


def _ratio(hits: int, tries: int, alarms: int, others: int, delta: float, confidence: float) -> float:
    """Return ln((share of hits − delta) / share of alarms), both at their exact limits (Clopper & Pearson 1934)."""
    tail = (1 - confidence) / 2  # one for each limit
    low = float(beta.ppf(tail, hits, tries - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, alarms + 1, others - alarms)) if alarms < others else 1.0
    return float(np.log((low - delta) / high)) if low > delta else -np.inf


def largest_bound(runs: int, delta: float = 1e-6, confidence: float = CONFIDENCE) -> float:
    """Return the largest bound that ``runs`` trainings in each world can show: every guess right."""
    half = runs - runs // 2
    return max(_ratio(half, half, 0, half, delta, confidence), 0.0)


def audit(
    real: Trace,
    model: str,
    runs: int,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    delta: float = 1e-6,
    unit: str = "user",
    **options: Any,
) -> Audit:
    """Fit a model ``runs`` times with a canary and ``runs`` times without, and bound its epsilon from below.

    The first Ctrl-C ends the trainings and uses those that are there. The noise of model private is the secret one,
    so that what is audited is what is published; its audits differ a little from run to run.
    """
    check_trace(real)
    kind = MODELS.get(model)
    if runs < FEWEST_RUNS:
        raise UsageError(f"--runs must be at least {FEWEST_RUNS}, not {runs}")
    if unit not in ("user", "job"):
        raise UsageError(f"--unit must be user or job, not {unit}")
    private = issubclass(kind, Private)
    if private:
        options |= {"delta": delta, "unit": unit}
    canary = canary_of(real, CANARY_JOBS if unit == "user" else 1)
    worlds = (with_canary(real, canary), with_canary(real, canary.head(0)))
    make = _attacker(kind, options, worlds[1], canary)
    found: tuple[list[float], list[float]] = ([], [])
    report = progress or silent
    with stoppable() as stop:
        for number in range(runs):
            for world, values in zip(worlds, found, strict=True):
                values.append(make(world, seed + number))
            report(number + 1, runs, "pairs of trainings")
            if stop.asked:
                break
    done = len(found[1])
    if done < FEWEST_RUNS:
        raise TracekitError(f"stopped after {done} runs; an audit needs at least {FEWEST_RUNS}")
    bound, hit, miss = lower_bound(np.array(found[0]), np.array(found[1]), delta)
    return Audit(
        model=model,
        claimed_epsilon=float(options.get("epsilon", Private().epsilon)) if private else None,
        lower_bound=bound,
        confidence=CONFIDENCE,
        delta=delta,
        unit=unit,
        runs=done,
        largest_possible=largest_bound(done, delta),
        attack="likelihood ratio of the released numbers" if private else "synthetic jobs that look like the canary's",
        guessed_with=hit,
        guessed_without=miss,
        interrupted=done < runs,
    )


def _attacker(kind: Any, options: dict[str, Any], real: Trace, canary: Trace) -> Callable[[Trace, int], float]:
    """Return what trains on a world and returns the attacker's statistic."""
    n_jobs = min(len(real), MOST_JOBS)
    known: list[Facts] = []  # others' jobs and the canary's, as model private counts them

    def trained(world: Trace, seed: int) -> float:
        model = kind(**options).fit(world, seed=seed)
        if isinstance(model, Private):
            assert model.domain is not None
            if not known:
                known.extend(Facts.of(trace, model.domain, model.unit) for trace in (real, canary))
            return evidence(model, *known)
        return look_alikes(model.sample(n_jobs, seed=seed), canary)

    return trained
