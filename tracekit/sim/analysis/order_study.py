"""What a network adds to a search for the best order: heuristics, network, and searches from both, on later windows.

All arms see the same run times, requested or actual, and get the same number of evaluations. Orders that a network
proposes are evaluated, and count. The heuristics that the best one is chosen from do not count: that favours them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.files import read_json, write_text
from tracekit.intervals import compare, interval
from tracekit.sim.agents.agent import FACTS, Agent
from tracekit.sim.agents.order.config import OrderConfig
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.orders.labels import Labelling, parts_of
from tracekit.sim.orders.problem import ILOS_HEURISTICS, Estimates, QueueProblem
from tracekit.sim.orders.solve import AGENT, Found, by_agent, find_solver, parse_decoding
from tracekit.sim.orders.task import Order, Queues
from tracekit.sim.windows import Span, Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Say = Callable[[str], None]

#: Requested run times first: those are what a scheduler has.
SEEN: tuple[Estimates, ...] = ("requested", "actual")
HEURISTIC, NETWORK = "heuristic", "network"


@dataclass(frozen=True)
class Plan:
    """A study, in plain values."""

    task: Order
    windows: int = 20
    jobs: int = 64
    evaluations: tuple[int, ...] = (50, 200, 1000, 2000, 10_000)
    solver: str = "hill-climb"
    decode: str = "sample:100"  # at most half of the evaluations
    repeats: int = 3  # seeds of each search; values are their means
    reference: int = 100_000  # evaluations of the search for best known orders, besides all others of the study
    share: float = 0.7  # as in training
    seed: int = 0

    def __post_init__(self) -> None:
        find_solver(self.solver)
        if self.windows < 2 or self.repeats < 1 or not self.evaluations:
            raise UsageError("a study needs at least 2 windows, 1 repeat and 1 number of evaluations")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        plain = dataclasses.asdict(self) | {"task": self.task.to_dict(), "evaluations": list(self.evaluations)}
        return cast("dict[str, Any]", json.loads(json.dumps(plain)))


@dataclass(frozen=True, eq=False)
class Arm:
    """One start and one number of evaluations, over windows."""

    start: str  # network, heuristic (the best of each window), or the name of one, as it is
    evaluations: int  # 0: the best heuristic as it is
    value: Floats  # (windows,) objective with the actual run times
    cost: Floats  # (windows,) … and with those that were seen


@dataclass(frozen=True, eq=False)
class Study:
    """What was found, by the run times that were seen."""

    plan: Plan
    windows: tuple[Window, ...]
    arms: Mapping[str, Sequence[Arm]]
    best: Mapping[str, Floats]  # (windows,) lowest cost known
    notes: tuple[str, ...] = field(default=())

    def arm(self, seen: str, start: str, evaluations: int) -> Arm:
        """Return one arm."""
        return next(arm for arm in self.arms[seen] if (arm.start, arm.evaluations) == (start, evaluations))

    def gap(self, seen: str, arm: Arm) -> Floats:
        """Return how far costs are above the lowest known, by the run times that were seen, as shares, (windows,)."""
        return arm.cost / self.best[seen] - 1

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each arm; differences are to the search from the heuristic with as many evaluations."""
        found = []
        for seen in self.arms:
            for arm in self.arms[seen]:
                gap = self.gap(seen, arm)
                row: dict[str, Any] = {"estimates": seen, "start": arm.start, "evaluations": arm.evaluations}
                for name, values in (("value", arm.value), ("gap", gap)):
                    low, high = interval(values)
                    row[name] = {"mean": float(values.mean()), "low": low, "high": high}
                same = [one for one in self.arms[seen] if (one.start, one.evaluations) == (HEURISTIC, arm.evaluations)]
                if arm.start == NETWORK and same:
                    row["gap_difference"] = compare(gap, self.gap(seen, same[0]))
                    row["value_difference"] = compare(arm.value, same[0].value)
                found.append(row)
        return found

    def goal(self, seen: str, fewer: int = 200, more: int = 1000) -> dict[str, Any] | None:
        """Compare the gaps of few evaluations from the network with many from the heuristic."""
        if not {fewer, more} <= set(self.plan.evaluations):
            return None
        few, many = self.arm(seen, NETWORK, fewer), self.arm(seen, HEURISTIC, more)
        gap = self.gap(seen, few)
        return {"network": fewer, "heuristic": more, "mean": float(gap.mean())} | {
            "difference": compare(gap, self.gap(seen, many))
        }

    def parts_of_gain(self) -> dict[str, Any] | None:
        """Split the gain of a search with actual run times: what requested ones give, and what knowing them adds."""
        if set(self.arms) != set(SEEN):
            return None
        most = max(self.plan.evaluations)
        first = self.arm("requested", HEURISTIC, 0).value
        searched, knowing = (self.arm(seen, HEURISTIC, most).value for seen in SEEN)
        whole = float((first - knowing).mean())
        found: dict[str, Any] = {"evaluations": most, "heuristic": float(first.mean()), "whole": whole}
        for name, gain in (("search", first - searched), ("knowing_run_times", searched - knowing)):
            low, high = interval(gain)
            share = float(gain.mean()) / whole if whole else None
            found[name] = {"mean": float(gain.mean()), "low": low, "high": high, "share": share}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "plan": self.plan.to_dict(),
            "windows": [list(window) for window in self.windows],
            "rows": self.rows(),
            "goal": {seen: self.goal(seen) for seen in self.arms},
            "parts_of_gain": self.parts_of_gain(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Sources:
    """Where agents come from, and what is told on the way."""

    folder: Path  # of the study: agents and finished parts are kept here
    given: Mapping[str, str] = field(default_factory=dict)  # agents by the run times that they see
    config: OrderConfig = field(default_factory=OrderConfig)
    source: dict[str, Any] = field(default_factory=dict)
    say: Say = lambda text: None
    report: Any = None
    progress: Any = None


def study(trace: Trace, plan: Plan, sources: Sources, seen: Sequence[Estimates] = SEEN) -> Study:
    """Compare starts on windows later than those that the networks learnt from; finished parts are used again."""
    arms: dict[str, list[Arm]] = {}
    best: dict[str, Floats] = {}
    notes: list[str] = []
    chosen: list[Window] = []
    for estimates in seen:
        queues = Queues.of(trace, dataclasses.replace(plan.task, estimates=estimates))
        agent = _agent(trace, queues, plan, sources)
        chosen = windows_of(queues, plan)
        if chosen[1][0] - chosen[0][0] < plan.jobs:
            notes.append(f"the test part is short: windows of {plan.jobs} jobs overlap")
        _check_apart(agent, queues, chosen)
        arms[estimates], best[estimates] = _kept(queues, plan, sources, agent, chosen)
    return Study(plan, tuple(chosen), arms, best, tuple(dict.fromkeys(notes)))


def windows_of(queues: Queues, plan: Plan) -> list[Window]:
    """Return windows spread evenly over the test part."""
    first, last = test_part(queues, plan)
    starts = np.linspace(first, last - plan.jobs, plan.windows).astype(int)
    return [(int(start), plan.jobs) for start in starts]


def test_part(queues: Queues, plan: Plan) -> Span:
    """Return the part of the trace after training and validation."""
    return parts_of(queues, Labelling(queues.task, jobs=plan.jobs, share=plan.share))["test"]


def _agent(trace: Trace, queues: Queues, plan: Plan, sources: Sources) -> Agent:
    """Return the agent for these run times: given, kept in the folder, or trained now."""
    from tracekit.sim.agents.order.teach import Course, train_order  # needs torch; figures of a study do not

    seen = queues.task.estimates
    if seen in sources.given:
        return Agent.load(sources.given[seen])
    folder = sources.folder / "agents" / seen
    if (folder / FACTS).is_file():
        found = Agent.load(folder)
        if found.facts.get("trace", {}).get("jobs_sha256") == fingerprint(queues.table):
            return found
        raise UsageError(f"{folder}: was trained on another trace; use another folder for this study")
    sources.say(f"training on {seen} run times")
    course = Course(folder, plan.seed, plan.share, None, sources.source, sources.report, sources.say, sources.progress)
    return train_order(trace, queues.task, sources.config.replace(jobs=plan.jobs), course, resume=True)


def _check_apart(agent: Agent, queues: Queues, windows: Sequence[Window]) -> None:
    """Refuse windows that an agent learnt from."""
    if agent.facts.get("trace", {}).get("jobs_sha256") != fingerprint(queues.table):
        return
    learnt = max(last for name in ("train", "validation") for _, last in agent.facts["split"][name])
    if windows[0][0] < learnt:
        raise UsageError(
            f"{agent.name} learnt from the first {learnt:,} jobs of this trace, and test windows begin at "
            f"{windows[0][0]:,}; use the --split of its training"
        )


def _kept(
    queues: Queues, plan: Plan, sources: Sources, agent: Agent, windows: Sequence[Window]
) -> tuple[list[Arm], Floats]:
    """Return the arms for one kind of run times; a finished part in the folder is used again."""
    path = sources.folder / "parts" / f"{queues.task.estimates}.json"
    identity = {"plan": plan.to_dict(), "jobs": fingerprint(queues.table), "windows": [list(w) for w in windows]}
    identity["agent"] = f"{float(np.abs(agent.flat).sum()):.9e}"
    if path.is_file():
        found = read_json(path)
        if found["identity"] == identity:
            arms = [Arm(a["start"], a["evaluations"], np.array(a["value"]), np.array(a["cost"])) for a in found["arms"]]
            return arms, np.array(found["best"])
    sources.say(f"{len(windows)} windows by {queues.task.estimates} run times")
    arms, best = _compare(queues, plan, agent, windows)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = [{**dataclasses.asdict(arm), "value": arm.value.tolist(), "cost": arm.cost.tolist()} for arm in arms]
    write_text(path, json.dumps({"identity": identity, "arms": plain, "best": best.tolist()}) + "\n", force=True)
    return arms, best


def _compare(queues: Queues, plan: Plan, agent: Agent, windows: Sequence[Window]) -> tuple[list[Arm], Floats]:
    """Run every start with every number of evaluations on every window."""
    seen = queues.task.estimates
    runs = [_window(queues.at(*window), seen, plan, agent, number) for number, window in enumerate(windows)]
    arms = [
        Arm(start, count, *(np.array([run[start, count][k] for run in runs]) for k in range(2)))
        for start, count in runs[0]
        if (start, count) != _BEST
    ]
    return arms, np.array([run[_BEST][1] for run in runs])


_BEST = ("best known", 0)


def decoding(plan: Plan, evaluations: int) -> str:
    """Return how the network gives its orders where so many evaluations are allowed; they take at most half of them."""
    kind, count = parse_decoding(plan.decode)
    few = min(count, evaluations // 2)
    return f"{kind}:{few}" if few > 1 else "greedy"


def _window(
    queue: QueueProblem, seen: Estimates, plan: Plan, agent: Agent, number: int
) -> dict[tuple[str, int], tuple[float, float]]:
    """Return value and cost of every arm on one window, means over seeds, and the lowest cost known."""
    case = queue.counted(seen)
    _, first = queue.best_heuristic(seen)
    none = np.empty(0, np.int64)
    plain, search = find_solver("none"), find_solver(plan.solver)
    found: dict[tuple[str, int], list[Found]] = {
        (name, 0): [plain(case, queue.heuristic(name, seen), 1, 0)] for name in ILOS_HEURISTICS
    }
    found[HEURISTIC, 0] = [plain(case, first, 1, 0)]
    for count in (1, *plan.evaluations):
        network = by_agent(f"{AGENT}{agent.folder}", decoding(plan, count))(case, none, count, plan.seed)
        if count == 1 or network.evaluations > 1:
            found[NETWORK, network.evaluations] = [network]
        if count == 1:
            continue
        keys = [int(k) for k in np.random.SeedSequence([plan.seed, number, count]).generate_state(plan.repeats)]
        left = count - network.evaluations + 1  # a search evaluates its first order again
        found[HEURISTIC, count] = [search(case, first, count, key) for key in keys]
        found[NETWORK, count] = [search(case, network.order, left, key) for key in keys]
    lowest = min(one.cost for several in found.values() for one in several)
    if plan.reference:
        lowest = min(lowest, find_solver("anneal")(case, first, plan.reference, plan.seed).cost)
    means = {
        arm: (float(np.mean([queue.value(one.order) for one in several])), float(np.mean([o.cost for o in several])))
        for arm, several in found.items()
    }
    return {**means, _BEST: (np.nan, lowest)}
