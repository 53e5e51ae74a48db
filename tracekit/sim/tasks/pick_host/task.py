"""The settings of the task pick-host: which host a job gets.

In every scheduling cycle each waiting job, in the queue's order, gets one decision: a host that has room for it. Jobs
that fit nowhere are deferred to the next cycle and counted. Cycles are made at every event, or every ``cycle`` seconds.
Jobs of several tasks, and jobs that spread over hosts, are placed by first fit, without a question. An
agent that decides as an allocator would makes the schedule that the allocator makes.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.registry import imported
from tracekit.sim.hosts.allocators import COMPILED
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies import formulas
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches, estimate_of
from tracekit.sim.tasks.base import Question, TaskDefaults, View
from tracekit.sim.tasks.pick_host import features
from tracekit.sim.tasks.pick_host.asked import question_of
from tracekit.sim.tasks.pick_job.task import plain_cluster
from tracekit.sim.tasks.played import Played
from tracekit.sim.tasks.rewards import Baseline
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Allocators that every agent is compared with.
BASELINES = (
    *("first-fit", "best-fit", "worst-fit", "least-loaded", "round-robin", "random", "dot-product", "lsf-order"),
)
#: Other names of the same.
ALIASES = {"first-available": "first-fit"}
BACKFILLS = ("greedy", "none")
ACTIONS = {"host": "choice", "priorities": "priorities"}
#: The most hosts that an agent can be shown; more would need gigabytes for a batch of windows.
MOST_HOSTS = 20_000
#: Terms of the reward, by name; see `tracekit.sim.tasks.pick_host.arrays`.
TERMS = ("wait", "defer", "step", "second", "utilization", "imbalance", "makespan", "objective")


@dataclass(frozen=True)
class PickHost(TaskDefaults):
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and results.

    An agent works on any cluster; the task keeps the one that it was trained on.
    """

    name: ClassVar[str] = "pick-host"
    server: ClassVar[str] = "tracekit.service.host_decide:HostDecider"
    warm: ClassVar[int] = 0
    needs_hosts: ClassVar[bool] = True
    network: ClassVar[str] = "hosts"
    heuristics: ClassVar[tuple[str, ...]] = BASELINES

    observer: str = "default"  # what is shown of each host: a name of `features.OBSERVERS`, or features with commas
    actions: str = "host"  # host: one of the rows; priorities: one number per row, the highest host with room gets it
    order: str = "fcfs"  # the queue's order: a policy with static priorities
    cycle: float = 0.0  # seconds between scheduling cycles; 0 = at every event
    backfill: str = "greedy"  # greedy: jobs that fit nowhere are passed over; none: they block the jobs behind them
    horizon: float = 0.0  # seconds after the first submit at which an episode ends; 0 = when all jobs have started
    shown: str = "fitting"  # rows: fitting = hosts with room; all = every host, with a mask
    ask_forced: bool = False  # ask also where only one host has room
    objective: str = "wait"  # a name of `objectives.OBJECTIVES`, or several with weights
    reward: str = "objective"  # terms with weights, such as utilization:1,step:0.01; see `TERMS`
    base: str = "best-fit"  # allocator that rewards are measured against
    cluster: Any = None  # hosts: a preset, a TOML file, a machine or its plain values
    switches: Switches = field(default_factory=Switches)
    constants: Mapping[str, float] = field(default_factory=dict)  # that features are divided by; else from the trace

    def __post_init__(self) -> None:
        given = self.switches.cluster if self.cluster is None else self.cluster
        if given is not None:
            cluster = cluster_of(Machine.from_dict(given, origin="cluster") if isinstance(given, Mapping) else given)
            object.__setattr__(self, "cluster", cluster)
            object.__setattr__(self, "switches", dataclasses.replace(self.switches, cluster=cluster))
            _check_hosts(cluster)
        features.features_of(self.observer)
        allocator_code(self.base)
        for kind, value, known in (
            ("backfilling of task pick-host", self.backfill, BACKFILLS),
            ("action", self.actions, tuple(ACTIONS)),
            ("rule for rows", self.shown, ("fitting", "all")),
        ):
            if value not in known:
                raise UnknownName(kind, value, known)
        if self.order not in formulas.CODES or formulas.CODES[self.order] >= formulas.FIRST_DYNAMIC:
            raise UnknownName("static order of the queue", self.order, formulas.NAMES[: formulas.FIRST_DYNAMIC])
        for name in ("cycle", "horizon"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise UsageError(f"{name} must be 0 or more seconds, not {getattr(self, name)}")
        if self.switches.dynamic or self.switches.compat or estimate_of(self.switches.estimates)[0] == "last-two":
            raise UsageError("pick-host does not support dependencies, outages, predictions and compat")
        for name, scale in self.constants.items():
            if name not in features.CONSTANTS:
                raise UnknownName("constant", name, features.CONSTANTS)
            if not (scale > 0 and math.isfinite(scale)):
                raise UsageError(f"constant {name}: must be above 0, not {scale}")
        reward_weights(self.reward)
        self.objectives  # noqa: B018  # fails now if the name is unknown

    @property
    def actions_are(self) -> str:  # type: ignore[override]
        """What an action is: a row, or priorities of the rows."""
        return ACTIONS[self.actions]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of each row, in order."""
        return features.features_of(self.observer)

    @property
    def slots(self) -> int:
        """The most rows that one question has: the hosts."""
        return 1 if self.cluster is None else sum(group.count for group in self.cluster.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the name first; the cluster is written once, whole."""
        bare = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        bare |= {"switches": dataclasses.asdict(dataclasses.replace(self.switches, cluster=None))}
        bare |= {"constants": dict(self.constants)}
        return {"name": self.name, **bare, "cluster": None if self.cluster is None else plain_cluster(self.cluster)}

    def adapted(self, setup: Setup) -> Self:
        """Refuse: an agent that chooses hosts is an allocator, not a policy."""
        raise UsageError("an agent of task pick-host chooses hosts: use it as --allocate agent:DIR, not as --policy")

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> View:
        """Return what an agent sees of the jobs of a trace on a cluster."""
        return HostView(self, table)

    def batch(self, source: Any, *, lanes: int, threads: int | None = None) -> Any:
        """Return the compiled environment: many episodes side by side."""
        if self.shown == "all":
            raise UsageError("agents are shown the hosts that have room; shown = all is for environments")
        return imported("tracekit.sim.tasks.pick_host.batch:Batch")(source, lanes=lanes, threads=threads)

    def rewards(
        self, played: Played, windows: Sequence[Window], baseline: Baseline, *, dense: bool
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Return rewards: relative to the base allocator for ``objective``, else those of the named terms."""
        found, context = super().rewards(played, windows, baseline, dense=dense)
        if self.reward != "objective" and len(played.earned) == len(played):
            found = played.earned.copy()
            found[played.last] -= reward_weights(self.reward)[TERMS.index("objective")] * played.score
        return found, context

    def check_heuristic(self, name: str) -> None:
        """Raise an error with a suggestion if there is no such allocator."""
        allocator_code(name)

    def question(self, request: Any) -> Question:
        """Return the rows of hosts that a scheduler outside asks about (`tracekit.service.host_choice`)."""
        return question_of(request, self.feature_names, self.constants)

    def schedule(self, source: Any, window: Window, policy: Any) -> Floats:
        """Return the starts that an allocator gives the window's jobs."""
        return players(source)().play(window, policy).starts  # type: ignore[no-any-return]

    def measures(self, batch: Any, windows: Sequence[Window], names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the metrics of `measures.METRICS`, means over windows: the agent's, and each allocator's."""
        player = players(batch.source)()
        rows = {"": [batch.outcomes[window] for window in windows]}
        rows |= {name: [player.play(window, name).metrics for window in windows] for name in names}
        return {
            name: {key: float(np.mean([row[key] for row in found])) for key in found[0]} for name, found in rows.items()
        }

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> list[NDArray[np.int64]]:
        """Return the host of each job of each window, (jobs,), by the named allocator or the best of all there."""
        names = [name] * len(windows)
        if name == "best":
            steady = [known for known in BASELINES if known not in ("random", "round-robin")]
            names = [steady[best] for best in batch.source.policy_costs(windows, steady).argmin(1)]
        player = players(batch.source)()
        return [player.play(window, chosen).hosts for window, chosen in zip(windows, names, strict=True)]


def players(source: Any) -> Any:
    """Return a function that returns what plays windows of a source by allocators; every thread has its own."""
    own = source.__dict__.setdefault("_allocators", threading.local())

    def found() -> Any:
        if not hasattr(own, "player"):
            own.player = imported("tracekit.sim.tasks.pick_host.measures:AllocatorPlayer")(source)
        return own.player

    return found


def allocator_code(name: str) -> int:
    """Return the code of a baseline; an unknown name is an error with a suggestion."""
    found = ALIASES.get(name, name)
    if found not in COMPILED:
        raise UnknownName("allocator", name, [*BASELINES, "best"])
    return COMPILED[found].code


def reward_weights(text: str) -> Floats:
    """Read the terms of a reward: ``objective``, or names with weights, ``utilization:1,step:0.01``.

    >>> reward_weights("wait:2,defer").tolist()
    [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    found = np.zeros(len(TERMS))
    for part in text.split(","):
        name, colon, number = part.strip().partition(":")
        if name not in TERMS:
            raise UnknownName("term of the reward", name, TERMS)
        try:
            weight = float(number) if colon else 1.0
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise UsageError(f"reward '{text}': '{number}' is not a valid weight; write utilization:1,step:0.01")
        found[TERMS.index(name)] += weight
    return found


def _check_hosts(cluster: Machine) -> None:
    """Refuse clusters that an agent cannot work on."""
    hosts = sum(group.count for group in cluster.groups)
    if hosts > MOST_HOSTS:
        raise UsageError(f"task pick-host supports up to {MOST_HOSTS:,} hosts, and the cluster has {hosts:,}")
    for group in cluster.groups:
        if group.cores == 0:
            raise UsageError(f"group {group.name} of the cluster has hosts with 0 cores; leave it out")


class HostView:
    """What a `PickHost` task shows of the jobs of one trace: the queue's order, and scales."""

    def __init__(self, task: PickHost, table: Table) -> None:
        if table.demand is None:
            raise UsageError("task pick-host needs hosts: add --cluster NAME or FILE.toml (switches.cluster)")
        constants = features.constants_of(table) | dict(task.constants)
        constants |= features.largest_host(table.demand)  # of this cluster, whatever the agent was trained on
        self.task = dataclasses.replace(task, constants=constants)

    def columns(self, ready: Prepared, rows: slice | None) -> Floats | None:
        """Return the value of each job in the queue's order, smallest first; None: by submit."""
        values = formulas.values_for(self.task.order, ready, self.task.switches.resolved())[1]
        return values
