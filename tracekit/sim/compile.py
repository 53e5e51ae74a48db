"""How the simulator's inner loops are compiled with numba: once, kept on disk, and recompiled when a source changes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba.extending import overload

from tracekit import compiled

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).resolve().parent
_logged = False


def cache_folder() -> Path | None:
    """Return the folder of the simulator's compiled code; None where there is no folder that can be trusted."""
    return compiled.cache_folder(_HERE)


def jit(function: F) -> F:
    """Compile a function over plain arrays at its first call; it runs without Python's lock, so threads help.

    It must not allocate: reference counting for the many arrays of the engine would cost more than all the rest, so it
    is switched off (``_nrt``), and scratch space comes in from outside. Assigning a slice allocates too.
    """
    return _compile(function)


def jit_internal(function: F) -> F:
    """Compile a function that only compiled code calls: without the entry from Python, which many arrays make slow."""
    return _compile(function, no_cpython_wrapper=True)


def jit_merged(function: F) -> F:
    """Compile a function that only compiled code calls, and merge its machine code into its callers.

    For functions that take a whole simulation, of which a call would copy every array's description.
    """
    return _compile(function, no_cpython_wrapper=True, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
    made = compiled.compiled(function, _HERE, **options)
    _keep_only_ours(made)
    return made


def _keep_only_ours(made: Any) -> None:
    """Keep code compiled for capacities of other packages out of the cache.

    The cache's index names the class of every argument: a later process that cannot import such a class could not
    read the index at all.
    """
    cache = getattr(made, "_cache", None)  # none at all when NUMBA_DISABLE_JIT is set
    if cache is None or not hasattr(cache, "save_overload"):
        return
    save = cache.save_overload

    def save_ours(signature: Any, data: Any) -> None:
        if all(kind.__module__.startswith("tracekit.") for kind in _classes(getattr(signature, "args", signature))):
            save(signature, data)

    cache.save_overload = save_ours


def _classes(types: Any) -> list[type]:
    """Return the named tuples among numba types, nested ones included."""
    found: list[type] = []
    for kind in types:
        if hasattr(kind, "instance_class"):
            found += [kind.instance_class, *_classes(kind.types)]
    return found


def chosen_by_class(declared: Callable[..., Any], body_of: Callable[[type], Callable[..., Any] | None]) -> None:
    """Let compiled code choose the body of a function by the class of its first argument, a named tuple.

    ``body_of`` returns None for classes that the function is not meant for. Arguments are named as in ``declared``.
    """

    def choose(*arguments: Any) -> Callable[..., Any] | None:
        kind = getattr(arguments[0], "instance_class", None)  # numba's type of a named tuple knows its class
        return None if kind is None else body_of(kind)

    choose.__signature__ = inspect.signature(declared)  # type: ignore[attr-defined]  # numba compares argument names
    overload(declared, strict=False)(choose)


def log_first_compilation(name: str) -> None:
    """Say once, in the log (stderr, unless told otherwise), that there is no compiled code of ``name`` on disk yet."""
    global _logged
    folder = cache_folder()
    if _logged or (folder is not None and folder.is_dir() and any(folder.rglob(f"*.{name}-*.nbc"))):
        return
    _logged = True
    logging.getLogger("tracekit").warning("compiling the simulator, once (about half a minute)…")
