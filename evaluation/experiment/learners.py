"""What learns to schedule from a trace, behind one seam: train on a trace into a folder, then play held-out windows.

`pick-heuristic` needs nothing but the simulator: it learns which of the heuristics is best on the training trace. It is
cheap, and answers the first question that synthetic jobs must answer: would one choose the same scheduler? `ppo` trains
the agents of `tracekit train`; `predict-run-time` learns to predict run times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from evaluation.experiment.heldout import Heldout, Row, schedulable
from tracekit.errors import TracekitError, UnknownName
from tracekit.registry import Registry
from tracekit.trace import Trace

#: A learner may leave a file of this name in the agent's folder: a short note about it.
NOTE = "note.txt"


class Learner(Protocol):
    """A way to learn scheduling. ``config`` is the same for all traces; the same seed gives the same agent."""

    name: ClassVar[str]
    metric: ClassVar[str]  # what its agents are judged by, unless the plan says

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse a wrong configuration before any work is done."""
        ...

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Learn from a trace and write the agent into a folder; ``untrained``: one that has learnt nothing."""
        ...

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Schedule every held-out window with the agent of a folder."""
        ...

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return the learning curve as (steps, name, value); empty where there is none."""
        ...

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess of how long one training takes on one core."""
        ...


class PickHeuristic:
    """Learns which heuristic has the lowest mean log bounded slowdown on windows drawn from the training trace."""

    name: ClassVar[str] = "pick-heuristic"
    metric: ClassVar[str] = "mean_bsld"
    defaults: ClassVar[dict[str, Any]] = {
        "policies": ["fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "f2", "f4", "smallest"],
        "windows": 24,
        "jobs": 128,
        "allocate": None,
    }

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings and policies."""
        from tracekit.sim.policies.builtin import find

        for key in config:
            if key not in self.defaults:
                raise UnknownName(f"setting of {self.name}", key, self.defaults)
        for policy in (self.defaults | dict(config))["policies"]:
            find(policy)

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Try every heuristic on the same windows."""
        chosen = self.defaults | dict(config)
        if untrained:
            best, means = "fcfs", {}
        else:
            jobs = schedulable(trace, chosen["allocate"])
            length = min(chosen["jobs"], len(jobs))
            if length < 2:
                raise TracekitError(f"only {len(jobs)} jobs can be scheduled: too few to learn from")
            places = np.random.default_rng(seed).integers(0, len(jobs) - length + 1, chosen["windows"])
            windows = Heldout(jobs, [int(p) for p in places], length, ["real"], backfill, chosen["allocate"])
            means = {
                policy: float(np.mean([np.log(row["mean_bsld"]) for row in windows.play(policy)]))
                for policy in chosen["policies"]
            }
            best = min(means, key=lambda policy: means[policy])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.json").write_text(json.dumps({"policy": best, "mean_log_bsld": means}, indent=1) + "\n")

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Schedule with the heuristic that was chosen."""
        return heldout.play(str(json.loads((folder / "agent.json").read_text())["policy"]))

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return nothing: there are no steps."""
        return []

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        chosen = self.defaults | dict(config)
        return 0.3 + 2e-6 * len(chosen["policies"]) * int(chosen["windows"]) * int(chosen["jobs"])


#: Learners by name; nothing is imported before it is asked for.
LEARNERS: Registry[type[Learner]] = Registry(
    "learner",
    {
        "ppo": "evaluation.experiment.ppo:PPO",
        "pick-heuristic": "evaluation.experiment.learners:PickHeuristic",
        "predict-run-time": "evaluation.experiment.run_times:PredictRunTime",
    },
    group="tracekit.learners",
)
