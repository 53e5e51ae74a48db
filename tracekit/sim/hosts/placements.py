"""Where each job of a simulation ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES, Demand
from tracekit.sim.hosts.state import Floats, Ints


@dataclass(frozen=True, eq=False)
class Placements(Sequence[str]):
    """Where each job ran, as ``host:cores/gpus+…`` in host order; worked out for a job when it is asked for."""

    names: list[str]  # of the hosts
    demand: Demand
    fixed: Ints  # (hosts, 3) pool, GPU type (−1 none), GPUs
    total: Ints  # (hosts, cells) cores, memory, thousandths of GPUs of an idle host
    need: Ints  # (jobs, 8) demands
    span: Ints  # (jobs, 2) where in the log a job's entries begin, and how many there are
    log: Ints  # (entries, 4) first host, last host, pieces on each, GPUs held (bits)
    filled: Ints  # (jobs,) whether a job was started to fill a gap; only as RLTune does it
    granted: Floats | None = None  # (jobs,) when a job got its hosts, before they woke up; None: hosts do not sleep

    def take(self, rows: NDArray[np.intp]) -> Placements:
        """Return the placements of some jobs."""
        granted = None if self.granted is None else self.granted[rows]
        return replace(self, need=self.need[rows], span=self.span[rows], filled=self.filled[rows], granted=granted)

    def entries(self, jobs: int) -> tuple[Ints, Ints]:
        """Return the job of every entry of the log, and the entries, (entries, 4), of the first ``jobs`` jobs."""
        span = self.span[:jobs]
        ends = np.cumsum(span[:, 1])
        places = np.repeat(span[:, 0] - ends + span[:, 1], span[:, 1]) + np.arange(ends[-1] if len(ends) else 0)
        return np.repeat(np.arange(len(span)), span[:, 1]), self.log[places]

    def __len__(self) -> int:
        return len(self.span)

    @overload
    def __getitem__(self, job: int) -> str: ...
    @overload
    def __getitem__(self, job: slice) -> list[str]: ...
    def __getitem__(self, job: int | slice) -> str | list[str]:
        """Return where a job ran."""
        if isinstance(job, slice):
            return [self[i] for i in range(*job.indices(len(self)))]
        if not -len(self) <= job < len(self):
            raise IndexError(job)
        scale = self.demand.scale
        return "+".join(
            f"{self.names[h]}:{cores / scale:.10g}/{gpus / MILLI_GPU:.10g}" for h, cores, gpus in self.parts(job)
        )

    def __iter__(self) -> Iterator[str]:
        return (self[job] for job in range(len(self)))

    def parts(self, job: int) -> list[tuple[int, int, int]]:
        """Return (host, cores in units, GPU-thousandths) of a job, by host."""
        asked, (begin, count) = self.need[job].tolist(), self.span[job].tolist()
        each = asked[GPUS] * MILLI_GPU if asked[GPUS] else asked[MILLI]
        found: dict[int, tuple[int, int]] = {}
        for first, last, pieces, _ in self.log[begin : begin + count].tolist():
            for h in range(first, last + 1):
                cores, gpus = found.get(h, (0, 0))
                found[h] = (cores + pieces * asked[CORES] // asked[PIECES], gpus + pieces * each)
        return [(h, *found[h]) for h in sorted(found)]
