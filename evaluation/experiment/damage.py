"""Real jobs damaged on purpose: traces that an experiment must find worse, or it cannot tell good from bad.

The positive controls of an equivalence trial (ICH E10, "assay sensitivity"). Each of them takes one thing away from the
training jobs and leaves the rest as it is, so it also shows which use of a trace needs which part of it. They are
generators like all others: `evaluation.experiment.damage:HalfLoad` can be named among the models of a plan.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd

from tracekit.errors import TracekitError
from tracekit.registry import Registry
from tracekit.trace import Trace


class Damage:
    """Keeps the jobs; subclasses say what is lost. As many jobs as asked for, in turn if there are fewer."""

    name: ClassVar[str]
    words: ClassVar[str]  # what was done to the jobs

    def __init__(self) -> None:
        self._trace: Trace | None = None

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Keep the jobs in submit order."""
        self._trace = trace.take(trace.order())
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Return the damaged jobs."""
        if self._trace is None:
            raise TracekitError(f"{self.name}: fit it first")
        if n_jobs > len(self._trace):
            raise TracekitError(f"{self.name}: has {len(self._trace):,} jobs, not {n_jobs:,}")
        real = self._trace.head(n_jobs)
        jobs = self._damaged(real.jobs, np.random.default_rng(seed))
        return real.replace(jobs=jobs, step=f"MADE by tracekit, not recorded: real jobs with {self.words}")

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Refuse: what is damaged on purpose is not kept."""
        raise TracekitError(f"{self.name}: cannot be saved")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Refuse."""
        raise TracekitError(f"{cls.name}: cannot be loaded")


class ShuffledUsers(Damage):
    """Every job keeps its time and its shape, and gets the user of another job."""

    name: ClassVar[str] = "shuffled-users"
    words: ClassVar[str] = "users dealt out at random"

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        who = [name for name in ("user", "group", "project") if name in jobs.columns]
        return _permuted(jobs, who, rng)


class ShuffledOrder(Damage):
    """Submit times stay, and whole jobs are dealt out to them at random."""

    name: ClassVar[str] = "shuffled-order"
    words: ClassVar[str] = "jobs in random order"

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return _permuted(jobs, [name for name in jobs.columns if name not in ("job_id", "submit_time")], rng)


class WrongLimits(Damage):
    """Every job gets the time limit of another job."""

    name: ClassVar[str] = "wrong-limits"
    words: ClassVar[str] = "limits of other jobs"

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return _permuted(jobs, [name for name in ("req_time",) if name in jobs.columns], rng)


class HalfLoad(Damage):
    """Gaps between submits are twice as long."""

    name: ClassVar[str] = "half-load"
    words: ClassVar[str] = "half the load"

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        submit = jobs["submit_time"].to_numpy()
        return jobs.assign(submit_time=submit[0] + 2 * (submit - submit[0]))


class OneSize(Damage):
    """Every job asks for one processor, and for one GPU if it asks for any: hosts never lack room for a large job."""

    name: ClassVar[str] = "one-size"
    words: ClassVar[str] = "one processor each"

    def _damaged(self, jobs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        kinds = ("procs", "nodes", "gpus")
        sizes = ["tasks", *(f"{who}_{kind}" for who in ("req", "alloc") for kind in kinds)]
        return jobs.assign(**{name: jobs[name].mask(jobs[name] > 0, 1) for name in sizes if name in jobs.columns})


def _permuted(jobs: pd.DataFrame, columns: list[str], rng: np.random.Generator) -> pd.DataFrame:
    """Return the jobs with some columns taken, together, from other jobs."""
    drawn = jobs[columns].iloc[rng.permutation(len(jobs))].reset_index(drop=True)
    return jobs.reset_index(drop=True).assign(**{name: drawn[name] for name in columns})


#: What can be done to real jobs, by name.
DAMAGES: Registry[type[Damage]] = Registry(
    "damage",
    {
        kind.name: f"evaluation.experiment.damage:{kind.__name__}"
        for kind in (ShuffledUsers, ShuffledOrder, WrongLimits, HalfLoad, OneSize)
    },
)
