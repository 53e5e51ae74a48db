"""From jobs with ages and sizes to a case: what a start costs each job, by an objective."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.orders.evaluate import Case
from tracekit.sim.tasks.objectives import objective

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Objectives that compiled code knows.
GOALS = ("bsld", "slowdown", "wait", "response", "utilization", "makespan", "fair-mean", "fair-max")


class Waiting(NamedTuple):
    """The waiting jobs of a case, (jobs,) each."""

    age: Floats
    run: Floats
    estimate: Floats
    size: Ints
    user: Ints


class Held(NamedTuple):
    """What running jobs hold, (running,) each, in the order that `Case` wants."""

    ends: Floats
    expected: Floats
    size: Ints


def case_of(goal: str, bound: float, waiting: Waiting, held: Held, total: int, *, backfill: bool) -> Case:
    """Return a queue for compiled code; costs are those of `tracekit.sim.tasks.objectives`."""
    age, run, estimate, size, user = waiting
    weight = dict.fromkeys(GOALS, 0.0)
    for name, number in objective(goal).terms:
        if name not in weight:
            raise UsageError(f"objective {name} is not supported by a search of orders; use one of {', '.join(GOALS)}")
        weight[name] += number
    jobs = len(run)
    counts = np.bincount(user, minlength=1)
    of_user = 1.0 / counts[user]
    share = np.full(jobs, 1.0 / jobs)
    fair = of_user / float(max(int(np.count_nonzero(counts)), 1))
    slow: Floats = np.maximum(run, 1.0)
    linear = (weight["wait"] + weight["response"] + weight["slowdown"] / slow) * share
    fixed = (weight["wait"] * age + weight["response"] * (age + run) + weight["slowdown"] * (age + slow) / slow) * share
    bounded = weight["bsld"] * share + weight["fair-mean"] * fair
    if weight["fair-max"]:
        if any(number for name, number in weight.items() if name != "fair-max"):
            raise UsageError("the objective fair-max cannot be combined with others in a search of orders")
        bounded = np.ones(jobs)
    rate = bounded / np.maximum(run, bound)
    work = float((run * size).sum())
    return Case(
        size=np.ascontiguousarray(size, np.int64),
        run=np.ascontiguousarray(run, np.float64),
        estimate=np.ascontiguousarray(estimate, np.float64),
        linear=linear,
        fixed=fixed,
        least=bounded.copy(),
        rate=rate,
        offset=(age + run) * rate,
        user=np.ascontiguousarray(user, np.int64),
        user_weight=of_user,
        ends=np.ascontiguousarray(held.ends, np.float64),
        expected=np.ascontiguousarray(held.expected, np.float64),
        held=np.ascontiguousarray(held.size, np.int64),
        free=int(total - held.size.sum()),
        utilization=weight["utilization"] * work / total,
        makespan=weight["makespan"],
        oldest=float(age.max(initial=0.0)),
        worst_user=weight["fair-max"],
        backfill=backfill,
        due=np.full(jobs, np.inf),
    )


#: Fields of a case that have a value for each waiting job.
PER_JOB = ("size", "run", "estimate", "linear", "fixed", "least", "rate", "offset", "user", "user_weight", "due")


@singledispatch
def some_jobs(case: Any, rows: Ints) -> Any:
    """Return a case with some of its waiting jobs only; they cost what they did."""
    return case._replace(**{name: getattr(case, name)[rows] for name in PER_JOB})
