"""What a trace is used for, behind one seam: learn from a trace into a folder, then be judged on held-out windows.

`pick-heuristic` needs nothing but the simulator: it learns which of the heuristics is best on the training trace. It is
cheap, and answers the first question that synthetic jobs must answer: would one choose the same scheduler?
`forecast-waits` learns how long jobs will wait; `predict-run-time` learns to predict run times; `ppo` trains the agents
of `tracekit train`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
    """A use of a trace: something is learnt from it. ``config`` is the same for all traces; same seed, same agent."""

    name: ClassVar[str]
    task: ClassVar[str]  # what is learnt
    use: ClassVar[str]  # what one does with a trace, after "good enough for": "choosing a heuristic"
    metric: ClassVar[str]  # what its agents are judged by, unless the plan says
    margin: ClassVar[float]  # differences below this ratio do not matter, unless the plan says
    control: ClassVar[str]  # of `damage.DAMAGES`: what must be noticed, or the test cannot tell

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


def check_settings(learner: str, config: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse settings that a learner does not have."""
    for key in config:
        if key not in known:
            raise UnknownName(f"setting of {learner}", key, known)


def drawn_windows(trace: Trace, settings: Mapping[str, Any], backfill: str, seed: int) -> Heldout:
    """Return windows of a training trace, drawn by the seed: ``windows`` of ``jobs`` jobs, of the settings."""
    jobs = schedulable(trace, settings["allocate"])
    length = min(settings["jobs"], len(jobs))
    if length < 2:
        raise TracekitError(f"only {len(jobs)} jobs can be scheduled: too few to learn from")
    places = np.random.default_rng(seed).integers(0, len(jobs) - length + 1, settings["windows"])
    return Heldout(jobs, [int(place) for place in places], length, ["real"], backfill, settings["allocate"])


class PickHeuristic:
    """Learns which heuristic has the lowest mean log bounded slowdown on windows drawn from the training trace."""

    name: ClassVar[str] = "pick-heuristic"
    task: ClassVar[str] = "pick-heuristic"
    use: ClassVar[str] = "choosing a heuristic"
    metric: ClassVar[str] = "mean_bsld"
    margin: ClassVar[float] = 0.1
    control: ClassVar[str] = "wrong-limits"
    like_heldout: ClassVar[bool] = True  # choose on windows as long as the judged ones
    defaults: ClassVar[dict[str, Any]] = {
        "policies": ["fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "f2", "f4", "smallest"],
        "windows": 100,
        "jobs": 128,
        "allocate": None,
    }

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings and policies."""
        from tracekit.sim.policies.builtin import find

        check_settings(self.name, config, self.defaults)
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
            windows = drawn_windows(trace, chosen, backfill, seed)
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
        "forecast-waits": "evaluation.experiment.forecast:ForecastWaits",
        "predict-run-time": "evaluation.experiment.run_times:PredictRunTime",
        "order": "evaluation.experiment.orders:OrderQueues",
        "pick-host": "evaluation.experiment.placement:PickHost",
    },
    group="tracekit.learners",
)
