"""Importing this module registers tracekit's environments with Gymnasium: ``tracekit/PickJob-v0`` and others.

They live in `tracekit.sim.tasks.gym`, their ids in `tracekit.sim.tasks.ids`. ``import tracekit`` registers them too.
"""

from __future__ import annotations

from tracekit.sim.tasks.gym import ID, PickJobEnv, PickJobVectorEnv

__all__ = ["ID", "PickJobEnv", "PickJobVectorEnv"]
