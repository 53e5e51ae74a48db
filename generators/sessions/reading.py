"""Reading the jobs to learn from, batch by batch, into columns: nothing is held but the different requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from generators.common import NOT_WORKLOAD
from generators.encode import (
    faults,
    in_order_of_faults,
    left_out_note,
    other_unit,
    too_few,
    without_run_time,
    without_size,
)
from generators.parts import categorical
from generators.sessions import unusable
from generators.sessions.learnt import MEASURED, PERSONAL, Floats, Learnt, apart, template_columns
from generators.sessions.shelf import Array, Column, Growing, Shelf, small, whole
from generators.stored import Labels
from tracekit.machine import Machine, Unit
from tracekit.trace import Trace
from tracekit.units import coverage


@dataclass(frozen=True)
class Read:
    """What was read. Columns have shape (jobs,), in the order of the file."""

    submit: Column
    jobs: Learnt  # labels of groups, projects and programs are in ``personal``, all others in the templates
    labels: dict[str, list[str]]  # what the codes in ``personal`` stand for
    notes: list[str]

    def in_order(self, shelf: Shelf) -> tuple[Floats, Learnt]:
        """Return the submit times in order, and the jobs in that order."""
        submit = whole(self.submit)
        if not (submit[1:] < submit[:-1]).any():
            return submit, self.jobs
        order = small(np.argsort(submit, kind="stable"))
        return submit[order], self.jobs.ordered(order, shelf)


class Reading:
    """Takes batches of jobs, and keeps those that can be learnt from."""

    def __init__(self, machine: Machine, shelf: Shelf, *, keep_unusable: bool) -> None:
        self.machine, self.shelf, self.keep_unusable = machine, shelf, keep_unusable
        self.jobs = self.usable = 0
        self.left_out: dict[str, int] = {}
        self.covered: dict[Unit, int] = {}
        self.known: dict[str, bool] = {}  # columns, and whether a value is known
        self.labels: dict[str, Labels] = {}
        self.table = pd.DataFrame()
        self.count = np.zeros(0, dtype=np.int64)  # jobs with each request
        self.columns: dict[str, Growing] = {}

    def add(self, batch: Trace) -> None:
        """Keep the usable jobs of a batch."""
        bad = np.zeros(len(batch), dtype=bool)
        for reason, rows in faults(batch, keep_unusable=self.keep_unusable).items():
            self.left_out[reason] = self.left_out.get(reason, 0) + int(rows.sum())
            bad |= rows
        self.jobs += len(batch)
        for unit, count in coverage(batch).items():
            self.covered[unit] = self.covered.get(unit, 0) + count
        for name in filter(_is_learnt, map(str, batch.jobs.columns)):
            if isinstance(batch.jobs[name].dtype, pd.CategoricalDtype) and name != "status":
                self.labels.setdefault(name, Labels()).numbers(batch.jobs[name])  # of all jobs: labels keep their order
        batch = batch.take(~bad) if bad.any() else batch
        self.usable += int((~(without_run_time(batch) | without_size(batch))).sum())
        batch = unusable.marked(batch) if self.keep_unusable else batch
        names = [name for name in map(str, batch.jobs.columns) if _is_learnt(name)]
        for name in names:
            self.known[name] = self.known.get(name, False) or batch.has(name)
        self._keep("submit_time", batch.column("submit_time"))
        for name in ("user", *(name for name in PERSONAL if name in names)):
            self._keep(name, self._codes(batch, name))
        for name in (name for name in MEASURED if name in names):
            self._keep(name, batch.column(name))
        if "status" in names:
            self._keep("status", batch.column("status").astype(np.int8))
        self._keep("kind", self._kinds(batch, template_columns(names, PERSONAL)))

    def _keep(self, name: str, values: Array) -> None:
        if name not in self.columns:
            self.columns[name] = self.shelf.growing()
        self.columns[name].add(values)

    def _codes(self, batch: Trace, name: str) -> Array:
        if name not in batch.jobs.columns:
            return np.full(len(batch), -1, dtype=np.int32)
        return self.labels.setdefault(name, Labels()).add(batch.jobs[name])

    def _kinds(self, batch: Trace, names: list[str]) -> Array:
        """Return the number of each job's request among those of all batches; labels are codes in their table."""
        values: dict[str, Any] = {}
        for name in names:
            column = batch.jobs[name]
            if name in self.labels:
                values[name] = self._codes(batch, name)
            elif pd.api.types.is_numeric_dtype(column.dtype):
                values[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values[name] = column
        kind, fresh = apart(pd.DataFrame(values, index=pd.RangeIndex(len(batch)), columns=names))
        before = len(self.table)
        to, table = apart(pd.concat([self.table, fresh], ignore_index=True) if before else fresh)
        self.table, kind = table, to[before:][kind]
        self.count = np.append(self.count, np.zeros(len(table) - len(self.count), dtype=np.int64))
        self.count += np.bincount(kind, minlength=len(table))
        return kind

    def done(self, *, ordered: bool, least: int) -> Read:
        """Return what was read; ``ordered``: labels get their usual order, and not that in which they came."""
        reasons = in_order_of_faults(self.left_out, self.machine, ordered=ordered)
        notes = [left_out_note(self.left_out[reason], reason) for reason in reasons if self.left_out[reason]]
        if self.usable < least:
            better = other_unit(self.covered, self.machine.unit)
            raise too_few(self.usable, self.jobs, notes, least, better)
        if self.keep_unusable:
            notes += unusable.note(self.table, self.count)
        columns = {name: growing.done() for name, growing in self.columns.items()}
        known = [name for name, is_known in self.known.items() if is_known or name == "run_time"]
        names, place = {}, {}
        for name, labels in self.labels.items():
            names[name], place[name] = labels.places(ordered=ordered)
        table = self.table[[name for name in self.table.columns if name in known]]
        coded = {name: categorical(place[name][table[name]], names[name]) for name in table.columns if name in names}
        personal = [name for name in PERSONAL if name in known]
        for name in [*personal, *(["user"] if "user" in names else [])]:
            columns[name] = self.shelf.keep(small(place[name])[whole(columns[name])])
        jobs = Learnt(
            self.machine,
            table.assign(**coded),
            columns["kind"],
            columns["user"],
            columns.get("status"),
            {name: columns[name] for name in MEASURED if name in known},
            {name: columns[name] for name in personal},
        )
        return Read(columns["submit_time"], jobs, {name: names[name] for name in personal}, notes)


def _is_learnt(name: str) -> bool:
    if name in (*NOT_WORKLOAD, "job_id", "submit_time"):
        return False
    return not name.startswith("x_") or name == unusable.COLUMN
