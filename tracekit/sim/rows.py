"""The arrays of an environment's lanes: made once, grown when a longer window comes, filled with a window's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.sim import observe
from tracekit.sim.backfill import CODES
from tracekit.sim.lanes import Rules, World

if TYPE_CHECKING:
    from tracekit.sim.cutting import Cut
    from tracekit.sim.pickjob import PickJob


def rules_of(task: PickJob) -> Rules:
    """Return the task in numbers, for compiled code."""
    switches = task.switches.resolved()
    return Rules(
        task.slots,
        CODES[task.backfill],
        task.commit,
        switches.ties == "arrivals",
        float(switches.interval),
        task.skip,
        task.ask_forced,
        len(task.orders),
        float(switches.bound),
    )


def allocate(task: PickJob, lanes: int, *, jobs: int, units: int, before: World | None = None) -> World:
    """Make the arrays of all lanes with room for ``jobs``, of which at most ``units`` run at once.

    With ``before``, go on with what its lanes hold.
    """
    names = task.feature_names
    most = min(jobs, units)
    users = jobs + 1 if "user-average" in names else 1
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {}

    def like(kind: Any, *shape: int) -> Any:
        return (shape, kind)

    whole, real, single = np.int64, np.float64, np.float32
    for name in ("submit", "run", "estimate", "start", "value", "key"):
        shapes[name] = like(real, lanes, jobs)
    for name in ("size", "user", "begun", "waiting", "scratch", "mark"):
        shapes[name] = like(whole, lanes, jobs)
    for name in ("turn", "running", "limit_job", "ended"):
        shapes[name] = like(whole, lanes, most)
    for name in ("end", "limit"):
        shapes[name] = like(real, lanes, most)
    for name in ("free", "later", "arrived", "waiting_count"):
        shapes[name] = like(whole, lanes, 1)
    for name in ("time", "shadow"):
        shapes[name] = like(real, lanes, 1)
    shapes |= {
        "length": like(whole, lanes),
        "total": like(whole, lanes),
        "order": like(whole, lanes, 2, jobs),
        "fixed": like(single, lanes, jobs, len(names)),
        "begun_count": like(whole, lanes),
        "opening": like(real, lanes),
        "tally": like(whole, lanes, 2),
        "tick": like(real, lanes, 2),
        "memory": like(whole, lanes, 3),
        "accrued": like(real, lanes, 2),
        "by_user": like(real, lanes, users, 2),
        "state": like(whole, lanes, 5),
        "visible": like(whole, lanes, task.slots),
        "stair": like(whole, lanes, most + 1),
        "count": like(whole, lanes),
        "mask": like(np.bool_, lanes, task.actions),
        "features": like(single, lanes, task.slots, len(names)),
        "done": like(np.bool_, lanes),
    }
    made: dict[str, Any] = {}
    for name, (shape, kind) in shapes.items():
        old = None if before is None else getattr(before, name)
        if old is not None and old.shape == shape:
            made[name] = old  # also keeps features, mask, count and done where they are
            continue
        made[name] = np.zeros(shape, kind)
        if old is not None:
            made[name][tuple(slice(0, length) for length in old.shape)] = old
    made["weights"] = task.objectives.weights()
    made["codes"] = observe.codes_of(names)
    made["constants"] = np.array([task.constants[name] for name in observe.CONSTANTS])
    if before is None:
        made["done"][:] = True
    return World(**made)


def write(world: World, lane: int, cut: Cut) -> None:
    """Write a window's jobs into the rows of a lane."""
    ready = cut.ready
    jobs = len(ready.table)
    world.length[lane], world.total[lane] = jobs, ready.total
    world.submit[lane, :jobs] = ready.table.submit
    world.run[lane, :jobs] = ready.run
    world.estimate[lane, :jobs] = ready.estimate
    world.size[lane, :jobs] = ready.units
    world.start[lane, :jobs] = cut.begun
    world.user[lane, :jobs] = cut.user
    world.order[lane, : len(cut.order), :jobs] = cut.order
    world.fixed[lane, :jobs] = cut.fixed
    counted = jobs
    world.begun_count[lane] = 0
    if np.isfinite(cut.opening):
        running = np.flatnonzero(~cut.counted)
        running = running[np.argsort(cut.begun[running], kind="stable")]
        world.begun[lane, : len(running)] = running
        world.begun_count[lane] = len(running)
        counted -= len(running)
    world.accrued[lane, 1] = counted
    world.opening[lane] = cut.opening
