"""pick-job on classes: the first waiting job of every class is on offer."""

from __future__ import annotations

import numpy as np

from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

from .test_pick_host import CLUSTER, mixed_trace


def test_every_class_is_shown_once_and_first_come_first_served_within_it() -> None:
    trace = mixed_trace(200, spread=2.0)
    for cluster in (None, CLUSTER):
        source = EpisodeSource(trace, PickJob(visible="classes", backfill="none", cluster=cluster, ask_forced=True))
        batch = Batch(source, lanes=1)
        batch.reset([0], [(10, 150)])
        ready = source.episode((10, 150)).ready
        need = ready.table.procs if ready.table.demand is None else ready.table.demand.need
        group = np.unique(need, axis=0, return_inverse=True)[1].ravel()
        most = 0
        while not batch.done[0]:
            shown, start = batch.shown(0), batch.starts(0)
            waiting = [job for job in range(150) if ready.table.submit[job] <= batch.now(0) and np.isnan(start[job])]
            first = {group[job]: job for job in reversed(waiting)}
            assert sorted(shown.tolist()) == sorted(first.values())
            most = max(most, len(shown))
            batch.step([0])
        assert most > 1


def test_always_the_oldest_class_is_first_come_first_served() -> None:
    source = EpisodeSource(mixed_trace(200, spread=2.0), PickJob(visible="classes", backfill="none"))
    batch = Batch(source, lanes=1)
    batch.reset([0], [(0, 200)])
    while not batch.done[0]:
        batch.step([0])
    assert batch.starts(0).tolist() == source.schedule((0, 200), "fcfs").tolist()
