"""An agent as a policy of the simulator: the same engine, the same decisions as in its environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim import observe
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.saved import Agent
from tracekit.sim.cutting import Cut, Cutter, visible_orders
from tracekit.sim.jobs import Prepared
from tracekit.sim.pickjob import Batch, PickJob
from tracekit.sim.switches import Switches
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]


class AgentPolicy:
    """What ``agent:DIR`` stands for. The agent always takes its best choice; switches are those of the simulation."""

    def __init__(self, folder: str) -> None:
        self.name = f"agent:{folder}"
        self.agent = Agent.load(folder)

    def priority(self, queue: Any, state: Any) -> Floats:
        """Agents have no values that last a whole pass: they are asked job by job, see `schedule`."""
        raise TracekitError(f"{self.name} chooses job by job and has no priorities")

    def schedule(
        self, ready: Prepared, backfill: str, switches: Switches, begun: Floats | None = None, clock: float = -np.inf
    ) -> Floats:
        """Return the start of every job, (jobs,); ``begun`` and ``clock`` as in `tracekit.sim.simulate.starts`."""
        trained = PickJob.from_dict(self.agent.task)
        task = dataclasses.replace(
            trained, backfill=backfill, commit=switches.commit, switches=switches, reward="final", warm=0
        )
        batch = Batch(_Whole(task, ready, begun, clock), lanes=1, threads=1)
        play(batch, [(0, len(ready.table))], self.agent.net(), keep=False)
        return batch.starts(0)


class _Whole(Cutter):
    """Jobs that have been prepared already, as the only window."""

    def __init__(self, task: PickJob, ready: Prepared, begun: Floats | None, clock: float) -> None:
        self.task, self.table, self._switches = task, ready.table, task.switches
        trace = ready.table.trace
        if trace is None:
            raise TracekitError("an agent needs the trace that its jobs come from")
        self._only = Cut(
            (0, len(ready.table)),
            ready,
            observe.fixed_columns(task.feature_names, ready, observe.facts_of(trace), task.constants),
            visible_orders(ready, task),
            np.unique(ready.table.user, return_inverse=True)[1].astype(np.int64),
            np.full(len(ready.table), np.nan) if begun is None else begun,
            clock,
        )

    def cut(self, window: Window) -> Cut:
        """Return the only window there is."""
        return self._only

    def cost(self, window: Window, start: Floats) -> float:
        """Nobody asks."""
        return float("nan")
