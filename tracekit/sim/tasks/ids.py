"""The ids under which Gymnasium finds tracekit's environments. Imports nothing heavy: ``import tracekit`` reads it.

``gymnasium.make("tracekit:tracekit/PickJob-v0")`` imports tracekit and then looks the id up. Gymnasium may come first
or last, and tracekit must not import it, so ids are registered at once if Gymnasium is loaded, and otherwise as soon
as it is imported. (Gymnasium 1 reads no entry points of packages.)
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

PICK_JOB = "tracekit/PickJob-v0"
PICK_HOST = "tracekit/PickHost-v0"
PICK_POLICY = "tracekit/PickPolicy-v0"

#: id → where one environment lives, and many in one, as ``module:class``; None = Gymnasium makes many of single ones.
ENVIRONMENTS: dict[str, tuple[str, str | None]] = {
    PICK_JOB: ("tracekit.sim.tasks.gym:PickJobEnv", "tracekit.sim.tasks.gym:PickJobVectorEnv"),
    PICK_HOST: ("tracekit.sim.tasks.pick_host.gym:PickHostEnv", None),
    PICK_POLICY: ("tracekit.sim.tasks.pick_policy.gym:PickPolicyEnv", None),
}


def register(gymnasium: Any) -> None:
    """Register all ids that Gymnasium, the module, does not have yet."""
    for name, (one, many) in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=one, vector_entry_point=many)


def offer() -> None:
    """Register all ids now, or when Gymnasium is imported."""
    if _WATCH not in sys.meta_path:
        sys.meta_path.insert(0, _WATCH)
    if sys.modules.get("gymnasium") is not None:  # None = its import is blocked
        register(importlib.import_module("gymnasium"))  # waits for a thread that is about to import it


class _Watch:
    """A finder on `sys.meta_path` that finds nothing itself and acts after Gymnasium's import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Let the other finders find Gymnasium, and put our loader around theirs."""
        if name != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec: Any = next((spec for spec in found if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """Gymnasium's own loader, and one more step after it."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name == "_real":  # a copy that is still empty
            raise AttributeError(name)
        return getattr(self._real, name)

    def create_module(self, spec: Any) -> Any:
        """Do what the real loader does."""
        return self._real.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Import Gymnasium, keep its own loader in the module's attributes, and register."""
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        register(module)


_WATCH = _Watch()
