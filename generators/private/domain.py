"""What the private model takes as public: the machine, and bins that are the same for every log.

Nothing here looks at a job. Bins are upper edges, inclusive; a value above the last counts in the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.machine import Machine, Unit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Limits that people type, in minutes; a synthetic limit is one of these or a round value just below it.
LIMITS = 60.0 * np.array([
    1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 720, 960, 1080, 1440, 2160, 2880, 4320,
    7200, 10080, 20160, 43200,
])  # fmt: skip
#: Run times in seconds; the first bin is 0, the last ends at thirty days.
RUNS = np.array([
    0, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 64800, 86400, 172800, 2592000,
], dtype=np.float64)  # fmt: skip
#: Jobs per user: fewer than …; the last class has no end.
ACTIVITY = np.array([2, 4, 10, 30, 100, 300, 1000, 3000, 10000], dtype=np.float64)
#: Seconds between two consecutive jobs of a user, up to …; longer gaps begin a new session.
GAPS = np.array([5, 30, 120, 360, 1200, 3600], dtype=np.float64)
#: A job against the one before it: same size and limit with a similar run time, with another run time, or neither.
ALIKE, SAME_SHAPE, OTHER, STATES = 0, 1, 2, 3
#: Run times are similar when they differ by less than this factor.
SIMILAR = 1.5
#: Three-hour blocks on Monday to Friday, six-hour blocks at the weekend.
WEEKDAY_BLOCKS, WEEKEND_BLOCKS = 8, 4
#: A calendar before 1980 is a placeholder.
OLDEST = 315_532_800.0


@dataclass(frozen=True)
class Domain:
    """The public description of one log."""

    size: int  # units of the machine
    unit: Unit = "procs"
    calendar: bool = False  # whether hours of the week have a meaning
    timezone: str | None = None

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """Take what is public from a machine; its size must be known, because the largest job is a user's secret."""
        size = machine.size()
        if not size:
            raise UsageError(
                f"model private needs the machine's size in {machine.unit}, which must not be read from the jobs: "
                "give it with --procs or --machine"
            )
        calendar = machine.epoch is not None and machine.epoch > OLDEST
        return cls(int(size), machine.unit, calendar, machine.timezone if calendar else None)

    @cached_property
    def sizes(self) -> Floats:
        """Return the upper edges of the bins of sizes: powers of two, then the machine."""
        powers = np.exp2(np.arange(self.size.bit_length(), dtype=np.float64))
        return np.asarray(powers if powers[-1] == self.size else np.append(powers, float(self.size)), np.float64)

    def machine(self, epoch: float | None) -> Machine:
        """Return the machine of synthetic traces: size, unit and time zone, no name, no labels, no header."""
        bare = Machine(unit=self.unit, epoch=epoch, timezone=self.timezone)
        return bare.replace(**{self.unit: self.size})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"size": self.size, "unit": self.unit, "calendar": self.calendar, "timezone": self.timezone}


def bin_of(values: Floats, edges: Floats) -> Ints:
    """Return each value's bin; values above the last edge count in the last."""
    return np.minimum(np.searchsorted(edges, values, side="left"), len(edges) - 1).astype(np.int64)


def block_of(hour_of_week: Ints) -> Ints:
    """Return the block of each hour of the week, 0 = Monday midnight."""
    hour, weekend = hour_of_week % 24, hour_of_week >= 120
    return np.where(weekend, WEEKDAY_BLOCKS + hour // (24 // WEEKEND_BLOCKS), hour // (24 // WEEKDAY_BLOCKS))
