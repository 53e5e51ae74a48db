"""Provenance of an agent: the jobs it learnt from, and the versions of software used."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform

import numpy as np

import tracekit
from tracekit.sim.jobs import Table


def fingerprint(jobs: Table) -> str:
    """Return the SHA-256 of the jobs as the simulator sees them, whatever file they came from."""
    digest = hashlib.sha256(f"{jobs.resource} {jobs.total}".encode())
    for name in ("submit", "run", "limit", "procs", "user"):
        digest.update(np.ascontiguousarray(getattr(jobs, name)).tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {"python": platform.python_version(), "tracekit": tracekit.__version__}
    for name in ("numpy", "numba", "torch"):
        found[name] = importlib.metadata.version(name)
    return found


def not_improved(init: str | None, objective: str, before: float, after: float) -> str:
    """Return the sentence for a training of which no iteration was better than its start on the validation windows.

    >>> not_improved("imitate:f1", "bsld", 12.3, 12.4)[:70]
    'Training did not improve on its starting policy (imitation of f1): val'
    """
    kind, _, name = (init or "").partition(":")
    start = {"imitate": f"imitation of {name}", "search": "searched weights", "agent": f"agent {name}"}
    return (
        f"Training did not improve on its starting policy ({start.get(kind, 'random weights')}): validation "
        f"{objective} {before:,.4g} before, {after:,.4g} after; the starting weights are kept."
    )
