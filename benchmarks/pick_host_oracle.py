"""How much better than the allocators one could choose hosts at all: a search that knows every job of a window.

`climb` changes the hosts of single jobs, plays the whole window, and keeps what shortens the mean wait. It plays by the
rules of the task, so its result is a schedule that an agent with full knowledge could make. It is not an optimum:
the best schedule is at least this good. `pooled` removes the question: all hosts as one, where nothing is fragmented.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.machine import HostGroup, Machine
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.task import PickHost, players
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Ints = NDArray[np.int64]

#: Changed copies that are played side by side in a round.
LANES = 32


def pooled(cluster: Machine) -> Machine:
    """Return one host that has all cores, memory and GPUs of a cluster."""
    groups = cluster.groups
    whole: dict[str, Any] = {
        name: None if any(getattr(g, name) is None for g in groups) else sum(getattr(g, name) * g.count for g in groups)
        for name in ("cores", "memory", "gpus")
    }
    return Machine(groups=(HostGroup(1, name="all", **{k: v for k, v in whole.items() if v is not None}),))


def pooled_wait(trace: Trace, task: PickHost, window: Window) -> float:
    """Return the mean wait of a window where all hosts are one, in seconds."""
    source = EpisodeSource(trace, dataclasses.replace(task, cluster=pooled(task.cluster), constants={}))
    return float(players(source)().play(window, "best-fit").metrics["mean_wait_s"])


def climb(trace: Trace, task: PickHost, window: Window, start: Ints, rounds: int, seed: int) -> tuple[float, float]:
    """Return the mean wait of the hosts ``start``, (jobs,), and of the best ones found in ``rounds`` of changes."""
    plain = dataclasses.replace(task, observer="cores-now", constants={}, ask_forced=True)
    batch = Batch(trace, plain, lanes=LANES, threads=1)
    rng = np.random.default_rng(seed)
    hosts = len(batch.model.names)
    best = np.where(start < 0, 0, start)
    begin = cost = float(_play(batch, window, np.tile(best, (LANES, 1)))[0])
    for _ in range(rounds):
        tried = np.tile(best, (LANES, 1))
        for lane in range(1, LANES):  # lane 0 plays what is known already
            jobs = rng.integers(0, len(best), rng.geometric(0.4))
            tried[lane, jobs] = rng.integers(0, hosts, len(jobs))
        costs = _play(batch, window, tried)
        lane = int(costs[1:].argmin()) + 1
        if costs[lane] <= cost:
            best, cost = tried[lane], float(costs[lane])
    return begin, cost


def _play(batch: Batch, window: Window, wanted: Ints) -> NDArray[np.float64]:
    """Return the mean wait of each lane: every job gets the host wanted, (lanes, jobs); if it is full, best-fit."""
    lanes = np.arange(batch.lanes)
    batch.reset(range(batch.lanes), [window] * batch.lanes)
    while not batch.done.all():
        arrays = batch.arrays
        job = arrays.queue[lanes, np.minimum(arrays.state["place"], arrays.queue.shape[1] - 1)]
        same = (arrays.rows == wanted[lanes, job][:, None]) & batch.mask
        tight = np.where(batch.mask, batch.features[:, :, 0], np.inf).argmin(axis=1)
        batch.step(np.where(same.any(axis=1), same.argmax(axis=1), tight))
    return batch.score.copy()
