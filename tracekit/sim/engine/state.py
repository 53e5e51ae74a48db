"""The state of a simulation: named fields and named arrays, which travel through the engine as one tuple."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine.dependencies import Followers
from tracekit.sim.engine.heap import ENTRY, Heap
from tracekit.sim.engine.outages import Outages
from tracekit.sim.engine.predictions import Learned, Predictions
from tracekit.sim.engine.profile import Profile
from tracekit.sim.engine.running import Running
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.usage import UserAccounts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How backfilling goes.
NONE, EASY, EASY_SJF, CONSERVATIVE, RLSCHEDULER, RLTUNE, RLTUNE_SKIPS = range(7)
BACKFILL_CODES = {
    "none": NONE,
    "easy": EASY,
    "easy-sjf": EASY_SJF,
    "conservative": CONSERVATIVE,
    "rlscheduler": RLSCHEDULER,
    "rltune": RLTUNE,
}
#: State of a simulation: between two passes; a job is to be picked; gaps before a reservation are to be filled; at
#: its end. ``state.placing`` says beside it whether a job waits to be placed by Python.
BETWEEN, PICKING, FILLING, FINISHED = range(4)

#: The scalars of one simulation; times in seconds.
STATE = np.dtype(
    [
        ("now", np.float64),
        ("arrived", np.int64),  # jobs [0, arrived) have been submitted
        ("phase", np.int64),
        ("origin", np.float64),  # where passes at intervals are counted from …
        ("due", np.float64),  # … and when the next one is
        ("blocked", np.int64),  # the first job in order that did not fit at the last pass, or NO_JOB
        ("reserved", np.bool_),  # whether `shadow`, `fill_until` and `at_shadow` hold for the blocked job
        ("shadow", np.float64),  # when the blocked job can start, by estimates
        ("fill_until", np.float64),  # a backfilled job must end by then, or leave room beside the reservation
        ("present", np.int64),  # jobs [0, present) had been submitted when the blocked job was picked
        ("first_rank", np.int64),  # static orders: no job of a lower rank waits
        ("placing", np.int64),  # the job that Python is asked to place, or NO_JOB
        ("placed", np.int64),  # the job that Python has just placed, or NO_JOB
        ("lost", np.float64),  # unit-seconds of work that outages threw away
        ("beside", np.bool_),  # whether the job to be placed must leave the reservation its room
    ],
    align=True,
)

#: What outages did to a job: whether one ended it; how often it went back to the queue.
STOPPED = np.dtype([("killed", np.bool_), ("restarts", np.int64)], align=True)


class Jobs(NamedTuple):
    """The jobs by submit time (ties as in the file); times in seconds."""

    submit: Floats  # (jobs,)
    run: Floats  # (jobs,) how long the job occupies the machine
    estimate: Floats  # (jobs,) how long backfilling believes it will
    asked: Floats  # (jobs,) how long policies believe it will
    size: Ints  # (jobs,) units of the resource, at least 1
    start: Floats  # (jobs,) NaN = not started; what the engine fills in


class Queue(NamedTuple):
    """The waiting jobs as a plain list, with room for all jobs."""

    job: Ints  # (jobs,) ascending: that is by submit time, ties as in the file
    value: Floats  # (jobs,) the policy's value of job[i]; the smallest starts first
    heap: Heap  # (jobs,) scratch: jobs in the order in which a pass looks at them
    length: Ints  # (1,)


class Rules(NamedTuple):
    """The switches of a simulation that compiled code knows."""

    backfill: int  # NONE … RLTUNE_SKIPS
    commit: bool  # a picked job blocks until it starts
    arrivals_first: bool  # one event at a time, of equals an arrival; else completions, then arrivals
    interval: float  # seconds between passes; 0 = at every event
    reaction: float  # seconds from an event (at intervals: the first) to its pass; others until then are part of it
    grouped: float  # seconds within which ends count as one for a reservation, doubled from group to group; 0 = each
    scale: float  # units in one processor
    total: int  # units of the machine
    outage_mode: int  # `tracekit.sim.engine.outages.DRAIN` …
    drops: bool  # a picked job that does not fit an empty machine is dropped: its start is infinite
    waking: float  # seconds that a job may wait for its hosts to wake up, at most; 0 = hosts do not sleep
    last_two: bool  # estimates are predictions from a user's last two jobs, for policies and backfilling alike
    predicts: int  # what predictions are used for: `tracekit.sim.engine.predictions.ORDER`, `BACKFILL`; 0 = nothing


class Dynamics(NamedTuple):
    """What is kept where things change on the way: submit times, the machine, predictions, fair shares.

    A feature that is not in use has empty arrays.

    Where nothing changes, functions take ``()`` in its place: ``if len(dynamics) > 0`` is then decided, and the branch
    left out, while a function is compiled.
    """

    followers: Followers
    outages: Outages
    predictions: Predictions
    learned: Learned
    stopped: NDArray[Any]  # (jobs,) STOPPED
    accounts: UserAccounts  # of fair shares and predictions


class Simulation(NamedTuple):
    """Everything that one simulation consists of; what changes during the simulation is kept in `Dynamics`."""

    rules: Rules
    state: NDArray[Any]  # (1,) STATE
    jobs: Jobs
    capacity: Any
    at_shadow: Any  # a second capacity: what is left at the reservation
    running: Running
    queue: Queue
    profile: Profile


def initial_state(*lanes: int) -> NDArray[Any]:
    """Return the scalars of a simulation (or of each of ``lanes``) before anything has happened."""
    state = np.zeros(lanes or 1, STATE)
    state["now"], state["origin"], state["due"], state["shadow"] = -np.inf, -np.inf, np.inf, -np.inf
    for name in ("blocked", "placing", "placed"):
        state[name] = NO_JOB
    return state


def empty_queue(jobs: int, *lanes: int) -> Queue:
    """Return a queue with room for ``jobs`` (in each of ``lanes``, where given)."""
    shape = (*lanes, jobs)
    return Queue(
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty(shape, ENTRY),
        np.zeros((*lanes, 1), np.int64),
    )
