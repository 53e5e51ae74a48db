"""A simulation in which submit times, machine or predictions change on the way: the arrays, and how they are driven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracekit.sim import changing, engine
from tracekit.sim.changing import CORRECTIONS, MODES, Followers, Ledger, Predictions, World
from tracekit.sim.compile import tell_if_cold
from tracekit.sim.decide import empty_profile
from tracekit.sim.dependencies import followers_of, predecessors, thinking
from tracekit.sim.events import Jobs
from tracekit.sim.jobs import Prepared
from tracekit.sim.outages import empty
from tracekit.sim.session import Floats, Session, Values
from tracekit.sim.switches import Switches


class ChangingSession(Session):
    """The state of a simulation with dependencies, outages or predictions; it begins on an empty machine.

    Afterwards ``jobs.submit`` holds the submit times as they came about, ``jobs.run`` is shorter for jobs that an
    outage killed, and ``notes`` says how many jobs were concerned.
    """

    def __init__(self, ready: Prepared, backfill: str, switches: Switches) -> None:
        super().__init__(ready, backfill, switches)
        jobs, count = self.jobs, len(ready.table)
        asked = jobs.estimate
        predicting = switches.predict is not None
        self.jobs = Jobs(jobs.submit.copy(), jobs.run.copy(), asked.copy(), jobs.size, jobs.start)
        self.previous, self.counts = predecessors(ready)
        first, following = followers_of(self.previous)
        self.followers = Followers(
            self.previous,
            first,
            following,
            thinking(ready),
            np.empty(count),
            np.empty(count, np.int64),
            np.array([0, np.count_nonzero(self.previous >= 0)]),
        )
        self.outages = empty(switches.outages, ready.total, ready.scale, announced=switches.outages_announced)
        self.predictions = Predictions(
            np.zeros(count if predicting else 0), np.zeros(count, np.int64), np.array(CORRECTIONS)
        )
        self.ledger = Ledger(np.zeros(count, bool), np.zeros(count, np.int64), np.zeros(1))
        self.queue, _, self.books = self._lists()
        steps = len(self.ended) + 2 * count + 2 * len(switches.outages) + 4
        self.profile = empty_profile(steps if switches.outages or backfill == "conservative" else 1)
        # policies see what the scheduler believes at submit: users' estimates, or (last-two) predictions of its own
        self.asked = self.jobs if self.predicting else self.jobs._replace(estimate=asked)
        self.world = World(
            self.jobs,
            self.asked,
            self.capacity,
            self.later,
            self.running,
            self.clock,
            self.queue,
            self.profile,
            self.books,
            self.memory,
            self.followers,
            self.outages,
            self.predictions,
            self.ledger,
        )

    @property
    def seen(self) -> Jobs:
        """The jobs as policies see them: with what users asked for, where only backfilling goes by predictions."""
        return self.asked

    @property
    def _mode(self) -> int:
        return MODES[self.switches.outage_mode]

    def run(self, code: int, given: Floats | None) -> None:
        """Run a built-in policy, compiled from end to end."""
        tell_if_cold("run_changing")
        backfill, commit, _, interval = self._manner
        scale = float(self.ready.scale)
        changing.run_changing(
            self.world, code, self._given(given), scale, backfill, commit, self._mode, interval, self.predicting
        )

    def step_through(self, values: Values, on_interval: Callable[[float, float, float], None] | None = None) -> None:
        """Run with ``values(queue, now)`` asked at every pass; the same events and passes, driven from Python."""
        tell_if_cold("schedule")
        world, queue, mode = self.world, self.queue, self._mode
        backfill, commit, _, interval = self._manner
        origin, due, before = changing.next_change(world), np.inf, -np.inf
        while True:
            now = min(changing.next_change(world), due)
            idle = on_interval is None or self.running.tally[0] == 0
            if now == np.inf or (changing.finished(world, mode) and idle):
                return
            if on_interval is not None and now > before > -np.inf:
                held = self.jobs.size[self.running.job[: self.running.tally[0]]].sum()
                on_interval(float(before), float(now), float(held) / self.ready.scale)
            before = now
            changing.happen(now, world, mode, self.predicting)
            if queue.length[0] == 0:
                due = np.inf
                continue
            if interval > 0:
                due = engine.tick_from(now, origin, interval)
                if due > now:
                    continue
                due = engine.tick_from(np.nextafter(now, np.inf), origin, interval)
            if changing.worth_a_pass(world, commit):
                waiting = queue.job[: queue.length[0]]
                queue.value[: len(waiting)] = values(waiting, float(now))
                changing.schedule(now, world, backfill, commit)
            if queue.length[0] == 0:
                due = np.inf

    @property
    def notes(self) -> dict[str, Any]:
        """What happened to jobs because of dependencies and outages; only what was asked for."""
        found: dict[str, Any] = {}
        if self.switches.dependencies:
            found["dependencies"] = self.counts
        if self.switches.outages:
            found["outages"] = {
                "killed": int(self.ledger.killed.sum()),
                "requeued": int((self.ledger.restarts > 0).sum()),
                "restarts": int(self.ledger.restarts.sum()),
                "lost_processor_seconds": float(self.ledger.lost[0]) / self.ready.scale,
            }
        return found
