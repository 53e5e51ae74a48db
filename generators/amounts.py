"""Memory and CPU time as learnable numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from generators.parts import Slot, Table, codes_of, numbers_of
from generators.quantile import Floats, Quantiles
from tracekit.trace import Trace


@dataclass(frozen=True)
class Amount:
    """An amount of memory, or the CPU time as a share of the run time; unknown is a state of its own."""

    key: ClassVar[str] = "amount"
    name: str
    scale: Quantiles
    unknown: float  # share of the jobs

    @classmethod
    def fit(cls, trace: Trace, name: str) -> Amount:
        """Lay out the known values; negative ones count as unknown."""
        values = _amounts(trace, name)
        return cls(
            name, Quantiles.fit(values, grain=0.0 if name == "cpu_time" else None), float(np.isnan(values).mean())
        )

    @property
    def slots(self) -> list[Slot]:
        """Return a number unless all known values are one, and a state if some are unknown."""
        state = Slot(f"{self.name}?", "category", np.array([1 - self.unknown, self.unknown]))
        constant = self.scale.value[0] == self.scale.value[-1]
        return [*([state] if 0 < self.unknown < 1 else []), *([] if constant else [Slot(self.name, "number")])]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each job's place on the scale, and whether the amount is unknown (then the place is any)."""
        values = _amounts(trace, self.name)
        unknown = np.isnan(values)
        place = self.scale.to_normal(np.where(unknown, self.scale.value[0], values), rng)
        return {
            f"{self.name}?": unknown.astype(np.int64),
            self.name: np.where(unknown, rng.normal(size=len(values)), place),
        }

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the amount; CPU time needs the run time that was decoded before."""
        values = self.scale.from_normal(numbers_of(table, self.name))
        if self.name == "cpu_time":
            values = np.round(values * jobs["run_time"], 2)
        if 0 < self.unknown < 1:
            values = np.where(codes_of(table, f"{self.name}?", 2) == 1, np.nan, values)
        jobs[self.name] = values

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"name": self.name, "scale": self.scale.to_dict(), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Amount:
        """Read back what `to_dict` gave."""
        return cls(plain["name"], Quantiles.from_dict(plain["scale"]), plain["unknown"])


def _amounts(trace: Trace, name: str) -> Floats:
    values = trace.column(name)
    if name == "cpu_time":
        run = trace.column("run_time")
        values = np.divide(values, run, out=np.where(np.isnan(values), np.nan, 0.0), where=run > 0)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)
