"""The jobs that are learnt from: what each asks for as one of some thousand templates, and what was measured of it.

Real jobs repeat their requests, so the different ones are a short table, and each job has the number of its own. What
is done to requests (rare ones are replaced, labels lose their names) is done to that table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.sessions import unusable
from generators.sessions.shelf import MEMORY, Array, Column, Shelf, small, whole
from tracekit.machine import Machine
from tracekit.schema import status_codes
from tracekit.trace import Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What is measured of a job, drawn after its template.
MEASURED = ("run_time", "cpu_time", "used_mem", "mean_watts", "cpu_bound")
#: Outcomes of a job are drawn after the template.
OUTCOMES = (*MEASURED, "status")
#: Labels that name persons or what is theirs; a column of them keeps its names only where nearly all are shared.
PERSONAL = ("group", "project", "app")


def template_columns(names: Iterable[str], personal: Iterable[str]) -> list[str]:
    """Return the columns that make up a template."""
    skip = {"job_id", "submit_time", "user", *OUTCOMES, *personal}
    return [name for name in names if name not in skip]


@dataclass(frozen=True)
class Learnt:
    """Jobs that are learnt from. Columns have shape (jobs,), in one order for all."""

    machine: Machine
    table: pd.DataFrame  # templates, one row each
    kind: Column  # template of each job
    user: Column  # code of each job's user; −1 = unknown
    status: Column | None  # code of how each job ended; None = unknown of all
    measured: dict[str, Column]  # those of MEASURED that are known
    personal: dict[str, Column] = field(default_factory=dict)  # codes of labels without names; −1 = unknown

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def run(self) -> Column:
        """The run times."""
        return self.measured["run_time"]

    @cached_property
    def has_users(self) -> bool:
        """Whether any job's user is known."""
        return bool((whole(self.user) >= 0).any())

    @cached_property
    def size_of(self) -> Floats:
        """How many units a job of each template holds; 0 = unknown."""
        return np.nan_to_num(self._templates.sizes())

    @cached_property
    def limit_of(self) -> Floats:
        """The limit of each template in seconds; infinity = none."""
        limit = self._templates.column("req_time")
        return np.where(limit > 0, limit, np.inf)

    @cached_property
    def marked_of(self) -> NDArray[np.bool_]:
        """Which templates are of rows that cannot be scheduled."""
        return unusable.marks(self.table)

    @property
    def _templates(self) -> Trace:
        return as_trace(self.table, self.machine)

    def work(self) -> Floats:
        """Return size × run time of each job; unknown counts as 0."""
        return np.asarray(self.size_of[whole(self.kind)] * whole(self.run))

    def ordered(self, order: Array, shelf: Shelf) -> Self:
        """Return the jobs in another order."""

        def taken(values: Column) -> Column:
            return shelf.keep(whole(values)[order])

        return self._with(taken)

    def _with(self, change: Any) -> Self:
        return replace(
            self,
            kind=change(self.kind),
            user=change(self.user),
            status=None if self.status is None else change(self.status),
            measured={name: change(values) for name, values in self.measured.items()},
            personal={name: change(values) for name, values in self.personal.items()},
        )

    def numbered(self, shelf: Shelf, table: pd.DataFrame | None = None, to: Array | None = None) -> Self:
        """Return the jobs with templates that all differ, numbered as the values of their columns come in the jobs.

        ``table``: other templates, ``to``: which of them each of the present ones becomes (by default itself).
        """
        table = self.table if table is None else table
        kind = whole(self.kind)
        code, used = pd.factorize(kind if to is None else to[kind])  # by first appearance
        kind = small(code)
        del code
        table = table.iloc[used].reset_index(drop=True)
        rank, first = numbered(table)
        return replace(self, kind=shelf.keep(small(rank)[kind]), table=shaped(table.iloc[first], self.machine))

    def jobs(self, rows: slice) -> dict[str, Any]:
        """Return the columns of some jobs; users and labels without names are numbers as texts."""
        kind = self.kind[rows]
        found: dict[str, Any] = {name: self.table[name].array.take(kind) for name in self.table.columns}
        found |= {name: values[rows] for name, values in self.measured.items()}
        if self.status is not None:
            found["status"] = status_codes(self.status[rows].astype(np.intp))
        users = {"user": self.user} if self.has_users else {}
        for name, values in (users | self.personal).items():
            codes = pd.Series(values[rows]).astype("Int64")
            found[name] = codes.where(codes >= 0).astype("string")
        return found

    @classmethod
    def of(cls, trace: Trace, personal: tuple[str, ...]) -> Self:
        """Take apart a trace of jobs that have lost their names."""
        names = template_columns(map(str, trace.jobs.columns), personal)
        kind, table = apart(trace.jobs[names])
        known = [name for name in MEASURED if trace.has(name)]
        return cls(
            trace.machine,
            table,
            kind,
            trace.column("user"),
            trace.column("status") if trace.has("status") else None,
            {name: trace.column(name) for name in dict.fromkeys(("run_time", *known))},
            {name: trace.column(name) for name in personal},
        ).numbered(MEMORY)


def apart(rows: pd.DataFrame) -> tuple[Array, pd.DataFrame]:
    """Return the number of each row among the different ones, by first appearance, and these."""
    kind = np.zeros(len(rows), dtype=np.int64)
    for name in rows.columns:
        code, found = pd.factorize(rows[name])
        kind = pd.factorize(kind * (len(found) + 1) + code + 1)[0]
    first = np.full(int(kind.max(initial=-1)) + 1, len(rows))
    np.minimum.at(first, kind, np.arange(len(rows)))
    return small(kind), rows.iloc[first].reset_index(drop=True)


def numbered(rows: pd.DataFrame) -> tuple[Array, Ints]:
    """Number the different rows, by the codes of their values by first appearance; also the first row of each."""
    if not len(rows.columns):
        return np.zeros(len(rows), dtype=np.int64), np.zeros(min(len(rows), 1), dtype=np.int64)
    codes = np.column_stack([pd.factorize(rows[name])[0] for name in rows.columns])
    _, first, kind = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    return np.asarray(kind, dtype=np.int64).ravel(), np.asarray(first, dtype=np.int64)


def as_trace(table: pd.DataFrame, machine: Machine) -> Trace:
    """Return templates as jobs of a trace."""
    number = np.arange(1, len(table) + 1)
    return Trace(table.assign(job_id=number, submit_time=0.0, run_time=0.0), machine)


def shaped(table: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return templates with columns of the types that they have in a trace of such jobs, and no unused labels."""
    table = as_trace(table, machine).jobs.drop(columns=["job_id", "submit_time", "run_time"])
    return table.assign(**{name: table[name].cat.remove_unused_categories() for name in labels_of(table)})


def labels_of(table: pd.DataFrame) -> dict[str, list[str]]:
    """Return the labels of each column that has some, in their order."""
    labels = [str(name) for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return {name: [str(label) for label in table[name].cat.categories] for name in labels}


def sharers(code: Array, user: Array, codes: int) -> Ints:
    """Return by how many users each code from 0 is used; all jobs without a user count as one."""
    users = int(user.max(initial=-1)) + 2
    pairs = pd.unique(code.astype(np.int64) * users + user + 1)
    return np.bincount(pairs // users, minlength=codes)
