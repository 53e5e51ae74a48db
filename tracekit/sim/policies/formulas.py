"""The priority formulas, compiled; `tracekit.sim.policies.builtin` names, explains and cites each.

s = submit time, w = wait so far, r = estimate (all seconds), n = processors. The smallest value starts first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.compile import jit
from tracekit.sim.hosts.rltune_demand import RLTuneStops
from tracekit.sim.jobs import Prepared
from tracekit.sim.policies import rltune
from tracekit.sim.policies.capability import capability_first
from tracekit.sim.switches import Switches, estimate_of

Floats = NDArray[np.float64]

#: Position in this tuple = the number by which compiled code knows the formula.
NAMES = (
    *("fcfs", "lcfs", "sjf", "ljf", "smallest", "largest", "saf", "laf", "srf", "lrf", "f1", "f2", "f3", "f4"),
    *("sexp", "lexp", "wfp3", "unicep", "multifactor"),
)
CODES = {name: code for code, name in enumerate(NAMES)}
FCFS, LCFS, SJF, LJF = (CODES[name] for name in ("fcfs", "lcfs", "sjf", "ljf"))
SMALLEST, LARGEST, SAF, LAF = (CODES[name] for name in ("smallest", "largest", "saf", "laf"))
SRF, LRF, SEXP, LEXP = (CODES[name] for name in ("srf", "lrf", "sexp", "lexp"))
F1, F2, F3, F4 = (CODES[name] for name in ("f1", "f2", "f3", "f4"))
WFP3, UNICEP, MULTIFACTOR = (CODES[name] for name in ("wfp3", "unicep", "multifactor"))
#: From this code on the value changes while a job waits; before it, priorities are static.
FIRST_DYNAMIC = SEXP
#: The value comes from outside: an order, random numbers, a user's policy.
GIVEN = -1
#: `adaptive` looks at the machine as well as at a job; its values are worked out by `tracekit.sim.engine.loop`.
ADAPTIVE = -2
#: `predicted-index` goes by what a predictor said at submit, see `tracekit.sim.engine.predictions`.
PREDICTED = -3
#: More of the machine in use than this, and `adaptive` takes the smallest job first.
BUSY = 0.8

_ALMOST_ZERO = 0.1  # what a submit time or an estimate of zero or less counts as


@jit
def formula(code: int, s: float, w: float, r: float, n: float) -> float:
    """Return the value of formula ``code`` for one job."""
    if code == FCFS:
        return s
    if code == LCFS:
        return -s
    if s <= 0:
        s = _ALMOST_ZERO
    if r <= 0:
        r = _ALMOST_ZERO
    if code == SJF:
        return r
    if code == LJF:
        return -r
    if code == SMALLEST:
        return n
    if code == LARGEST:
        return -n
    if code == SAF:
        return r * n
    if code == LAF:
        return -r * n
    if code == SRF:
        return r / n
    if code == LRF:
        return -r / n
    if code == F1:
        return math.log10(r) * n + 870.0 * math.log10(s)
    if code == F2:
        return math.sqrt(r) * n + 25600.0 * math.log10(s)
    if code == F3:
        return r * n + 6860000.0 * math.log10(s)
    if code == F4:
        return r * math.sqrt(n) + 530000.0 * math.log10(s)
    if code == SEXP:
        return (w + r) / n
    if code == LEXP:
        return -(w + r) / n
    if code == WFP3:
        ratio = w / r
        return -(ratio * ratio * ratio) * n
    if code == UNICEP:
        return -w / (max(math.log2(n), 1e-9) * r)
    return math.nan


@jit
def values_at_submit(
    code: int,
    submit: Floats,
    wait: Floats,
    estimate: Floats,
    size: Floats,
    values: Floats,
) -> None:
    """Write a formula's value for every job, with the given waits, into ``values``; all (jobs,)."""
    for job in range(len(submit)):
        values[job] = formula(code, submit[job], wait[job], estimate[job], size[job])


def values_for(name: str, ready: Prepared, switches: Switches) -> tuple[int, Floats | None]:
    """Return a formula's number where values change, else `GIVEN` and one value per job (None: by submit)."""
    submit, jobs = ready.table.submit, len(ready.table)
    if name == "random":
        return GIVEN, np.random.default_rng(switches.seed).permutation(jobs).astype(np.float64)
    if name == "capability-first":
        return GIVEN, capability_first(ready)
    if name == "adaptive":
        return ADAPTIVE, None
    if name == "predicted-index":
        if not (switches.predict or "").startswith("agent:"):
            raise UsageError("policy predicted-index goes by predictions: add --predict agent:DIR")
        return PREDICTED, None
    if switches.compat == "rltune" and name in rltune.FORMULAS:
        return GIVEN, _rltune(name, ready)
    code = CODES[name]
    if switches.dynamic:  # submit times may change: values are worked out from what is known at a pass
        return code, None
    as_coded = switches.compat == "rlscheduler" and code in (WFP3, UNICEP)
    predicting = estimate_of(switches.estimates)[0] == "last-two"
    if code == FCFS:
        return GIVEN, None
    if (code >= FIRST_DYNAMIC and not as_coded) or (predicting and code not in (LCFS, SMALLEST, LARGEST)):
        return code, None
    wait = -1.0 - submit if as_coded else np.zeros(jobs)  # in RLScheduler the start of a waiting job is −1
    values = np.empty(jobs)
    values_at_submit(code, submit, wait, ready.estimate, ready.table.procs, values)
    if switches.compat == "rlscheduler" and code in (SJF, WFP3, UNICEP):
        rows = ready.estimate < 0
        values[rows] = _as_coded(code, wait[rows], ready.estimate[rows], ready.table.procs[rows])
    return GIVEN, values


def values_at(
    code: int, given: Floats | None, ready: Prepared, jobs: NDArray[np.int64], now: float
) -> NDArray[np.float64]:
    """Return the values of some jobs at a time, from what `values_for` returned.

    multifactor, adaptive and predicted-index, which look at more than a job, count as by submit.
    """
    if code in (GIVEN, MULTIFACTOR, ADAPTIVE, PREDICTED):
        return jobs.astype(np.float64) if given is None else given[jobs]
    submit, values = ready.table.submit[jobs], np.empty(len(jobs))
    values_at_submit(code, submit, now - submit, ready.estimate[jobs], ready.table.procs[jobs], values)
    return values


def _rltune(name: str, ready: Prepared) -> Floats:
    """Return the places of jobs in RLTune's order."""
    table = ready.table
    try:
        return rltune.ranks(name, table.submit, ready.run, table.procs, table.wait)
    except ZeroDivisionError:
        raise RLTuneStops(
            f"{name} divides by zero for a job with a run time or a number of GPUs of 0: RLTune's code stops here"
        ) from None


def _as_coded(code: int, wait: Floats, estimate: Floats, size: Floats) -> Floats:
    """Return RLScheduler's values for estimates below zero, which its formulas take as they are."""
    if code == SJF:
        return estimate
    if code == WFP3:
        return -((wait / estimate) ** 3) * size
    return -wait / (np.maximum(np.log2(size), 1e-9) * estimate)
