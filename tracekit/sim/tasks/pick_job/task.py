"""The settings of the task pick-job: which waiting job comes next.

An agent is shown up to 128 waiting jobs and picks one. By default the machine re-plans at every event with EASY
backfilling: a picked job that fits starts, and the agent is asked again at the same instant; one that does not fit
gets the reservation, and the agent is asked which of the jobs that do not delay it is backfilled, until none
is left. With ``commit`` a pick blocks until it starts, as in RLScheduler (Zhang et al., SC 2020). An agent that picks
what a heuristic would pick makes the schedule that `tracekit.simulate` makes with the heuristic, start by start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_of, describe_groups
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.registry import imported
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies import formulas
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches, backfill_for, estimate_of, parse_cut
from tracekit.sim.tasks.base import TaskDefaults
from tracekit.sim.tasks.pick_job import features
from tracekit.sim.tasks.pick_job.columns import JobView
from tracekit.sim.tasks.played import Played
from tracekit.sim.tasks.rewards import Baseline, final_rewards, rewards
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: conservative plans all jobs at once, which leaves nothing to pick one by one.
BACKFILLS = ("none", "easy", "easy-sjf", "rlscheduler", "rltune")
MOST_SLOTS = 10_000
REWARDS = ("final", "relative", "dense")
#: Heuristics that can be imitated: formulas of one job. What ``imitate:best`` chooses from, window by window.
TEACHERS = tuple(name for name, code in formulas.CODES.items() if code != formulas.MULTIFACTOR)
GOOD_TEACHERS = ("fcfs", "sjf", "smallest", "saf", "srf", "wfp3", "unicep", "f1", "f2", "f3", "f4")
#: The policy that goes by predicted run times; it can be imitated where the task has a predictor.
INDEX = "predicted-index"
#: Observers that mean another one on a cluster of hosts.
ON_HOSTS = {"default": "hosts", "fair": "hosts-fair", "graph": "hosts-graph"}


def is_static(name: str) -> bool:
    """Whether a policy is a formula whose value for a job never changes."""
    return name in formulas.CODES and formulas.CODES[name] < formulas.FIRST_DYNAMIC


#: Rules of visibility that draw from two orders in turn, or show the first job of every class (jobs with the same
#: demand); any policy with static priorities is one too.
ALTERNATING: dict[str, tuple[str, ...]] = {"sjf-smallest": ("sjf", "smallest"), "classes": ()}


def plain_cluster(cluster: Machine) -> dict[str, Any]:
    """Return a cluster as plain values without what is unknown; `Machine.from_dict` reads them."""
    found = {key: value for key, value in cluster.to_dict().items() if value not in (None, "", (), {})}
    return found | {"groups": describe_groups(cluster.groups)}


def named_of(allocate: Any) -> str:
    """Return the name of an allocator."""
    return allocate if isinstance(allocate, str) else str(allocate.name)


@dataclass(frozen=True)
class PickJob(TaskDefaults):
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and results."""

    name: ClassVar[str] = "pick-job"
    server: ClassVar[str] = "tracekit.service.decide:Decider"
    levers: ClassVar[tuple[str, ...]] = ("--frequency", "--power-cap")

    slots: int = 128  # jobs that can be shown
    observer: str = "default"  # what is shown of each: a name of `features.OBSERVERS`, or features with commas
    visible: str = (
        "fcfs"  # which jobs are shown when more wait: a policy with static priorities, or sjf-smallest (RLScheduler);
        # classes: the first waiting job of every class, that is of jobs with the same demand, as LSF's buckets
    )
    backfill: str = "easy"  # none, easy, easy-sjf or rlscheduler; in compatibility mode easy means rlscheduler
    commit: bool = False  # a pick blocks until it starts; else re-plan at every event
    skip: bool = False  # one more action, the last: do nothing until the next event
    ask_forced: bool = False  # ask also where there is only one choice
    objective: str = "bsld"  # a name of `objectives.OBJECTIVES`, or several with weights: bsld:0.7,wait:0.3
    reward: str = "final"  # final: −cost at the end; relative: to `base`; dense: −cost of each job when it starts
    base: str = "sjf"  # policy that relative rewards are measured against, and that warms the machine up
    predict: str | None = None  # folder of a predictor of run times for the features predicted-…; auto: train makes one
    warm: int = 0  # jobs before the window that the machine is warmed up with; 0 = it begins empty
    cluster: Any = None  # hosts: a preset, a TOML file, a machine or its plain values; None = a counter of processors
    allocate: Any = None  # with a cluster: which hosts a job gets; None = as in the switches, that is first-fit
    switches: Switches = field(default_factory=Switches)  # of the simulation
    constants: Mapping[str, float] = field(default_factory=dict)  # that features are divided by; else from the trace

    def __post_init__(self) -> None:
        resolved = self.switches.resolved()
        object.__setattr__(self, "commit", self.commit or resolved.commit)
        self._set_hosts()
        object.__setattr__(self, "switches", dataclasses.replace(self.switches, commit=self.commit))
        object.__setattr__(self, "backfill", backfill_for(self.backfill, self.switches))
        if self.backfill not in BACKFILLS:
            raise UsageError(f"PickJob does not support backfilling '{self.backfill}'; use {', '.join(BACKFILLS)}")
        if self.switches.dynamic:
            raise UsageError("PickJob does not support dependencies, outages or predictions; leave these switches out")
        if self.cluster is not None and self.switches.power_cap is not None:
            raise UsageError("PickJob supports --power-cap on a counter of processors only; use --task pick-policy")
        if any(parse_cut(cut) != (0.0, 0.0) for cut in (self.switches.warmup, self.switches.cooldown)):
            raise UsageError("PickJob does not support warmup and cooldown; 'warm' fills the machine before a window")
        if estimate_of(self.switches.estimates)[0] == "last-two":
            raise UsageError(
                "PickJob does not support estimates 'last-two'; use requested, actual, factor:F or noisy:SIGMA"
            )
        if not 1 <= self.slots <= MOST_SLOTS:
            raise UsageError(f"an agent can be shown 1 to {MOST_SLOTS:,} jobs, not {self.slots}")
        if self.warm < 0:
            raise UsageError(f"warm (jobs of the warm start) must be 0 or more, not {self.warm}")
        if self.reward not in REWARDS:
            raise UnknownName("reward", self.reward, REWARDS)
        self._check_observer()
        self._check_predictor()
        if not self.objectives.additive and self.reward == "dense":
            raise UsageError(
                f"objective '{self.objective}' is known only at the end; reward 'dense' needs a mean over jobs"
            )
        find(self.base)
        if self.sees_gpus:
            self._need_gpus("observer rltune" if self.sees_rltune else "objective gpu-utilization")
        for name in () if self.sorted else self.orders:
            if not is_static(name):
                known = [*formulas.NAMES[: formulas.FIRST_DYNAMIC], *ALTERNATING]
                raise UnknownName("rule of visibility", self.visible, known)
        for name in self.constants:
            if name not in features.CONSTANTS:
                raise UnknownName("constant", name, features.CONSTANTS)
            if not self.constants[name] > 0:
                raise UsageError(f"constant {name}: must be above 0, not {self.constants[name]}")

    def _set_hosts(self) -> None:
        """Make the cluster a machine, here and in the switches; what is given here comes first."""
        given = self.switches.cluster if self.cluster is None else self.cluster
        if given is None:
            if self.allocate not in (None, "first-fit"):
                raise UsageError(f"allocate '{self.allocate}' chooses among hosts: give a cluster, too")
            return
        cluster = cluster_of(Machine.from_dict(given, origin="cluster") if isinstance(given, Mapping) else given)
        allocate = self.switches.allocate if self.allocate is None else self.allocate
        object.__setattr__(self, "cluster", cluster)
        object.__setattr__(self, "allocate", allocate)
        object.__setattr__(self, "switches", dataclasses.replace(self.switches, cluster=cluster, allocate=allocate))
        name, colon, edges = self.observer.partition(":")
        if name in ON_HOSTS:
            own = "rltune" if self.switches.compat == "rltune" else ON_HOSTS[name]
            object.__setattr__(self, "observer", own + colon + edges)
        if self.warm:
            raise UsageError("PickJob does not support a warm start (warm) on a cluster of hosts")

    def _need_gpus(self, what: str) -> None:
        if self.cluster is None:
            raise UsageError(f"{what} needs a cluster of hosts with GPUs; add --cluster")
        if not self.cluster.gpus:
            raise UsageError(f"{what} needs GPUs, and the cluster {self.cluster.name} has none; choose another")

    def _check_observer(self) -> None:
        names = features.features_of(self.observer)
        refused = features.OF_HOSTS if self.cluster is None else features.OF_COUNTERS
        wrong = [name for name in names if name in refused and name not in features.RLTUNE]
        if wrong and self.cluster is None:
            raise UsageError(
                f"feature {wrong[0]} needs a cluster of hosts; add --cluster, or choose another --observer"
            )
        if wrong:
            raise UsageError(f"feature {wrong[0]} is not known on a cluster of hosts; use --observer hosts")
        if "base-place" in names and not is_static(self.base):
            raise UsageError(f"feature base-place needs a base policy with static priorities, not {self.base}")

    def _check_predictor(self) -> None:
        needs = [name for name in self.feature_names if name in features.PREDICTED]
        if self.predict is None:
            if needs:
                raise UsageError(f"feature {needs[0]} goes by predicted run times: add --predict auto or agent:DIR")
            return
        if self.cluster is not None or self.warm:
            what = "on a cluster of hosts" if self.cluster is not None else "with a warm start (warm)"
            raise UsageError(f"PickJob does not support predicted run times (--predict) {what}")
        object.__setattr__(self, "predict", self.predict.removeprefix("agent:"))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of each slot, in order."""
        return features.features_of(self.observer)

    @property
    def sees_rltune(self) -> bool:
        """Whether some feature is one of RLTune's."""
        return any(name in features.RLTUNE for name in self.feature_names)

    @property
    def sees_gpus(self) -> bool:
        """Whether features or the objective need GPUs."""
        return self.sees_rltune or any(name == "gpu-utilization" for name, _ in self.objectives.terms)

    @property
    def sorted(self) -> bool:
        """Whether slots are in the order of the base policy, as RLTune has them."""
        return self.switches.compat == "rltune"

    @property
    def orders(self) -> tuple[str, ...]:
        """The one or two orders that visible jobs are taken from; none for classes."""
        if self.sorted:
            return (self.base,)
        return ALTERNATING.get(self.visible, (self.visible,))

    @property
    def actions(self) -> int:
        """How many actions there are: the slots, and skip if there is one."""
        return self.slots + int(self.skip)

    def view(self, trace: Trace, table: Table, whole: Prepared | None) -> JobView:
        """Return what an agent sees of the jobs of a trace."""
        return JobView(self, trace, table, whole)

    def batch(self, source: Any, *, lanes: int, threads: int | None = None) -> Any:
        """Return the compiled environment: many episodes side by side."""
        return imported("tracekit.sim.tasks.pick_job.batch:Batch")(source, lanes=lanes, threads=threads)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the cluster is written once, whole, so that they do not depend on any file."""
        named = {"cluster": None, "allocate": "first-fit"}
        plain = dataclasses.replace(self.switches, **named, compat=None)  # type: ignore[arg-type]
        bare = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        switches = dataclasses.asdict(plain) | {"compat": self.switches.compat}
        bare |= {"switches": switches, "constants": dict(self.constants)}
        if self.predict is None:
            bare.pop("predict")
        if self.cluster is None:
            return {"name": self.name, **{key: value for key, value in bare.items() if key not in named}}
        return {"name": self.name, **bare, "cluster": plain_cluster(self.cluster), "allocate": named_of(self.allocate)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned; unknown names are errors."""
        given, switches = values.get("cluster"), values.get("switches", {})
        if isinstance(given, Mapping) and isinstance(switches, Mapping):
            hosts = {"cluster": Machine.from_dict(given, origin="cluster"), "allocate": values.get("allocate")}
            values = {**values, **hosts, "switches": {**switches, **hosts}}
        return super().from_dict(values)

    def adapted(self, setup: Setup) -> PickJob:
        """Return the task with the switches of a simulation; `UsageError` for another kind of machine."""
        switches = setup.switches
        if self.cluster is not None and setup.switches.cluster is None:
            name = self.cluster.name or "of hosts"
            raise UsageError(f"this agent was trained on the cluster {name}: add --cluster")
        if self.cluster is None and setup.switches.cluster is not None:
            raise UsageError("this agent was trained on a counter of processors; on --cluster use one trained there")
        return dataclasses.replace(
            self,
            backfill=setup.backfill,
            commit=switches.commit,
            cluster=switches.cluster,
            allocate=switches.allocate,
            switches=switches,
            reward="final",
            warm=0,
        )

    @property
    def least_scale(self) -> float:
        """The least that relative rewards are divided by: RLTune's 1 on a cluster, else 0."""
        return 0.0 if self.cluster is None else 1.0

    def rewards(
        self, played: Played, windows: Sequence[Window], baseline: Baseline, *, dense: bool
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Return rewards against a base policy; relative ones at the end of a window, if these were asked for."""
        if self.reward == "relative":
            return final_rewards(played, windows, baseline, self.least_scale)
        return rewards(played, windows, baseline, dense=dense)

    def schedule(self, source: Any, window: Window, policy: Any) -> Floats | None:
        """Return the starts by predicted-index, with this task's predictor; None: policies of the simulator."""
        if policy != INDEX or self.predict is None:
            return None
        batch = self.batch(source, lanes=1, threads=1)
        played = imported("tracekit.sim.agents.rollout:play")(
            batch, [window], None, teacher=self.teacher(batch, [window], INDEX), keep=False
        )
        starts: Floats = played.starts[0]
        return starts

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> Any:
        """Return what decides on each window, (windows,): a formula, the best of all there, or a policy in Python.

        Formulas are codes that compiled code plays; other policies are functions of batch and lane.
        """
        if name == "best":
            costs = batch.source.policy_costs(windows, GOOD_TEACHERS)
            return np.array([formulas.CODES[GOOD_TEACHERS[best]] for best in costs.argmin(1)], dtype=np.int64)
        if name == INDEX and self.predict is not None:
            return np.full(len(windows), formulas.PREDICTED, dtype=np.int64)
        if name in TEACHERS:
            return np.full(len(windows), formulas.CODES[name], dtype=np.int64)
        choices = imported("tracekit.sim.tasks.pick_job.teachers:teachers_of")(batch, windows, name)
        if choices is None:
            raise UnknownName("heuristic to imitate", name, [*TEACHERS, "best", "search", "best-forecast"])
        return choices

    @classmethod
    def rlscheduler(cls, **changes: Any) -> PickJob:
        """Return RLScheduler's own task: committed picks, its features, its visible jobs; ``backfill`` none or easy."""
        chosen: dict[str, Any] = {
            "observer": "rlscheduler",
            "visible": "sjf-smallest",
            "backfill": "none",
            "switches": Switches(compat="rlscheduler"),
        }
        return cls(**(chosen | changes))

    @classmethod
    def rltune(cls, cluster: Any = "rltune-helios", **changes: Any) -> PickJob:
        """Return RLTune's own task on a cluster: its semantics, features, order of the slots and relative reward."""
        allocate = changes.pop("allocate", "lexicographic")
        switches = Switches(compat="rltune", cluster=cluster_of(cluster), allocate=allocate)
        chosen: dict[str, Any] = {"backfill": "none", "base": "fcfs", "reward": "relative", "switches": switches}
        return cls(**(chosen | changes))
