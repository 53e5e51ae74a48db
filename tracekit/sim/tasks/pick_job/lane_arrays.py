"""The arrays of an environment's lanes: made once, grown when a longer episode comes, filled with an episode's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.capacity import lane_of
from tracekit.sim.engine.capped import load_watts
from tracekit.sim.engine.machines import MachineModel
from tracekit.sim.engine.predictions import SHOW
from tracekit.sim.engine.running import Running, no_jobs_running
from tracekit.sim.engine.session import rules_for
from tracekit.sim.engine.state import Jobs, Queue, Rules, Simulation, empty_queue, initial_state
from tracekit.sim.hosts.demand import FACTS
from tracekit.sim.tasks.pick_job import features
from tracekit.sim.tasks.pick_job.features_rltune import rltune_arrays
from tracekit.sim.tasks.pick_job.lane_predictions import lane_predictions, load_history, profile_of

if TYPE_CHECKING:
    from tracekit.sim.predict.predictor import Predictor
    from tracekit.sim.tasks.episodes import Episode
    from tracekit.sim.tasks.pick_job.task import PickJob

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The question of a lane, and its outcome so far.
QUESTION = np.dtype(
    [
        ("asked", np.int64),  # choices asked for so far
        ("filled", np.int64),  # slots that the features of the last choice filled
        ("may_skip", np.bool_),  # whether doing nothing is allowed
        ("drawn", np.int64),  # how often the rule of visibility was needed
        ("watched", np.int64),  # how often the hosts were looked at
        ("cost", np.float64),  # cost of the jobs started since the last choice, by additive objectives
        ("counted", np.float64),  # jobs that count in the cost
    ],
    align=True,
)


class PickRules(NamedTuple):
    """The task in numbers."""

    engine: Rules
    slots: int
    skip: bool  # may the agent do nothing?
    ask_forced: bool  # ask also where there is only one choice
    orders: int  # orders that the visible jobs are drawn from in turn, 1 or 2; 0 = one job of every class
    sorted: bool  # slots are by the rule of visibility; else by submit time where not more wait than slots
    hosts: bool  # whether the machine is a cluster of hosts
    bound: float  # seconds, of the bounded slowdown


class LaneArrays(NamedTuple):
    """Arrays of every lane: L lanes with room for J jobs, M running ones, S slots and F features.

    The engine's own tuples have a leading axis of lanes here; `simulation_of` takes one lane out.
    """

    # the simulations
    length: Ints  # (L,) jobs in use
    units: Ints  # (L,) of the machine
    state: NDArray[Any]  # (L,) STATE
    jobs: Jobs  # (L, J) each
    capacity: Any  # (L, …) each
    at_shadow: Any  # (L, …) each
    scratch: Any  # (L, …) each, a third capacity for what an observer tries out
    running: Running  # (L, M) each
    queue: Queue  # (L, J) each
    # the start of each episode
    opening: Floats  # (L,) when; −inf = at the first submit
    begun: Ints  # (L, J) jobs that run by then, by start …
    begun_count: Ints  # (L,) … and how many
    # what the observer needs
    fixed: NDArray[np.float32]  # (L, J, F) features that do not change
    order: Ints  # (L, 2, J) jobs by the rule(s) of visibility; or the class of each job
    mark: Ints  # (L, J) scratch
    stair: Ints  # (L, M + 1) scratch
    waits: Floats  # (L, S) scratch: of the jobs in the slots …
    able: NDArray[np.bool_]  # (L, S) … and whether each fits now
    alike: Ints  # (L, J) of hosts: the first job of the same demand; (L, 1) for other machines, and so are the next
    facts: Floats  # (L, J, facts) about the hosts of the jobs of one demand, see `tracekit.sim.hosts.facts` …
    seen: Ints  # (L, J) … and when they were taken
    wanted: NDArray[np.bool_]  # (facts,) those that some feature needs
    rltune: Any  # `RLTuneArrays`; empty where no feature is RLTune's
    predicted: Any  # `LanePredictions`; empty where nothing is predicted
    user: Ints  # (L, J) numbered from 0 within the episode
    by_user: Floats  # (L, U, 2) sum of bounded slowdowns and number of started jobs of each user; U = 1 if unused
    weights: Floats  # (4,) of the additive objectives
    codes: Ints  # (F,) which feature, see `tracekit.sim.tasks.pick_job.features.CODES`
    constants: NDArray[Any]  # (1,) what features are divided by, by name
    # the question
    question: NDArray[Any]  # (L,) QUESTION
    visible: Ints  # (L, S) job of each slot
    count: Ints  # type: ignore[assignment]  # (L,) valid slots: the first ones; hides tuple.count, which is not needed
    mask: NDArray[np.bool_]  # (L, S) or (L, S + 1) with skip
    features: NDArray[np.float32]  # (L, S, F)
    done: NDArray[np.bool_]  # (L,)


@jit_merged
def simulation_of(lanes: LaneArrays, rules: PickRules, lane: int) -> Simulation:
    """Return the simulation of a lane. Views only, so this is cheap."""
    n, jobs, running, queue = lanes.length[lane], lanes.jobs, lanes.running, lanes.queue
    return Simulation(
        rules.engine,
        lanes.state[lane : lane + 1],
        Jobs(
            jobs.submit[lane][:n],
            jobs.run[lane][:n],
            jobs.estimate[lane][:n],
            jobs.asked[lane][:n],
            jobs.size[lane][:n],
            jobs.start[lane][:n],
        ),
        lane_of(lanes.capacity, lane),
        lane_of(lanes.at_shadow, lane),
        Running(running.ends[lane], running.limits[lane], running.tally[lane], running.seen[lane]),
        Queue(queue.job[lane], queue.value[lane], queue.heap[lane], queue.length[lane]),
        profile_of(lanes.predicted),  # no conservative backfilling: never looked at
    )


# ---- allocated and filled from Python --------------------------------------------------------------------------------


def rules_of(task: PickJob) -> PickRules:
    """Return the task in numbers, for compiled code."""
    switches = task.switches.resolved()
    engine = rules_for(switches, task.backfill)._replace(commit=task.commit)
    if task.predict is not None:
        engine = engine._replace(predicts=SHOW)
    orders, bound = len(task.orders), float(switches.bound)
    hosts = task.cluster is not None
    return PickRules(engine, task.slots, task.skip, task.ask_forced, orders, task.sorted, hosts, bound)


def allocate(
    task: PickJob,
    machine: MachineModel,
    lanes: int,
    *,
    jobs: int,
    units: int,
    before: LaneArrays | None = None,
    predictor: Predictor | None = None,
) -> LaneArrays:
    """Make the arrays of all lanes with room for ``jobs`` on machines of ``units``.

    With ``before``, its lanes' contents are kept.
    """
    names = task.feature_names
    most, width = machine.most_running(jobs, units), len(names)
    users = jobs + 1 if "user-average" in names else 1
    demands = jobs if task.cluster is not None else 1

    def whole(*shape: int) -> Ints:
        return np.zeros((lanes, *shape), np.int64)

    def real(*shape: int) -> Floats:
        return np.zeros((lanes, *shape))

    constants = np.zeros(1, [(name, np.float64) for name in features.CONSTANTS])
    for name in features.CONSTANTS:
        if name not in task.constants:
            raise UsageError(f"the task has no constant {name}; it needs {', '.join(features.CONSTANTS)}")
        constants[name] = task.constants[name]
    capacity = machine.allocate(lanes, jobs)
    made = LaneArrays(
        length=whole(),
        units=whole(),
        state=initial_state(lanes),
        jobs=Jobs(real(jobs), real(jobs), real(jobs), real(jobs), whole(jobs), real(jobs)),
        capacity=capacity,
        at_shadow=machine.twin(capacity),
        scratch=machine.twin(capacity),
        running=no_jobs_running(most, lanes),
        queue=empty_queue(jobs, lanes)._replace(value=real(0)),  # no policy, no values
        opening=real(),
        begun=whole(jobs),
        begun_count=whole(),
        fixed=np.zeros((lanes, jobs, width), np.float32),
        order=whole(2, jobs),
        mark=whole(jobs),
        stair=whole(most + 1),
        waits=real(task.slots),
        able=np.zeros((lanes, task.slots), np.bool_),
        alike=whole(demands),
        facts=real(demands, FACTS),
        seen=whole(demands),
        wanted=features.facts_of_hosts(names),
        rltune=rltune_arrays(task, machine, lanes),
        predicted=lane_predictions(task, predictor, lanes, jobs),
        user=whole(jobs),
        by_user=real(users, 2),
        weights=task.objectives.weights(),
        codes=features.codes_of(names),
        constants=constants,
        question=np.zeros(lanes, QUESTION),
        visible=whole(task.slots),
        count=whole(),
        mask=np.zeros((lanes, task.actions), np.bool_),
        features=np.zeros((lanes, task.slots, width), np.float32),
        done=np.ones(lanes, np.bool_),
    )
    return made if before is None else _all_grown(machine, before, made)


def _all_grown(machine: MachineModel, before: LaneArrays, made: LaneArrays) -> LaneArrays:
    """Return the new arrays with what the old ones held; a machine model may move its own (`HostModel.grown`)."""
    move = getattr(machine, "grown", None)
    if move is None:
        return _grown(before, made)  # type: ignore[no-any-return]
    capacity = move(before.capacity, made.capacity)
    theirs = {"capacity": capacity, "at_shadow": machine.twin(capacity), "scratch": machine.twin(capacity)}
    blank: dict[str, Any] = dict.fromkeys(theirs)
    plain: LaneArrays = _grown(before._replace(**blank), made._replace(**blank))
    return plain._replace(**theirs)


def _grown(before: Any, made: Any) -> Any:
    """Return the new arrays with what the old ones held; an array of the same shape stays where it is."""
    if isinstance(made, tuple):
        return type(made)(*(_grown(old, new) for old, new in zip(before, made, strict=True)))
    if not isinstance(made, np.ndarray) or before.shape == made.shape:
        return before
    made[tuple(slice(0, length) for length in before.shape)] = before
    return made


def load_episode(lanes: LaneArrays, machine: MachineModel, lane: int, episode: Episode) -> None:
    """Write an episode's jobs into the rows of a lane."""
    ready, columns = episode.ready, episode.columns
    count = len(ready.table)
    lanes.length[lane], lanes.units[lane] = count, ready.total
    given = (ready.table.submit, ready.run, ready.estimate, ready.estimate, ready.units, episode.begun)
    for rows, values in zip(lanes.jobs, given, strict=True):
        rows[lane, :count] = values
    machine.load(lanes.capacity, lane, ready)
    if episode.cap is not None:
        load_watts(lanes.capacity, lane, *episode.cap)
    if columns.alike is not None:
        lanes.alike[lane, :count] = columns.alike
        lanes.seen[lane] = 0
        lanes.question["watched"][lane] = 0
    lanes.user[lane, :count] = columns.user
    lanes.order[lane, : len(columns.order), :count] = columns.order
    lanes.fixed[lane, :count] = columns.fixed
    load_history(lanes.predicted, lane, columns.history)
    counted = count
    lanes.begun_count[lane] = 0
    if np.isfinite(episode.opening):
        running = np.flatnonzero(~episode.counted)
        running = running[np.argsort(episode.begun[running], kind="stable")]
        lanes.begun[lane, : len(running)] = running
        lanes.begun_count[lane] = len(running)
        counted -= len(running)
    lanes.question["counted"][lane] = counted
    lanes.opening[lane] = episode.opening
