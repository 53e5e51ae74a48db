"""What the task pick-job shows of the jobs of an episode: static features, and the order of visibility."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.policies.formulas import values_for
from tracekit.sim.predict.features import past_of
from tracekit.sim.predict.history import History
from tracekit.sim.predict.predictor import Predictor
from tracekit.sim.tasks.pick_job import features
from tracekit.sim.tasks.pick_job.features import Facts
from tracekit.trace import Trace


class JobColumns(NamedTuple):
    """Static data of an episode's jobs."""

    fixed: NDArray[np.float32]  # (jobs, features) those that do not change
    order: NDArray[np.int64]  # (1 or 2, jobs) jobs by the rule(s) of visibility
    user: NDArray[np.int64]  # (jobs,) numbered from 0 within the episode, where a feature needs it
    alike: NDArray[np.int64] | None = None  # (jobs,) on a cluster: the first job of the same demand
    history: History | None = None  # what a predictor of run times knows before the first submit


class JobView:
    """What a `PickJob` task shows of the jobs of one trace."""

    def __init__(self, task: Any, trace: Trace, table: Table, whole: Prepared | None) -> None:
        if task.sees_gpus and table.demand is not None and not table.demand.gpus.any():
            raise TracekitError(
                "no job of the trace asks for GPUs (req_gpus, alloc_gpus); observer rltune and objective "
                "gpu-utilization need GPU jobs"
            )
        self.facts = features.facts_of(trace)
        requests = np.where(table.limit > 0, table.limit, table.run)
        constants = features.constants_of(self.facts, requests, table.total) | dict(task.constants)
        self.task = dataclasses.replace(task, constants=constants)
        self.predictor = None if task.predict is None else Predictor.load(task.predict)
        self._past = None if task.predict is None else past_of(trace, _sizes(trace, table, task))
        self._fixed = None if whole is None else fixed_of(self.task, whole, self.facts)
        self._ranks = None if whole is None else np.argsort(visible_orders(whole, self.task), axis=1)

    def columns(self, ready: Prepared, rows: slice | None) -> JobColumns:
        """Return what is shown of an episode's jobs; a slice of the whole trace needs no computation."""
        if rows is None or self._fixed is None or self._ranks is None or self.task.visible == "classes":
            return job_columns(self.task, ready, self.facts)._replace(history=self._history(ready))
        count = rows.stop - rows.start
        order = np.zeros((len(self._ranks), count), np.int64)
        if count > self.task.slots or self.task.sorted:
            order = np.argsort(self._ranks[:, rows], axis=1)
        return JobColumns(self._fixed[rows], order, _users(ready, self.task), _alike(ready), self._history(ready))

    def _history(self, ready: Prepared) -> History | None:
        """Return what is known before the first submit: jobs of the trace that had ended, by the recorded schedule."""
        if self._past is None:
            return None
        return self._past.before(ready.table.position, float(ready.table.submit.min(initial=np.inf)))


def _sizes(trace: Trace, table: Table, task: Any) -> NDArray[np.float64]:
    sizes: NDArray[np.float64] = trace.sizes(table.resource, task.switches.resolved().procs_from)
    return sizes


def job_columns(task: Any, ready: Prepared, facts: Facts) -> JobColumns:
    """Compute what is shown of prepared jobs."""
    return JobColumns(fixed_of(task, ready, facts), visible_orders(ready, task), _users(ready, task), _alike(ready))


def fixed_of(task: Any, ready: Prepared, facts: Facts) -> NDArray[np.float32]:
    """Return the features that do not change; of base-place, the place among all jobs."""
    found = features.fixed_columns(task.feature_names, ready, facts, task.constants)
    if "base-place" in task.feature_names:
        given = values_for(task.base, ready, task.switches.resolved())[1]  # static, PickJob accepts no others
        order = np.arange(len(found)) if given is None else np.argsort(given, kind="stable")
        found[order, task.feature_names.index("base-place")] = np.arange(len(found))
    return found


def visible_orders(ready: Prepared, task: Any) -> NDArray[np.int64]:
    """Return the jobs by each order of the rule of visibility; it matters only where more can wait than slots.

    The rule classes has one row: the class of each job, a number from 0.
    """
    jobs = len(ready.table)
    if task.visible == "classes":
        alike: Any = ready.table.procs if ready.table.demand is None else _alike(ready)
        return np.unique(alike, return_inverse=True)[1].reshape(1, jobs).astype(np.int64)
    found = np.zeros((len(task.orders), jobs), np.int64)
    if jobs > task.slots or task.sorted:
        for i, name in enumerate(task.orders):
            given = values_for(name, ready, task.switches.resolved())[1]  # static, PickJob accepts no others
            found[i] = np.arange(jobs) if given is None else np.argsort(given, kind="stable")
    return found


def _alike(ready: Prepared) -> NDArray[np.int64] | None:
    if ready.table.demand is None:
        return None
    rows = np.ascontiguousarray(ready.table.demand.need).view([("", np.int64)] * 8).ravel()
    _, first, place = np.unique(rows, return_index=True, return_inverse=True)
    return first[place].astype(np.int64)


def _users(ready: Prepared, task: Any) -> NDArray[np.int64]:
    user = ready.table.user
    if "user-average" in task.feature_names:
        user = np.unique(user, return_inverse=True)[1].astype(np.int64)
    return user
