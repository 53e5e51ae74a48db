"""The two trivial models of every comparison, as the baseline for learned models.

`resample` draws whole rows with replacement: every column and every dependence inside a row is right, nothing between
rows is. `independent` draws every column for itself: only the marginals are right. Both lose users' sessions, repeated
jobs and the daily cycle, because consecutive jobs are independent of each other and of the clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.base import ModelInfo
from generators.common import (
    NOT_WORKLOAD,
    check_count,
    check_jobs,
    load_trace,
    made_machine,
    made_note,
    not_fitted,
    read_config,
    save_trace,
    submits_from_gaps,
    write_config,
)
from generators.hosts import placeable
from tracekit.errors import loads
from tracekit.trace import Trace


class _Baseline:
    """Keeps the fitted jobs themselves; subclasses define how rows are drawn from them."""

    name: ClassVar[str]
    info: ClassVar[ModelInfo]
    how: ClassVar[str]

    def __init__(self) -> None:
        self._trace: Trace | None = None  # jobs in submit order
        self.notes: list[str] = []

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Keep the jobs that have a submit time, and that hosts can hold; ``seed`` has no effect."""
        usable, self.notes = placeable(trace)
        self._trace = check_jobs(self.name, usable)
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Draw ``n_jobs`` jobs; the first is submitted when the first real one was."""
        n_jobs = check_count(self.name, n_jobs)
        if self._trace is None:
            raise not_fitted(self.name)
        real = self._trace
        submit = real.column("submit_time")
        kept = real.jobs.drop(columns=[c for c in ("job_id", "submit_time", *NOT_WORKLOAD) if c in real.jobs.columns])
        columns, gaps = self._draw(kept, np.diff(submit), n_jobs, np.random.default_rng(seed))
        jobs = pd.DataFrame(
            {
                "job_id": np.arange(1, n_jobs + 1),
                "submit_time": submits_from_gaps(float(submit[0]), gaps),
                **columns,
            }
        )
        note = made_note(self.name, self.how, real, seed)
        return Trace(jobs, made_machine(real.machine, note), (*real.history, note))

    def _draw(
        self, rows: pd.DataFrame, gaps: NDArray[np.float64], n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """Return columns of ``n_jobs`` jobs and the gaps between them; the real ``gaps[i]`` led up to row i + 1."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write config.json and the fitted jobs as trace.parquet."""
        if self._trace is None:
            raise not_fitted(self.name)
        write_config(folder, self.name, {"source": self._trace.machine.source})
        save_trace(self._trace, folder)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        model = cls()
        model._trace = load_trace(folder, str(read_config(folder, cls.name).get("source", "")))
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
        self, rows: pd.DataFrame, gaps: NDArray[np.float64], n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Any], NDArray[np.float64]]:
        picked = rng.integers(0, len(rows), n_jobs)
        spare = rng.integers(0, len(gaps), n_jobs)
        # The first real job has no inter-arrival time of its own: where it is drawn, that of any other is used.
        before = np.where(picked > 0, gaps[picked - 1], gaps[spare])
        return {str(name): rows[name].array.take(picked) for name in rows.columns}, before[1:]


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
        self, rows: pd.DataFrame, gaps: NDArray[np.float64], n_jobs: int, rng: np.random.Generator
    ) -> tuple[dict[str, Any], NDArray[np.float64]]:
        between = gaps[rng.integers(0, len(gaps), n_jobs - 1)]
        columns = {str(name): rows[name].array.take(rng.integers(0, len(rows), n_jobs)) for name in rows.columns}
        return columns, between
