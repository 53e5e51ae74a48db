"""What does learning add to a base policy on a cluster, and what does the allocator? Four arms on the same windows.

Each base policy is simulated alone with a greedy allocator, with another allocator, with an agent that was trained
against it (with the greedy allocator), and with both. All arms see the same held-out windows, so they are compared in
pairs. The question is RLTune's (SoCC 2025): its agent picks the next job, its integer program places it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.intervals import compare
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.splits import split, windows_from
from tracekit.sim.agents.training import train
from tracekit.sim.simulate import SimResult, simulate
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Say = Callable[[str], None]

_SHARE = 0.7  # of the trace for training; half of the rest validates, the last part is the test
_TEST = 30  # stream of random numbers that draws the test windows
ARMS = ("base", "allocator", "agent", "both")
#: Of one window; smaller is better but for the last two.
MEASURES = ("wait", "jct", "bsld", "makespan", "fragmentation", "gpu_utilization", "utilization")


@dataclass(frozen=True)
class Plan:
    """What is compared. Windows are those of the last part of the trace, which no agent has seen."""

    cluster: str
    bases: tuple[str, ...] = ("fcfs", "sjf", "wfp3", "f1")
    greedy: str = "lexicographic"
    allocate: str = "milp"
    backfill: str = "easy"
    objective: str = "wait"
    windows: int = 30
    jobs: int = 256
    steps: int = 60_000
    init: str = "search"
    seed: int = 0
    switches: Mapping[str, Any] = field(default_factory=dict)  # of all simulations, such as estimates

    def __post_init__(self) -> None:
        if not self.bases:
            raise UsageError("--base needs at least one policy")
        if self.windows < 2:
            raise UsageError(f"--windows must be at least 2 for intervals, not {self.windows}")

    def task(self, base: str) -> PickJob:
        """Return the task of an agent on top of a base policy."""
        return PickJob(
            observer="hosts",
            backfill=self.backfill,
            objective=self.objective,
            base=base,
            reward="relative",
            cluster=self.cluster,
            allocate=self.greedy,
            switches=Switches(**self.switches),
        )


@dataclass(frozen=True, eq=False)
class Ablation:
    """Values of every arm, base policy and window."""

    plan: Plan
    windows: tuple[Window, ...]
    values: Mapping[str, Mapping[str, Mapping[str, Floats]]]  # base -> arm -> measure -> (windows,)
    pools: Mapping[str, Mapping[str, Mapping[str, float]]]  # base -> arm -> pool -> mean wait
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: means, and differences to the base policy in pairs with 95 % intervals."""
        rows = []
        for base, arms in self.values.items():
            for arm, measures in arms.items():
                row: dict[str, Any] = {"base": base, "arm": arm}
                for name, values in measures.items():
                    against = compare(values, self.values[base]["base"][name])
                    row[name] = {"mean": float(values.mean()), "values": values.tolist()}
                    if arm != "base":
                        row[name] |= {key: against[key] for key in ("paired_difference", "low", "high", "p")}
                row["pools"] = dict(self.pools[base][arm])
                rows.append(row)
        return {
            "plan": dataclasses.asdict(self.plan),
            "windows": [list(window) for window in self.windows],
            "rows": rows,
            "notes": list(self.notes),
        }


def ablation(trace: Trace, plan: Plan, folder: Path, *, say: Say | None = None) -> Ablation:
    """Simulate all arms; agents are trained into ``folder``, trainings that are there already are continued."""
    report = say or (lambda text: None)
    tasks = {base: plan.task(base) for base in plan.bases}  # refuses unknown policies before any work
    source = EpisodeSource(trace, tasks[plan.bases[0]])
    test = windows_from(source, split(source, _SHARE).test, plan.windows, plan.jobs, [plan.seed, _TEST])
    values: dict[str, dict[str, dict[str, Floats]]] = {}
    pools: dict[str, dict[str, dict[str, float]]] = {}
    notes: dict[str, None] = {}
    for base, task in tasks.items():
        values[base], pools[base] = {}, {}
        policy = base
        for arm in ARMS:
            if arm == "agent":
                policy = _agent(trace, plan, task, folder / base, report)
            report(f"{base}: {len(test)} windows, {arm}")
            allocate = plan.allocate if arm in ("allocator", "both") else plan.greedy
            results = [_run(trace, plan, window, policy, allocate) for window in test]
            values[base][arm] = _table(results)
            pools[base][arm] = _pools(results)
            for result in results:
                notes |= dict.fromkeys(_caveats(result))
    return Ablation(plan, tuple(test), values, pools, tuple(notes))


def _agent(trace: Trace, plan: Plan, task: PickJob, place: Path, say: Say) -> str:
    """Train an agent with the greedy allocator, or continue its training; return the policy."""
    say(f"{task.base}: training an agent" if not place.exists() else f"{task.base}: the agent in {place} is used")
    config = Config(steps=plan.steps, jobs=plan.jobs, base=task.base)
    init = f"imitate:{task.base}" if plan.init == "base" else plan.init
    train(trace, task, config, out=place, seed=plan.seed, init=init, share=_SHARE, resume=place.exists(), say=say)
    return f"agent:{place}"


def _run(trace: Trace, plan: Plan, window: Window, policy: str, allocate: str) -> SimResult:
    """Simulate one window of a trace."""
    start, jobs = window
    return simulate(
        trace.take(slice(start, start + jobs)),
        policy,
        backfill=plan.backfill,
        cluster=plan.cluster,
        allocate=allocate,
        **plan.switches,
    )


def _table(results: Sequence[SimResult]) -> dict[str, Floats]:
    """Return the measures of all windows; a measure that a window does not have is left out."""
    rows = [_measures(result) for result in results]
    return {name: np.array([row[name] for row in rows]) for name in MEASURES if all(name in row for row in rows)}


def _measures(result: SimResult) -> dict[str, float]:
    """Return the measures of one window."""
    if not len(result):
        raise TracekitError(f"no job of a window can run on the cluster: {dict(result.rejected)}")
    found = result.metrics
    values = {
        "wait": found["mean_wait_s"],
        "jct": float((result.wait + result.run).mean()),
        "bsld": found["mean_bsld"],
        "makespan": found["makespan_s"],
        "fragmentation": result.notes.get("fragmentation"),
        "gpu_utilization": result.notes.get("gpu_utilization"),
        "utilization": found["utilization"],
    }
    return {name: float(values[name]) for name in MEASURES if values[name] is not None}


def _pools(results: Sequence[SimResult]) -> dict[str, float]:
    """Return the mean wait in each pool (virtual cluster), over all jobs of all windows."""
    waits: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        for name, pool in (result.notes.get("pools") or {}).items():
            if pool["jobs"]:
                waits.setdefault(name, []).append((pool["jobs"], pool["mean_wait_s"]))
    return {
        name: float(np.average([wait for _, wait in rows], weights=[jobs for jobs, _ in rows]))
        for name, rows in waits.items()
    }


def _caveats(result: SimResult) -> list[str]:
    """Return what a reader should know of a window: knowledge of run times, fallbacks of the solver."""
    notes = []
    if result.notes.get("jobs_without_limit"):
        notes.append("jobs without a limit count with their actual run times, which no scheduler knows")
    if (result.notes.get("milp") or {}).get("fallbacks"):
        notes.append("the integer program ran out of time in some placements and fell back to the first way")
    return notes
