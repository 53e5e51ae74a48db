"""The old import path of the task pick-job; it still works and warns with the new one."""

from __future__ import annotations

import warnings

from tracekit.sim.tasks.episodes import Episode as Cut
from tracekit.sim.tasks.episodes import EpisodeSource as Cutter
from tracekit.sim.tasks.pick_job.batch import Batch, relative
from tracekit.sim.tasks.pick_job.task import PickJob

__all__ = ["Batch", "Cut", "Cutter", "PickJob", "relative"]

warnings.warn(
    "tracekit.sim.pickjob has moved: PickJob to tracekit.sim.tasks.pick_job.task, Batch to "
    "tracekit.sim.tasks.pick_job.batch; this path will be removed in version 0.3",
    DeprecationWarning,
    stacklevel=2,
)
