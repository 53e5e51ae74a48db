"""tracekit: read, clean, synthesise, score and simulate job traces of supercomputers and GPU clusters.

>>> import tracekit
>>> trace = tracekit.sample()                # made by a script, not recorded
>>> len(trace), trace.machine.procs
(10000, 256)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tracekit import _guard

if TYPE_CHECKING:
    from evaluation import figures
    from evaluation.experiment.single_trace import verdict
    from evaluation.score import score
    from generators.synth import synth
    from tracekit import plots
    from tracekit.api import read, sample, write
    from tracekit.errors import TracekitError
    from tracekit.machine import Machine
    from tracekit.sim.analysis.comparison import compare
    from tracekit.sim.simulate import simulate
    from tracekit.sim.snapshot import Snapshot
    from tracekit.trace import Trace

__version__ = "0.2.0.dev0"  # the only place: packaging and tests read it from here

_guard.check()

_LAZY = {
    "compare": "tracekit.sim.analysis.comparison",
    "simulate": "tracekit.sim.simulate",
    "synth": "generators.synth",
    "Machine": "tracekit.machine",
    "Snapshot": "tracekit.sim.snapshot",
    "Trace": "tracekit.trace",
    "TracekitError": "tracekit.errors",
    "read": "tracekit.api",
    "write": "tracekit.api",
    "sample": "tracekit.api",
    "score": "evaluation.score",
    "verdict": "evaluation.experiment.single_trace",
}
_MODULES = {"figures": "evaluation.figures", "plots": "tracekit.plots"}
__all__ = [
    "Machine",
    "Snapshot",
    "Trace",
    "TracekitError",
    "__version__",
    "compare",
    "figures",
    "plots",
    "read",
    "sample",
    "score",
    "simulate",
    "synth",
    "verdict",
    "write",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that ``import tracekit`` is fast."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _LAZY:
        raise AttributeError(f"module 'tracekit' has no attribute '{name}'")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *_MODULES])


importlib.import_module("tracekit.sim.tasks.ids").offer()  # gymnasium.make("tracekit:tracekit/PickJob-v0")
