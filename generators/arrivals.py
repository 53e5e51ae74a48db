"""Submit times as learnable gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from generators.clock import Clock
from generators.parts import Slot, Table, numbers_of, to_grain
from generators.quantile import Floats, Quantiles, grain_of
from tracekit.trace import Trace


@dataclass(frozen=True)
class Arrivals:
    """Submit times as gaps on the operational clock (on the wall clock where the trace has no calendar)."""

    key: ClassVar[str] = "arrivals"
    scale: Quantiles
    clock: Clock | None
    start: float  # the first real submit
    grain: float

    @classmethod
    def fit(cls, trace: Trace) -> Arrivals:
        """Learn the hours of the week, and the gaps on that clock."""
        submit, clock = trace.column("submit_time"), Clock.fit(trace)
        gaps = np.diff(clock.operational(submit) if clock else submit)
        return cls(Quantiles.fit(gaps, grain=0.0 if clock else None), clock, float(submit[0]), grain_of(submit))

    @property
    def slots(self) -> list[Slot]:
        """Return one number, always, so that no table is empty."""
        return [Slot("gap", "number")]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the gap before each job; the first job has none and gets any (it is not used in decoding)."""
        submit = trace.column("submit_time")
        gaps = np.diff(self.clock.operational(submit) if self.clock else submit)
        return {"gap": np.concatenate([rng.normal(size=1), self.scale.to_normal(gaps, rng)])}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write sorted submit times from the real start on."""
        gaps = self.scale.from_normal(numbers_of(table, "gap"))
        jobs["submit_time"] = self.submits(gaps)

    def submits(self, gaps: Floats) -> Floats:
        """Return submit times for gaps on the operational clock; the first gap is not used."""
        if self.clock:
            submit = self.clock.wall(self.start, gaps)
        else:
            submit = self.start + np.concatenate([[0.0], np.cumsum(gaps[1:])])
        return np.maximum.accumulate(to_grain(submit, self.grain))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "scale": self.scale.to_dict(),
            "clock": self.clock.to_dict() if self.clock else None,
            "start": self.start,
            "grain": self.grain,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Arrivals:
        """Read back what `to_dict` gave."""
        clock = Clock.from_dict(plain["clock"]) if plain["clock"] else None
        return cls(Quantiles.from_dict(plain["scale"]), clock, plain["start"], plain["grain"])
