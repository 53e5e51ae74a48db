"""Where machine code that numba compiled is kept: one place for every package, and only folders that can be trusted.

Numba's cache files are pickles, which run code when they are loaded. So a folder is used only if no other user can
write to it. Numba itself checks only the file of the function it loads; an edit of a function that this one *calls*
would go unnoticed. So the cache lies in a folder named after the state of every source file of its package that
compiles functions, and of those that they import.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as _config

from tracekit.files import user_cache

config: Any = _config  # its attributes are made at run time
F = TypeVar("F", bound=Callable[..., Any])

_COMPILES = re.compile(r"numba|\bjit|overload|intrinsic|c_function")
_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)(?:\s+import\s+(\([^)]*\)|[^\n]*))?", re.MULTILINE)
_WORD = re.compile(r"\w+")


@cache
def cache_folder(sources: Path) -> Path | None:
    """Return the folder for code compiled from the Python files below ``sources``; None where no folder is safe.

    The first of these that can be written to: $NUMBA_CACHE_DIR, beside the sources, the user's cache, a folder of the
    temporary directory. Except beside the sources, the folder must be ours and not writable by others.
    """
    name = f"{sources.name}-{_state(sources)}"
    for parent in _parents(sources):
        _remove_old(parent, sources.name, name)
        return parent / name
    return None


def _parents(sources: Path) -> Iterator[Path]:
    """Yield the folders that can be used, best first; what numba's own variable names comes before all others."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named and is_private(Path(named)):
        yield Path(named)
    beside = sources / "__pycache__"
    with suppress(OSError):
        beside.mkdir(exist_ok=True)
        if os.access(beside, os.W_OK | os.X_OK) and not _open_to_all(beside):
            yield beside
    shared = Path(tempfile.gettempdir()) / f"tracekit-{os.getuid()}"
    for place in (user_cache(), shared):
        if place is not None and is_private(place):
            yield place


def _state(sources: Path) -> str:
    """Return a word that changes with Python, numba and every source file that compiled code may depend on."""
    state = hashlib.sha256(f"{sys.version_info[:2]} {numba.__version__}".encode())
    for source in sorted(_compiled_sources(sources)):
        facts = source.stat()
        state.update(f"{source.relative_to(sources)} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    return state.hexdigest()[:16]


def _compiled_sources(sources: Path) -> set[Path]:
    """Return the files that compile functions, and all files below ``sources`` that these import."""
    texts = {path: path.read_text(encoding="utf-8") for path in sources.rglob("*.py")}
    modules = {_module(path, sources): path for path in texts}
    found = {path for path, text in texts.items() if _COMPILES.search(text)}
    todo = list(found)
    while todo:
        names = {
            name
            for module, members in _IMPORT.findall(texts[todo.pop()])
            for name in (module, *(f"{module}.{member}" for member in _WORD.findall(members)))
        }
        new = {modules[name] for name in names & modules.keys()} - found
        found |= new
        todo += new
    return found


def _module(path: Path, sources: Path) -> str:
    """Return the dotted name of a file below ``sources``, a subpackage of tracekit or a package of its own."""
    root = sources.parent if sources.parent.name == "tracekit" else sources
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def is_private(folder: Path) -> bool:
    """Make a folder that only we can write to, and return whether it is one: not a link, ours, closed to others."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
    return ours and os.access(folder, os.W_OK | os.X_OK) and not _open_to_all(folder.parent)


def _open_to_all(folder: Path) -> bool:
    """Return whether other users may replace files in a folder: writable by all, and without the sticky bit."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _remove_old(parent: Path, package: str, name: str) -> None:
    """Remove code compiled from older sources; numba copes when another process loses its cache."""
    with suppress(OSError):  # another process may be tidying up as well
        found = (f for f in parent.glob(f"{package}-*") if f.name != name)
        for folder in sorted(found, key=lambda f: f.stat().st_mtime)[:-3]:
            shutil.rmtree(folder, ignore_errors=True)


def compiled(function: F, sources: Path, **options: Any) -> F:
    """Compile a function with numba at its first call; its code is kept in the folder of ``sources``, if there is one.

    ``options`` are those of ``numba.njit``.
    """
    folder = cache_folder(sources)
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")  # read by numba while it decorates, and only then
    try:
        decorate: Any = numba.njit(cache=folder is not None, nogil=True, **options)
        return decorate(function)  # type: ignore[no-any-return]
    finally:
        config.CACHE_DIR = before
