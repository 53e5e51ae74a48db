"""RLTune's ways of placing a job on hosts with free GPUs: on as few hosts as can be (tier 1), or on one more (tier 2).

Hosts with equally many free GPUs are alike: the first of them are taken, the largest part on the first. Of the groups
of alike hosts, in the order of free GPUs, all but the last are used up. Arya et al., "RLTune", SoCC 2025
(allocation_score.py of github.com/dshruti20/RLTune).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Assignment = tuple[tuple[int, int], ...]  # (host, GPUs) by host


@dataclass(frozen=True)
class Way:
    """One placement and what it changes."""

    assignment: Assignment
    frag_delta: int  # partly used hosts
    waste_delta: int  # used GPUs on partly used hosts
    lb_delta: float  # variance of the hosts' use

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
    return sorted(ways, key=lambda w: (w.frag_delta, w.waste_delta, w.lb_delta, len(w.assignment), w.hosts))


def by_load_balance(ways: Sequence[Way]) -> list[Way]:
    """Sort by more even use, fewer partly used hosts, less waste."""
    return sorted(ways, key=lambda w: (w.lb_delta, w.frag_delta, w.waste_delta, len(w.assignment), w.hosts))


def ways(free: Sequence[tuple[int, int]], request: int, gpus: int) -> Ways:
    """Return the ways of placing ``request`` GPUs on hosts of ``gpus`` GPUs; ``free`` are (host, free GPUs)."""
    least = math.ceil(request / gpus)
    found: list[Way] = []
    for assignment in _assignments(free, request, min(least + 1, len(free))):
        if len(assignment) >= least:
            found.append(_scored(assignment, dict(free), gpus))
    tier1 = tuple(way for way in found if len(way.assignment) == least)
    return Ways(tier1, tuple(w for w in found if len(w.assignment) == least + 1 and w.frag_delta <= 0))


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


def _scored(assignment: Assignment, free: dict[int, int], gpus: int) -> Way:
    after = dict(free)
    for host, taken in assignment:
        after[host] -= taken
    partly = [[gpus - left for left in state.values() if 0 < left < gpus] for state in (free, after)]
    variance = [_variance([1.0 - left / gpus for left in state.values()]) for state in (free, after)]
    return Way(
        assignment,
        len(partly[1]) - len(partly[0]),
        sum(partly[1]) - sum(partly[0]),
        variance[1] - variance[0] if len(free) > 1 else 0.0,
    )


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)
