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
    note_cancel,
    note_end,
    note_requeue,
    note_start,
    note_submit,
    observe,
)
from tracekit.sim.predict.past import Past
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Kinds of events in their order at one instant, as in the simulator; a job of no length ends after its start. The last
#: two are never in a trace.
END, SUBMIT, START, END_AT_ONCE, REQUEUE, CANCEL = range(6)


def history_of(trace: Trace, size: Floats) -> History:
    """Return the history of a trace's jobs before the first submit; ``size`` (jobs,) in units of the machine."""
    limit = trace.column("req_time")
    own = own_features(limit, size)
    if stats.has_calendar(trace):
        hours = stats.hour_of_week(trace)
        own[:, 2], own[:, 3] = hours % 24, hours // 24
    user, queue = trace.column("user"), trace.column("queue")
    shape = _numbered(np.column_stack((user, size, np.nan_to_num(limit, nan=-1.0))))
    return begin_history(own, np.column_stack((_numbered(user[:, None]), shape, _numbered(queue[:, None]))))


def own_features(limit: Floats, size: Floats) -> Floats:
    """Return what is known of jobs by themselves, (jobs, OWN), without the hour; limits in seconds, (jobs,) each."""
    own = np.full((len(limit), len(OWN)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        own[:, 0] = np.where(limit > 0, np.log(np.maximum(limit, 1.0)), np.nan)
        own[:, 1] = np.log(size)
    return own


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
    replay_recorded(trace, history_of(trace, trace.sizes()), found)
    return found


def past_of(trace: Trace, size: Floats) -> Past:
    """Return what was known at any moment of a trace, by the recorded schedule; ``size`` (jobs,) in units."""
    return Past(history_of(trace, size), *recorded(trace), trace.column("run_time"))


def history_before(trace: Trace, size: Floats, rows: Ints, begin: float) -> History:
    """Return the history of some jobs of a trace, ``rows`` (jobs,), before the first of them is submitted at ``begin``.

    It holds the jobs of the trace that had ended by then, by the recorded schedule.
    """
    return past_of(trace, size).before(rows, begin)


def recorded(trace: Trace) -> tuple[Floats, Floats, Floats]:
    """Return the recorded submits, starts and ends, (jobs,) each, in seconds; NaN = unknown."""
    submit, run, wait = (trace.column(name) for name in ("submit_time", "run_time", "wait_time"))
    start = submit + np.where(wait > 0, wait, 0.0)
    return submit, start, start + np.where(run >= 0, run, np.nan)


def replay_recorded(trace: Trace, history: History, found: Floats) -> None:
    """Let the recorded schedule happen; writes the features of every job into ``found``."""
    submit, start, end = recorded(trace)
    jobs = len(trace)
    time = np.concatenate((submit, start, end))
    kind = np.repeat([SUBMIT, START, END], jobs)
    kind[2 * jobs :][end == start] = END_AT_ONCE
    known = np.flatnonzero(np.isfinite(time))
    order = known[np.lexsort((known % max(jobs, 1), kind[known], time[known]))]
    run = np.require(trace.column("run_time"), requirements=("C", "W"))
    replay(history, run, time[order], kind[order], order % max(jobs, 1), found)


@jit
def replay(history: History, run: Floats, time: Floats, kind: Ints, job: Ints, found: Floats) -> None:
    """Let the events happen in their order, (events,) each, and write every job's features at its submit.

    ``run`` (jobs,) and ``found`` (jobs, FEATURES) are by the numbers of the jobs.
    """
    for event in range(len(time)):
        if kind[event] == SUBMIT:
            observe(history, job[event], time[event], found[job[event]])
            note_submit(history, job[event], time[event])
        elif kind[event] == START:
            note_start(history, job[event], time[event])
        elif kind[event] == REQUEUE:
            note_requeue(history, job[event])
        elif kind[event] == CANCEL:
            note_cancel(history, job[event])
        else:
            note_end(history, job[event], time[event], run[job[event]])
