"""Machine models: how a kind of capacity is made for the jobs of a simulation, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.jobs import Prepared


@runtime_checkable
class NamesHosts(Protocol):
    """A machine model whose outages are of named hosts."""

    def outage_bits(self, outages: Sequence[Any], /) -> list[tuple[float, float, float]]:
        """Return (from, to, 2ᵏ) for each outage (from, to, names), by begin: what is away is then a set of bits."""
        ...


@runtime_checkable
class LooksAhead(Protocol):
    """A machine model that is handed the next waiting jobs before it places one."""

    upcoming: NDArray[np.int64]  # in policy order, without the job to be placed
    ahead: int  # how many of the waiting jobs come before the job to be placed: it was picked earlier
    filling: bool  # whether the job is started to fill a gap


class MachineModel(Protocol):
    """How a kind of capacity is made for the jobs of a simulation; `tracekit.simulate` and environments take one."""

    name: str

    def most_running(self, jobs: int, units: int) -> int:
        """Return how many of ``jobs`` jobs can run at once, at most, on a machine of ``units``."""
        ...

    def allocate(self, lanes: int, jobs: int) -> Any:
        """Return a capacity whose arrays have a leading axis of ``lanes`` and room for ``jobs``."""
        ...

    def twin(self, capacity: Any) -> Any:
        """Return a second capacity that shares demands and places but not what is free: for reservations."""
        ...

    def load(self, capacity: Any, lane: int, ready: Prepared) -> None:
        """Write jobs, and an idle machine, into a lane."""
        ...

    def place(self, capacity: Any, at_shadow: Any | None, job: int) -> None:
        """Write where a job is to go into one lane's capacity; asked before `take` where the capacity `asks`.

        With ``at_shadow`` the job must leave the reservation its room, as in `take_beside`.
        """
        ...

    def hosts(self, capacity: Any) -> Sequence[str] | None:
        """Return where each job of one lane's capacity ran, or None where places have no names."""
        ...
