"""What the integration takes beside a schedule: intervals in which hosts were not plainly on, and jobs' frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: States of a host that holds no job; a host that is in no interval is on (idle, or busy with jobs).
SLEEPING, TURNING_OFF, TURNING_ON = range(3)
STATES = ("sleeping", "turning off", "turning on")


@dataclass(frozen=True, eq=False)
class HostStates:
    """Intervals in which hosts slept or changed state, in any order; intervals of one host do not overlap.

    No job runs on a host during its intervals. An interval may go on beyond the window: only what lies inside counts.
    """

    host: Ints  # (intervals,) number of the host, groups in file order
    state: Ints  # (intervals,) SLEEPING, TURNING_OFF or TURNING_ON
    begin: Floats  # (intervals,) seconds, as in the schedule
    end: Floats  # (intervals,)

    def __post_init__(self) -> None:
        sizes = {len(column) for column in (self.host, self.state, self.begin, self.end)}
        if len(sizes) != 1:
            raise UsageError("states of hosts need host, state, begin and end of every interval")
        if len(self.host) and not ((self.state >= 0) & (self.state < len(STATES))).all():
            raise UsageError(f"a state of a host is a number from 0 to {len(STATES) - 1}: {', '.join(STATES)}")
        if not (np.isfinite(self.begin).all() and (self.end >= self.begin).all()):
            raise UsageError("an interval of a host's state ends before it begins")

    def __len__(self) -> int:
        return len(self.host)
