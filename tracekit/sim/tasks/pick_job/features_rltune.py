"""RLTune's seven features (`tracekit.sim.hosts.rltune_features`) in the lanes of an environment, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.state import Simulation
from tracekit.sim.hosts.demand import GPUS, MILLI, MILLI_GPU, PIECES, POOL
from tracekit.sim.hosts.rltune_demand import ANY_POOL, pools_by
from tracekit.sim.hosts.rltune_features import (
    ALL_POOLS,
    CORRECTED,
    NAMES,
    OWN_POOL,
    Cluster,
    Scratch,
    Waiting,
    observe,
    scratch_for,
)
from tracekit.sim.hosts.state import CELLS, FREE, HOSTS, LABEL, fixed, need

if TYPE_CHECKING:
    from tracekit.sim.tasks.pick_job.task import PickJob

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RLTuneArrays(NamedTuple):
    """What the features need: L lanes of H hosts with S slots."""

    kind: Ints  # (1,) which set: `OWN_POOL`, `ALL_POOLS` or `CORRECTED`
    pool: Ints  # (H,)
    size: Ints  # (H,) GPUs
    free: Ints  # (L, H) scratch
    wait: Floats  # (L, S) scratch, and so are all that follow
    gpus: Ints  # (L, S)
    home: Ints  # (L, S)
    label: Ints  # (L, S)
    sums: Ints  # (L, …)
    walk: Ints  # (L, …)
    out: Floats  # (L, S, 7)


def rltune_arrays(task: PickJob, machine: Any, lanes: int) -> RLTuneArrays | tuple[()]:
    """Return the arrays of all lanes; an empty tuple where no feature is RLTune's."""
    if not task.sees_rltune:
        return ()
    pool, size = (np.ascontiguousarray(machine.fixed[:, c]) for c in (0, 2))
    scratch = scratch_for(int(pool.max()) + 1, int(size.max()))
    kind = CORRECTED
    if task.switches.compat == "rltune":
        kind = ALL_POOLS if pools_by(task.cluster) == ANY_POOL else OWN_POOL

    def whole(*shape: int) -> Ints:
        return np.zeros((lanes, *shape), np.int64)

    return RLTuneArrays(
        kind=np.array([kind]),
        pool=pool,
        size=size,
        free=whole(len(pool)),
        wait=np.zeros((lanes, task.slots)),
        gpus=whole(task.slots),
        home=whole(task.slots),
        label=whole(task.slots),
        sums=whole(*scratch.sums.shape),
        walk=whole(*scratch.walk.shape),
        out=np.zeros((lanes, task.slots, len(NAMES))),
    )


# Numba leaves out what is behind ``len(seen) > 0`` for an empty tuple only where ``seen`` is an argument.


@jit_merged
def observe_rltune(seen: Any, lanes: Any, lane: int, sim: Simulation) -> None:
    """Write the seven features of the jobs on offer into ``seen.out``, if any feature is RLTune's."""
    if len(seen) > 0:
        _observe(seen, lanes, lane, sim)


@jit_merged
def write_rltune(seen: Any, lanes: Any, lane: int, f: int, which: int) -> None:
    """Write one of the seven as feature ``f``."""
    if len(seen) > 0:
        for i in range(lanes.count[lane]):
            lanes.features[lane, i, f] = seen.out[lane, i, which]


@jit_merged
def _observe(seen: Any, lanes: Any, lane: int, sim: Simulation) -> None:
    m, visible, count = sim.capacity.data, lanes.visible[lane], lanes.count[lane]
    for h in range(m[HOSTS]):
        idle = 0
        for d in range(fixed(m, h, 2)):
            idle += m[m[FREE] + h * m[CELLS] + 2 + d] >= MILLI_GPU
        seen.free[lane, h] = idle
    for i in range(count):
        job = visible[i]
        asked = need(m, job, GPUS) * need(m, job, PIECES)
        seen.wait[lane, i] = lanes.waits[lane, i]
        seen.gpus[lane, i] = max(asked, 1) if need(m, job, MILLI) > 0 else asked
        seen.home[lane, i], seen.label[lane, i] = need(m, job, POOL), m[m[LABEL] + job]
    hosts = Cluster(seen.free[lane], seen.pool, seen.size)
    waiting = Waiting(
        seen.wait[lane][:count], seen.gpus[lane][:count], seen.home[lane][:count], seen.label[lane][:count]
    )
    pools = seen.sums.shape[1] // 2
    observe(hosts, waiting, seen.kind[0], pools, Scratch(seen.sums[lane], seen.walk[lane]), seen.out[lane])
