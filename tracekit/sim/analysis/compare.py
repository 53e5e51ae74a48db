"""Comparisons that know their noise: the same simulations on slightly shaken inputs, with confidence intervals.

Tsafrir, Ouaknine & Feitelson, "Reducing performance evaluation sensitivity and variability by input shaking", MASCOTS
2007. The intervals are Student's, at 95 %, over the shaken inputs; two policies are compared input by input.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.metrics import COMPARED
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches
from tracekit.trace import Trace
from tracekit.transform.shaking import SECONDS, shake

Floats = NDArray[np.float64]

LEVEL = 0.95


def mean_interval(values: Sequence[float] | Floats) -> dict[str, float]:
    """Return the mean and its 95 % interval (Student's t); NaN bounds for fewer than two values.

    >>> found = mean_interval([1.0, 2.0, 3.0])
    >>> found["mean"], round(found["low"], 2), round(found["high"], 2)
    (2.0, -0.48, 4.48)
    """
    from scipy.stats import t

    known = np.asarray(values, dtype=np.float64)
    mean = float(known.mean()) if len(known) else float("nan")
    if len(known) < 2:
        return {"mean": mean, "low": float("nan"), "high": float("nan")}
    half = float(t.ppf((1 + LEVEL) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def check_count(count: int) -> None:
    """Refuse fewer than two shaken inputs: one input cannot show noise."""
    if count < 2:
        raise UsageError(f"--shake needs at least 2 perturbations to separate noise from effects, not {count}")


def verdict(difference: Mapping[str, float]) -> str:
    """Return "same" (never any difference), "noise" (the interval holds 0), or what a is beside b: lower or higher."""
    if difference["low"] == difference["high"] == 0:
        return "same"
    if difference["low"] > 0:
        return "higher"
    return "lower" if difference["high"] < 0 else "noise"


def compare(names: Sequence[str], values: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """Compare every pair: ``values[metric]`` has shape (len(names), inputs), and the inputs are the same for all.

    Returns rows of a, b, metric, difference (a − b, mean over the inputs), low, high and verdict.
    """
    rows = []
    for i, a in enumerate(names):
        for j in range(i + 1, len(names)):
            for metric, table in values.items():
                found = mean_interval(table[i] - table[j])
                rows.append(
                    {
                        "a": a,
                        "b": names[j],
                        "metric": metric,
                        "difference": found["mean"],
                        "low": found["low"],
                        "high": found["high"],
                        "verdict": verdict(found),
                    }
                )
    return rows


def ranking(names: Sequence[str], table: Floats) -> list[tuple[str, str]]:
    """Return (name, how it differs from the next better one) from the best (lowest mean) to the worst.

    ``table`` has shape (len(names), inputs); the first one has no better one to differ from.
    """
    order = np.argsort(table.mean(axis=1), kind="stable")
    found = [(names[order[0]], "")]
    for better, worse in itertools.pairwise(order):
        found.append((names[worse], verdict(mean_interval(table[worse] - table[better]))))
    return found


def shaken_metrics(
    trace: Trace,
    switches: Switches,
    pairs: Sequence[tuple[str, str]],
    parts: Sequence[tuple[int, int]] = (),
    *,
    count: int,
    seconds: float = SECONDS,
    threads: int | None = None,
) -> dict[str, Floats]:
    """Simulate every (policy, backfilling) on ``count`` shaken inputs: for each metric (pairs, inputs), window means.

    The inputs are the same for all pairs, so that they can be compared input by input.
    """
    tables = []
    for number in range(count):
        whole = extract_jobs(shake(trace, switches.seed, number, seconds=seconds), switches.resolved())
        tables.append([whole.window(*part) for part in parts] or [whole])
    runs = [Run(jobs, p, b, switches) for p, b in pairs for windows in tables for jobs in windows]
    results = run_all(runs, threads=threads)
    shape = (len(pairs), count, len(parts) or 1)
    found = {}
    for metric in COMPARED:
        values = np.array([result.metrics[metric] for result in results], dtype=np.float64).reshape(shape)
        found[metric] = values.mean(axis=2)
    return found
