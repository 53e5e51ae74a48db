"""How good an agent is: on windows, compared with heuristics, a random order, and the best heuristic of each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.intervals import compare, interval
from tracekit.sim.agents.against import against, mean
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.jobs import Table
from tracekit.sim.policies.formulas import NAMES
from tracekit.sim.tasks.base import Task, find_task, task_from_dict
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.objectives import measures
from tracekit.sim.windows import Window, tile
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Heuristics that every agent is compared with, beside ``random`` and ``best per window``.
HEURISTICS: tuple[str, ...] = NAMES
BEST_PER_WINDOW = "best per window"
#: Beside the heuristics, for agents that know predicted run times.
INDEX = "predicted-index"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Costs on the same windows, (windows,) each; smaller is better."""

    agent: str
    objective: str
    windows: tuple[Window, ...]
    score: Floats  # the agent's; with samples, their mean
    samples: Floats  # (draws, windows); one row when greedy
    baselines: Mapping[str, Floats]
    switches: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by policy, means over windows
    notes: tuple[str, ...] = ()  # caveats to read before the numbers
    weights: Mapping[str, float] = field(default_factory=dict)  # of the parts of the objective
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by policy, means over windows, unweighted
    chosen: str = ""  # the heuristic that was best on the agent's training windows

    @property
    def mean(self) -> float:
        """The agent's mean cost."""
        return float(self.score.mean())

    @property
    def best_heuristic(self) -> str:
        """The single heuristic of the smallest mean."""
        names = [name for name in self.baselines if name not in (BEST_PER_WINDOW, INDEX)]
        return min(names, key=lambda name: float(self.baselines[name].mean()))

    @property
    def against_chosen(self) -> dict[str, dict[str, Any]]:
        """Costs above those of the heuristic chosen on training windows, as shares: the agent, and what is beside it.

        Beside it are predicted-index, the best heuristic of these windows, and the best of each window, both in
        hindsight. Empty where the choice is not known.
        """
        if self.chosen not in self.baselines:
            return {}
        names = (INDEX, self.best_heuristic, BEST_PER_WINDOW)
        order = np.argsort([start for start, _ in self.windows], kind="stable")
        rows = {self.agent: self.score} | {name: self.baselines[name] for name in names if name in self.baselines}
        base = self.baselines[self.chosen][order]
        return {name: against(costs[order], base) for name, costs in rows.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return what ``tracekit evaluate --json`` prints, but for the names of the files."""
        low, high = interval(self.score)
        return {
            "objective": self.objective,
            "mean": self.mean,
            "low": low,
            "high": high,
            "samples": len(self.samples),
            "windows": [
                {
                    "start": start,
                    "jobs": jobs,
                    "score": float(self.score[i]),
                    **({"samples": self.samples[:, i].tolist()} if len(self.samples) > 1 else {}),
                    "baselines": {name: float(values[i]) for name, values in self.baselines.items()},
                }
                for i, (start, jobs) in enumerate(self.windows)
            ],
            "baselines": {name: compare(self.score, values) for name, values in self.baselines.items()},
            "best_heuristic": self.best_heuristic,
            "best_on_training": self.chosen or None,
            "against_chosen": self.against_chosen,
            "weights": dict(self.weights),
            "parts": {name: dict(values) for name, values in self.parts.items()},
            "measures": {name: dict(values) for name, values in self.measures.items()},
            "switches": dict(self.switches),
            "notes": list(self.notes),
        }


def evaluate(
    agent: Agent,
    trace: Trace | EpisodeSource,
    windows: Sequence[Window],
    *,
    task: Task | None = None,
    sample: int = 0,
    seed: int = 0,
    policies: Sequence[str] | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Schedule the same windows with an agent and with the baselines.

    The agent takes its best choice, or is sampled ``sample`` times. ``task`` in place of the one that it was
    trained for must show it the same features.
    """
    source = trace if isinstance(trace, EpisodeSource) else EpisodeSource(trace, task or agent_task(agent))
    batch = source.task.batch(source, lanes=min(len(windows), 64), threads=threads)
    actor = agent.actor()
    names = heuristics_of(source.task) if policies is None else policies
    if policies is None and getattr(source.task, "predict", None):
        names = (*names, INDEX)
    if sample:
        keys = np.random.default_rng([seed, 20]).integers(0, 2**64, (sample, len(windows)), dtype=np.uint64)
        played = [play(batch, windows, actor, keys=key, keep=False) for key in keys]
    else:
        played = [play(batch, windows, actor, keep=False)]
    samples = np.stack([one.score for one in played])
    baselines = heuristics(source, windows, policies=names, threads=threads)
    shown, parts = _measures(agent.name, source, windows, played, [*dict.fromkeys(names)], batch)
    return Evaluation(
        agent=agent.name,
        objective=source.task.objective,
        windows=tuple(windows),
        score=samples.mean(0),
        samples=samples,
        baselines=baselines,
        switches=source.task.to_dict(),
        measures=shown,
        notes=(*training_notes(agent, source.table, windows), *other_cluster(agent, source.task)),
        weights=dict(source.task.objectives.terms),
        parts=parts,
        chosen=best_on_training(agent),
    )


def _measures(
    name: str,
    source: EpisodeSource,
    windows: Sequence[Window],
    played: Sequence[Any],
    policies: Sequence[str],
    batch: Any,
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return what results show beside the objective, and its parts, by agent and policy, as means over windows."""
    schedules = {name: [one.starts for one in played]}
    schedules |= {policy: [[source.schedule(window, policy) for window in windows]] for policy in policies}
    found, parts = {}, {}
    for policy, draws in schedules.items():
        finished = [source.finished(w, start) for draw in draws for w, start in zip(windows, draw, strict=True)]
        found[policy] = _means([measures(schedule) for schedule in finished])
        parts[policy] = _means([source.task.objectives.parts(schedule) for schedule in finished])
    for policy, more in source.task.measures(batch, windows, policies).items():
        found[policy or name] |= more
    return found, parts


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def heuristics(
    trace: Trace | EpisodeSource,
    windows: Sequence[Window],
    *,
    task: Task | None = None,
    policies: Sequence[str] | None = None,
    threads: int | None = None,
) -> dict[str, Floats]:
    """Return the costs of heuristics, of a random order and of the best heuristic of each window, (windows,) each."""
    source = trace if isinstance(trace, EpisodeSource) else EpisodeSource(trace, task or find_task("pick-job")())
    given = heuristics_of(source.task) if policies is None else policies
    names = [*dict.fromkeys(name for name in given if name != "random"), "random"]
    costs = source.policy_costs(windows, names, threads=threads)
    found = {name: costs[:, i] for i, name in enumerate(names)}
    plain = [i for i, name in enumerate(names) if name not in ("random", INDEX)] or [0]
    return found | {BEST_PER_WINDOW: costs[:, plain].min(1)}


def heuristics_of(task: Task) -> tuple[str, ...]:
    """Return the heuristics that agents of a task are compared with."""
    return tuple(task.heuristics) or HEURISTICS


def best_of(source: EpisodeSource, windows: Sequence[Window], by: str = "mean") -> str:
    """Return the heuristic with the smallest mean cost on some windows, ``by`` the arithmetic or the geometric mean."""
    known = heuristics_of(source.task)
    return known[int(np.argmin([mean(column, by) for column in source.policy_costs(windows, known).T]))]


def best_on_training(agent: Agent) -> str:
    """Return the heuristic that was best on an agent's training windows; empty where it is not known.

    Agents of earlier versions have it only as their base policy, where that was neither given nor imitated.
    """
    metrics = agent.facts.get("metrics", {})
    given = agent.facts.get("config", {}).get("base") or str(agent.facts.get("init") or "").startswith("imitate:")
    return str(metrics.get("best_on_training", "" if given else metrics.get("base_policy", "")))


def agent_task(agent: Agent) -> Any:
    """Return the task that an agent was trained for."""
    return task_from_dict(agent.task)


def other_cluster(agent: Agent, task: Any) -> tuple[str, ...]:
    """Return a note where the cluster is not the one that an agent was trained on."""
    trained, ours = getattr(agent_task(agent), "cluster", None), getattr(task, "cluster", None)
    if trained is None or ours is None or trained.groups == ours.groups:
        return ()
    was, is_ = (f"{machine.name or 'unnamed'} ({machine.nodes} hosts)" for machine in (trained, ours))
    return (f"the agent was trained on another cluster: {was}, here {is_}",)


def training_notes(agent: Agent, jobs: Table, windows: Sequence[Window] | None) -> tuple[str, ...]:
    """Return notes on windows (none: the whole table) that overlap the agent's training jobs.

    ``jobs`` are read as in its training, with the switches of its task.
    """
    if agent.facts.get("trace", {}).get("jobs_sha256") != fingerprint(jobs):
        return ()
    split = agent.facts.get("split", {})
    if split.get("overlap"):
        return ("the agent was trained on this whole trace, so its scores here are optimistic",)
    seen = [*split.get("train", []), *split.get("validation", [])]
    if windows is None:
        return (
            ("the agent was trained on part of this trace, so its scores on the whole are optimistic",) if seen else ()
        )
    known = [w for w in windows if any(w[0] < last and first < w[0] + w[1] for first, last in seen)]
    if not known:
        return ()
    return (f"{len(known)} of {len(windows)} windows overlap the part of this trace that the agent was trained on",)


def chosen_windows(
    agent: Agent, source: EpisodeSource, given: Sequence[Window], count: int | None, jobs: int | None, seed: int
) -> tuple[list[Window], str]:
    """Return the windows to evaluate an agent on, with a note: those given, random ones, or its own test part."""
    if given:
        return list(given), ""
    length = jobs or int(agent.facts.get("config", {}).get("jobs", 256))
    whole, test = [(0, len(source))], [tuple(span) for span in agent.facts.get("split", {}).get("test", [])]
    same = agent.facts.get("trace", {}).get("jobs_sha256") == fingerprint(source.table)
    if same and test:
        if count is not None:
            return windows_from(source, test, count, length, [seed, 30]), "windows of the agent's test part"
        found = [window for span in test for window in tile(span, length, warm=source.task.warm)]
        if found:
            return found, "all windows of the agent's test part"
        return windows_from(source, test, 1, length, [seed, 30]), "the agent's test part is one short window"
    return windows_from(source, whole, count or 20, length, [seed, 30]), ""
