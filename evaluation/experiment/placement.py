"""Agents that choose hosts as a learner of experiments: what jobs ask of hosts matters, and that large ones wait.

An agent of task pick-host is trained on the hosts of the plan's cluster. Held-out windows are scheduled there, first
come first served with the plan's backfilling, and the agent places the jobs: it is the allocator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from evaluation.experiment.heldout import Heldout, Row
from evaluation.experiment.ppo import PPO
from tracekit.errors import UsageError
from tracekit.machine import Machine

#: Decisions that one core learns from in a second, for estimates.
_PER_SECOND = 4_500.0


class PickHost(PPO):
    """Settings are those of learner `ppo`; ``task`` has fields of `tracekit.sim.tasks.pick_host.task.PickHost`."""

    name: ClassVar[str] = "pick-host"
    task: ClassVar[str] = "pick-host"
    use: ClassVar[str] = "placing jobs on hosts"
    metric: ClassVar[str] = "mean_bsld"
    margin: ClassVar[float] = 0.1
    control: ClassVar[str] = "one-size"
    #: Without a start: one that packs well already, such as imitate:best, hides what the jobs have taught.
    defaults: ClassVar[dict[str, Any]] = {
        "network": "hosts",
        "steps": 60_000,
        "windows": 8,
        "jobs": 100,
        "validation_windows": 24,
    }

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings, a plan without hosts, and a machine without torch."""
        if config.get("allocate") is None:
            raise UsageError("learner pick-host needs hosts: add [windows] cluster (--cluster NAME or FILE.toml)")
        super().check(config)

    def _fields(self, backfill: str, machine: Machine | None, allocate: str | None) -> dict[str, Any]:
        fields = {"name": self.task, "objective": "bsld", "backfill": "none" if backfill == "none" else "greedy"}
        return fields if machine is None else fields | {"cluster": machine.replace(epoch=None)}

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Schedule first come first served, and let the agent place the jobs."""
        return dataclasses.replace(heldout, allocate=f"agent:{folder}").play("fcfs")

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        return 5.0 + self._settings(config)[0].steps / _PER_SECOND
