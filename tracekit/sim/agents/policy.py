"""An agent as a policy of the simulator: the same engine, the same decisions as in its environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.rollout import play
from tracekit.sim.setup import Placed, Setup, Starts
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.base import Task, task_from_dict
from tracekit.sim.tasks.episodes import Episode, EpisodeSource, check_levers
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]


class AgentPolicy:
    """The policy ``agent:DIR``. The agent always takes its best choice; switches are those of the simulation."""

    def __init__(self, folder: str) -> None:
        self.name = f"agent:{folder}"
        self.agent = Agent.load(folder)

    def priority(self, queue: Any, state: Any) -> Floats:
        """Not available: agents choose job by job, see `schedule`."""
        raise TracekitError(f"{self.name} chooses job by job and has no priority()")

    def schedule(self, setup: Setup, /) -> Placed:
        """Return the start of every job, and its hosts."""
        task = task_from_dict(self.agent.task).adapted(without_cuts(setup))
        check_levers(task, [lever for lever in setup.switches.levers if lever != "--max-extra-wait"])  # that is done
        batch = task.batch(Whole(task, setup), lanes=1, threads=1)
        play(batch, [(0, len(setup.ready.table))], self.agent.actor(), keep=False)
        start = batch.starts(0)
        if isinstance(start, Starts):
            return Placed(np.asarray(start), start.hosts, start.states)
        return Placed(start, batch.hosts(0) if hasattr(batch, "hosts") else None)


def without_cuts(setup: Setup) -> Setup:
    """Return the input of a simulation without warm-up and cool-down, which change metrics and not the schedule."""
    cuts = {name: getattr(Switches(), name) for name in ("warmup", "cooldown")}
    return dataclasses.replace(setup, switches=dataclasses.replace(setup.switches, **cuts))


class Whole(EpisodeSource):
    """Prepared jobs as the only episode."""

    def __init__(self, task: Task, setup: Setup) -> None:
        ready = setup.ready
        self.task, self.table, self.machine = task, ready.table, setup.machine
        trace = ready.table.trace
        if trace is None:
            raise TracekitError("an agent can only be used together with the trace of the jobs")
        begun = np.full(len(ready.table), np.nan) if setup.begun is None else setup.begun
        view: Any = task.view(trace, ready.table, None)
        columns, self.predictor = view.columns(ready, None), getattr(view, "predictor", None)
        self._only = Episode((0, len(ready.table)), ready, begun, setup.clock, columns, setup.cap)

    def episode(self, window: Window) -> Episode:
        """Return the only episode."""
        return self._only

    def cost(self, window: Window, start: Floats) -> float:
        """Return NaN: nothing is scored."""
        return float("nan")
