"""The task ``order``: which queues a network learns to order, and what it may see of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, get_args

from tracekit.errors import UnknownName, UsageError
from tracekit.sim.jobs import Table
from tracekit.sim.orders.features import MOVING, STATIC
from tracekit.sim.orders.problem import ILOS_BOUND, Ages, Estimates, QueueProblem, jobs_of
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.base import TaskDefaults
from tracekit.sim.tasks.objectives import objective
from tracekit.trace import Trace

Backfill = Literal["none", "easy"]


@dataclass(frozen=True)
class Order(TaskDefaults):
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and label sets."""

    name: ClassVar[str] = "order"
    network: ClassVar[str] = "pointer"
    slots: ClassVar[int] = 0  # a queue has any number of jobs
    warm: ClassVar[int] = 0
    base: ClassVar[str] = ""

    objective: str = "wait"
    bound: float | None = None  # seconds, of the bounded slowdown; None = 10, with compat ilos 300
    estimates: Estimates = "requested"  # the run times that heuristics, searches and the network see
    taught_by: Estimates | None = None  # the run times by which the orders to learn are best; None = those seen
    ages: Ages = "real"
    busy: bool = False  # beside the jobs that ran at that moment
    backfill: Backfill = "none"
    compat: str | None = None  # "ilos": its formulas, ties and bound
    switches: Switches = field(default_factory=Switches)
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        objective(self.objective)
        for name, value, known in (
            ("estimates of an order", self.estimates, get_args(Estimates)),
            ("run times of the orders to learn", self.judged_by, get_args(Estimates)),
            ("ages", self.ages, get_args(Ages)),
            ("backfilling of an order", self.backfill, get_args(Backfill)),
        ):
            if value not in known:
                raise UnknownName(name, str(value), known)
        if self.compat not in (None, "ilos"):
            raise UnknownName("compatibility", str(self.compat), ["ilos"])
        if self.bound is None:
            object.__setattr__(self, "bound", ILOS_BOUND if self.compat == "ilos" else 10.0)

    @property
    def judged_by(self) -> Estimates:
        """The run times by which orders are best, when labels are made and when a network is validated."""
        return self.taught_by or self.estimates

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What is seen of each job: fixed features, then those that depend on the jobs placed so far."""
        return (*STATIC, *MOVING)

    def adapted(self, setup: Setup) -> NoReturn:
        """Refuse: the network orders a queue that stands still."""
        raise UsageError(
            "an agent of task order is no policy: it orders a queue that stands still; "
            "use it with 'tracekit order FILE --window START:COUNT --init agent:DIR'"
        )


@dataclass(frozen=True, eq=False)
class Queues:
    """The queues of one trace: its jobs, read once."""

    task: Order
    table: Table
    asked: Switches

    @classmethod
    def of(cls, trace: Trace, task: Order) -> Queues:
        """Read the jobs of a trace."""
        return cls(task, *jobs_of(trace, task.ages, task.switches))

    def __len__(self) -> int:
        return len(self.table)

    def at(self, start: int, count: int) -> QueueProblem:
        """Return ``count`` consecutive jobs as a queue."""
        task = self.task
        settings: dict[str, Any] = {"objective": task.objective, "bound": task.bound, "backfill": task.backfill}
        return QueueProblem.from_table(
            *(self.table, start, count, self.asked), ages=task.ages, busy=task.busy, compat=task.compat, **settings
        )

    def seeing(self, estimates: Estimates) -> Queues:
        """Return the same queues, of which other run times are seen."""
        return dataclasses.replace(self, task=dataclasses.replace(self.task, estimates=estimates))
