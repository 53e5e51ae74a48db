"""Which jobs are capability jobs: those that only a large machine can run, by their flag or by their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.jobs import Prepared, Table

#: Where a trace keeps the flag; ALCF's exports have a column CAPABILITY.
_COLUMN = "x_capability"
#: Values of the flag that mean yes; numbers other than 0 do, too.
_YES = ("capable", "capability", "true", "yes", "y", "t")
#: Without a flag: the share of the machine from which on a job is one, as on ALCF's Theta.
SHARE = 0.2


def capability_jobs(table: Table) -> NDArray[np.bool_]:
    """Return which jobs are capability jobs, (jobs,): by the trace's flag, else by a fifth of the machine or more."""
    trace = table.trace
    if trace is None or _COLUMN not in trace.jobs.columns or not trace.jobs[_COLUMN].notna().any():
        return table.procs >= SHARE * table.total
    flags = trace.jobs[_COLUMN]
    meant = {flag: _means_yes(str(flag)) for flag in flags.dropna().unique()}
    return flags.map(meant).eq(True).to_numpy(bool)[table.position]


def _means_yes(flag: str) -> bool:
    try:
        return float(flag) != 0
    except ValueError:
        return flag.strip().lower() in _YES


def capability_first(ready: Prepared) -> NDArray[np.float64]:
    """Return places in the order of the policy, (jobs,): capability jobs by submit time, then all others."""
    place = np.empty(len(ready.table))
    place[np.argsort(~capability_jobs(ready.table), kind="stable")] = np.arange(len(place))
    return place
