"""What tests with a real Slurm share."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from shared_data import ROOT

from tracekit.slurm.accounting import PROGRAMS
from tracekit.slurm.own import Own
from tracekit.slurm.tools import DAEMONS, INSTALL, INSTALL_ACCOUNTING, find

NEEDS_SLURM = pytest.mark.skipif(not all(map(find, (*DAEMONS, "squeue", "sbatch"))), reason=f"needs a Slurm: {INSTALL}")
NEEDS_ACCOUNTING = pytest.mark.skipif(
    not all(map(find, PROGRAMS)), reason=f"needs Slurm's accounting: {INSTALL_ACCOUNTING}"
)


def submit(own: Own, *words: str, sleep: int = 60) -> int:
    """Submit a job that sleeps, and return its number."""
    script = f"#!/bin/sh\nsleep {sleep}\n"
    return int(own.slurm.call("sbatch", "--parsable", "--output=/dev/null", *words, stdin=script))


def stress() -> ModuleType:
    """Return the benchmark that kills replays and drivers."""
    spec = importlib.util.spec_from_file_location("slurm_stress", ROOT / "benchmarks" / "slurm_stress.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
