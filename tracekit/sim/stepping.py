"""One decision in one lane, and in many: the compiled calls that an environment or a rollout is made of.

A rollout compiled from end to end calls `step_lane` with the action of its own compiled network::

    @compiled
    def rollout(world, rules, books, lane, ...):
        while not world.done[lane]:
            action = act(world.features[lane], world.count[lane], ...)
            step_lane(world, rules, books, lane, action)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.books import Books
from tracekit.sim.compile import compiled, internal
from tracekit.sim.lanes import ASKED, Rules, World, ask_lane, begin_lane, chosen_job, proceed
from tracekit.sim.seeing import observe_lane


@internal
def step_lane(world: World, rules: Rules, books: Books, lane: int, action: int) -> bool:
    """Make one choice, run to the next one and observe it; False: the action was not on offer, nothing happened.

    Afterwards ``world.done[lane]`` tells whether the window is over, ``world.accrued[lane, 0]`` what the jobs that
    started since the last choice have cost, by additive objectives (forced starts before the first choice count in
    the first step).
    """
    job = chosen_job(world, rules, lane, action)
    if job < -1:
        return False
    if world.state[lane, ASKED] > 1:
        world.accrued[lane, 0] = 0.0
    proceed(world, rules, lane, job, books)
    observe_lane(world, rules, lane)
    return True


@compiled
def step_lanes(world: World, rules: Rules, books: Books, actions: NDArray[np.int64], first: int, last: int) -> None:
    """Step the lanes [first, last) that are not done; their actions must be on offer."""
    for lane in range(first, last):
        if not world.done[lane]:
            step_lane(world, rules, books, lane, actions[lane])


@compiled
def begin_lanes(world: World, rules: Rules, books: Books, lanes: NDArray[np.int64]) -> None:
    """Begin the windows of some lanes, run them to their first choice and observe it."""
    for lane in lanes:
        begin_lane(world, rules, lane, books)
        observe_lane(world, rules, lane)


@compiled
def ask(world: World, rules: Rules, books: Books) -> None:
    """Observe the first lane at the moment when its window opens: what an agent sees of a machine that is not ours."""
    ask_lane(world, rules, 0, books)
    observe_lane(world, rules, 0)
