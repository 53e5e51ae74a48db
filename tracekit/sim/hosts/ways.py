"""RLTune's ways of placing a job on hosts with free GPUs: on as few hosts as can be (tier 1), or on one more (tier 2).

Hosts with equally many free GPUs are alike: the first of them are taken, the largest part on the first. Of the groups
of alike hosts, in the order of free GPUs, all but the last are used up. Arya et al., "RLTune", SoCC 2025
(allocation_score.py of github.com/dshruti20/RLTune).

`tracekit.sim.hosts.tiers` is the same, compiled. `candidates` returns the ways that an integer program chooses from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tracekit.sim.hosts.allocators import Snapshot

Assignment = tuple[tuple[int, int], ...]  # (host, GPUs) by host


@dataclass(frozen=True)
class Way:
    """One placement and what it changes."""

    assignment: Assignment
    frag_delta: int  # partly used hosts
    waste_delta: int  # used GPUs on partly used hosts
    lb_delta: float  # variance of the hosts' use
    evenness: Fraction  # the same times the number of hosts squared, exactly, to be compared

    @property
    def hosts(self) -> list[int]:
        """The hosts, ascending."""
        return [host for host, _ in self.assignment]


@dataclass(frozen=True)
class Ways:
    """All ways of one job, by tier."""

    tier1: tuple[Way, ...]
    tier2: tuple[Way, ...]  # only those that do not leave more hosts partly used

    @property
    def greedy(self) -> Assignment | None:
        """The lexicographically smallest way of tier 1."""
        return min((way.assignment for way in self.tier1), default=None)


def by_defrag(ways: Sequence[Way]) -> list[Way]:
    """Sort by fewer partly used hosts, less waste, more even use."""
    return sorted(ways, key=lambda w: (w.frag_delta, w.waste_delta, w.evenness, len(w.assignment), w.hosts))


def by_load_balance(ways: Sequence[Way]) -> list[Way]:
    """Sort by more even use, fewer partly used hosts, less waste."""
    return sorted(ways, key=lambda w: (w.evenness, w.frag_delta, w.waste_delta, len(w.assignment), w.hosts))


def ways(
    free: Sequence[tuple[int, int]], request: int, gpus: int | Mapping[int, int], least: int | None = None
) -> Ways:
    """Return the ways of placing ``request`` GPUs; ``free`` are (host, free GPUs) of the hosts that have any.

    ``gpus`` are the GPUs of every host, or of each by its number. Tier 1 has ``least`` hosts: as few as a pool needs
    that is idle, ⌈request / gpus⌉ if not given.
    """
    total = gpus if isinstance(gpus, Mapping) else dict.fromkeys((host for host, _ in free), gpus)
    if least is None:
        least = math.ceil(request / max(total.values(), default=1))
    found: list[Way] = []
    for assignment in _assignments(free, request, min(least + 1, len(free))):
        if len(assignment) >= least:
            found.append(_scored(assignment, dict(free), total))
    tier1 = tuple(way for way in found if len(way.assignment) == least)
    return Ways(tier1, tuple(w for w in found if len(w.assignment) == least + 1 and w.frag_delta <= 0))


def candidates(
    free: Sequence[tuple[int, int]], request: int, gpus: int | Mapping[int, int], least: int | None = None
) -> dict[str, Way]:
    """Return the first way of each tier in each order, by name (tier1_defrag, tier1_lb, …), each way once."""
    found = ways(free, request, gpus, least)
    made: dict[str, Way] = {}
    for tier, listed in (("tier1", found.tier1), ("tier2", found.tier2)):
        for name, order in (("defrag", by_defrag), ("lb", by_load_balance)):
            first = order(listed)[:1]
            if first and all(first[0].assignment != way.assignment for way in made.values()):
                made[f"{tier}_{name}"] = first[0]
    return made


def candidates_of(hosts: Snapshot) -> dict[str, Way]:
    """Return the candidates of a job of whole GPUs in the pool where it needs the fewest hosts, of equals the first.

    A job that does not spread has ways of tier 1, on one host; one of several tasks, or without whole GPUs, has none.
    `Allocator.choose` may return an assignment as it is for a job that spreads. With ``tiered = True`` an allocator is
    asked about jobs that have a candidate only.
    """
    request = round(hosts.job_gpus)
    if request < 1 or (hosts.pieces > 1 and not hosts.spreads):
        return {}
    best: dict[str, Way] = {}
    fewest = math.inf
    for pool in dict.fromkeys(hosts.pool.tolist()):
        inside = np.flatnonzero((hosts.pool == pool) & (hosts.fits > 0)).tolist()
        room = {h: int(hosts.fits[h]) if hosts.spreads else int(np.nansum(hosts.free_gpus[h] >= 1)) for h in inside}
        total = {h: int(hosts.gpus[h]) for h in inside}
        least = int(hosts.fewest[pool]) if hosts.spreads else 1
        found = candidates(list(room.items()), request, total, least)
        used = min((len(way.assignment) for way in found.values()), default=math.inf)
        if used < fewest:
            best, fewest = found, used
    return best if hosts.spreads else {name: way for name, way in best.items() if name.startswith("tier1")}


def _assignments(free: Sequence[tuple[int, int]], request: int, most: int) -> Iterator[Assignment]:
    alike: dict[int, list[int]] = {}
    for host, left in free:
        alike.setdefault(left, []).append(host)
    groups = [(left, sorted(alike[left])) for left in sorted(alike, reverse=True)]

    def extend(at: int, rest: int, used: list[tuple[int, int]]) -> Iterator[Assignment]:
        if rest == 0:
            yield tuple(sorted(used))
            return
        if at == len(groups):
            return
        yield from extend(at + 1, rest, used)
        left, hosts = groups[at]
        for count in range(1, min(len(hosts), most - len(used), rest) + 1):
            for parts in _parts(min(count * left, rest), count, left):
                yield from extend(at + 1, rest - sum(parts), [*used, *zip(hosts, parts, strict=False)])

    return extend(0, request, [])


def _parts(total: int, count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write ``total`` as ``count`` numbers from 1 to ``most``, descending."""
    if count == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(most, total - count + 1), 0, -1):
        if first * count < total:
            return
        for rest in _parts(total - first, count - 1, first):
            yield (first, *rest)


def _scored(assignment: Assignment, free: dict[int, int], total: Mapping[int, int]) -> Way:
    after = dict(free)
    for host, taken in assignment:
        after[host] -= taken
    partly = [[total[h] - left for h, left in state.items() if 0 < left < total[h]] for state in (free, after)]
    variance = [_variance([1.0 - left / total[h] for h, left in state.items()]) for state in (free, after)]
    return Way(
        assignment,
        len(partly[1]) - len(partly[0]),
        sum(partly[1]) - sum(partly[0]),
        variance[1] - variance[0] if len(free) > 1 else 0.0,
        _spread([Fraction(total[h] - left, total[h]) for h, left in after.items()])
        - _spread([Fraction(total[h] - left, total[h]) for h, left in free.items()]),
    )


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def _spread(values: Sequence[Fraction]) -> Fraction:
    """Return the variance times the number of values squared."""
    return len(values) * sum((v * v for v in values), Fraction()) - sum(values, Fraction()) ** 2
