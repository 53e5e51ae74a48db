"""Rows that cannot be scheduled (no run time, or no size) as a kind of job of their own.

In some logs one row in ten was cancelled before it had a size or a run time. Left out, the number of arrivals is too
small; kept, such rows come when their users come. They are marked in a hidden column, which is part of the template, so
that they never lend their values to other jobs; a missing run time counts as 0 until the jobs are made.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.encode import without_run_time, without_size
from tracekit.trace import Trace

#: The hidden column: what is missing, as text; empty = nothing.
COLUMN = "x_unusable"
RUN, SIZE = "run time", "size"


def marked(trace: Trace) -> Trace:
    """Mark the rows that cannot be scheduled, and fill in their run times."""
    no_run, no_size = without_run_time(trace), without_size(trace)
    what = np.select([no_run & no_size, no_run, no_size], [f"{RUN}, {SIZE}", RUN, SIZE], "")
    run = np.where(no_run, 0.0, trace.column("run_time"))
    return trace.assign({"run_time": run, COLUMN: what.astype(object)})


def note(jobs: pd.DataFrame, count: NDArray[np.int64]) -> list[str]:
    """Say how many marked rows there are; each row stands for ``count`` jobs."""
    no_run, no_size = (jobs[COLUMN].str.contains(part).to_numpy(dtype=bool) for part in (RUN, SIZE))
    return [
        f"{count[no_run | no_size].sum()} jobs kept that cannot be scheduled: {count[no_run].sum()} without run time, "
        f"{count[no_size].sum()} without size"
    ]


def marks(jobs: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which jobs are marked; none where the column is missing."""
    if COLUMN not in jobs.columns:
        return np.zeros(len(jobs), dtype=bool)
    return np.asarray((jobs[COLUMN] != "").to_numpy(dtype=bool))


def unmarked(jobs: pd.DataFrame) -> pd.DataFrame:
    """Take the marks off: what was missing is missing again."""
    if COLUMN not in jobs.columns:
        return jobs
    no_run = jobs[COLUMN].str.contains(RUN).to_numpy(dtype=bool)
    return jobs.drop(columns=COLUMN).assign(run_time=np.where(no_run, np.nan, jobs["run_time"].to_numpy()))
