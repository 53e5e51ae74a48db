"""What a policy is: a built-in one has a name, any other is an object with a ``priority`` method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BuiltIn:
    """A policy that the compiled engine knows by name."""

    name: str
    formula: str
    meaning: str
    paper: str = ""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What `help` and the table of policies show."""
        return f"{self.formula}: {self.meaning}" + (f" ({self.paper})" if self.paper else "")


@dataclass(frozen=True)
class State:
    """What a policy may read. Arrays of shape (jobs,) are indexed by the job numbers that the queue holds.

    Do not write into them. ``estimate`` is the scheduler's estimate; the true run time is not included. The sizes of
    the running jobs and ``free`` add up to ``total``.
    """

    now: float  # seconds
    submit: Floats
    estimate: Floats
    procs: Floats
    user: NDArray[np.int64]  # −1 = unknown
    start: Floats  # NaN = has not started
    position: NDArray[np.int64]  # row in the trace
    free: float  # processors
    total: float
    running: NDArray[np.int64]  # (running,) numbers of the jobs that run now, by expected end
    expected_end: Floats  # (running,) their estimated ends as backfilling sees them, seconds; overdue = now
    capacity: Any = None  # the machine as the engine has it (`tracekit.sim.engine.capacity`): where running jobs are

    def wait(self, queue: NDArray[np.intp]) -> Floats:
        """Return how long each job of the queue has waited."""
        return self.now - self.submit[queue]


@runtime_checkable
class Policy(Protocol):
    """A user-defined policy. The smallest value starts first; ties go to the earlier submit.

    Python calls it at every scheduling pass, so a simulation takes tens of microseconds a job, where a built-in
    policy takes less than one. The passes themselves, with every kind of backfilling, are the same compiled code.
    """

    name: str

    def priority(self, queue: NDArray[np.intp], state: State, /) -> Floats:
        """Return one value for each job number in ``queue``, (len(queue),); NaN is an error."""
        ...
