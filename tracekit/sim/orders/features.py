"""What a network sees of a queue: its `Case`, so nothing that a search does not see, in units that do not depend on it.

Some features are fixed (`static`), others depend on the jobs placed so far (`moving`): how long the machine would have
to wait for each job, and what would then be free. They are worked out by list scheduling strictly in order, also where
the order is then used with backfilling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.orders.evaluate import Case, push

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

#: Of each job. Logarithms are relative to the mean over the queue; ranks run from 0 to 1, ties share theirs.
STATIC = (
    "log_run",
    "size",
    "log_size",
    "log_area",
    "log_urgency",  # what a second of waiting costs
    "log_area_per_urgency",
    "grace",  # how long waiting costs nothing
    "rank_run",
    "rank_size",
    "rank_area",
    "rank_area_per_urgency",
    "rank_f1",
    "rank_longest",  # of long and narrow jobs first
    "busy",
    "depth",  # work of the queue, in run times of the machine
)
#: Of each job that is not placed yet, given those that are.
MOVING = ("fits", "delay", "left_free", "idle", "run_per_gap", "outlived_by")


def static(case: Case) -> Singles:
    """Return the fixed features of a queue, (jobs, len(STATIC))."""
    total = float(case.free + case.held.sum())
    run, size = np.maximum(case.run, 1.0), case.size / total
    slope = case.linear + case.rate
    urgency = np.where(slope > 0, slope, max(float(slope.max(initial=0.0)), 1e-12) * 1e-6)
    typical = float(np.exp(np.log(run).mean()))
    with np.errstate(divide="ignore", invalid="ignore"):
        grace = np.where(case.rate > 0, np.maximum(case.least - case.offset, 0.0) / case.rate, 0.0)
    area = run * size
    columns = [
        _centred(run) / 2,
        size,
        np.log(size) / 3,
        _centred(area) / 3,
        _centred(urgency) / 3,
        _centred(area / urgency) / 3,
        np.log1p(grace / typical),
        _ranks(run),
        _ranks(size),
        _ranks(area),
        _ranks(area / urgency),
        _ranks(np.log10(run) * size),
        _ranks(size / run),
        np.full(len(run), float(case.held.sum()) / total),
        np.full(len(run), np.log1p(float(area.sum()) / typical) / 3),
    ]
    return np.stack(columns, 1).astype(np.float32)


def _centred(values: Floats) -> Floats:
    """Return logarithms relative to their mean."""
    logs = np.log(values)
    centred: Floats = logs - logs.mean()
    return centred


def _ranks(values: Floats) -> Floats:
    """Return ranks from 0 to 1; equal values share the mean of theirs, so that the order of the jobs plays no part."""
    from scipy.stats import rankdata

    return (np.asarray(rankdata(values), np.float64) - 1.0) / max(len(values) - 1, 1)


class Lanes(NamedTuple):
    """Schedules in the making, side by side: lane k places the jobs of queue ``queue[k]``. All queues have N jobs."""

    size: Ints  # (queues, N)
    run: Floats  # (queues, N)
    total: Floats  # (queues,) units of the machine
    typical: Floats  # (queues,) geometric mean of run times
    queue: Ints  # (lanes,)
    clock: Floats  # (lanes,)
    free: Ints  # (lanes,)
    running: Ints  # (lanes,) how many jobs run
    ends: Floats  # (lanes, N + most running) descending
    held: Ints  # (lanes, N + most running)


def lanes_of(cases: Sequence[Case], each: int = 1) -> Lanes:
    """Return ``each`` lanes for every queue, nothing placed."""
    jobs, most = len(cases[0].size), max(len(case.ends) for case in cases)
    queue = np.repeat(np.arange(len(cases)), each)
    ends, held = np.zeros((len(queue), jobs + most)), np.zeros((len(queue), jobs + most), np.int64)
    for lane, number in enumerate(queue.tolist()):
        case = cases[number]
        late = np.argsort(-case.ends, kind="stable")
        ends[lane, : len(late)], held[lane, : len(late)] = case.ends[late], case.held[late]
    run = np.stack([np.maximum(case.run, 1.0) for case in cases])
    return Lanes(
        np.stack([case.size for case in cases]),
        run,
        np.array([float(case.free + case.held.sum()) for case in cases]),
        np.exp(np.log(run).mean(1)),
        queue,
        np.zeros(len(queue)),
        np.array([cases[k].free for k in queue.tolist()], np.int64),
        np.array([len(cases[k].ends) for k in queue.tolist()], np.int64),
        ends,
        held,
    )


def kept(lanes: Lanes, chosen: Ints) -> Lanes:
    """Return copies of some lanes; each must have the queue of the lane whose place it takes."""
    moving = ("clock", "free", "running", "ends", "held")
    return lanes._replace(**{name: getattr(lanes, name)[chosen] for name in moving})


def moving(lanes: Lanes) -> Singles:
    """Return the moving features of every job of every lane, (lanes, N, len(MOVING)), placed or not."""
    found = np.empty((len(lanes.queue), lanes.size.shape[1], len(MOVING)), np.float32)
    _look(lanes, found)
    return found


@jit
def _look(lanes: Lanes, found: Singles) -> None:
    """Write what placing each job next would mean."""
    for lane in range(len(lanes.queue)):
        q = lanes.queue[lane]
        ends, held, clock, total, typical = (
            lanes.ends[lane],
            lanes.held[lane],
            lanes.clock[lane],
            lanes.total[q],
            lanes.typical[q],
        )
        last, free = lanes.running[lane], lanes.free[lane]
        gap = max(ends[last - 1] - clock, 1.0) if last > 0 else 1.0
        for job in range(lanes.size.shape[1]):
            size, run = lanes.size[q, job], lanes.run[q, job]
            at, there, k = clock, free, last
            while there < size and k > 0:
                k -= 1
                at = max(at, ends[k])
                there += held[k]
            outlived = 0
            for k in range(last):
                if ends[k] >= at + run:
                    outlived += held[k]
            delay = at - clock
            found[lane, job, 0] = 1.0 if delay <= 0.0 else 0.0
            found[lane, job, 1] = np.log1p(delay / typical)
            found[lane, job, 2] = (there - size) / total
            found[lane, job, 3] = np.log1p(delay * free / total / typical)
            found[lane, job, 4] = np.log1p(run / gap) / 4.0
            found[lane, job, 5] = outlived / total


@jit
def place(lanes: Lanes, jobs: Ints) -> None:
    """Start the next job of every lane, (lanes,), when it fits."""
    for lane in range(len(lanes.queue)):
        q, job = lanes.queue[lane], jobs[lane]
        size, last = lanes.size[q, job], lanes.running[lane]
        while lanes.free[lane] < size and last > 0:
            last -= 1
            lanes.clock[lane] = max(lanes.clock[lane], lanes.ends[lane, last])
            lanes.free[lane] += lanes.held[lane, last]
        push(lanes.ends[lane], lanes.held[lane], last, lanes.clock[lane] + lanes.run[q, job], size)
        lanes.running[lane] = last + 1
        lanes.free[lane] -= size
