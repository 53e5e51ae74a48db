"""Memory, CPU time, power and CPU-bound shares as learnable numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from generators.parts import Slot, Table, codes_of, numbers_of
from generators.quantile import Floats, Quantiles
from tracekit.machine import UNITS
from tracekit.trace import Trace


@dataclass(frozen=True)
class Amount:
    """An amount, as it is or per second of the run or per unit of the size; unknown is a state of its own.

    CPU time is learnt as a share of the run time and power as watts per node (or other unit), so that a made job's CPU
    time fits its run time and its power fits its size.
    """

    key: ClassVar[str] = "amount"
    name: str
    scale: Quantiles
    unknown: float  # share of the jobs
    per: str = ""  # run_time, or a unit: nodes, procs, gpus

    @classmethod
    def fit(cls, trace: Trace, name: str) -> Amount:
        """Lay out the known values; negative ones count as unknown."""
        per = _base(trace, name)
        values = _amounts(trace, name, per)
        return cls(name, Quantiles.fit(values, grain=0.0 if per else None), float(np.isnan(values).mean()), per)

    @property
    def slots(self) -> list[Slot]:
        """Return a number unless all known values are one, and a state if some are unknown."""
        state = Slot(f"{self.name}?", "category", np.array([1 - self.unknown, self.unknown]))
        constant = self.scale.value[0] == self.scale.value[-1]
        return [*([state] if 0 < self.unknown < 1 else []), *([] if constant else [Slot(self.name, "number")])]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each job's place on the scale, and whether the amount is unknown (then the place is any)."""
        values = _amounts(trace, self.name, self.per)
        unknown = np.isnan(values)
        place = self.scale.to_normal(np.where(unknown, self.scale.value[0], values), rng)
        return {
            f"{self.name}?": unknown.astype(np.int64),
            self.name: np.where(unknown, rng.normal(size=len(values)), place),
        }

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the amount; the run time or the size that it is learnt by was decoded before."""
        values = self.scale.from_normal(numbers_of(table, self.name))
        if self.per == "run_time":
            values = np.round(values * jobs["run_time"], 2)
        elif self.per:
            values = np.round(values * _decoded_sizes(jobs, self.per), 2)
        if 0 < self.unknown < 1:
            values = np.where(codes_of(table, f"{self.name}?", 2) == 1, np.nan, values)
        jobs[self.name] = values

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"name": self.name, "scale": self.scale.to_dict(), "unknown": self.unknown, "per": self.per}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Amount:
        """Read back what `to_dict` gave."""
        earlier = "run_time" if plain["name"] == "cpu_time" else ""  # models saved before there was a choice
        scale = Quantiles.from_dict(plain["scale"])
        return cls(plain["name"], scale, plain["unknown"], plain.get("per", earlier))


def _base(trace: Trace, name: str) -> str:
    """Return what a column is learnt by: nothing, the run time, or the unit in which its size is known."""
    if name == "cpu_time":
        return "run_time"
    if name != "mean_watts":
        return ""
    nodes = (trace.sizes("nodes") > 0).mean() >= (trace.sizes() > 0).mean()
    return "nodes" if nodes else trace.machine.unit


def _amounts(trace: Trace, name: str, per: str) -> Floats:
    values = trace.column(name)
    if per == "run_time":
        run = trace.column("run_time")
        values = np.divide(values, run, out=np.where(np.isnan(values), np.nan, 0.0), where=run > 0)
    elif per in UNITS:
        size = trace.sizes(per)
        values = np.divide(values, size, out=np.full(len(values), np.nan), where=size > 0)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def _decoded_sizes(jobs: dict[str, Any], unit: str) -> Floats:
    """Return requested sizes, or allocated ones where those are unknown."""
    size = np.full(len(jobs["run_time"]), np.nan)
    for name in (f"req_{unit}", f"alloc_{unit}"):
        if name in jobs:
            found = pd.array(jobs[name], dtype="Float64").to_numpy(dtype=np.float64, na_value=np.nan)
            size = np.where(np.isnan(size), found, size)
    return size
