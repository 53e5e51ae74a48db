"""An agent that imitates a heuristic, for the tests of the environment; plain and slow."""

import numpy as np

from tracekit.sim.policies import formulas
from tracekit.sim.policies.formulas import values_for
from tracekit.sim.tasks.pick_job.batch import Batch


def values(batch: Batch, lane: int, policy: str) -> np.ndarray:
    """Return a policy's values of the jobs in a lane's slots."""
    ready = batch.source.episode(batch.windows[lane]).ready
    shown, now = batch.shown(lane), batch.arrays.state["now"][lane]
    code, given = values_for(policy, ready, batch.task.switches.resolved())
    if code == formulas.GIVEN:
        return shown.astype(float) if given is None else given[shown]
    table, scale = ready.table, ready.scale
    return np.array(
        [
            formulas.formula(code, table.submit[j], now - table.submit[j], ready.estimate[j], ready.units[j] / scale)
            for j in shown
        ]
    )


def imitate(batch: Batch, windows: list, policy: str) -> list[np.ndarray]:
    """Play windows as a heuristic would; return the starts of each."""
    lanes = range(len(windows))
    batch.reset(lanes, windows)
    while not batch.done.all():
        actions = np.zeros(batch.lanes, np.int64)
        for lane in np.flatnonzero(~batch.done):
            actions[lane] = np.lexsort((batch.shown(lane), values(batch, lane, policy)))[0]
        batch.step(actions)
    return [batch.starts(lane) for lane in lanes]


def play(batch: Batch, windows: list, rng: np.random.Generator, skips: float = 0.0) -> list[np.ndarray]:
    """Play windows at random (skipping with that chance); lane by lane the same whatever the number of lanes."""
    batch.reset(range(len(windows)), windows)
    draws = [np.random.default_rng(seed) for seed in rng.integers(0, 2**32, len(windows))]
    while not batch.done.all():
        actions = np.zeros(batch.lanes, np.int64)
        for lane in np.flatnonzero(~batch.done):
            skip = batch.task.skip and batch.mask[lane, -1] and draws[lane].random() < skips
            actions[lane] = batch.task.slots if skip else draws[lane].integers(batch.count[lane])
        batch.step(actions)
    return [batch.starts(lane) for lane in range(len(windows))]
