"""The features of jobs: of every job of a trace by its recorded schedule, and what a simulation needs for its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit import stats
from tracekit.sim.compile import jit
from tracekit.sim.predict.history import (
    FEATURES,
    OWN,
    History,
    begin_history,
    note_end,
    note_start,
    note_submit,
    observe,
)
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Kinds of events in their order at one instant, as in the simulator; a job of no length ends after its start.
_END, _SUBMIT, _START, _END_AT_ONCE = range(4)


def history_of(trace: Trace, size: Floats) -> History:
    """Return the history of a trace's jobs before the first submit; ``size`` (jobs,) in units of the machine."""
    limit = trace.column("req_time")
    own = np.full((len(trace), len(OWN)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        own[:, 0] = np.where(limit > 0, np.log(np.maximum(limit, 1.0)), np.nan)
        own[:, 1] = np.log(size)
    if stats.has_calendar(trace):
        hours = stats.hour_of_week(trace)
        own[:, 2], own[:, 3] = hours % 24, hours // 24
    user, queue = trace.column("user"), trace.column("queue")
    shape = _numbered(np.column_stack((user, size, np.nan_to_num(limit, nan=-1.0))))
    return begin_history(own, np.column_stack((_numbered(user[:, None]), shape, _numbered(queue[:, None]))))


def _numbered(keys: NDArray[np.generic]) -> Ints:
    """Return a number from 0 for each different row of keys, (jobs, keys); unknown is a key like any other."""
    if not len(keys):
        return np.zeros(0, np.int64)
    number = np.zeros(len(keys), np.int64)
    for column in keys.T:  # one column at a time: much faster than rows as a whole
        codes = np.unique(column, return_inverse=True)[1].reshape(-1)
        number = np.unique(number * (int(codes.max()) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return number.astype(np.int64)


def features_of(trace: Trace) -> Floats:
    """Return what a scheduler knew of every job at its submit, (jobs, FEATURES), by the recorded schedule.

    A job without a recorded wait counts as started at its submit. Rows of jobs without a submit time are NaN; jobs
    without a run time never end.
    """
    found = np.full((len(trace), len(FEATURES)), np.nan)
    _replay_recorded(trace, history_of(trace, trace.sizes()), np.ones(len(trace), bool), found)
    return found


def history_before(trace: Trace, size: Floats, rows: Ints, begin: float) -> History:
    """Return the history of some jobs of a trace, ``rows`` (jobs,), before the first of them is submitted at ``begin``.

    It holds the jobs of the trace that had ended by then, by the recorded schedule.
    """
    history = history_of(trace, size)
    ended = _ends(trace)[2] <= begin
    ended[rows] = False
    if ended.any():
        _replay_recorded(trace, history, ended, np.empty((len(trace), len(FEATURES))))
    return history._replace(own=history.own[rows], member=history.member[rows])


def _ends(trace: Trace) -> tuple[Floats, Floats, Floats]:
    """Return the recorded submits, starts and ends, (jobs,) each, in seconds; NaN = unknown."""
    submit, run, wait = (trace.column(name) for name in ("submit_time", "run_time", "wait_time"))
    start = submit + np.where(wait > 0, wait, 0.0)
    return submit, start, start + np.where(run >= 0, run, np.nan)


def _replay_recorded(trace: Trace, history: History, chosen: NDArray[np.bool_], found: Floats) -> None:
    """Let the recorded schedule of the chosen jobs, (jobs,), happen; writes their features into ``found``."""
    submit, start, end = _ends(trace)
    jobs = len(trace)
    time = np.concatenate((submit, start, end))
    kind = np.repeat([_SUBMIT, _START, _END], jobs)
    kind[2 * jobs :][end == start] = _END_AT_ONCE
    known = np.flatnonzero(np.isfinite(time) & np.tile(chosen, 3))
    order = known[np.lexsort((known % max(jobs, 1), kind[known], time[known]))]
    run = np.require(trace.column("run_time"), requirements=("C", "W"))
    _replay(history, run, time[order], kind[order], order % max(jobs, 1), found)


@jit
def _replay(history: History, run: Floats, time: Floats, kind: Ints, job: Ints, found: Floats) -> None:
    """Let the events happen in their order, (events,) each, and write every job's features at its submit."""
    for event in range(len(time)):
        if kind[event] == _SUBMIT:
            observe(history, job[event], time[event], found[job[event]])
            note_submit(history, job[event], time[event])
        elif kind[event] == _START:
            note_start(history, job[event], time[event])
        else:
            note_end(history, job[event], time[event], run[job[event]])
