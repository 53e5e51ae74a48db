"""Waits that levers of energy cause: jobs held back for less carbon, by the power cap, or until their hosts are up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Parts of a wait, beside those of `tracekit.sim.analysis.explain.PARTS` and fragmentation.
LEVERS = ("shifted", "power_cap", "waking")


@dataclass(frozen=True, eq=False)
class LeverFacts:
    """What levers did to jobs, (jobs,) each; seconds as in the trace."""

    release: Floats  # when a job joined the queue
    granted: Floats  # when it got its hosts, which may have had to wake up first
    watts: Floats  # what it adds to the idle machine
    headroom: float  # what the power cap leaves to all jobs

    def edges(self, row: int) -> list[float]:
        """Return the moments at which a job's own cause may change."""
        return [float(self.release[row]), float(self.granted[row])]

    def causes(self, row: int, times: Floats, drawn: Floats, cause: Ints, free: int, first: int) -> Ints:
        """Return the causes at some times, where levers have their own; these are numbered from ``first`` on.

        ``drawn`` are the watts of other jobs, and ``free`` is the cause that says that there is room for the job.
        """
        room = cause == free
        short = drawn + self.watts[row] > self.headroom
        found = np.where(room & (times >= self.granted[row]), first + 2, cause)
        found = np.where(room & (times < self.granted[row]) & short, first + 1, found)
        return np.where(times < self.release[row], first, found)
