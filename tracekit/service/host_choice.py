"""Which host for a job: hosts at one moment, scores by the named baselines, and a cycle of several jobs.

Baselines score as the allocators of the same names do (`tracekit.sim.hosts.scores`), without a simulation around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName
from tracekit.service.protocol import Refused

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
#: Columns of what hosts have and jobs ask for; memory in KB.
CORES, MEMORY, GPUS = range(3)
#: Rules that need no training, by name.
BASELINES = {
    "first-fit": "the first host with room",
    "best-fit": "the host with the least left over, cores and GPUs counted alike",
    "worst-fit": "the host with the most left over",
    "least-loaded": "the host with the smallest share of its cores in use",
    "dot-product": "the smallest product of what is free and what is asked for",
    "lsf-order": "LSF's order[ut:mem]: the smallest share of cores in use, then the most free memory",
    "round-robin": "the next host with room after the last one used",
    "random": "any host with room",
}
#: Other names of baselines.
_ALSO = {"first-available": "first-fit"}
_TOLERANCE = 1e-9


@dataclass(eq=False)
class HostTable:
    """Hosts at one moment; H hosts. ``free`` changes as jobs of a cycle are placed."""

    names: Sequence[str]
    free: Floats  # (H, 3) cores, memory (KB; inf = not limited), GPUs
    total: Floats  # (H, 3)
    running: Sequence[Sequence[dict[str, Any]]] = ()  # (H,) cores and ends of the running jobs; () = not sent
    _about: Floats | None = None

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def largest(self) -> tuple[float, float, float, float, float]:
        """The most cores, memory and GPUs of one host, and all cores and memory; at least 1 each, limited ones only."""
        total = self.total
        memory = total[:, MEMORY][np.isfinite(total[:, MEMORY])]
        found = (
            total[:, CORES].max(),
            memory.max(initial=0.0),
            total[:, GPUS].max(),
            total[:, CORES].sum(),
            memory.sum(),
        )
        cores, most_memory, gpus, all_cores, all_memory = (max(float(value), 1.0) for value in found)
        return cores, most_memory, gpus, all_cores, all_memory

    def about(self) -> Floats:
        """Return what runs on each host, (H, 4): jobs, first and last end, sum of cores × end."""
        if self._about is None:
            self._about = np.zeros((len(self), 4))
            self._about[:, 1], self._about[:, 2] = np.inf, -np.inf
            for host, jobs in enumerate(self.running):
                for job in jobs:
                    self._add(host, float(job["cores"]), float(job["ends"]))
        return self._about

    def place(self, host: int, need: Floats, end: float) -> None:
        """Take what a job needs from a host, until ``end`` (NaN = unknown)."""
        self.free[host] -= need
        if self._about is not None and end == end:
            self._add(host, float(need[CORES]), end)

    def _add(self, host: int, cores: float, end: float) -> None:
        row = self._about[host]  # type: ignore[index]
        row[0] += 1
        row[1], row[2] = min(row[1], end), max(row[2], end)
        row[3] += cores * end


@dataclass(frozen=True, eq=False)
class HostJobs:
    """Jobs of a cycle, in order; J jobs. NaN = unknown."""

    id: Sequence[str | int | None]
    need: Floats  # (J, 3)
    estimate: Floats  # (J,) seconds
    wait: Floats  # (J,) seconds

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def sums(self) -> tuple[float, float]:
        """The cores and the memory that all jobs of the cycle ask for."""
        return float(self.need[:, CORES].sum()), float(self.need[:, MEMORY].sum())


@dataclass(eq=False)
class HostQuestion:
    """The question about hosts that a task is asked (`Task.question`): where to place one job."""

    hosts: HostTable
    jobs: HostJobs  # all of the cycle
    place: int  # position of the job in the cycle
    rows: Ints  # (rows,) numbers of the hosts that have room
    now: float = 0.0  # seconds, on the clock of the running jobs' ends
    deferred: int = 0  # jobs of the cycle before this one that fit nowhere


class Scorer(Protocol):
    """What scores hosts for a job."""

    name: str

    def scores(self, question: HostQuestion, /) -> Floats:
        """Return a score for each of ``question.rows``, (rows,); larger is better."""
        ...

    def placed(self, host: int, hosts: int, /) -> None:
        """Note that a host was chosen."""
        ...


@dataclass
class Baseline:
    """A rule that needs no training. Ties go to the first host."""

    name: str
    seed: int = 0
    _cursor: int = -1  # of round-robin: the host used last
    _draws: int = 0
    _rule: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self._rule = _ALSO.get(self.name, self.name)
        if self._rule not in BASELINES:
            raise UnknownName("policy for hosts", self.name, [*BASELINES, *_ALSO])

    def scores(self, question: HostQuestion, /) -> Floats:
        """Return a score for each host that has room, larger is better."""
        rows, table = question.rows, question.hosts
        rule = self._rule
        if rule == "first-fit":
            return -rows.astype(np.float64)
        if rule == "round-robin":
            count = len(table)
            return -((rows - self._cursor - 1) % count).astype(np.float64)
        if rule == "random":
            self._draws += 1
            return np.random.default_rng([self.seed, self._draws]).random(len(rows))
        free, total, need = table.free[rows], table.total, question.jobs.need[question.place]
        if rule in ("least-loaded", "lsf-order"):
            unused: Floats = free[:, CORES] / np.maximum(total[rows, CORES], 1)
            if rule == "least-loaded":
                return unused
            return np.floor(unused * 1e6) + np.minimum(free[:, MEMORY], 2.0**40) / 2.0**41
        most_cores, most_gpus = table.largest[0], max(float(total[:, GPUS].max()), 1e-3)
        if rule == "dot-product":
            product: Floats = need[CORES] * free[:, CORES] / most_cores**2 + need[GPUS] * free[:, GPUS] / most_gpus**2
            rounded: Floats = -np.floor(product * 1e12 + 0.5)
            return rounded
        rest: Floats = (free[:, CORES] - need[CORES]) * most_gpus + (free[:, GPUS] - need[GPUS]) * most_cores
        return -rest if rule == "best-fit" else rest

    def placed(self, host: int, hosts: int, /) -> None:
        """Move the cursor of round-robin."""
        self._cursor = host


@dataclass(frozen=True)
class Decision:
    """The answer for one job: the number of the host, or −1 if none has room; scores of the hosts with room."""

    host: int
    rows: Ints
    scores: Floats


def with_room(table: HostTable, need: Floats) -> Ints:
    """Return the numbers of the hosts that have room for a job."""
    free = table.free
    room = (free[:, CORES] >= need[CORES] - _TOLERANCE) & (free[:, MEMORY] >= need[MEMORY] - _TOLERANCE)
    if need[GPUS] > 0:
        room &= free[:, GPUS] >= need[GPUS] - _TOLERANCE
    return np.flatnonzero(room)


def decide(table: HostTable, jobs: HostJobs, scorer: Scorer, now: float = 0.0) -> list[Decision]:
    """Choose a host for each job in order; a job that is placed takes its share of the host. ``table`` changes."""
    found: list[Decision] = []
    deferred = 0
    for place in range(len(jobs)):
        found.append(_decide_one(HostQuestion(table, jobs, place, _NO_ROWS, now, deferred), scorer))
        deferred += found[-1].host < 0
    return found


_NO_ROWS = np.empty(0, np.int64)


def _decide_one(question: HostQuestion, scorer: Scorer) -> Decision:
    table, jobs, place = question.hosts, question.jobs, question.place
    need = jobs.need[place]
    rows = with_room(table, need)
    if not len(rows):
        return Decision(-1, rows, np.empty(0))
    question.rows = rows
    scores = scorer.scores(question)
    if not np.isfinite(scores).all():
        raise Refused(422, "the scores are not finite; check the sizes in the request")
    host = int(rows[scores.argmax()])
    table.place(host, need, question.now + float(jobs.estimate[place]))
    scorer.placed(host, len(table))
    return Decision(host, rows, scores)
