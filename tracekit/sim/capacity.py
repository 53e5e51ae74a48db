"""What a machine has room for, behind one small compiled interface that the passes use and nothing else touches.

A capacity is a named tuple of arrays together with the functions of `INTERFACE`, handed over with `provide`; the
engine compiles itself anew for every type of capacity it is called with. Ours is `Processors`, a counter. Hosts with
several resources take its place by bringing their own tuple and functions (``tests/sim/test_seams.py`` does so for a
machine of two hosts).

``later`` is a second capacity of the same type: what is left over at the time of a reservation, once the reserved
job has started then. ``job`` is the job's number, for a capacity that remembers where it put whom.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

# ---- the interface: compiled code calls these, and the capacity's type decides which bodies are meant ---------------


def most(capacity: Any) -> int:
    """Return a size such that no larger job fits; lets the passes skip what cannot start anyway."""
    raise NotImplementedError("only compiled code can call this")


def fits(capacity: Any, procs: Any) -> bool:
    """Tell whether a job of this size can start."""
    raise NotImplementedError("only compiled code can call this")


def fits_both(capacity: Any, later: Any, procs: Any) -> bool:
    """Tell whether a job can start now and still be running at the reservation without being in its way."""
    raise NotImplementedError("only compiled code can call this")


def take(capacity: Any, job: Any, procs: Any) -> None:
    """Let a job start."""
    raise NotImplementedError("only compiled code can call this")


def take_both(capacity: Any, later: Any, job: Any, procs: Any) -> None:
    """Let a job start that will still be running at the reservation."""
    raise NotImplementedError("only compiled code can call this")


def give(capacity: Any, job: Any, procs: Any) -> None:
    """Take back what a job had, at its end."""
    raise NotImplementedError("only compiled code can call this")


def reserve(
    capacity: Any, later: Any, now: Any, procs: Any, limits: Any, limit_jobs: Any, count: Any, sizes: Any
) -> float:
    """Return the earliest time at which ``procs`` are free by estimates, and leave the rest of then in ``later``.

    ``limits`` (descending) and ``limit_jobs`` are the estimated ends of the ``count`` running jobs, ``sizes`` the
    processors of every job. A running job past its estimate counts as ending now.
    """
    raise NotImplementedError("only compiled code can call this")


INTERFACE: tuple[Callable[..., Any], ...] = (most, fits, fits_both, take, take_both, give, reserve)
_PROVIDED: dict[tuple[type, str], Callable[..., Any]] = {}


def provide(capacity: type, *functions: Callable[..., Any]) -> None:
    """Register the functions of a new type of capacity: named, and their arguments named, as in `INTERFACE`.

    Like all compiled code of the simulator they must not allocate, and that includes assigning slices.
    """
    missing = {f.__name__ for f in INTERFACE} - {f.__name__ for f in functions}
    if missing:
        raise TypeError(f"{capacity.__name__} lacks {', '.join(sorted(missing))}")
    for function in functions:
        _PROVIDED[capacity, function.__name__] = function


def _dispatch(declared: Callable[..., Any]) -> None:
    """Make numba choose a function's body by the type of its first argument."""

    def choose(*arguments: Any) -> Callable[..., Any] | None:
        kind = getattr(arguments[0], "instance_class", None)  # numba's type of a named tuple knows its class
        return None if kind is None else _PROVIDED.get((kind, declared.__name__))

    choose.__signature__ = inspect.signature(declared)  # type: ignore[attr-defined]  # numba compares argument names
    overload(declared, strict=False)(choose)


for _declared in INTERFACE:
    _dispatch(_declared)


# ---- our own: a pool of alike processors -----------------------------------------------------------------------------


class Processors(NamedTuple):
    """A pool of alike processors: all that counts is how many are free."""

    free: NDArray[np.int64]  # (1,)


def processors(total: int) -> Processors:
    """Return an idle machine of ``total`` processors."""
    return Processors(np.array([total], dtype=np.int64))


def _register() -> None:
    def most(capacity: Any) -> Any:
        return capacity.free[0]

    def fits(capacity: Any, procs: Any) -> Any:
        return procs <= capacity.free[0]

    def fits_both(capacity: Any, later: Any, procs: Any) -> Any:
        return procs <= capacity.free[0] and procs <= later.free[0]

    def take(capacity: Any, job: Any, procs: Any) -> Any:
        capacity.free[0] -= procs

    def take_both(capacity: Any, later: Any, job: Any, procs: Any) -> Any:
        capacity.free[0] -= procs
        later.free[0] -= procs

    def give(capacity: Any, job: Any, procs: Any) -> Any:
        capacity.free[0] += procs

    def reserve(
        capacity: Any, later: Any, now: Any, procs: Any, limits: Any, limit_jobs: Any, count: Any, sizes: Any
    ) -> Any:
        free, shadow, i = capacity.free[0], now, count - 1
        while free < procs and i >= 0:
            free += sizes[limit_jobs[i]]
            shadow = max(now, limits[i])
            i -= 1
        while i >= 0 and limits[i] <= shadow:  # whoever else has ended by then
            free += sizes[limit_jobs[i]]
            i -= 1
        later.free[0] = free - procs
        return shadow

    provide(Processors, most, fits, fits_both, take, take_both, give, reserve)


_register()
