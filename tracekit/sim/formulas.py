"""The priority formulas, compiled; `tracekit.sim.policies` names, explains and cites each.

s = submit time, w = wait so far, r = estimate (all seconds), n = processors. The smallest value starts first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import compiled

#: Position in this tuple = the number by which compiled code knows the formula.
NAMES = (
    "fcfs",
    "lcfs",
    "sjf",
    "ljf",
    "smallest",
    "largest",
    "saf",
    "laf",
    "srf",
    "lrf",
    "f1",
    "f2",
    "f3",
    "f4",
    "sexp",
    "lexp",
    "wfp3",
    "unicep",
    "multifactor",
)
CODES = {name: code for code, name in enumerate(NAMES)}
#: From this code on the value changes while a job waits; before it, the order of two jobs is settled at submit.
FIRST_DYNAMIC = CODES["sexp"]
MULTIFACTOR = CODES["multifactor"]
#: The value is given from outside: an order, random numbers, a user's policy.
GIVEN = -1

_ALMOST_ZERO = 0.1  # what a submit time or an estimate of zero or less counts as


@compiled
def formula(code: int, s: float, w: float, r: float, n: float) -> float:
    """Return the value of formula ``code`` for one job."""
    if code == 0:
        return s
    if code == 1:
        return -s
    if s <= 0:
        s = _ALMOST_ZERO
    if r <= 0:
        r = _ALMOST_ZERO
    if code == 2:
        return r
    if code == 3:
        return -r
    if code == 4:
        return n
    if code == 5:
        return -n
    if code == 6:
        return r * n
    if code == 7:
        return -r * n
    if code == 8:
        return r / n
    if code == 9:
        return -r / n
    if code == 10:
        return math.log10(r) * n + 870.0 * math.log10(s)
    if code == 11:
        return math.sqrt(r) * n + 25600.0 * math.log10(s)
    if code == 12:
        return r * n + 6860000.0 * math.log10(s)
    if code == 13:
        return r * math.sqrt(n) + 530000.0 * math.log10(s)
    if code == 14:
        return (w + r) / n
    if code == 15:
        return -(w + r) / n
    if code == 16:
        ratio = w / r
        return -(ratio * ratio * ratio) * n
    if code == 17:
        return -w / (max(math.log2(n), 1e-9) * r)
    return math.nan


@compiled
def values_at_submit(
    code: int,
    submit: NDArray[np.float64],
    wait: NDArray[np.float64],
    estimate: NDArray[np.float64],
    size: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """Write a formula's value for every job, with the given waits, into ``values``; all (jobs,)."""
    for job in range(len(submit)):
        values[job] = formula(code, submit[job], wait[job], estimate[job], size[job])
