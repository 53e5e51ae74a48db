"""The task PickJob, and many windows of it played at once.

An agent is shown up to 128 waiting jobs and picks one. By default the machine decides anew at every event with EASY
backfilling: a picked job that fits starts, and the agent is asked again at the same instant; one that does not fit
gets the reservation, and the agent is asked which of the jobs that are not in its way shall fill the gap, until none
is left. With ``commit`` a pick blocks until it starts, as in RLScheduler (Zhang et al., SC 2020). An agent that picks
what a heuristic would pick makes the schedule that `tracekit.simulate` makes with the heuristic, start by start.

>>> import numpy as np, tracekit
>>> trace = tracekit.sample()
>>> task = PickJob(objective="bsld", backfill="easy")
>>> batch = Batch(trace, task, lanes=4)
>>> batch.reset(range(4), [(0, 64), (100, 64), (200, 64), (300, 64)])   # (first job, number of jobs) of each window
>>> batch.features.shape, batch.mask.shape                              # (lanes, slots, features), (lanes, slots)
((4, 128, 16), (4, 128))
>>> request = task.feature_names.index("request")
>>> done = batch.done
>>> while not done.all():                                               # shortest job first, as an agent
...     shown = np.where(batch.mask, batch.features[:, :, request], np.inf)
...     reward, done = batch.step(shown.argmin(axis=1))                 # finished lanes are left as they are
>>> bool(np.allclose(batch.score, batch.cutter.policy_costs(batch.windows, ["sjf"])[:, 0]))
True
>>> float(reward[done][0]) <= 0                                         # minus the cost, when a window ends
True
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim import formulas, observe
from tracekit.sim.books import no_books
from tracekit.sim.compile import tell_if_cold
from tracekit.sim.cutting import Cutter
from tracekit.sim.jobs import FRACTIONS
from tracekit.sim.lanes import ASKED, MAY_SKIP
from tracekit.sim.objectives import Objective, objective
from tracekit.sim.policies import find
from tracekit.sim.rows import allocate, rules_of, write
from tracekit.sim.stepping import begin_lanes, step_lanes
from tracekit.sim.switches import Switches, backfill_for, estimate_of, parse_cut
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: conservative plans all jobs at once, which leaves nothing to pick one by one.
BACKFILLS = ("none", "easy", "easy-sjf", "rlscheduler")
REWARDS = ("final", "relative", "dense")
#: Rules of visibility that draw from two orders in turn; any policy whose order is settled at submit is one as well.
ALTERNATING = {"sjf-smallest": ("sjf", "smallest")}


@dataclass(frozen=True)
class PickJob:
    """The task, in plain values: `to_dict` and `from_dict` carry it into saved agents and results."""

    slots: int = 128  # jobs that can be shown
    observer: str = "default"  # what is shown of each: a name of `observe.OBSERVERS`, or features with commas
    visible: str = "fcfs"  # who is shown when more wait: a policy settled at submit, or sjf-smallest (RLScheduler)
    backfill: str = "easy"  # none, easy, easy-sjf or rlscheduler; in compatibility mode easy means rlscheduler
    commit: bool = False  # a pick blocks until it starts; else decide anew at every event
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
            raise UsageError(f"PickJob knows no backfilling '{self.backfill}'; take {', '.join(BACKFILLS)}")
        if self.switches.changing:
            raise UsageError("PickJob knows no dependencies, outages or predictions; leave these switches out")
        if any(parse_cut(cut) != (0.0, 0.0) for cut in (self.switches.warmup, self.switches.cooldown)):
            raise UsageError("PickJob scores every job of a window: no warmup, no cooldown ('warm' fills the machine)")
        if estimate_of(self.switches.estimates)[0] == "last-two":
            raise UsageError("PickJob knows no estimates 'last-two'; take requested, actual, factor:F or noisy:SIGMA")
        if self.slots < 1:
            raise UsageError(f"an agent must be shown at least one job, not {self.slots}")
        if self.warm < 0:
            raise UsageError(f"the jobs of a warm start cannot be {self.warm}")
        if self.reward not in REWARDS:
            raise UnknownName("reward", self.reward, REWARDS)
        observe.features_of(self.observer)
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
            if name not in observe.CONSTANTS:
                raise UnknownName("constant", name, observe.CONSTANTS)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of each slot, in order."""
        return observe.features_of(self.observer)

    @property
    def objectives(self) -> Objective:
        """What is to be made small."""
        return objective(self.objective)

    @property
    def orders(self) -> tuple[str, ...]:
        """The one or two orders that visible jobs are drawn from."""
        return ALTERNATING.get(self.visible, (self.visible,))

    @property
    def actions(self) -> int:
        """How many actions there are: the slots, and skip if there is one."""
        return self.slots + int(self.skip)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PickJob:
        """Read what `to_dict` returned; unknown names are errors."""
        known = {f.name for f in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise UnknownName("setting of PickJob", name, known)
        switches = values.get("switches", {})
        made = switches if isinstance(switches, Switches) else Switches(**switches)
        return cls(**{**values, "switches": made})

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


class Batch:
    """Independent windows of one trace, one per lane, stepped in one compiled call on every core.

    The arrays below are allocated once and written in place; copy what is to outlive the next call. The valid slots
    of a lane are always the first ``count[lane]``, the others are zeros. While a gap is filled under a reservation,
    only those that may fill it are shown. Every window asks at least once. What a lane does depends on its window
    and its actions alone, never on the number of lanes or threads.
    """

    features: NDArray[np.float32]  # (lanes, slots, features)
    count: NDArray[np.int64]  # (lanes,) valid slots
    mask: NDArray[np.bool_]  # (lanes, actions)
    done: NDArray[np.bool_]  # (lanes,) the window is over (or the lane has never had one)
    score: Floats  # (lanes,) cost of the finished window by the task's objective, smaller is better; NaN before
    base_score: Floats  # (lanes,) cost of the base policy on it; NaN unless the reward is relative, see `baseline`

    def __init__(
        self, trace: Trace | Cutter, task: PickJob | None = None, *, lanes: int, threads: int | None = None
    ) -> None:
        if lanes < 1:
            raise UsageError(f"a batch needs at least one lane, not {lanes}")
        self.cutter = trace if isinstance(trace, Cutter) else Cutter(trace, task or PickJob())
        self.task = self.cutter.task  # with the constants of the trace, if it had none
        self.lanes = lanes
        self.threads = max(threads or os.cpu_count() or 1, 1)
        self.windows: list[Window] = [(0, 0)] * lanes
        self.decisions = np.zeros(lanes, np.int64)  # (lanes,) steps made in the window so far
        self._pool: ThreadPoolExecutor | None = None
        self.rules = rules_of(self.task)
        self.books = no_books()
        self.score, self.base_score = np.full(lanes, np.nan), np.full(lanes, np.nan)
        self.world = allocate(self.task, lanes, jobs=1, units=self.cutter.table.total * FRACTIONS)
        self.features, self.count, self.mask, self.done = (
            self.world.features,
            self.world.count,
            self.world.mask,
            self.world.done,
        )

    # ---- playing -----------------------------------------------------------------------------------------------------

    def reset(self, lanes: Iterable[int], windows: Iterable[Window]) -> None:
        """Begin windows, (first job, number of jobs), in some lanes and run each to its first choice."""
        tell_if_cold("begin_lanes")
        chosen = np.array(list(lanes), dtype=np.int64)
        cuts = [self.cutter.cut(window) for window in windows]
        if len(cuts) != len(chosen):
            raise UsageError(f"{len(chosen)} lanes cannot begin {len(cuts)} windows")
        most = max((len(cut.ready.table) for cut in cuts), default=0)
        if most > self.world.submit.shape[1]:
            units = self.cutter.table.total * FRACTIONS
            self.world = allocate(self.task, self.lanes, jobs=most, units=units, before=self.world)
        for lane, cut in zip(chosen, cuts, strict=True):
            write(self.world, int(lane), cut)
            self.windows[lane] = cut.window
        self.score[chosen], self.base_score[chosen], self.decisions[chosen] = np.nan, np.nan, 0
        begin_lanes(self.world, self.rules, self.books, chosen)

    def step(self, actions: NDArray[np.int64] | Sequence[int]) -> tuple[Floats, NDArray[np.bool_]]:
        """Make one choice in every lane that is not done; return rewards (0 where done before), and who is done now."""
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        if actions.shape != (self.lanes,):
            raise UsageError(f"{self.lanes} lanes need as many actions, not an array of shape {actions.shape}")
        active = ~self.done
        skips = (actions == self.task.slots) & (self.world.state[:, MAY_SKIP] == 1)
        wrong = active & ~skips & ((actions < 0) | (actions >= self.count))
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise UsageError(f"lane {lane}: action {actions[lane]} is not on offer, only {self.count[lane]} jobs are")
        self._in_parts(actions)
        self.decisions += active
        reward = np.zeros(self.lanes)
        ended = np.flatnonzero(active & self.done)
        for lane in map(int, ended):
            self.score[lane] = self.cutter.cost(self.windows[lane], self.starts(lane))
        if self.task.reward == "dense":
            reward[active] = -self.world.accrued[active, 0]
        elif self.task.reward == "final":
            reward[ended] = -self.score[ended]
        else:
            for lane in map(int, ended):
                self.base_score[lane] = self.cutter.policy_cost(self.windows[lane], self.task.base)
            reward[ended] = relative(self.score[ended], self.base_score[ended])
        return reward, self.done.copy()

    def _in_parts(self, actions: NDArray[np.int64]) -> None:
        """Step all lanes, in as many threads as pay: a thread wants some thirty decisions to be worth its start."""
        parts = min(self.threads, self.lanes // 32)
        if parts <= 1:
            step_lanes(self.world, self.rules, self.books, actions, 0, self.lanes)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        edges = [self.lanes * i // parts for i in range(parts + 1)]
        others = [
            self._pool.submit(step_lanes, self.world, self.rules, self.books, actions, edges[i], edges[i + 1])
            for i in range(1, parts)
        ]
        step_lanes(self.world, self.rules, self.books, actions, 0, edges[1])
        for other in others:
            other.result()

    # ---- looking -----------------------------------------------------------------------------------------------------

    def starts(self, lane: int) -> Floats:
        """Return the starts of a lane's jobs, (jobs,) in the order of ``cutter.cut(window).ready``; NaN = waits."""
        return self.world.start[lane, : self.world.length[lane]].copy()

    def shown(self, lane: int) -> NDArray[np.int64]:
        """Return the jobs in a lane's valid slots, as numbers in ``cutter.cut(window).ready``, (count,)."""
        return self.world.visible[lane, : self.count[lane]].copy()

    def baseline(self, lanes: Sequence[int] | None = None, policy: str | None = None) -> Floats:
        """Return what a heuristic (the task's base) costs on the windows of some lanes (all)."""
        chosen = range(self.lanes) if lanes is None else lanes
        return self.cutter.policy_costs([self.windows[lane] for lane in chosen], [policy or self.task.base])[:, 0]

    def questions(self, lane: int) -> int:
        """Return how many choices a lane has been asked for in its window, the present one included."""
        return int(self.world.state[lane, ASKED])


def relative(cost: Floats, base: Floats) -> Floats:
    """Return (base − cost) / max(|base|, |cost|): 0 as good as the base policy, towards 1 better, towards −1 worse."""
    scale = np.maximum(np.abs(base), np.abs(cost))
    return np.divide(base - cost, scale, out=np.zeros_like(cost), where=scale > 0)
