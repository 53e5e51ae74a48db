"""RLTune's integer program: which of at most four ways a job takes, with the next jobs of the queue in view.

The candidates are the first way of each tier by defragmentation and by load balance (`tracekit.sim.hosts.ways`). Of
these, the program takes the one with the smallest

    1.0 · partly used hosts + 0.3 · (most − fewest free GPUs of a host) − 0.5 · hosts with room for the next job

after the placement, over the hosts of the candidates' pool with a free GPU. With a horizon of K jobs the last term is
the mean over the next K jobs. In RLTune's own program the first term is inert (f = 0 is always allowed), and so it is
under ``--compat rltune``. Cores and memory count where the next job asks for them, and what the placed job takes of
them is deducted. Arya et al., "RLTune", SoCC 2025.

``milp`` solves the program with HiGHS; ``milp-exact`` is the minimum over the candidates, which is the same optimum.
Of equal candidates ``milp-exact`` takes the first one, HiGHS any.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.hosts.allocators import Snapshot
from tracekit.sim.hosts.ways import Assignment, Way, candidates_of, ways

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_log = logging.getLogger("tracekit")
#: How many warnings about the time limit are printed; all are counted.
_MOST_WARNINGS = 3


@dataclass(frozen=True, eq=False)
class Problem:
    """One choice: what is free after each way, on the hosts of its pool."""

    free: Floats  # (ways, hosts) GPUs
    size: Floats  # (hosts,) GPUs of each host
    room: Bools  # (next jobs, ways, hosts) whether a host has room for a next job
    weights: tuple[float, float, float]  # fragmentation, balance, fit

    @property
    def partly(self) -> Bools:
        """Which hosts are partly used after each way, (ways, hosts)."""
        return np.asarray((self.free > 0) & (self.free < self.size))

    def objective(self) -> Floats:
        """Return the value of each way, (ways,)."""
        fragmentation, balance, fit = self.weights
        spread = self.free.max(axis=1) - self.free.min(axis=1)
        fits = self.room.sum(axis=2).mean(axis=0) if len(self.room) else np.zeros(len(self.free))
        return np.asarray(fragmentation * self.partly.sum(axis=1) + balance * spread - fit * fits)


@dataclass(eq=False)
class Milp:
    """The allocator ``milp``. A subclass may add rows to the program (`constraints`)."""

    name: str = "milp"
    horizon: int = 1  # jobs of the queue that are looked at
    limit: float = 1.0  # seconds for one solution; beyond, the first way is taken
    weights: tuple[float, float, float] = (1.0, 0.3, 0.5)
    solver: str = "highs"  # or exact
    as_coded: bool = False  # RLTune's program: the fragmentation term is inert; ways of all pools of a job together
    combined: bool = False  # as coded for Philly: the hosts of all pools count
    tally: dict[str, int] = field(default_factory=lambda: {"solves": 0, "fallbacks": 0})
    tiered: ClassVar[bool] = True

    def check(self, gpus: int, wanted: bool) -> None:
        """Refuse a cluster or jobs without GPUs; called before a simulation."""
        if gpus == 0:
            raise UsageError(f"allocator {self.name} chooses by free GPUs, and the cluster has none; use best-fit")
        if not wanted:
            raise UsageError(
                f"allocator {self.name} chooses by free GPUs, and no job of the trace asks for any; use best-fit"
            )

    def choose(self, hosts: Snapshot, /) -> Any:
        """Return the placement: (host, GPUs) pairs for a job that spreads, else host numbers."""
        if self.as_coded and hosts.filling:
            return _greedy(hosts)
        found = candidate_ways(hosts, merged=self.as_coded)
        if not found:
            return _tasks(hosts)
        chosen = found[self._index(hosts, found)] if len(found) > 1 else found[0]
        return list(chosen) if hosts.spreads else [chosen[0][0]]

    def _index(self, hosts: Snapshot, found: Sequence[Assignment]) -> int:
        weights = (0.0, *self.weights[1:]) if self.as_coded else self.weights
        problem = problem_of(hosts, found, self.horizon, weights, combined=self.combined)
        if self.solver == "exact":
            return int(problem.objective().argmin())
        self.tally["solves"] += 1
        answer = solve(problem, self.limit, self.constraints(hosts, found))
        if answer.infeasible:
            raise TracekitError(
                f"allocator {self.name}: the integer program for job number {hosts.job} is infeasible; "
                "check what constraints() adds"
            )
        if answer.way < 0:
            self.tally["fallbacks"] += 1
            if self.tally["fallbacks"] <= _MOST_WARNINGS:
                _log.warning(
                    "allocator %s: no solution for job number %d within %g s, the first way is taken (%s)",
                    *(self.name, hosts.job, self.limit, answer.message),
                )
            return 0
        return answer.way

    def constraints(self, hosts: Snapshot, found: Sequence[Assignment]) -> list[tuple[Floats, float, float]]:
        """Return more rows of the program, (coefficients of the ways, least, most); none by default."""
        return []


def exact() -> Milp:
    """Return the allocator ``milp-exact``: the minimum over the candidates, without a solver."""
    return Milp(name="milp-exact", solver="exact")


def parsed(text: str) -> Milp:
    """Return the allocator of ``milp:NAME=VALUE+…`` or ``milp-exact:…``: horizon (jobs), limit (seconds)."""
    base, _, options = text.partition(":")
    made = exact() if base == "milp-exact" else Milp()
    made.name = text
    for part in options.split("+"):
        key, _, value = part.partition("=")
        try:
            number = {"horizon": int, "limit": float}[key](value)
        except KeyError:
            raise UsageError(f"allocator {text}: option {key!r} is not horizon or limit") from None
        except ValueError:
            raise UsageError(f"allocator {text}: {key} {value!r} is not a number") from None
        if number <= 0:
            raise UsageError(f"allocator {text}: {key} must be above 0")
        setattr(made, key, number)
    return made


# ---- candidates ------------------------------------------------------------------------------------------------------


def candidate_ways(hosts: Snapshot, *, merged: bool = False) -> list[Assignment]:
    """Return at most four placements as (host, GPUs) pairs; none for a job of several tasks.

    ``merged``: as RLTune's code does, the ways of all pools of a job together, in its order.
    """
    if hosts.pieces > 1 and not hosts.spreads:
        return []
    if round(hosts.job_gpus) != hosts.job_gpus or hosts.job_gpus < 1:
        return _shares(hosts)
    if merged:
        return _first_of_each(_ways_by_pool(hosts))
    return [way.assignment for way in candidates_of(hosts).values()]


def _ways_by_pool(hosts: Snapshot) -> list[tuple[Way, ...]]:
    """Return the ways of tier 1 and of tier 2 in all pools that a job may use."""
    tiers: list[tuple[Way, ...]] = [(), ()]
    idle = np.nansum(hosts.free_gpus >= 1, axis=1).astype(int)
    request = round(hosts.job_gpus)
    for pool in dict.fromkeys(hosts.pool.tolist()):
        size = int(hosts.gpus[hosts.pool == pool].max(initial=0))
        allowed = (hosts.pool == pool) & (hosts.fits > 0)
        if size == 0 or not allowed.any():
            continue
        free = [(int(h), int(idle[h])) for h in np.flatnonzero((hosts.pool == pool) & (idle > 0))]
        found = ways(free, request, size)
        tiers = [tiers[0] + found.tier1, tiers[1] + found.tier2]
    return tiers


def _first_of_each(tiers: Sequence[tuple[Way, ...]]) -> list[Assignment]:
    """Return the first way of each tier by defragmentation and by load balance, each once."""
    made: list[Assignment] = []
    for listed in tiers:
        for even_first in (False, True):
            if listed:
                first = min(listed, key=lambda way: _key(way, even_first=even_first)).assignment
                made += [first] if first not in made else []
    return made


def _key(way: Way, *, even_first: bool) -> tuple[Any, ...]:
    scores = (way.lb_delta, way.frag_delta, way.waste_delta)
    return (*(scores if even_first else (*scores[1:], scores[0])), len(way.assignment), way.hosts)


def _greedy(hosts: Snapshot) -> Any:
    """Return the lexicographically smallest way of tier 1."""
    first = min(way.assignment for way in _ways_by_pool(hosts)[0])
    return list(first) if hosts.spreads else [first[0][0]]


def _shares(hosts: Snapshot) -> list[Assignment]:
    """Return two hosts for a job of a part of a GPU, or of none: the least and the most free GPUs, used ones first."""
    able = np.flatnonzero(hosts.fits > 0)
    free = np.nansum(hosts.free_gpus, axis=1)[able]
    partly = (free > 0) & (free < hosts.gpus[able])
    least = able[np.lexsort((able, free, ~partly))[0]]
    most = able[np.lexsort((able, -free))[0]]
    return [((int(h), 0),) for h in dict.fromkeys([least, most])]


def _tasks(hosts: Snapshot) -> list[int]:
    """Return a host for each task: the first pool with room, hosts with the fewest free GPUs first."""
    free = np.nansum(hosts.free_gpus, axis=1)
    for pool in dict.fromkeys(hosts.pool.tolist()):
        inside = np.flatnonzero((hosts.pool == pool) & (hosts.fits > 0))
        order = inside[np.lexsort((inside, free[inside]))]
        listed = np.repeat(order, hosts.fits[order])[: hosts.pieces]
        if len(listed) == hosts.pieces:
            return [int(h) for h in listed]
    return []


# ---- the program -----------------------------------------------------------------------------------------------------


def problem_of(
    hosts: Snapshot,
    found: Sequence[Assignment],
    horizon: int,
    weights: tuple[float, float, float],
    *,
    combined: bool = False,
) -> Problem:
    """Return the choice between candidates; ``combined``: all pools count, not only those of the candidates."""
    free = np.nansum(hosts.free_gpus, axis=1)
    pools = np.unique(hosts.pool[[host for way in found for host, _ in way]])
    inside = np.flatnonzero((np.isin(hosts.pool, pools) | combined) & (free > 0))
    place = {int(h): i for i, h in enumerate(inside)}
    share = np.zeros((len(found), len(inside)))  # of the job, on each host
    taken = np.zeros_like(share)
    for row, way in enumerate(found):
        for host, gpus in way:
            if host in place:
                taken[row, place[host]] = gpus or hosts.job_gpus
                share[row, place[host]] = gpus / hosts.job_gpus if gpus else 1.0
    left = free[inside] - taken
    cores = hosts.free_cores[inside] - share * hosts.cores
    memory = hosts.free_memory[inside] - share * hosts.memory
    coming = hosts.upcoming[:horizon]
    if not len(coming):  # the job itself, as RLTune does
        coming = np.array([[hosts.job_gpus, hosts.cores, hosts.memory]])
    room = np.stack([(left >= g) & (cores >= c) & (memory >= m) for g, c, m in coming])
    return Problem(left, hosts.gpus[inside].astype(float), room, weights)


@dataclass(frozen=True)
class Answer:
    """What the solver found; way −1: nothing in time."""

    way: int
    infeasible: bool = False
    message: str = ""


def solve(problem: Problem, limit: float = 1.0, more: Sequence[tuple[Floats, float, float]] = ()) -> Answer:
    """Solve the integer program with HiGHS.

    Variables: x, which way (binary); f, partly used hosts; y of each next job, hosts with room for it; most and fewest
    free GPUs. Since just one way is taken, f ≥ Σ x · (partly used hosts of a way) and y ≤ Σ x · (hosts with room) are
    exact, and f and y are whole at the optimum without being declared so.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    count, hosts = problem.free.shape
    jobs = len(problem.room)
    f, y = count, count + 1
    most, fewest = y + jobs, y + jobs + 1
    fragmentation, balance, fit = problem.weights
    cost = np.zeros(fewest + 1)
    cost[f], cost[y:most], cost[most], cost[fewest] = fragmentation, -fit / max(jobs, 1), balance, -balance
    rows = np.zeros((2 + jobs + 2 * hosts + len(more), fewest + 1))
    low, high = np.zeros(len(rows)), np.full(len(rows), np.inf)
    rows[0, :count], low[0], high[0] = 1.0, 1.0, 1.0
    rows[1, :count], rows[1, f] = -problem.partly.sum(axis=1), 1.0
    rows[2 : 2 + jobs, :count], rows[2 : 2 + jobs, y:most] = problem.room.sum(axis=2), -np.eye(jobs)
    above, below = slice(2 + jobs, 2 + jobs + hosts), slice(2 + jobs + hosts, 2 + jobs + 2 * hosts)
    rows[above, :count], rows[above, most] = -problem.free.T, 1.0
    rows[below, :count], rows[below, fewest] = problem.free.T, -1.0
    for row, (coefficients, least, upper) in enumerate(more, 2 + jobs + 2 * hosts):
        rows[row, :count], low[row], high[row] = coefficients, least, upper
    made = milp(
        cost,
        constraints=LinearConstraint(rows, low, high),
        integrality=np.arange(fewest + 1) < count,
        bounds=Bounds(0.0, np.where(np.arange(fewest + 1) < count, 1.0, np.inf)),
        options={"time_limit": limit},
    )
    if made.status == 2:
        return Answer(-1, infeasible=True, message=made.message)
    if made.status != 0 or made.x is None:
        return Answer(-1, message=made.message)
    return Answer(int(np.argmax(made.x[:count])))
