"""What a played episode of pick-host is worth: completion, waits counted once, deferrals, use, imbalance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.task import allocator_code
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]

#: Outcomes that are kept.
MOST_KNOWN = 4096
#: Every metric and what it is.
METRICS = {
    "completion_rate": "jobs that ended within the episode, of all jobs",
    "mean_wait_s": "mean over all jobs; a job that still waits has waited until the end of the episode, once",
    "defer_rate": "deferrals per job: cycles in which a waiting job fitted nowhere",
    "makespan_s": "from the first submit to the last end, or to the end of the episode",
    "core_utilization": "core-seconds in use, of all cores over the makespan",
    "memory_utilization": "the same of memory; 0 where it is not limited",
    "imbalance": "time mean of the standard deviation over hosts of the share of cores in use",
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """One finished episode."""

    starts: Floats  # (jobs,)
    hosts: NDArray[np.int64]  # (jobs,) the first host of each job; −1 = it has not started
    metrics: dict[str, float]


class AllocatorPlayer:
    """Plays windows of a source by allocators, on the same compiled environment; outcomes are cached."""

    def __init__(self, source: Any) -> None:
        self.batch = Batch(source, lanes=1, threads=1)
        self._known: dict[tuple[Window, str], Outcome] = {}

    def play(self, window: Window, allocator: str) -> Outcome:
        """Play one window."""
        key = ((int(window[0]), int(window[1])), allocator)
        if key not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            code = allocator_code(allocator)
            self.batch.load([0], [window])
            self.batch.play_rule(0, code)
            batch = self.batch
            self._known[key] = Outcome(batch.starts(0), batch.hosts_of_jobs(0), batch.outcomes[batch.windows[0]])
        return self._known[key]
