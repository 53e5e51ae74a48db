"""The two trivial models of every comparison, as the baseline for learned models.

`resample` draws whole rows with replacement: every column and every dependence inside a row is right, nothing between
rows is. `independent` draws every column for itself: only the marginals are right. Both lose users' sessions, repeated
jobs and the daily cycle, because consecutive jobs are independent of each other and of the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.base import ModelInfo
from generators.common import (
    check_count,
    check_jobs,
    load_trace,
    made_machine,
    made_note,
    not_fitted,
    read_config,
    submits_from_gaps,
    write_config,
)
from generators.hosts import placeable
from generators.in_order import Able
from generators.stored import InMemory, OnDisk, Stored
from tracekit.errors import loads
from tracekit.trace import Trace

Ints = NDArray[np.int64]


class _Baseline:
    """Keeps the fitted jobs, in memory or where they are on disk; subclasses define how rows are drawn from them."""

    name: ClassVar[str]
    info: ClassVar[ModelInfo]
    how: ClassVar[str]

    def __init__(self) -> None:
        self._stored: Stored | None = None
        self.notes: list[str] = []

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Keep the jobs that have a submit time, and that hosts can hold; ``seed`` has no effect."""
        usable, self.notes = placeable(trace)
        self._stored = InMemory(check_jobs(self.name, usable))
        return self

    def fit_batches(self, able: Able, /, *, seed: int = 0) -> Self:
        """Keep the jobs where they are, on disk."""
        self._stored, self.notes = OnDisk(self.name, able), able.notes
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Draw ``n_jobs`` jobs; the first is submitted when the first real one was."""
        n_jobs = check_count(self.name, n_jobs)
        real = self._fitted()
        names = [name for name in real.columns if name not in ("job_id", "submit_time")]
        places, gaps = self._draw(names, len(real), n_jobs, np.random.default_rng(seed))
        times = real.submit(np.concatenate([[0], gaps, gaps + 1]))
        between = times[1 + len(gaps) :] - times[1 : 1 + len(gaps)]
        jobs = pd.DataFrame(
            {
                "job_id": np.arange(1, n_jobs + 1),
                "submit_time": submits_from_gaps(float(times[0]), between),
                **real.take(places),
            }
        )
        note = made_note(self.name, self.how, real, seed)
        return Trace(jobs, made_machine(real.machine, note), (*real.history, note))

    def _draw(
        self, names: Sequence[str], real: int, n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Ints], Ints]:
        """Return which of the real jobs each column is taken from, and the gaps; gap i leads from job i to i + 1."""
        raise NotImplementedError

    def _fitted(self) -> Stored:
        if self._stored is None:
            raise not_fitted(self.name)
        return self._stored

    def save(self, folder: Path) -> None:
        """Write config.json and the fitted jobs as trace.parquet."""
        real = self._fitted()
        write_config(folder, self.name, {"source": real.machine.source})
        real.save(folder)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        model = cls()
        model._stored = InMemory(load_trace(folder, str(read_config(folder, cls.name).get("source", ""))))
        return model


class Resample(_Baseline):
    """Bootstrap: whole jobs drawn with replacement, each with the inter-arrival time that led up to it."""

    name = "resample"
    how = "rows drawn with replacement"
    info = ModelInfo(
        family="baseline",
        summary="whole jobs drawn with replacement, each with its inter-arrival time",
        licence="Apache-2.0",
        copies=True,
        paper="Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 7 (1979)",
    )

    def _draw(
        self, names: Sequence[str], real: int, n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Ints], Ints]:
        picked = rng.integers(0, real, n_jobs)
        spare = rng.integers(0, real - 1, n_jobs)
        # The first real job has no inter-arrival time of its own: where it is drawn, that of any other is used.
        before = np.where(picked > 0, picked - 1, spare)
        return dict.fromkeys(names, picked), before[1:]


class Independent(_Baseline):
    """Every column drawn from its own values, independently of all others; missing values are values too.

    What ties columns together in a real trace (run time below its limit, processors per node, requests that fit one
    host, a user's queue) is broken by design: this is the floor for every measure of dependence.
    """

    name = "independent"
    how = "every column drawn for itself"
    info = ModelInfo(
        family="baseline",
        summary="every column's own distribution, drawn independently of the others",
        licence="Apache-2.0",
        copies=False,
    )

    def _draw(
        self, names: Sequence[str], real: int, n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Ints], Ints]:
        between = rng.integers(0, real - 1, n_jobs - 1)
        return {name: rng.integers(0, real, n_jobs) for name in names}, between
