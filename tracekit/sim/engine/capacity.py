"""What a machine has room for, behind one small compiled interface; only the scheduling passes use it.

A capacity is a named tuple of arrays together with functions of this interface, handed over with `register_capacity`.
The engine is compiled separately for every type of capacity. Every question is about a *job* (its number), so that
memory, GPU types, pools and places can answer. The counter is `tracekit.sim.engine.processors`.

``at_shadow`` is a second capacity of the same type: what is left at the time of a reservation, once the reserved job
has started then. Both share what says where a job was placed.

A capacity must bring `BASIC`. The other groups are optional; what needs a group that a capacity does not bring is
refused by name (`require`), never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracekit.errors import UsageError
from tracekit.sim.compile import chosen_by_class

Function = Callable[..., Any]
_NO_BOUND = 2**62 - 1  # larger than any job

# ---- BASIC: what every capacity brings -------------------------------------------------------------------------------


def fits(capacity: Any, job: Any) -> bool:
    """Return whether a job can start now."""
    raise NotImplementedError("only compiled code can call this")


def take(capacity: Any, job: Any) -> None:
    """Give a job its room; it fits."""
    raise NotImplementedError("only compiled code can call this")


def give(capacity: Any, job: Any) -> None:
    """Take back what a job had."""
    raise NotImplementedError("only compiled code can call this")


def fits_beside(capacity: Any, at_shadow: Any, job: Any) -> bool:
    """Return whether a job can start now and still be running at the reservation without being in its way."""
    raise NotImplementedError("only compiled code can call this")


def take_beside(capacity: Any, at_shadow: Any, job: Any) -> None:
    """Give a job its room, now and at the reservation; it `fits_beside`."""
    raise NotImplementedError("only compiled code can call this")


def reserve(capacity: Any, at_shadow: Any, now: Any, job: Any, running: Any) -> float:
    """Return the earliest time at which a job fits by estimates, and leave what is left then in ``at_shadow``.

    ``running.limits`` (``time`` descending, ``job``) are the estimated ends of the ``running.tally[0].running`` running
    jobs. A running job past its estimate counts as ending now. Infinity: the job can never start.
    """
    raise NotImplementedError("only compiled code can call this")


# ---- with a default: may be brought to be faster, or to be asked in the middle ---------------------------------------


def largest_startable(capacity: Any) -> int:
    """Return a size (``jobs.size``) such that no larger job fits. For skipping, never for counting what is free."""
    raise NotImplementedError("only compiled code can call this")


def asks(capacity: Any) -> bool:
    """Return whether Python is asked where to place each job before it starts (`MachineModel.place`)."""
    raise NotImplementedError("only compiled code can call this")


def take_in_time(capacity: Any, at_shadow: Any, job: Any) -> None:
    """Give a job its room that ends by the time of the reservation; by default as `take` does."""
    raise NotImplementedError("only compiled code can call this")


def shares_pool(capacity: Any, job: Any, other: Any) -> bool:
    """Return whether two jobs compete for the same part of the machine; by default all do."""
    raise NotImplementedError("only compiled code can call this")


def keeps_reservation(capacity: Any, job: Any) -> bool:
    """Return whether a job's reservation, made again while nothing has ended, would be the same; by default it is."""
    raise NotImplementedError("only compiled code can call this")


def tick(capacity: Any, now: Any) -> None:
    """Take note of the time before anything happens at it; by default nothing."""
    raise NotImplementedError("only compiled code can call this")


def begins(capacity: Any, job: Any, now: Any, run: Any) -> float:
    """Return when a job that has just got its room begins to run, for ``run`` seconds; by default now.

    Later where hosts have to wake up first.
    """
    raise NotImplementedError("only compiled code can call this")


def stairs(capacity: Any, running: Any, stair: Any) -> None:
    """Prepare for `earliest_start` of many jobs at one moment, in scratch of shape (most running + 1,)."""
    raise NotImplementedError("only compiled code can call this")


def earliest_start(capacity: Any, scratch: Any, now: Any, job: Any, running: Any, stair: Any) -> float:
    """Return when a job that does not fit now could start by estimates if nothing else started."""
    raise NotImplementedError("only compiled code can call this")


# ---- ENVIRONMENT: many machines side by side, for agents -------------------------------------------------------------


def lane_of(capacity: Any, lane: Any) -> Any:
    """Return the capacity of one lane; every array has a leading axis of lanes."""
    raise NotImplementedError("only compiled code can call this")


def clear(capacity: Any) -> None:
    """Make the machine idle."""
    raise NotImplementedError("only compiled code can call this")


def free_units(capacity: Any) -> int:
    """Return how many units are free, wherever they are."""
    raise NotImplementedError("only compiled code can call this")


def total_units(capacity: Any) -> int:
    """Return how many units the machine has."""
    raise NotImplementedError("only compiled code can call this")


def job_fact(capacity: Any, what: Any, until: Any, job: Any, running: Any) -> float:
    """Return a fact about the hosts that a job may use, by its code (`tracekit.sim.hosts.facts`); for observers."""
    raise NotImplementedError("only compiled code can call this")


# ---- PLANNING: conservative backfilling ------------------------------------------------------------------------------
# What is free at one moment is a row of cells: one cell for a counter, one for each host and resource elsewhere. A job
# that runs from one time to another must find the same cells free throughout, so it is tried on the smallest of each.


def cells(capacity: Any) -> int:
    """Return how many cells a row has."""
    raise NotImplementedError("only compiled code can call this")


def write_free(capacity: Any, row: Any, at: Any) -> None:
    """Write what is free now into ``row[at : at + cells]``."""
    raise NotImplementedError("only compiled code can call this")


def add_held(capacity: Any, job: Any, row: Any, at: Any) -> None:
    """Add what a running job holds to ``row[at : at + cells]``."""
    raise NotImplementedError("only compiled code can call this")


def claim(capacity: Any, row: Any, at: Any, job: Any, claimed: Any) -> bool:
    """Return whether a job fits where ``row[at : at + cells]`` is free, and write what it would take of each cell."""
    raise NotImplementedError("only compiled code can call this")


def fits_claimed(capacity: Any, job: Any, claimed: Any) -> bool:
    """Return whether what a job claimed is really free now; a running job past its estimate may still hold it."""
    raise NotImplementedError("only compiled code can call this")


def take_claimed(capacity: Any, job: Any, claimed: Any) -> None:
    """Give a job just the cells that it claimed."""
    raise NotImplementedError("only compiled code can call this")


# ---- OUTAGES ---------------------------------------------------------------------------------------------------------


def withdraw(capacity: Any, units: Any) -> None:
    """Take units out of service (negative: put them back); more may be gone than is free until running jobs end."""
    raise NotImplementedError("only compiled code can call this")


def overdrawn(capacity: Any) -> bool:
    """Return whether running jobs hold units that are out of service."""
    raise NotImplementedError("only compiled code can call this")


def withdraw_from_row(capacity: Any, row: Any, at: Any, units: Any) -> None:
    """Take units out of ``row[at : at + cells]`` (negative: put them back)."""
    raise NotImplementedError("only compiled code can call this")


def in_the_way(capacity: Any, job: Any) -> bool:
    """Return whether a running job holds units that are out of service; any job does where units are all alike."""
    raise NotImplementedError("only compiled code can call this")


BASIC: tuple[Function, ...] = (fits, take, give, fits_beside, take_beside, reserve)
ENVIRONMENT: tuple[Function, ...] = (lane_of, clear, free_units, total_units)
PLANNING: tuple[Function, ...] = (cells, write_free, add_held, claim, fits_claimed, take_claimed)
OUTAGES: tuple[Function, ...] = (*PLANNING, withdraw, overdrawn, withdraw_from_row)


# ---- which body is meant: the capacity's type decides ----------------------------------------------------------------


def _largest_startable(capacity: Any) -> Any:
    return _NO_BOUND


def _no(capacity: Any) -> Any:
    return False


def _shares_pool(capacity: Any, job: Any, other: Any) -> Any:
    return True


def _tick(capacity: Any, now: Any) -> Any:
    pass


def _begins(capacity: Any, job: Any, now: Any, run: Any) -> Any:
    return now


def _stairs(capacity: Any, running: Any, stair: Any) -> Any:
    pass


def _take_in_time(capacity: Any, at_shadow: Any, job: Any) -> Any:
    take(capacity, job)


def _yes(capacity: Any, job: Any) -> Any:
    return True


def _earliest_start(capacity: Any, scratch: Any, now: Any, job: Any, running: Any, stair: Any) -> Any:
    return reserve(capacity, scratch, now, job, running)


def _job_fact(capacity: Any, what: Any, until: Any, job: Any, running: Any) -> Any:
    return 0.0


_DEFAULTS: dict[str, Function] = {
    "job_fact": _job_fact,
    "largest_startable": _largest_startable,
    "asks": _no,
    "shares_pool": _shares_pool,
    "tick": _tick,
    "begins": _begins,
    "stairs": _stairs,
    "earliest_start": _earliest_start,
    "in_the_way": _yes,
    "take_in_time": _take_in_time,
    "keeps_reservation": _yes,
}


def _cells(capacity: Any) -> Any:
    return 1


def _write_free(capacity: Any, row: Any, at: Any) -> Any:
    pass


def _add_held(capacity: Any, job: Any, row: Any, at: Any) -> Any:
    pass


def _claim(capacity: Any, row: Any, at: Any, job: Any, claimed: Any) -> Any:
    return False


def _fits_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
    return False


def _withdraw(capacity: Any, units: Any) -> Any:
    pass


def _withdraw_from_row(capacity: Any, row: Any, at: Any, units: Any) -> Any:
    pass


#: Bodies that only let the engine compile for a capacity without the function: `require` refuses before one is called.
_REFUSED: dict[str, Function] = {
    "cells": _cells,
    "write_free": _write_free,
    "add_held": _add_held,
    "claim": _claim,
    "fits_claimed": _fits_claimed,
    "take_claimed": _fits_claimed,
    "withdraw": _withdraw,
    "overdrawn": _no,
    "withdraw_from_row": _withdraw_from_row,
}
_INTERFACE: tuple[Function, ...] = (
    *BASIC,
    *(largest_startable, asks, shares_pool, stairs, earliest_start, in_the_way),
    *(take_in_time, job_fact, keeps_reservation, tick, begins),
    *ENVIRONMENT,
    *OUTAGES,
)
_PROVIDED: dict[tuple[type, str], Function] = {}


def register_capacity(capacity: type, *functions: Function) -> None:
    """Register the functions of a new type of capacity: named, and their arguments named, as in this module.

    Like all compiled code of the simulator they must not allocate, and that includes assigning slices.
    """
    known, brought = {f.__name__ for f in _INTERFACE}, {f.__name__ for f in functions}
    missing = {f.__name__ for f in BASIC} - brought
    if missing:
        raise TypeError(f"{capacity.__name__} lacks {', '.join(sorted(missing))}")
    if brought - known:
        raise TypeError(f"{capacity.__name__}: not in the interface: {', '.join(sorted(brought - known))}")
    for function in functions:
        _PROVIDED[capacity, function.__name__] = function


def require(capacity: Any, group: tuple[Function, ...], purpose: str) -> None:
    """Raise a `UsageError` that says what is missing if a capacity does not bring a group of functions."""
    kind = type(_inner(capacity))
    missing = [f.__name__ for f in group if (kind, f.__name__) not in _PROVIDED]
    if missing:
        raise UsageError(f"{kind.__name__} does not support {purpose}: it lacks {', '.join(missing)}")


def is_asked(capacity: Any) -> bool:
    """Return whether this kind of capacity has its jobs placed by Python."""
    return (type(_inner(capacity)), asks.__name__) in _PROVIDED


def cells_of(capacity: Any) -> int:
    """Return how many `cells` a row of this capacity has, to Python."""
    inner = _inner(capacity)
    return int(_PROVIDED[type(inner), cells.__name__](inner)) + (inner is not capacity)


def _inner(capacity: Any) -> Any:
    """Return the capacity that another one, which adds one cell, stands around (`tracekit.sim.engine.capped`)."""
    return getattr(capacity, "inner", capacity)


def _dispatch(declared: Function) -> None:
    """Make compiled code choose a function's body by the type of its first argument."""
    name = declared.__name__

    def body_of(kind: type) -> Function | None:
        if (kind, BASIC[0].__name__) not in _PROVIDED:
            return None
        return _PROVIDED.get((kind, name)) or _DEFAULTS.get(name) or _REFUSED.get(name)

    chosen_by_class(declared, body_of)


for _declared in _INTERFACE:
    _dispatch(_declared)
