"""What a task is: what an agent decides, what it sees, and what it learns from. `TASKS` has them by name.

A task is a frozen dataclass of plain values that has a ``name`` and is, or behaves like, a `TaskDefaults`. Training,
playing, evaluating, serving and experiments use tasks through the `Task` protocol alone. The quickest way to a task of
your own is `tracekit.sim.tasks.stepwise`: write an episode as a Python generator that yields questions.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.registry import Registry, own
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches, check_fields
from tracekit.sim.tasks.objectives import Objective, objective
from tracekit.sim.tasks.played import Played
from tracekit.sim.tasks.rewards import CRITIC_INPUTS, Baseline, rewards
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]


class View(Protocol):
    """What a task shows of the jobs of one trace."""

    @property
    def task(self) -> Any:
        """The task, with the constants of the trace where it had none."""
        ...

    def columns(self, ready: Prepared, rows: slice | None) -> Any:
        """Return the static features of an episode's jobs; ``rows``: they are this slice of the whole trace."""
        ...


class Batch(Protocol):
    """Many episodes side by side, one per lane. Arrays are written in place; copy what must survive the next call.

    ``player`` may name compiled code that plays whole episodes (``"module:function"``, see `tracekit.sim.agents.play`);
    None: episodes are played step by step.
    """

    task: Any
    source: Any  # the EpisodeSource
    lanes: int
    threads: int
    windows: list[Window]  # (lanes,) episode of each lane
    features: NDArray[np.float32]  # (lanes, slots, features) of each row that can be chosen; empty rows are 0
    count: NDArray[np.int64]  # (lanes,) valid rows: the first ones
    mask: NDArray[np.bool_]  # (lanes, actions)
    done: NDArray[np.bool_]  # (lanes,)
    score: Floats  # (lanes,) cost of the finished episode; smaller is better
    player: str | None

    def reset(self, lanes: Iterable[int], windows: Iterable[Window]) -> None:
        """Start windows in some lanes and run each to its first question."""
        ...

    def step(self, actions: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer the question of every lane that is not done; return rewards, and which lanes are done now.

        Actions are row numbers, (lanes,), or, for tasks with priorities, those of the rows, (lanes, slots).
        """
        ...

    def starts(self, lane: int) -> Floats:
        """Return the starts of a lane's jobs, (jobs,); NaN = waits."""
        ...

    def now(self, lane: int) -> float:
        """Return when a lane's question is asked, in seconds."""
        ...


@dataclass(frozen=True, eq=False)
class Question:
    """A choice to be made: rows of features, one per option, and what they represent."""

    rows: NDArray[np.float32]  # (rows, features)
    labels: Sequence[Any] = ()  # (rows,) for answers of the service
    now: float = 0.0  # seconds
    notes: tuple[str, ...] = ()
    options: int | None = None  # how many of the rows, the first ones, can be chosen; None = all


class Task(Protocol):
    """What training, playing, evaluating, serving and experiments use of a task."""

    name: ClassVar[str]  # such as "pick-job"; goes into agent.json and into requests of the service as ``kind``
    critic_inputs: ClassVar[int]  # how many numbers the critic sees beside the rows
    needs_hosts: ClassVar[bool]  # whether it only makes sense on a cluster of hosts
    network: ClassVar[str]  # the network that suits it
    levers: ClassVar[tuple[str, ...]]  # levers of energy that its episodes obey, as `Switches.levers` names them
    heuristics: ClassVar[tuple[str, ...]]  # what agents are compared with; () = the policies of the simulator
    server: ClassVar[str]  # the class that answers requests of the service, "module:Class"

    @property
    def actions_are(self) -> str:
        """What an action is: "choice", a row, or "priorities", one number per row."""
        ...

    @property
    def constants(self) -> Mapping[str, float]:
        """Scales of the features; taken from the first trace where the task has none."""
        ...

    @property
    def slots(self) -> int:
        """The most rows that one question has."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What is seen of each row, in order."""
        ...

    @property
    def switches(self) -> Switches:
        """The switches of the simulation."""
        ...

    @property
    def backfill(self) -> str:
        """The backfilling of the simulation."""
        ...

    @property
    def base(self) -> str:
        """The policy that costs are measured against, and that warms the machine up."""
        ...

    @property
    def warm(self) -> int:
        """Jobs before an episode that the machine is warmed up with."""
        ...

    @property
    def objective(self) -> str:
        """The objective to minimise, by name."""
        ...

    @property
    def objectives(self) -> Objective:
        """The objective to minimise."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the name among them: what agent.json holds."""
        ...

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; unknown names are errors."""
        ...

    def adapted(self, setup: Setup) -> Self:
        """Return the task with the switches of a simulation, for an agent used as a policy."""
        ...

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> View:
        """Return what an agent sees of the jobs of a trace; ``whole``: episodes are slices of these prepared jobs."""
        ...

    def batch(self, source: Any, *, lanes: int, threads: int | None = None) -> Batch:
        """Return the environment: many episodes of an `EpisodeSource` side by side."""
        ...

    def rewards(
        self, played: Played, windows: Sequence[Window], baseline: Baseline, *, dense: bool
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Return the reward of each decision, and the critic's inputs, (decisions, critic_inputs)."""
        ...

    def check_heuristic(self, name: str) -> None:
        """Raise an error with a suggestion if there is no such heuristic."""
        ...

    def schedule(self, source: Any, window: Window, policy: Any) -> Floats | None:
        """Return the starts that a heuristic of the task gives the window's jobs; None: policies of the simulator."""
        ...

    def measures(self, batch: Any, windows: Sequence[Window], names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return means of the task's own metrics over windows that an agent, "", has just played, by policy."""
        ...

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> Any:
        """Return what decides in place of a network on each window, for ``--init imitate:NAME``."""
        ...

    def question(self, request: Any) -> Question:
        """Return the question that a request of the service asks; only tasks served by rows need it."""
        ...


@dataclass(frozen=True)
class _Plain:
    """The view of a task that shows nothing of single jobs."""

    task: Any

    def columns(self, ready: Prepared, rows: slice | None) -> None:
        return None


class TaskDefaults:
    """What most tasks share; a frozen dataclass that inherits it needs a name, fields, features and a batch."""

    name: ClassVar[str]
    actions_are: ClassVar[str] = "choice"
    critic_inputs: ClassVar[int] = CRITIC_INPUTS
    needs_hosts: ClassVar[bool] = False
    network: ClassVar[str] = "kernel"
    levers: ClassVar[tuple[str, ...]] = ("--frequency",)
    heuristics: ClassVar[tuple[str, ...]] = ()
    server: ClassVar[str] = "tracekit.service.decide:RowDecider"
    objective: str
    constants: Mapping[str, float]

    @property
    def objectives(self) -> Objective:
        """The objective to minimise."""
        return objective(self.objective)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the name first."""
        return {"name": self.name, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; unknown names are errors."""
        known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        given: dict[str, Any] = {key: value for key, value in values.items() if key != "name"}
        given |= {key: tuple(value) for key, value in given.items() if isinstance(value, list)}  # as JSON has it
        check_fields(cls, given, f"setting of task {cls.name}")
        switches = given.get("switches", {})
        made = switches if isinstance(switches, Switches) else Switches.from_dict(switches)
        return cls(**({**given, "switches": made} if "switches" in known else given))

    def adapted(self, setup: Setup) -> Self:
        """Return the task with the switches of a simulation."""
        changes: dict[str, Any] = {"backfill": setup.backfill, "switches": setup.switches, "warm": 0}
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> View:
        """Return a view that shows nothing of single jobs."""
        return _Plain(self)

    def rewards(
        self, played: Played, windows: Sequence[Window], baseline: Baseline, *, dense: bool
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Return rewards against a base policy on the same window (`tracekit.sim.tasks.rewards`)."""
        return rewards(played, windows, baseline, dense=dense)

    def check_heuristic(self, name: str) -> None:
        """Raise an error with a suggestion if there is no such heuristic."""
        find(name)

    def schedule(self, source: Any, window: Window, policy: Any) -> Floats | None:
        """Return None: heuristics are policies of the simulator."""
        return None

    def measures(self, batch: Any, windows: Sequence[Window], names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return nothing: the task has no metrics beside its objective."""
        return {}

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> Any:
        """Refuse: the task has no heuristic to imitate."""
        raise UsageError(f"task {self.name} has no heuristic to imitate; leave out --init imitate:{name}")

    def question(self, request: Any) -> Question:
        """Refuse: the task has no method that reads requests."""
        raise UsageError(f"task {self.name} cannot be served: it has no method question(request)")


T = TypeVar("T", bound=type)

#: Every task by name; other packages add theirs by the entry point group ``tracekit.tasks``.
TASKS: Registry[Any] = Registry(
    "task",
    {
        "pick-job": "tracekit.sim.tasks.pick_job.task:PickJob",
        "pick-host": "tracekit.sim.tasks.pick_host.task:PickHost",
        "pick-policy": "tracekit.sim.tasks.pick_policy.task:PickPolicy",
        "order": "tracekit.sim.orders.task:Order",
    },
    group="tracekit.tasks",
)


def register_task(task: T) -> T:
    """Register a task by its name in this process, as an entry point does in every process; a class decorator."""
    TASKS.add(task.name, task)  # type: ignore[attr-defined]
    return task


def find_task(name: str) -> Any:
    """Return the class of a task: by its name, or as ``module:Class``.

    Tasks that no installed package offers can be named in the environment, ``TRACEKIT_TASKS=module:Class,…``. The file
    of an agent names its task only: loading one imports nothing that the user has not named.
    """
    if ":" in name:
        return register_task(own("task", name))
    if name not in TASKS:
        for target in filter(None, os.environ.get("TRACEKIT_TASKS", "").split(",")):
            register_task(own("task", target.strip()))
    if name not in TASKS:
        hint = "import the module that registers it, or set TRACEKIT_TASKS=module:Class"
        raise UsageError(f"{UnknownName('task', name, TASKS.names())} ({hint})")
    return TASKS.get(name)


def task_from_dict(values: Mapping[str, Any]) -> Any:
    """Return the task that `Task.to_dict` wrote; version 0.1.0 had one task and did not record its name."""
    name = str(values.get("name", "pick-job"))
    if ":" in name:  # a file must not choose what is imported
        raise UsageError(f"{name!r} is not the name of a task; set TRACEKIT_TASKS=module:Class to register your own")
    return find_task(name).from_dict(values)
