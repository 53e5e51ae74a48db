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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.registry import imported
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies import formulas
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches, backfill_for, estimate_of, parse_cut
from tracekit.sim.tasks.base import TaskDefaults
from tracekit.sim.tasks.pick_job import features
from tracekit.sim.tasks.pick_job.columns import JobView
from tracekit.sim.windows import Window
from tracekit.trace import Trace

#: conservative plans all jobs at once, which leaves nothing to pick one by one.
BACKFILLS = ("none", "easy", "easy-sjf", "rlscheduler")
MOST_SLOTS = 10_000
REWARDS = ("final", "relative", "dense")
#: Heuristics that can be imitated: formulas of one job. What ``imitate:best`` chooses from, window by window.
TEACHERS = tuple(name for name, code in formulas.CODES.items() if code != formulas.MULTIFACTOR)
GOOD_TEACHERS = ("fcfs", "sjf", "smallest", "saf", "srf", "wfp3", "unicep", "f1", "f2", "f3", "f4")
#: Rules of visibility that draw from two orders in turn; any policy with static priorities is one too.
ALTERNATING = {"sjf-smallest": ("sjf", "smallest")}


@dataclass(frozen=True)
class PickJob(TaskDefaults):
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and results."""

    name: ClassVar[str] = "pick-job"
    server: ClassVar[str] = "tracekit.service.decide:Decider"

    slots: int = 128  # jobs that can be shown
    observer: str = "default"  # what is shown of each: a name of `features.OBSERVERS`, or features with commas
    visible: str = (
        "fcfs"  # which jobs are shown when more wait: a policy with static priorities, or sjf-smallest (RLScheduler)
    )
    backfill: str = "easy"  # none, easy, easy-sjf or rlscheduler; in compatibility mode easy means rlscheduler
    commit: bool = False  # a pick blocks until it starts; else re-plan at every event
    skip: bool = False  # one more action, the last: do nothing until the next event
    ask_forced: bool = False  # ask also where there is only one choice
    objective: str = "bsld"  # a name of `objectives.OBJECTIVES`, or several with weights: bsld:0.7,wait:0.3
    reward: str = "final"  # final: −cost at the end; relative: to `base`; dense: −cost of each job when it starts
    base: str = "sjf"  # policy that relative rewards are measured against, and that warms the machine up
    warm: int = 0  # jobs before the window that the machine is warmed up with; 0 = it begins empty
    switches: Switches = field(default_factory=Switches)  # of the simulation
    constants: Mapping[str, float] = field(default_factory=dict)  # that features are divided by; else from the trace

    def __post_init__(self) -> None:
        resolved = self.switches.resolved()
        object.__setattr__(self, "commit", self.commit or resolved.commit)
        object.__setattr__(self, "switches", dataclasses.replace(self.switches, commit=self.commit))
        object.__setattr__(self, "backfill", backfill_for(self.backfill, self.switches))
        if self.backfill not in BACKFILLS:
            raise UsageError(f"PickJob does not support backfilling '{self.backfill}'; use {', '.join(BACKFILLS)}")
        if self.switches.dynamic:
            raise UsageError("PickJob does not support dependencies, outages or predictions; leave these switches out")
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
        features.features_of(self.observer)
        if not self.objectives.additive and self.reward == "dense":
            raise UsageError(
                f"objective '{self.objective}' is known only at the end; reward 'dense' needs a mean over jobs"
            )
        find(self.base)
        for name in self.orders:
            if name not in formulas.CODES or formulas.CODES[name] >= formulas.FIRST_DYNAMIC:
                known = [*formulas.NAMES[: formulas.FIRST_DYNAMIC], *ALTERNATING]
                raise UnknownName("rule of visibility", self.visible, known)
        for name in self.constants:
            if name not in features.CONSTANTS:
                raise UnknownName("constant", name, features.CONSTANTS)
            if not self.constants[name] > 0:
                raise UsageError(f"constant {name}: must be above 0, not {self.constants[name]}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of each slot, in order."""
        return features.features_of(self.observer)

    @property
    def orders(self) -> tuple[str, ...]:
        """The one or two orders that visible jobs are taken from."""
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

    def adapted(self, setup: Setup) -> PickJob:
        """Return the task with the switches of a simulation."""
        switches = setup.switches
        return dataclasses.replace(
            self, backfill=setup.backfill, commit=switches.commit, switches=switches, reward="final", warm=0
        )

    def teacher(self, batch: Any, windows: Sequence[Window], name: str) -> NDArray[np.int64]:
        """Return the formula that decides on each window, (windows,): the named one, or the best of all there."""
        if name == "best":
            costs = batch.source.policy_costs(windows, GOOD_TEACHERS)
            return np.array([formulas.CODES[GOOD_TEACHERS[best]] for best in costs.argmin(1)], dtype=np.int64)
        if name not in TEACHERS:
            raise UnknownName("heuristic to imitate", name, [*TEACHERS, "best"])
        return np.full(len(windows), formulas.CODES[name], dtype=np.int64)

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
