"""One simulation in progress: the engine's arrays, and three ways of driving them.

`Session` can also begin in the middle: hand over the clock and the starts of jobs that are running already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim import backfill as passes
from tracekit.sim import decide, engine
from tracekit.sim.books import TOTAL, USERS, Books
from tracekit.sim.capacity import processors
from tracekit.sim.compile import tell_if_cold
from tracekit.sim.events import Clock, Jobs, advance, next_event, resume
from tracekit.sim.formulas import GIVEN
from tracekit.sim.jobs import Prepared
from tracekit.sim.policies import Policy, State
from tracekit.sim.running import no_jobs_running
from tracekit.sim.switches import Switches, estimate_of
from tracekit.sim.waiting import nobody_waiting

Floats = NDArray[np.float64]
Values = Callable[[NDArray[np.int64], float], Floats]


class Session:
    """The state of one simulation.

    ``start`` (jobs,) holds the starts of jobs that have started before ``clock``, NaN for all others; what has been
    submitted by then and not started waits. ``capacity`` takes the place of the pool of processors; it comes in two
    equal copies, the second of which serves as scratch.
    """

    def __init__(
        self,
        ready: Prepared,
        backfill: str,
        switches: Switches,
        *,
        start: Floats | None = None,
        clock: float = -np.inf,
        capacity: tuple[Any, Any] | None = None,
    ) -> None:
        jobs = len(ready.table)
        self.ready, self.switches = ready, switches
        self.backfill = passes.CODES[backfill]
        self.predicting = estimate_of(switches.estimates)[0] == "last-two"
        begun = np.full(jobs, np.nan) if start is None else start.astype(np.float64)
        estimate = ready.estimate.copy() if self.predicting else ready.estimate
        self.jobs = Jobs(ready.table.submit, ready.run, estimate, ready.units, begun)
        self.capacity: Any
        self.later: Any
        self.capacity, self.later = capacity or (processors(ready.total), processors(ready.total))
        most_running = min(jobs, ready.total)
        self.running = no_jobs_running(most_running)
        self.ended = np.empty(most_running, np.int64)
        self.clock = Clock(np.array([clock]), np.zeros(1, np.int64))
        self.memory = passes.nothing_known()
        if start is not None:
            order = np.argsort(begun, kind="stable")
            resume(order[: np.count_nonzero(~np.isnan(begun))], self.jobs, self.capacity, self.running, clock)

    @property
    def seen(self) -> Jobs:
        """The jobs as policies see them."""
        return self.jobs

    @property
    def _manner(self) -> tuple[int, bool, bool, float]:
        switches = self.switches
        return self.backfill, switches.commit, switches.ties == "arrivals", float(switches.interval)

    # ---- compiled from end to end ------------------------------------------------------------------------------------

    def ranked(self, given: Floats | None) -> None:
        """Run an order that is settled at submit: one value per job, smallest first; None = as submitted."""
        tell_if_cold("run_ranked")
        jobs = len(self.jobs.submit)
        order = None if given is None else np.argsort(given, kind="stable")
        queue = gaps = nobody_waiting(order, jobs)
        if self.backfill == passes.EASY_SJF:
            gaps = nobody_waiting(np.argsort(self.jobs.estimate, kind="stable"), jobs)
        elif self.backfill == passes.RLSCHEDULER and given is not None:
            gaps = nobody_waiting(None, jobs)
        backfill, commit, arrivals_first, interval = self._manner
        engine.run_ranked(
            self.jobs,
            self.capacity,
            self.later,
            self.running,
            self.clock,
            queue,
            gaps,
            gaps is not queue,
            backfill,
            commit,
            arrivals_first,
            interval,
            self.memory,
            self.ended,
        )

    def valued(self, code: int, given: Floats | None) -> None:
        """Run a formula whose values are worked out at every pass, or conservative backfilling of any order."""
        tell_if_cold("run_valued")
        queue, profile, books = self._lists()
        backfill, commit, arrivals_first, interval = self._manner
        engine.run_valued(
            self.jobs,
            self.capacity,
            self.later,
            self.running,
            self.clock,
            queue,
            profile,
            books,
            code,
            self._given(given),
            float(self.ready.scale),
            self.predicting,
            backfill,
            commit,
            arrivals_first,
            interval,
            self.memory,
            self.ended,
        )

    def _given(self, given: Floats | None) -> Floats:
        return self.jobs.submit if given is None else given

    def _lists(self) -> tuple[decide.Queue, decide.Profile, Books]:
        """Return the waiting list, the profile (only conservative needs room in it) and the books on users."""
        jobs, kept = len(self.jobs.submit), self.ready.table
        steps = len(self.ended) + 2 * jobs + 2 if self.backfill == passes.CONSERVATIVE else 1
        users = kept.users + 1  # the last line is for jobs of unknown user
        books = Books(
            np.where(kept.user < 0, kept.users, kept.user),
            np.zeros((users, 3)),
            np.zeros((users + 1, 3)),
            kept.queue,
            np.zeros(TOTAL + 1),
        )
        from tracekit.sim.simulate import multifactor_options

        books.option[:USERS] = multifactor_options(self.switches)
        books.option[USERS] = max(len(np.unique(books.user)), 1)
        books.option[TOTAL] = self.ready.total
        return decide.empty_queue(jobs), decide.empty_profile(steps), books

    # ---- one event at a time, from Python: slow, for policies and hooks written in Python ---------------------------

    def step_through(self, values: Values, on_interval: Callable[[float, float, float], None] | None = None) -> None:
        """Run with ``values(queue, now)`` asked at every pass; the same passes as everywhere, driven from Python."""
        tell_if_cold("decide")
        self.queue, self.profile, self.books = self._lists()
        jobs, clock, queue, switches = self.jobs, self.clock, self.queue, self.switches
        backfill, commit, arrivals_first, interval = self._manner
        total, scale = len(jobs.submit), self.ready.scale
        origin, due, before = next_event(jobs, self.running, clock), np.inf, -np.inf
        while True:
            now = min(next_event(jobs, self.running, clock), due)
            done = clock.arrived[0] == total and queue.length[0] == 0
            if now == np.inf or (done and (on_interval is None or self.running.tally[0] == 0)):
                return
            if on_interval is not None and now > before > -np.inf:
                held = jobs.size[self.running.job[: self.running.tally[0]]].sum()
                on_interval(float(before), float(now), float(held) / scale)
            before = now
            first = clock.arrived[0]
            count = advance(now, arrivals_first, jobs, self.capacity, self.running, clock, self.ended)
            engine.note_ends(now, jobs, self.books, self.ended, count)
            engine.admit(first, jobs, clock, queue, self.books, self.predicting)
            if queue.length[0] == 0:
                continue
            if interval > 0:
                due = engine.tick_from(now, origin, interval)
                if due > now:
                    continue
                due = engine.tick_from(np.nextafter(now, np.inf), origin, interval)
            if decide.anyone_fits(jobs, self.capacity, queue) or (switches.commit and self.memory.number[1] < 0):
                waiting = queue.job[: queue.length[0]]
                queue.value[: len(waiting)] = values(waiting, float(now))
                decide.decide(
                    now,
                    jobs,
                    self.capacity,
                    self.later,
                    self.running,
                    queue,
                    backfill,
                    commit,
                    self.memory,
                    self.profile,
                )
                engine.note_starts(now, jobs, self.books, queue)
                decide.drop_started(jobs, queue)
            if queue.length[0] == 0:
                due = np.inf


def formula_values(run: Session, code: int, given: Floats | None) -> Values:
    """Return a built-in policy in the form that `Session.step_through` asks for."""
    chosen = run.jobs.submit if given is None and code == GIVEN else given
    unused = np.empty(0)

    def values(waiting: NDArray[np.int64], now: float) -> Floats:
        engine.evaluate(
            code, now, float(run.ready.scale), run.seen, run.queue, run.books, unused if chosen is None else chosen
        )
        return run.queue.value[: len(waiting)]

    return values


def policy_values(run: Session, policy: Policy) -> Values:
    """Return a user's policy in the form that `Session.step_through` asks for; bad answers are errors that name it."""
    kept, scale = run.ready.table, run.ready.scale

    def values(waiting: NDArray[np.int64], now: float) -> Floats:
        held = run.jobs.size[run.running.job[: run.running.tally[0]]].sum()
        state = State(
            now,
            run.seen.submit,
            run.seen.estimate,
            kept.procs,
            kept.user,
            run.jobs.start,
            kept.position,
            float(run.ready.total - held) / scale,
            float(kept.total),
        )
        answer = np.asarray(policy.priority(waiting.copy(), state), dtype=np.float64)
        if answer.shape != waiting.shape:
            raise TracekitError(
                f"policy {policy.name}: {len(waiting)} jobs wait, but its values have shape {answer.shape}"
            )
        if np.isnan(answer).any():
            raise TracekitError(f"policy {policy.name}: NaN is no priority (at time {now:g})")
        return answer

    return values
