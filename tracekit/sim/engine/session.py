"""One simulation in progress: the engine's arrays, and three ways of driving them.

`ranked` is the fast loop for static orders, `run` the compiled loop for everything else, `step_through` the same loop
driven from Python, for policies and hooks written in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.compile import log_first_compilation
from tracekit.sim.engine import capacity, events, loop
from tracekit.sim.engine.capped import capped
from tracekit.sim.engine.dependencies import followers_in, no_followers
from tracekit.sim.engine.kept_plan import empty_plan
from tracekit.sim.engine.learned import learned_for
from tracekit.sim.engine.machines import LooksAhead, NamesHosts
from tracekit.sim.engine.outages import MODES, outages_of
from tracekit.sim.engine.predictions import ORDER, PREDICT_FOR, PREDICTION
from tracekit.sim.engine.processors import ProcessorPool, Processors
from tracekit.sim.engine.profile import Profile, empty_profile
from tracekit.sim.engine.rank_tree import empty_tree
from tracekit.sim.engine.ranked import Ranks, run_ranked
from tracekit.sim.engine.running import Running, no_jobs_running
from tracekit.sim.engine.state import (
    BACKFILL_CODES,
    CONSERVATIVE,
    EASY_SJF,
    FILLING,
    RLSCHEDULER,
    RLTUNE,
    RLTUNE_SKIPS,
    STOPPED,
    Dynamics,
    Jobs,
    Queue,
    Rules,
    Simulation,
    empty_queue,
    initial_state,
)
from tracekit.sim.hosts.rltune_demand import BY_CLUSTER, pools_by
from tracekit.sim.jobs import NO_JOB, Prepared
from tracekit.sim.policies.formulas import MULTIFACTOR, values_for
from tracekit.sim.policies.protocol import Policy, State
from tracekit.sim.policies.usage import no_accounts, open_accounts
from tracekit.sim.setup import Setup
from tracekit.sim.switches import MULTIFACTOR_DEFAULTS, Switches, estimate_of

Floats = NDArray[np.float64]
Values = Callable[[NDArray[np.int64], float], Floats]
Hook = Callable[[float, float, float], None]


def rules_for(switches: Switches, backfill: str, scale: int = 1, total: int = 0) -> Rules:
    """Return the (resolved) switches as compiled code knows them; ``total`` is the machine in units."""
    code = BACKFILL_CODES[backfill]
    as_rltune = switches.compat == "rltune" and switches.cluster is not None
    if code == RLTUNE and as_rltune and pools_by(cluster_of(switches.cluster)) == BY_CLUSTER:  # type: ignore[arg-type]
        code = RLTUNE_SKIPS
    return Rules(
        code,
        switches.commit,
        switches.ties == "arrivals",
        float(switches.interval),
        float(switches.reaction),
        float(switches.group_ends),
        float(scale),
        total,
        MODES[switches.outage_mode],
        as_rltune,
        0.0,
        estimate_of(switches.estimates)[0] == "last-two",
        PREDICT_FOR[switches.predict_for] if switches.predict is not None else 0,
    )


#: Steps × cells of a conservative plan on hosts: two tables of 8 bytes each, 4 GB.
MAX_PLAN = 250_000_000
#: Share of jobs that may end before their estimates where conservative plans are made up to the last job.
MOST_EARLY = 0.05
#: Waiting jobs that an allocator written in Python sees beside the one to be placed.
MOST_UPCOMING = 32


class Session:
    """The state of one simulation, ``sim``, and what drives it.

    Afterwards ``jobs.start`` holds the starts. With dependencies ``jobs.submit`` holds the submit times as they came
    about, with outages ``jobs.run`` is shorter for jobs that one killed, and `notes` counts the jobs concerned.
    """

    def __init__(self, setup: Setup) -> None:
        ready, switches = setup.ready, setup.switches
        self.ready, self.switches = ready, switches
        self.machine = setup.machine or ProcessorPool()
        self._watched = False  # whether the machine model has been shown this simulation
        rules = rules_for(switches, setup.backfill, ready.scale, ready.total)
        sleep = getattr(self.machine, "sleep", None)
        if sleep is not None:
            rules = rules._replace(waking=sleep.longest)
        count = len(ready.table)
        batch = self.machine.allocate(1, count)
        self.machine.load(batch, 0, ready)
        room, at_shadow = (type(batch)(*(array[0] for array in b)) for b in (batch, self.machine.twin(batch)))
        self.room = room  # as the machine model made it
        if setup.cap is not None:
            room, at_shadow = capped(room, at_shadow, *setup.cap)
        self._refuse(room, rules)
        most_running = self.machine.most_running(count, ready.total)
        state = initial_state()
        state["now"] = setup.clock
        self.sim = Simulation(
            rules,
            state,
            self._jobs(setup, rules),
            room,
            at_shadow,
            no_jobs_running(most_running),
            empty_queue(0),  # static orders have a tree and a plan of their own; see `_make_room`
            empty_profile(1),
        )
        self._dependent: dict[str, int] = {}
        self._values: dict[str, tuple[int, Floats | None]] = {}  # of built-in policies, see `evaluate`
        last_two = rules.last_two or switches.predict == "last-two"
        self.dynamics: Any = self._dynamics(accounts=last_two) if switches.dynamic or last_two else ()
        if setup.begun is not None:
            order = np.argsort(setup.begun, kind="stable")
            events.resume_from_python(self.sim, order[: np.count_nonzero(~np.isnan(setup.begun))])
        self._resumed = int(self.sim.running.tally["started"][0])

    @property
    def jobs(self) -> Jobs:
        """The jobs; ``start`` is what the engine fills in."""
        return self.sim.jobs

    def _jobs(self, setup: Setup, rules: Rules) -> Jobs:
        """Return the jobs' arrays; what a simulation may change is copied."""
        ready, switches = setup.ready, setup.switches
        start = np.full(len(ready.table), np.nan) if setup.begun is None else setup.begun.astype(np.float64)
        submit, run, estimate = ready.table.submit, ready.run, ready.estimate
        if estimate_of(switches.estimates)[0] == "last-two":
            estimate = estimate.copy()
        asked = estimate.copy() if rules.predicts & ORDER else estimate  # policies see what is believed at submit …
        if switches.dependencies:
            submit = submit.copy()
        if switches.outages:
            run = run.copy()
        if switches.predict is not None:
            estimate = estimate.copy()  # … while backfilling goes by predictions that are corrected
        return Jobs(submit, run, estimate, asked, ready.units, start)

    def _dynamics(self, *, accounts: bool) -> Dynamics:
        """Return what is kept where things change on the way; ``accounts`` of users too, if they are needed."""
        switches, ready, table, jobs = self.switches, self.ready, self.ready.table, len(self.ready.table)
        options = MULTIFACTOR_DEFAULTS | dict(switches.options)
        followers = no_followers()
        away, total, scale = switches.outages, ready.total, ready.scale
        if isinstance(self.machine, NamesHosts):
            away, total, scale = tuple(self.machine.outage_bits(away)), 2**62, 1
        if switches.dependencies:
            followers, self._dependent = followers_in(ready)
        return Dynamics(
            followers,
            outages_of(away, total, scale, announced=switches.outages_announced),
            np.zeros(jobs if switches.predict is not None else 0, PREDICTION),
            learned_for(ready, switches),
            np.zeros(jobs, STOPPED),
            open_accounts(table.user, table.users, table.queue, ready.total, options) if accounts else no_accounts(),
        )

    def _refuse(self, room: Any, rules: Rules) -> None:
        """Raise an error that names what this kind of capacity does not offer."""
        if rules.backfill == CONSERVATIVE:
            capacity.require(room, capacity.PLANNING, "conservative backfilling")
        if self.switches.outages:
            capacity.require(room, capacity.OUTAGES, "outages")
            if capacity.is_asked(room):
                raise UsageError(
                    f"{type(room).__name__} places jobs from Python, which cannot be combined with outages"
                )

    def _queue_and_profile(self, jobs: int) -> tuple[Queue, Profile]:
        """Return room for so many waiting jobs; only conservative backfilling and outages need a profile."""
        rules = self.sim.rules
        if rules.backfill != CONSERVATIVE and not self.switches.outages:
            return empty_queue(jobs), empty_profile(1)
        steps = len(self.sim.running.ends) + 2 * jobs + 2 * len(self.switches.outages) + 4
        cells = capacity.cells_of(self.sim.capacity)
        if cells > 1 and steps * cells > MAX_PLAN:
            planner, instead = "conservative backfilling", "--backfill easy"
            if rules.backfill != CONSERVATIVE:
                planner, instead = "backfilling around outages (--outage)", "no outages"
            raise UsageError(
                f"{planner} would plan {steps:,} steps on {cells:,} cells (resources of hosts), "
                f"at most {MAX_PLAN:,} in all; use {instead}, or --window for fewer jobs"
            )
        return empty_queue(jobs), empty_profile(steps, cells)

    def _make_room(self) -> None:
        """Make room for the waiting jobs, where the loop looks at all of them."""
        if not len(self.sim.queue.job):
            queue, profile = self._queue_and_profile(len(self.ready.table))
            self.sim = self.sim._replace(queue=queue, profile=profile)

    def prepare_policy(self, code: int) -> None:
        """Make ready for a formula: ``multifactor`` looks at accounts of users, all others do without."""
        if code == MULTIFACTOR and not (self.dynamics and len(self.dynamics.accounts.user)):
            if self.sim.running.tally["started"][0] > self._resumed:
                raise UsageError(
                    "multifactor needs the usage of users from the start: call prepare_policy(MULTIFACTOR) first"
                )
            self.dynamics = self._dynamics(accounts=True)

    # ---- compiled from end to end ------------------------------------------------------------------------------------

    def can_rank(self, given: Floats | None) -> bool:
        """Return whether a static order can take the fast loop: nothing changes on the way, and Python is not asked."""
        rules = self.sim.rules
        if self.switches.dynamic or rules.last_two or rules.drops or capacity.is_asked(self.sim.capacity):
            return False
        # conservative plans are kept on a counter of processors
        return rules.backfill != CONSERVATIVE or (not rules.commit and isinstance(self.sim.capacity, Processors))

    def ranked(self, given: Floats | None) -> None:
        """Run a static order: one value per job, smallest first; None = as submitted."""
        log_first_compilation("run_ranked")
        jobs, rule = len(self.jobs.submit), self.sim.rules.backfill
        order = None if given is None else np.argsort(given, kind="stable")
        queue = gaps = empty_tree(order, jobs)
        if rule == EASY_SJF:
            gaps = empty_tree(np.argsort(self.jobs.estimate, kind="stable"), jobs)
        elif rule == RLSCHEDULER and given is not None:
            gaps = empty_tree(None, jobs)
        plan: Any = ()
        if rule == CONSERVATIVE:
            # in order of submission and with exact estimates plans are seldom made again: then all are made once
            walls = given is not None or bool(np.mean(self.jobs.estimate > self.jobs.run) > MOST_EARLY)
            plan = empty_plan(self.jobs.size, len(self.sim.running.ends), walls=walls)
        run_ranked(self.sim, Ranks(queue, gaps, gaps is not queue), plan)

    def run(self, code: int, given: Floats | None) -> None:
        """Run a formula whose values are computed at every pass, or given values (None: as submitted)."""
        log_first_compilation("run")
        self._make_room()
        self.prepare_policy(code)
        while loop.run(self.sim, self.dynamics, code, self.jobs.submit if given is None else given) != NO_JOB:
            self._place()

    def _place(self) -> None:
        """Let the machine model place the job that the pass has stopped at."""
        state = self.sim.state[0]
        if not self._watched:
            self._watched = True
            watch = getattr(getattr(self.machine, "allocator", None), "watch", None)
            if watch is not None:  # an allocator that looks at more than the hosts, such as an agent
                watch(self.machine, self)
        if isinstance(self.machine, LooksAhead):
            self.machine.upcoming, self.machine.ahead = self._upcoming()
            self.machine.filling = bool(state["phase"] == FILLING)
        self.machine.place(self.room, self.sim.at_shadow if state["beside"] else None, int(state["placing"]))
        state["placed"] = state["placing"]

    def _upcoming(self) -> tuple[NDArray[np.int64], int]:
        """Return the next waiting jobs in policy order, without the one to be placed, and how many come before it."""
        queue, placing = self.sim.queue, self.sim.state["placing"][0]
        waiting = queue.job[: queue.length[0]]
        rows = np.flatnonzero(np.isnan(self.jobs.start[waiting]) & (waiting != placing))
        values, place = queue.value[rows], np.searchsorted(waiting, placing)
        ahead = int(np.sum((values < queue.value[place]) | ((values == queue.value[place]) & (rows < place))))
        if len(rows) > MOST_UPCOMING:
            rows = rows[values <= np.partition(values, MOST_UPCOMING - 1)[MOST_UPCOMING - 1]]
            values = queue.value[rows]
        return waiting[rows[np.argsort(values, kind="stable")]][:MOST_UPCOMING], ahead

    # ---- one event at a time, from Python: slow, for policies and hooks written in Python ---------------------------

    def step_through(self, values: Values, on_interval: Hook | None = None) -> None:
        """Run with ``values(queue, now)`` asked at every pass; the same loop and passes, driven from Python."""
        for waiting, now in self.passes(on_interval):
            self.sim.queue.value[: len(waiting)] = values(waiting, now)

    def evaluate(self, policy: str) -> None:
        """Fill in the values of the waiting jobs by a built-in policy, between two steps of `passes`."""
        if policy not in self._values:
            self._values[policy] = values_for(policy, self.ready, self.switches)
        code, given = self._values[policy]
        self.prepare_policy(code)
        loop.evaluate_from_python(self.sim, self.dynamics, code, self.jobs.submit if given is None else given)

    def passes(self, on_interval: Hook | None = None) -> Iterator[tuple[NDArray[np.int64], float]]:
        """Yield (waiting jobs, now) before every scheduling pass.

        The pass goes by ``sim.queue.value``, one value for each waiting job, smallest first: write it (`evaluate` does
        for a built-in policy) before going on.
        """
        log_first_compilation("schedule_from_python")
        self._make_room()
        sim, queue, state, running = self.sim, self.sim.queue, self.sim.state, self.sim.running
        before = -np.inf
        while True:
            held = self.held()
            found = loop.step_from_python(sim, self.dynamics)
            now = float(state["now"][0])
            if on_interval is not None and found != loop.OVER:
                if now > before > -np.inf:
                    on_interval(before, now, held / self.ready.scale)
                before = now
            if found == loop.OVER:
                break
            if found == loop.PASS:
                yield queue.job[: queue.length[0]], now
                while loop.schedule_from_python(sim, self.dynamics) != NO_JOB:
                    self._place()
        while on_interval is not None and running.tally["running"][0]:  # all have started; the hook sees them end
            held, now = self.held(), float(loop.last_ends_from_python(sim, self.dynamics))
            if now > before:
                on_interval(before, now, held / self.ready.scale)
            before = now

    def held(self) -> float:
        """Return the units that running jobs hold now."""
        running = self.sim.running
        return float(self.jobs.size[running.ends["item"][: running.tally["running"][0]]].sum())

    @property
    def notes(self) -> dict[str, Any]:
        """What happened to jobs because of dependencies and outages; only what was asked for."""
        found: dict[str, Any] = {}
        if self.switches.dependencies:
            found["dependencies"] = self._dependent
        if self.switches.outages:
            stopped = self.dynamics.stopped
            found["outages"] = {
                "killed": int(stopped["killed"].sum()),
                "requeued": int((stopped["restarts"] > 0).sum()),
                "restarts": int(stopped["restarts"].sum()),
                "lost_processor_seconds": float(self.sim.state["lost"][0]) / self.ready.scale,
            }
        return found


def formula_values(session: Session, code: int, given: Floats | None) -> Values:
    """Return a built-in policy in the form that `Session.step_through` asks for."""
    session.prepare_policy(code)
    chosen = session.jobs.submit if given is None else given

    def values(waiting: NDArray[np.int64], now: float) -> Floats:
        loop.evaluate_from_python(session.sim, session.dynamics, code, chosen)
        return session.sim.queue.value[: len(waiting)]

    return values


def seen_by_policies(ready: Prepared, jobs: Jobs, running: Running, now: float, capacity: Any) -> State:
    """Return what a policy may read at one moment of a simulation of the prepared jobs."""
    by_end = running.limits[: running.tally["running"][0]][::-1]  # the engine keeps the next one last
    numbers = by_end["job"].copy()
    return State(
        now,
        jobs.submit,
        jobs.asked,
        ready.table.procs,
        ready.table.user,
        jobs.start,
        ready.table.position,
        (ready.total - int(jobs.size[numbers].sum())) / ready.scale,
        float(ready.table.total),
        numbers,
        np.maximum(by_end["time"], now),
        capacity,
    )


def answer_of(policy: Policy, waiting: NDArray[np.int64], state: State) -> Floats:
    """Return the values of a policy written in Python, (waiting,); bad answers are errors that name it."""
    answer = np.asarray(policy.priority(waiting.copy(), state), dtype=np.float64)
    if answer.shape != waiting.shape:
        raise TracekitError(
            f"policy {policy.name}: priority() returned shape {answer.shape} for {len(waiting)} waiting jobs"
        )
    if np.isnan(answer).any():
        raise TracekitError(f"policy {policy.name}: priority() returned NaN (at time {state.now:g})")
    return answer


def policy_values(session: Session, policy: Policy) -> Values:
    """Return a user's policy in the form that `Session.step_through` asks for."""

    def values(waiting: NDArray[np.int64], now: float) -> Floats:
        sim = session.sim
        return answer_of(policy, waiting, seen_by_policies(session.ready, sim.jobs, sim.running, now, sim.capacity))

    return values
