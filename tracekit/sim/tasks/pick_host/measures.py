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
    metrics: dict[str, float]


def measure(batch: Batch, lane: int) -> dict[str, float]:
    """Return the metrics of a lane whose episode is over."""
    arrays, state, constants = batch.arrays, batch.arrays.state[lane], batch.task.constants
    jobs = int(arrays.length[lane])
    submit, run = arrays.submit[lane, :jobs], arrays.run[lane, :jobs]
    start, waits = batch.starts(lane), np.isnan(arrays.start[lane, :jobs])
    horizon = float(state["horizon"])
    ends = np.where(waits, np.inf, start + run)
    last = float(min(np.max(np.where(waits, start, ends)), horizon))
    length = max(last - float(submit[0]), 1e-9)
    busy = np.where(waits, 0.0, np.minimum(start + run, horizon) - start)
    need = batch.source.episode(batch.windows[lane]).ready.table.demand
    assert need is not None
    held = need.need[:, :2].astype(np.float64) / (need.scale, 1)
    # the areas end with the last event of the clock; the jobs that still run are added here
    idle_after = max(last - float(state["now"]), 0.0)
    return {
        "completion_rate": float(np.mean(ends <= horizon)),
        "mean_wait_s": float((start - submit).mean()),
        "defer_rate": int(state["deferred"]) / jobs,
        "makespan_s": length,
        "core_utilization": float((busy * held[:, 0]).sum() / (constants["cores"] * length)),
        "memory_utilization": float((busy * held[:, 1]).sum() / (constants["memory"] * length)),
        "imbalance": float(state["imbalance_area"]) / max(length - idle_after, 1e-9),
    }


class AllocatorPlayer:
    """Plays windows of a source by allocators, on the same compiled environment."""

    def __init__(self, source: Any) -> None:
        self.batch = Batch(source, lanes=1, threads=1)

    def play(self, window: Window, allocator: str) -> Outcome:
        """Play one window."""
        code = allocator_code(allocator)
        self.batch.load([0], [window])
        self.batch.play_rule(0, code)
        return Outcome(self.batch.starts(0), measure(self.batch, 0))
