"""What an agent minimises: objectives by name, alone or weighted, such as ``bsld`` or ``bsld:0.7,wait:0.3``.

Every objective is a cost: smaller is better, a reward is its negative. Utilisation therefore counts negative, as in
RLScheduler (Zhang et al., SC 2020). The definitions are those of `tracekit.sim.metrics`; undefined
values (NaN, infinity) are replaced here, because a learner cannot use them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim import metrics
from tracekit.sim.compile import jit_internal

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """A finished window, the input of objectives. Times in seconds, arrays of shape (jobs,)."""

    submit: Floats
    start: Floats
    run: Floats
    procs: Floats
    user: NDArray[np.int64]  # −1 = unknown; all jobs of unknown user count as one user's
    total: float  # processors of the machine
    bound: float = 10.0  # seconds, of the bounded slowdown
    to_last_start: bool = False  # end of the utilisation: last start, or last end
    gpus: Floats | None = None  # GPUs of each job, where the machine is a cluster of hosts
    gpu_total: float = 0.0  # GPUs of the cluster
    energy: Callable[[], Any] | None = None  # works out the energy of the schedule, where a power model is given

    @cached_property
    def wait(self) -> Floats:
        """Seconds from submit to start."""
        return metrics.wait(self.submit, self.start)

    @cached_property
    def spent(self) -> Any:
        """The energy of the schedule, see `tracekit.sim.energy.integrate.Energy`."""
        if self.energy is None:
            raise UsageError("objectives energy, carbon, cost and peak need a power model; add --power")
        return self.energy()

    @cached_property
    def bsld(self) -> Floats:
        """Bounded slowdown."""
        return metrics.bounded_slowdown(self.wait, self.run, self.bound)


def bsld(schedule: Schedule) -> float:
    """Mean bounded slowdown."""
    return float(schedule.bsld.mean())


def slowdown(schedule: Schedule) -> float:
    """Mean slowdown; a job shorter than one second counts as one second, else its slowdown could be infinite."""
    return float(metrics.slowdown(schedule.wait, np.maximum(schedule.run, 1.0)).mean())


def wait(schedule: Schedule) -> float:
    """Mean wait, seconds."""
    return float(schedule.wait.mean())


def response(schedule: Schedule) -> float:
    """Mean time from submit to end, seconds."""
    return float((schedule.wait + schedule.run).mean())


def utilization(schedule: Schedule) -> float:
    """Used share of the machine, negative; 0 for a window without length."""
    share = metrics.utilization(
        schedule.submit,
        schedule.start,
        schedule.run,
        schedule.procs,
        schedule.total,
        to_last_start=schedule.to_last_start,
    )
    return -share if math.isfinite(share) else 0.0


def gpu_utilization(schedule: Schedule) -> float:
    """Used share of the cluster's GPUs, negative; 0 for a window without length. Only on clusters with GPUs."""
    if schedule.gpus is None or not schedule.gpu_total:
        raise UsageError("objective gpu-utilization needs a cluster with GPUs; add --cluster, or use utilization")
    return utilization(dataclasses.replace(schedule, procs=schedule.gpus, total=schedule.gpu_total))


def makespan(schedule: Schedule) -> float:
    """Seconds from the first submit to the last end."""
    return float((schedule.start + schedule.run).max() - schedule.submit.min())


def _users(schedule: Schedule) -> Floats:
    return metrics.per_user(schedule.bsld, schedule.user - schedule.user.min(initial=0))


def fair_mean(schedule: Schedule) -> float:
    """Mean over users of each user's mean bounded slowdown."""
    return float(_users(schedule).mean())


def fair_max(schedule: Schedule) -> float:
    """Largest over users of each user's mean bounded slowdown."""
    return float(_users(schedule).max())


def energy(schedule: Schedule) -> float:
    """Energy of the facility from the first submit to the last end, kWh; needs a power model."""
    return float(schedule.spent.total_kwh)


def carbon(schedule: Schedule) -> float:
    """Carbon of that energy, kg; needs a power model and a series of carbon intensity."""
    return _priced(schedule.spent.carbon_kg, "carbon", "--carbon")


def cost(schedule: Schedule) -> float:
    """Money for that energy, in the currency of the series; needs a power model and a series of prices."""
    return _priced(schedule.spent.cost, "cost", "--price")


def _priced(value: float | None, name: str, flag: str) -> float:
    if value is None:
        raise UsageError(f"objective {name} needs a series over time; add {flag} FILE.csv")
    return float(value)


def peak(schedule: Schedule) -> float:
    """Highest power of the facility, kW; needs a power model."""
    return float(schedule.spent.peak_kw)


#: Every objective by name. Add your own: a function of a `Schedule` that returns a finite number, smaller is better.
OBJECTIVES: dict[str, Callable[[Schedule], float]] = {
    "bsld": bsld,
    "slowdown": slowdown,
    "wait": wait,
    "response": response,
    "utilization": utilization,
    "fair-mean": fair_mean,
    "fair-max": fair_max,
    "gpu-utilization": gpu_utilization,
    "makespan": makespan,
    "energy": energy,
    "carbon": carbon,
    "cost": cost,
    "peak": peak,
}
#: Other names of objectives.
ALIASES = {"jct": "response"}
#: Objectives that are a mean over jobs, each known when it starts; their order is known to `job_cost`.
ADDITIVE = ("bsld", "slowdown", "wait", "response")


@dataclass(frozen=True)
class Objective:
    """A weighted sum of named objectives; one with the weight 0 is shown among the parts and not optimised."""

    terms: tuple[tuple[str, float], ...]

    def cost(self, schedule: Schedule) -> float:
        """Return the cost of a finished window; smaller is better."""
        return sum(weight * OBJECTIVES[name](schedule) for name, weight in self.terms if weight != 0)

    def __str__(self) -> str:
        return " + ".join(f"{weight:g} · {name}" for name, weight in self.terms)

    def parts(self, schedule: Schedule) -> dict[str, float]:
        """Return the value of each named objective, without its weight."""
        return {name: OBJECTIVES[name](schedule) for name, _ in self.terms}

    @property
    def additive(self) -> bool:
        """Whether the cost is a mean over jobs, so that it can be computed job by job; a weight of 0 does not count."""
        return all(name in ADDITIVE for name, weight in self.terms if weight != 0)

    def weights(self) -> Floats:
        """Return one weight for each of `ADDITIVE`, (4,); what is not additive is left out."""
        found = np.zeros(len(ADDITIVE))
        for name, weight in self.terms:
            if name in ADDITIVE:
                found[ADDITIVE.index(name)] += weight
        return found


def objective(text: str) -> Objective:
    """Read ``bsld``, or names with weights: ``bsld:0.7,wait:0.3``.

    >>> objective("bsld:0.7,wait:0.3").terms
    (('bsld', 0.7), ('wait', 0.3))
    """
    terms = []
    for part in text.split(","):
        name, colon, number = part.strip().partition(":")
        name = ALIASES.get(name, name)
        if name not in OBJECTIVES:
            raise UnknownName("objective", name, [*OBJECTIVES, *ALIASES])
        try:
            weight = float(number) if colon else 1.0
        except ValueError:
            raise UsageError(f"objective '{text}': '{number}' is not a valid weight; write bsld:0.7,wait:0.3") from None
        if not math.isfinite(weight):
            raise UsageError(f"objective '{text}': a weight must be a finite number")
        terms.append((name, weight))
    return Objective(tuple(terms))


def measures(schedule: Schedule) -> dict[str, float]:
    """Return what results show beside the objective: means over jobs, seconds, and shares from 0 to 1.

    GPU utilisation is there on clusters with GPUs only.
    """
    found = {
        "mean_wait_s": wait(schedule),
        "mean_response_s": response(schedule),
        "mean_bsld": bsld(schedule),
        "utilization": -utilization(schedule),
        "makespan_s": makespan(schedule),
    }
    return found | ({"gpu_utilization": -gpu_utilization(schedule)} if schedule.gpu_total else {})


@jit_internal
def job_cost(weights: NDArray[np.float64], bound: float, wait: float, run: float) -> float:
    """Return what one job adds to the additive objectives, weighted: the sum over jobs / their number is the cost."""
    cost = 0.0
    if weights[0] != 0.0:
        cost += weights[0] * max(1.0, (wait + run) / max(run, bound))
    if weights[1] != 0.0:
        cost += weights[1] * (wait + max(run, 1.0)) / max(run, 1.0)
    if weights[2] != 0.0:
        cost += weights[2] * wait
    if weights[3] != 0.0:
        cost += weights[3] * (wait + run)
    return cost
