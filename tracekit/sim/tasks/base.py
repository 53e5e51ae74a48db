"""What a task is: what an agent decides, and what it sees."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.objectives import Objective
from tracekit.trace import Trace


class Task(Protocol):
    """The settings of one kind of decision, in plain values."""

    name: ClassVar[str]  # such as "pick-job"

    @property
    def switches(self) -> Switches:
        """How the simulation is to be understood."""
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
    def objectives(self) -> Objective:
        """What is to be made small."""
        ...

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> View:
        """Return what an agent sees of the jobs of a trace; ``whole``: episodes are slices of these prepared jobs."""
        ...


class View(Protocol):
    """What a task shows of the jobs of one trace."""

    @property
    def task(self) -> Any:
        """The task, with the constants of the trace where it had none."""
        ...

    def columns(self, ready: Prepared, rows: slice | None) -> Any:
        """Return what is shown of an episode's jobs; ``rows``: they are this slice of the whole trace."""
        ...
