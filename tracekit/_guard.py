"""Makes sure that ``swf``, ``generators`` and ``evaluation`` are tracekit's own: other packages have these names too.

A package of the same name may come earlier on Python's path, or pip may have installed it over ours. Nothing here
imports the packages: it reads the first lines of the file that an import would run.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import NoReturn

PACKAGES = ("swf", "generators", "evaluation")
MARK = "Part of tracekit-hpc."  # in the docstring of every one of PACKAGES
_HOME = Path(__file__).resolve().parent.parent


def check() -> None:
    """Raise ImportError if an import of one of the packages would not give tracekit's own."""
    if sys.version_info < (3, 11):  # noqa: UP036  (pip checks this, a copied folder does not)
        refuse(f"tracekit needs Python 3.11 or newer; this is {sys.version.split()[0]} at {sys.executable}")
    for name in PACKAGES:
        problem = problem_with(name)
        if problem:
            refuse(problem)


def problem_with(name: str) -> str:
    """Return why ``name`` is not tracekit's package and what to do; empty if it is."""
    found = _found(name)
    ours = _HOME / name / "__init__.py"
    needs = f"tracekit needs its own package '{name}' from {_HOME}, but "
    if not ours.is_file():
        return f"{needs}{ours} is missing: {_repair(name)}"
    if found == ours:
        if MARK in ours.read_text(encoding="utf-8", errors="replace")[:2000]:
            return ""
        return f"{needs}another package has overwritten {ours}: {_repair(name)}"
    if found is None:
        return f"{needs}{_HOME} is not on Python's path: add it, or install tracekit-hpc"
    hides = found.parent if found.name == "__init__.py" else found
    return f"{needs}Python finds {hides} first: {_way_out(name, hides)}"


def _found(name: str) -> Path | None:
    """Return the file that ``import name`` runs; None if there is none, as for a folder without ``__init__.py``."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # imported already, by hand, without a spec
        spec = None
    return Path(spec.origin).resolve() if spec and spec.origin else None


def _way_out(name: str, hides: Path) -> str:
    """Return how to get rid of a package earlier on the path: installed by pip, or a folder of the user's."""
    if hides.parent.name in ("site-packages", "dist-packages"):
        return f"{_uninstall(name)}, or install tracekit-hpc into an environment of its own"
    return "rename that folder, or start Python from another one"


def _repair(name: str) -> str:
    return (
        f"{_uninstall(name)}, then pip install --force-reinstall --no-deps tracekit-hpc, "
        "or install it into an environment of its own"
    )


def _uninstall(name: str) -> str:
    """Return the pip line that removes the other distributions that hold a package of this name."""
    from importlib.metadata import packages_distributions

    others = sorted({one for one in packages_distributions().get(name, ()) if one != "tracekit-hpc"})
    return f"pip uninstall {' '.join(others)}" if others else f"uninstall the other package '{name}'"


def refuse(message: str) -> NoReturn:
    """Raise ImportError; on the command line, print one line in place of a traceback, and exit with 1."""
    if _is_command():
        raise SystemExit(f"error: {message}")
    raise ImportError(message)


def _is_command() -> bool:
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # python -m tracekit, while Python looks for the module
        return "tracekit" in sys.orig_argv
    return Path(program).name == "tracekit"
