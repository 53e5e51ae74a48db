"""A replay beside the simulation of the same jobs: start by start, waits, utilisation, order.

The simulation gets what Slurm got: submit times as they came about, limits in whole minutes, run times as measured
(with the launch and the end of a job). Its switches follow the scheduler settings of the Slurm (`MATCHING`), and with
backfilling it runs on the same nodes: Slurm reserves certain nodes for a job, and not just a number of processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.simulate import SimResult, simulate
from tracekit.sim.switches import BACKFILLS, SLURM_GROUP_ENDS, SLURM_REACTION
from tracekit.slurm.conf import PROFILES
from tracekit.slurm.order import AsPriorities, orders_of
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: The backfilling of the simulator that is nearest to each scheduler setting of `tracekit.slurm.conf.PROFILES`.
MATCHING = {"none": "none", "easy": "easy", "conservative": "conservative", "default": "conservative"}
#: Reaction delay of the fast scheduler settings, in seconds, fitted on replays without backfilling (docs/slurm.md).
USUAL_REACTION_S = SLURM_REACTION
#: Reaction delays that `fit` tries, in seconds.
REACTIONS = tuple(round(0.05 * step, 2) for step in range(61))
#: Intervals between passes that `fit_interval` tries, in seconds: a loop that sleeps for a second takes a bit longer.
INTERVALS = tuple(round(0.99 + 0.0025 * step, 4) for step in range(17))


@dataclass(frozen=True, eq=False)
class Agreement:
    """A replay and its simulation; times in seconds of Slurm's clock, (jobs,) each by submit time."""

    real: Trace
    simulated: SimResult
    reaction: float

    @property
    def start(self) -> Floats:
        """When Slurm started each job."""
        return self.real.column("submit_time") + self.real.column("wait_time")

    @property
    def error(self) -> Floats:
        """Simulated start less Slurm's."""
        return self.simulated.start - self.start

    @property
    def order_agreement(self) -> float:
        """Kendall's τ of the starts: 1 = the same order."""
        from scipy.stats import kendalltau

        if len(self.real) < 2:
            return 1.0
        return float(kendalltau(self.start, self.simulated.start).statistic)

    def utilization(self, start: Floats) -> float:
        """Return the share of the machine's time that jobs used, from the first submit to the last end."""
        run, procs, submit = (self.real.column(name) for name in ("run_time", "req_procs", "submit_time"))
        span = float((start + run).max() - submit.min())
        total = self.real.machine.procs or self.simulated.total
        return float((run * procs).sum() / (span * total)) if span > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return what `tracekit slurm compare --json` prints."""
        off = np.abs(self.error)
        waits = self.real.column("wait_time"), self.simulated.wait
        quantiles = {f"p{q}": float(np.percentile(off, q)) for q in (50, 90)}
        return {
            "jobs": len(self.real),
            "start_error_s": quantiles | {"max": float(off.max()), "mean": float(off.mean())},
            "mean_wait_slurm_s": float(waits[0].mean()),
            "mean_wait_simulated_s": float(waits[1].mean()),
            "p95_wait_slurm_s": float(np.percentile(waits[0], 95)),
            "p95_wait_simulated_s": float(np.percentile(waits[1], 95)),
            "utilization_slurm": self.utilization(self.start),
            "utilization_simulated": self.utilization(self.simulated.start),
            "order_agreement": self.order_agreement,
            "policy": self.simulated.policy,
            "backfill": self.simulated.backfill,
            "reaction_s": self.reaction,
            "interval_s": self.simulated.switches["interval"],
            "group_ends_s": self.simulated.switches["group_ends"],
            "on_nodes": self.simulated.switches["cluster"] is not None,
        }


def compare(
    real: Trace,
    *,
    policy: str = "fcfs",
    backfill: str = "easy",
    reaction: float = 0.0,
    group_ends: float | None = None,
    interval: float = 0.0,
    nodes: bool = True,
) -> Agreement:
    """Simulate the jobs of a replay; ``nodes``: on the Slurm's nodes, where they are known.

    There ends are looked at in groups as Slurm does (``group_ends`` None); on counts each by itself.
    With an ``interval`` between passes they are counted from the first start of the replay, and there is no reaction.
    An agent's order of the queue counts as priorities, as `tracekit slurm drive` sets them.
    """
    if backfill not in BACKFILLS:
        raise UnknownName("backfilling", backfill, BACKFILLS)
    if interval:
        reaction = float(real.column("wait_time")[0])
    by = AsPriorities(orders_of(policy)) if policy.startswith("agent:") else policy
    placed = bool(nodes and real.machine.nodes and real.machine.procs and backfill != "none")
    groups = (SLURM_GROUP_ENDS if placed else 0.0) if group_ends is None else group_ends
    switches: dict[str, Any] = {"reaction": reaction, "interval": interval, "group_ends": groups}
    if placed and real.machine.nodes and real.machine.procs:
        each = real.machine.procs // real.machine.nodes
        group = HostGroup(count=real.machine.nodes, cores=each, name="n")
        switches["cluster"] = Machine(name="slurm", groups=(group,))
        jobs = real.assign({"tasks": real.column("req_procs")})
        made = simulate(jobs, by, backfill, **switches)
    else:
        made = simulate(real, by, backfill, procs=real.machine.procs, **switches)
    if len(made) != len(real):
        raise UsageError(f"{len(real) - len(made)} jobs of the replay cannot be simulated: {dict(made.rejected)}")
    order = np.argsort(made.position, kind="stable")  # as in the trace
    if not np.array_equal(order, np.arange(len(order))):
        raise UsageError("the jobs of the replay are not sorted by submit time")
    return Agreement(real, made, reaction)


def matching(profile: str) -> str:
    """Return the backfilling that matches a scheduler setting."""
    if profile not in PROFILES:
        raise UnknownName("scheduler", profile, PROFILES)
    return MATCHING[profile]


def fit_interval(*replays: Trace) -> float:
    """Return the seconds between passes whose simulations, without backfilling, are nearest to replays."""

    def error(interval: float) -> float:
        found = [compare(real, backfill="none", interval=interval) for real in replays]
        return float(np.mean([np.abs(one.error).mean() for one in found]))

    return min(INTERVALS, key=error)


def fit_reaction(*replays: Trace, policy: str = "fcfs", backfill: str = "none") -> float:
    """Return the reaction delay whose simulations are nearest to replays by the mean error of starts.

    Fit on some replays and use it for others: on its own replay it is too good.
    """

    def error(reaction: float) -> float:
        found = [compare(real, policy=policy, backfill=backfill, reaction=reaction) for real in replays]
        return float(np.mean([np.abs(one.error).mean() for one in found]))

    return min(REACTIONS, key=error)
