"""The links of the graph of jobs as features of a job that do not change; see `tracekit.sim.tasks.jobgraph`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.jobs import Prepared
from tracekit.sim.tasks.jobgraph import LINK_UNIT, SECOND

Floats = NDArray[np.float64]


def _scaled(values: Any, unit: float = LINK_UNIT) -> Floats:
    return np.asarray(values * unit, np.float64)


def _link_user(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: number of the user · 2^−22, 0 = unknown."""
    return _scaled(ready.table.user + 1.0)


def _link_project(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: number of the project (else group) · 2^−22."""
    return _scaled(facts.project[ready.table.position] + 1.0)


def _link_time(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: 2^−22 for all jobs, so that those near in time have edges."""
    return np.full(len(ready.table), LINK_UNIT)


def _link_submit(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: submit time since the first job of the trace, seconds · 2^−30."""
    return _scaled(ready.table.submit - facts.origin + 1.0, SECOND)


def _link_size(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: processors · 2^−22."""
    return _scaled(ready.units)


def _link_machine(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs: the machine's processors · 2^−22."""
    return np.full(len(ready.table), ready.total * LINK_UNIT)


def _link_none(ready: Prepared, facts: Any, constant: Any) -> Floats:
    """Link of the graph of jobs that is switched off: 0."""
    return np.zeros(len(ready.table))


#: The links by name; each is a function of prepared jobs, facts of the trace and constants, like `features.FIXED`.
LINKED: dict[str, Callable[[Prepared, Any, Any], Floats]] = {
    "link-user": _link_user,
    "link-project": _link_project,
    "link-time": _link_time,
    "link-submit": _link_submit,
    "link-size": _link_size,
    "link-machine": _link_machine,
    "link-none": _link_none,
}
