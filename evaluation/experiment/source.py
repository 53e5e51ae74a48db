"""Which source files a piece of work depends on, so that a result is used again only while its code is the same.

Imports are followed from module to module within our own packages, lazy ones too, and so are the modules that are
looked up by name with `tracekit.registry.imported`. The front doors (`import tracekit`, the command line) lead
everywhere and compute nothing, so they are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from evaluation.experiment.tasks import code_digest

PACKAGES = ("tracekit", "generators", "evaluation")
DOORS = (
    "tracekit",
    "tracekit.api",
    "tracekit.cli",
    "tracekit.demo",
    "tracekit.plots",
    "generators",
    "evaluation",
    "evaluation.experiment",
)


def sources(modules: Iterable[str]) -> set[Path]:
    """Return the files of modules and of all they import from our packages; a third-party module is one file."""
    found: dict[str, Path] = {}
    open_ = [name for name in modules if name not in DOORS]
    while open_:
        name = open_.pop()
        place = _place(name)
        if name in found or place is None:
            continue
        found[name] = place
        open_ += [other for other in _imports(place) if other.split(".")[0] in PACKAGES and other not in DOORS]
    return set(found.values())


@cache
def digest_of(*modules: str) -> str:
    """Return the hash of all source that these modules depend on."""
    return code_digest(sources(modules))


@cache
def _place(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except Exception:  # a third-party package runs code when its modules are looked up
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


@cache
def _imports(path: Path) -> tuple[str, ...]:
    names: list[str] = []
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # a module that cannot be imported fails as a task, not here
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "imported":
            targets = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            names += [str(target).partition(":")[0] for target in targets]
    return tuple(names)
