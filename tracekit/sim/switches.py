"""The switches of a simulation: every choice of meaning has a name, a default and a place in the result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tracekit.errors import UnknownName, UsageError
from tracekit.machine import UNITS, Unit
from tracekit.trace import SizeFrom

Backfill = Literal["none", "easy", "easy-sjf", "conservative", "rlscheduler"]
BACKFILLS: tuple[Backfill, ...] = get_args(Backfill)
ESTIMATES = ("requested", "actual", "factor", "noisy", "last-two")
COMPATIBILITIES = ("rlscheduler",)

#: Options of the policy ``multifactor``: weights of the four factors (each factor is 0 … 1), then seconds. The times
#: are Slurm's own defaults (PriorityMaxAge, PriorityDecayHalfLife: seven days); Slurm's weights default to 0, ours not.
MULTIFACTOR_DEFAULTS: dict[str, float] = {
    "age_weight": 1000.0,
    "size_weight": 1000.0,
    "fair_weight": 1000.0,
    "queue_weight": 1000.0,
    "age_max": 7 * 86400.0,
    "half_life": 7 * 86400.0,
}


@dataclass(frozen=True)
class Switches:
    """How a simulation is to be understood. The defaults are the definitions of EASY as published."""

    estimates: str = "requested"  # what the scheduler believes: requested, actual, factor:F, noisy:SIGMA or last-two
    commit: bool = False  # a job that was picked blocks until it starts; else decide anew at every event
    kill_at_limit: bool = False  # a job ends at its limit: run = min(run_time, req_time)
    bound: float = 10.0  # seconds, of the bounded slowdown
    procs_from: SizeFrom = "requested"  # a job's size: requested, allocated or the larger of both
    resource: Unit | None = None  # what is scheduled: procs, nodes or gpus; None = what the trace says
    procs: int | None = None  # size of the machine; None = what the trace says
    ties: Literal["completions", "arrivals"] = "completions"  # first at one instant; arrivals: and one event at a time
    interval: float = 0.0  # seconds between scheduling passes; 0 = a pass at every event
    utilization_to: Literal["end", "start"] = "end"  # utilisation runs to the last end, or to the last start
    compat: str | None = None  # "rlscheduler": all of that system's meanings at once
    seed: int = 0  # of random and of noisy estimates
    options: Mapping[str, float] = field(default_factory=dict)  # weights and half-life of multifactor
    queue_factors: Mapping[str, float] = field(default_factory=dict)  # 0 … 1 by queue label, for multifactor

    def __post_init__(self) -> None:
        estimate_of(self.estimates)
        _one_of("size source", self.procs_from, get_args(SizeFrom))
        _one_of("event order", self.ties, ("completions", "arrivals"))
        _one_of("end of utilisation", self.utilization_to, ("end", "start"))
        if self.resource is not None:
            _one_of("resource", self.resource, UNITS)
        if self.compat is not None:
            _one_of("compatibility", self.compat, COMPATIBILITIES)
        if self.procs is not None and self.procs < 1:
            raise UsageError(f"a machine needs at least one processor, not {self.procs}")
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise UsageError(f"the bound of the bounded slowdown must be above 0 seconds, not {self.bound}")
        if not (self.interval >= 0 and math.isfinite(self.interval)):
            raise UsageError(
                f"the interval between passes must be 0 (at every event) or more seconds, not {self.interval}"
            )
        for key, value in self.options.items():
            _one_of("option of multifactor", key, tuple(MULTIFACTOR_DEFAULTS))
            if math.isnan(value) or (key in ("age_max", "half_life") and value <= 0):
                raise UsageError(f"option {key} cannot be {value}")

    def resolved(self) -> Switches:
        """Return what a compatibility mode stands for, switch by switch."""
        if self.compat == "rlscheduler":
            return dataclasses.replace(self, commit=True, procs_from="max", ties="arrivals", utilization_to="start")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the result."""
        return dataclasses.asdict(self) | {"options": MULTIFACTOR_DEFAULTS | dict(self.options)}


def backfill_for(backfill: str, switches: Switches) -> str:
    """Return the backfilling that is meant: the compatibility mode has its own in place of the default."""
    _one_of("backfilling", backfill, BACKFILLS)
    return "rlscheduler" if switches.compat == "rlscheduler" and backfill == "easy" else backfill


def estimate_of(text: str) -> tuple[str, float]:
    """Split ``factor:1.5`` into its kind and its number (NaN for kinds without one)."""
    kind, colon, number = text.partition(":")
    _one_of("estimates", kind, ESTIMATES)
    if (kind in ("factor", "noisy")) != bool(colon):
        raise UsageError(f"estimates '{text}': write requested, actual, factor:1.5, noisy:0.3 or last-two")
    if not colon:
        return kind, math.nan
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"estimates '{text}': '{number}' is no number") from None
    if not (value >= 0 and math.isfinite(value)):
        raise UsageError(f"estimates '{text}': the number must be 0 or more")
    return kind, value


def _one_of(kind: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownName(kind, value, known)
