"""User resampling: whole users' histories, moved by whole weeks and recombined.

N. Zakay and D. G. Feitelson, "Workload resampling for performance evaluation of parallel job schedulers", Concurrency
and Computation: Practice and Experience 26(12), 2014. What one user did stays together, and stays at its hour of the
week: sessions, repeated jobs, daily and weekly cycle survive. Which users meet in a week is new each time. The jobs
themselves are copies.

As in the paper, *long-term* users (active over more than half of the trace) are always there, each from a random week
of the own history on; *temporary* users come and go, drawn with replacement, starting in a random week. A result
longer than the trace is made of periods of the trace's length, each with new draws, so it never repeats itself.
"""

from __future__ import annotations

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
    write_config,
)
from generators.hosts import placeable
from generators.in_order import Able
from generators.stored import InMemory, OnDisk, Stored
from tracekit import stats
from tracekit.errors import TracekitError, loads
from tracekit.machine import Machine
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Histories move by whole weeks; in a trace of less than two weeks by whole days, and so on.
UNITS = {"weeks": 7 * 86_400.0, "days": 86_400.0, "hours": 3600.0}


class UserResample:
    """Re-combines users' real histories; strong on everything between jobs, but the jobs are copies."""

    name: ClassVar[str] = "user-resample"
    info: ClassVar[ModelInfo] = ModelInfo(
        family="classic",
        summary="users' own histories, moved by whole weeks and recombined",
        licence="Apache-2.0",
        copies=True,
        paper="Zakay & Feitelson, Concurrency and Computation: Practice and Experience 26(12), 2014",
    )

    #: Submit time, user and place of each job, and as much again while they are sorted and a period is drawn.
    bytes_a_job: ClassVar[int] = 120

    def __init__(self) -> None:
        self._histories: Histories | None = None
        self.notes: list[str] = []

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Sort the jobs into histories; nothing random happens, so ``seed`` has no effect."""
        usable, self.notes = placeable(trace)
        self._histories = Histories(InMemory(check_jobs(self.name, usable)))
        return self

    def fit_batches(self, able: Able, /, *, seed: int = 0) -> Self:
        """Sort the jobs of a trace that is read in batches; the jobs themselves stay on disk."""
        self._histories, self.notes = Histories(OnDisk(self.name, able)), able.notes
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Combine histories until there are ``n_jobs`` jobs, however long that takes."""
        n_jobs = check_count(self.name, n_jobs)
        histories, rng = self._fitted(), np.random.default_rng(seed)
        periods = [histories.period(0, rng)]
        while sum(len(rows) for rows, _ in periods) < n_jobs:
            periods.append(histories.period(len(periods), rng))
        return self._trace(periods, seed, n_jobs)

    def _fitted(self) -> Histories:
        if self._histories is None:
            raise not_fitted(self.name)
        return self._histories

    def _trace(self, periods: list[tuple[Rows, Floats]], seed: int, n_jobs: int) -> Trace:
        """Put periods together in order of submission and cut to the number of jobs asked for."""
        histories = self._fitted()
        rows, submit = (np.concatenate(parts) for parts in zip(*periods, strict=True))
        order = np.lexsort((rows, submit))[:n_jobs]  # jobs of one instant in their real order
        rows, submit = rows[order], submit[order]
        real = histories.stored
        new = {"job_id": np.arange(1, len(rows) + 1), "submit_time": submit}
        drawn = real.take({name: rows for name in real.columns if name not in new})
        jobs = pd.DataFrame({name: new[name] if name in new else drawn[name] for name in real.columns})
        note = made_note(self.name, histories.how(), real, seed)
        return Trace(jobs, made_machine(real.machine, note), (*real.history, note))

    def save(self, folder: Path) -> None:
        """Write config.json and the fitted jobs as trace.parquet."""
        real = self._fitted().stored
        write_config(folder, self.name, {"source": real.machine.source})
        real.save(folder)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        model = cls()
        jobs = load_trace(folder, str(read_config(folder, cls.name).get("source", "")))
        model._histories = Histories(InMemory(jobs))
        return model


class Histories:
    """The jobs of a trace, by user, on a clock of whole weeks (or days, or hours)."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        submit, code = stored.users()
        span = float(submit[-1] - submit[0])
        found = [name for name, length in UNITS.items() if span >= 2 * length]
        if not found:
            raise TracekitError(
                f"user-resample: the trace spans {span:g} s; at least two hours are needed to move histories by whole "
                "hours (model resample works on any span)"
            )
        self.unit_name = found[0]
        self.unit = UNITS[self.unit_name]
        # The real span to the nearest week, so that the load stays what it was; what is beyond folds back to the start,
        # where the first week is incomplete as well.
        self.units = round(span / self.unit)
        self.period_length = self.units * self.unit
        origin = _origin(stored.machine, submit, self.unit)
        self.start = origin if origin >= 0 else origin + self.unit  # no submit time below zero
        self.at = submit - origin  # (jobs,) seconds since the origin
        self.userless = np.flatnonzero(code < 0)  # (…,) rows without a user
        self._split(code)

    def _split(self, code: NDArray[np.int64]) -> None:
        """Group rows by user: ``rows[first[h] : first[h] + size[h]]`` is history h."""
        by_user = np.argsort(code, kind="stable")
        self.rows = by_user[len(self.userless) :].astype(np.intp)
        _, self.first, self.size = np.unique(code[self.rows], return_index=True, return_counts=True)
        if not len(self.first):
            self.long_term = self.temporary = np.empty(0, dtype=np.intp)
            return
        when = self.at[self.rows]
        active = np.maximum.reduceat(when, self.first) - np.minimum.reduceat(when, self.first)
        is_long = active > self.period_length / 2
        self.long_term, self.temporary = np.flatnonzero(is_long), np.flatnonzero(~is_long)

    def period(self, number: int, rng: np.random.Generator) -> tuple[Rows, Floats]:
        """Draw the jobs of one period: their rows and submit times, unsorted. Periods are counted from 0."""
        drawn = self.long_term
        if len(self.temporary):
            drawn = np.concatenate([drawn, rng.choice(self.temporary, len(self.temporary))])
        shift = rng.integers(0, self.units, len(drawn)) * self.unit
        which = np.repeat(np.arange(len(drawn)), self.size[drawn])
        within = np.arange(len(which)) - np.repeat(np.cumsum(self.size[drawn]) - self.size[drawn], self.size[drawn])
        rows = self.rows[self.first[drawn][which] + within]
        at = (self.at[rows] + shift[which]) % self.period_length
        if len(self.userless):
            others, when = self._whole_units(rng)
            rows, at = np.concatenate([rows, others]), np.concatenate([at, when])
        return rows, self.start + number * self.period_length + at

    def _whole_units(self, rng: np.random.Generator) -> tuple[Rows, Floats]:
        """Draw jobs without a user: each week of the period is one whole week of the trace."""
        at = self.at[self.userless] % self.period_length
        unit_of = (at // self.unit).astype(np.int64)
        by_unit = np.argsort(unit_of, kind="stable")
        first = np.searchsorted(unit_of[by_unit], np.arange(self.units + 1))
        picked = rng.integers(0, self.units, self.units)
        pieces = [by_unit[first[k] : first[k + 1]] for k in picked]
        rows = np.concatenate(pieces)
        target = np.repeat(np.arange(self.units), [len(piece) for piece in pieces])
        return self.userless[rows], at[rows] % self.unit + target * self.unit

    def how(self) -> str:
        """Say in a few words what was combined."""
        if not len(self.first):
            return f"no users known: whole {self.unit_name} of all jobs drawn with replacement"
        text = f"histories of {len(self.first)} users moved by whole {self.unit_name}"
        if self.unit_name != "weeks":
            text += ", the trace being shorter than two weeks"
        if len(self.userless):
            text += f"; {len(self.userless)} jobs without a user by whole {self.unit_name}"
        return text


def _origin(machine: Machine, submit: Floats, unit: float) -> float:
    """Return when the unit begins in which the first job was submitted: local Monday 0:00, midnight, or the hour.

    On the clock of submit_time; without a calendar it is the first submit time itself. Clock changes inside the trace
    are not followed: they move half of the weeks by an hour.
    """
    first = float(submit[0])
    ends = {"job_id": [1, 2], "submit_time": submit[[0, -1]], "run_time": 0.0, "req_procs": 1}
    trace = Trace(pd.DataFrame(ends), machine)
    if not stats.has_calendar(trace):
        return first
    stamp = stats.local_times(trace)[0]
    since_monday = stamp.day_of_week * 86_400 + stamp.hour * 3600 + stamp.minute * 60 + stamp.second
    return float(np.floor(first) - since_monday % unit)
