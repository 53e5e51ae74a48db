"""How the simulator's inner loops are compiled with numba: once, kept on disk, and recompiled when a source changes.

Numba itself checks only the file of the function it loads; an edit of a function that this one *calls* would go
unnoticed, and stale machine code would run. So the cache lies in a folder named after the state of every source file
below ``tracekit/sim``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as _config

config: Any = _config  # its attributes are made at run time
F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).resolve().parent
_logged = False


@cache
def cache_folder() -> Path:
    """Return the folder of the compiled code: beside the sources if they can be written to, else the user's cache."""
    state = hashlib.sha256(f"{sys.version_info[:2]} {numba.__version__}".encode())
    for source in sorted(_HERE.rglob("*.py")):
        facts = source.stat()
        state.update(f"{source.relative_to(_HERE)} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    name = f"sim-{state.hexdigest()[:16]}"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tracekit"
    for parent in (_HERE / "__pycache__", user, Path(tempfile.gettempdir()) / f"tracekit-{os.getuid()}"):
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(parent, os.W_OK):
            _remove_old(parent, name)
            return parent / name
    return user / name


def _remove_old(parent: Path, name: str) -> None:
    """Remove code compiled from older sources; numba copes when another process loses its cache."""
    with suppress(OSError):  # another process may be tidying up as well
        old = sorted((f for f in parent.glob("sim-*") if f.name != name), key=lambda f: f.stat().st_mtime)
        for folder in old[:-3]:
            shutil.rmtree(folder, ignore_errors=True)


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
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())  # read by numba while it decorates, and only then
    try:
        options |= {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
        decorate: Any = numba.njit(**options)
        made = decorate(function)
    finally:
        config.CACHE_DIR = before
    _keep_only_ours(made)
    return made  # type: ignore[no-any-return]


def _keep_only_ours(made: Any) -> None:
    """Keep code compiled for capacities of other packages out of the cache.

    The cache's index names the class of every argument: a later process that cannot import such a class could not
    read the index at all.
    """
    cache = getattr(made, "_cache", None)  # None when NUMBA_DISABLE_JIT is set
    if cache is None:
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


def log_first_compilation(name: str) -> None:
    """Say once, in the log (stderr, unless told otherwise), that there is no compiled code of ``name`` on disk yet."""
    global _logged
    folder = cache_folder()
    if _logged or (folder.is_dir() and any(folder.rglob(f"*.{name}-*.nbc"))):
        return
    _logged = True
    logging.getLogger("tracekit").warning("compiling the simulator, once (about half a minute)…")
