"""The input of one simulation: prepared jobs, switches, the machine, and the starting state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.energy.states import HostStates
from tracekit.sim.jobs import Prepared
from tracekit.sim.policies.protocol import Policy
from tracekit.sim.switches import Switches

if TYPE_CHECKING:
    from tracekit.sim.engine.machines import MachineModel

Floats = NDArray[np.float64]


class Cap(NamedTuple):
    """A power cap: what jobs draw on top of the idle machine, and what they may draw together."""

    need: NDArray[np.int64]  # (jobs,) milliwatts
    headroom: int  # milliwatts


@dataclass(frozen=True, eq=False)
class Setup:
    """The input of a simulation; it starts on an empty machine, or with the state at ``clock``."""

    ready: Prepared
    backfill: str
    switches: Switches  # resolved
    machine: MachineModel | None = None  # None = a pool of processors
    begun: Floats | None = None  # (jobs,) starts of jobs that have started before `clock`, NaN for all others
    clock: float = -np.inf  # what has been submitted by then and not started waits
    cap: Cap | None = None  # None = no power cap


class Starts(np.ndarray[Any, np.dtype[np.float64]]):
    """Starts of jobs, (jobs,), that know on which hosts the jobs ran and when hosts slept; so do copies of them.

    Where hosts sleep, the energy of a schedule depends on more than its starts.
    """

    hosts: Sequence[str] | None
    states: HostStates | None

    @classmethod
    def of(cls, start: Floats, hosts: Sequence[str] | None, states: HostStates | None) -> Starts:
        """Return starts with what else is known."""
        made = start.view(cls)
        made.hosts, made.states = hosts, states
        return made

    def __array_finalize__(self, made_from: Any) -> None:
        """Keep what is known of the array that this one was made from."""
        self.hosts, self.states = getattr(made_from, "hosts", None), getattr(made_from, "states", None)


class Placed(NamedTuple):
    """The schedule that an agent made."""

    start: Floats  # (jobs,)
    hosts: Sequence[str] | None = None  # where each job ran, when the machine model knows
    states: HostStates | None = None  # when hosts slept


@runtime_checkable
class Scheduler(Protocol):
    """A policy that schedules job by job itself, such as an agent."""

    name: str

    def schedule(self, setup: Setup, /) -> Placed:
        """Return the start of every job, and its hosts."""
        ...


@runtime_checkable
class PerSimulation(Protocol):
    """A policy that remembers things, or needs to know the simulation: a fresh one is made for each."""

    name: str

    def started(self, setup: Setup, /) -> Policy:
        """Return the policy for one simulation."""
        ...


@runtime_checkable
class TakesNotes(Protocol):
    """A policy that has something to say about a finished simulation."""

    def notes(self, wait: Floats, /) -> Mapping[str, Any]:
        """Return entries for the result's metrics, by name; ``wait`` is that of all jobs, (jobs,), in seconds."""
        ...
