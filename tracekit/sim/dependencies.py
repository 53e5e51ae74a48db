"""Dependencies by SWF fields 17 and 18: a job is submitted ``think_time`` after the job that it waits for has ended.

Feitelson, Tsafrir & Krakov, "Experience with using the Parallel Workloads Archive", JPDC 74(10), 2014, describe the
fields. Feedback of this kind is what keeps a simulated user from submitting work whose outcome he is waiting for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.jobs import Prepared

NOBODY = -1


def predecessors(ready: Prepared) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return the predecessor of every prepared job, (jobs,), −1 where there is none, and what became of all of them.

    A job whose predecessor is not simulated (missing from the trace or the window, or rejected), or that would wait
    for itself by way of others, keeps its own submit time; both are counted.
    """
    asked, ids = ready.table.previous, ready.table.job_id
    if asked is None or not len(ids):
        return np.full(len(ids), NOBODY), {"dependent": 0, "predecessor_missing": 0, "in_a_circle": 0}
    order = np.argsort(ids, kind="stable")
    slot = np.minimum(np.searchsorted(ids[order], asked), len(ids) - 1)
    named = asked > 0
    found = np.where(named & (ids[order[slot]] == asked), order[slot], NOBODY)
    circles = _circles(found)
    found[circles] = NOBODY
    counts = {
        "dependent": int((found != NOBODY).sum()),
        "predecessor_missing": int((named & (found == NOBODY)).sum() - len(circles)),
        "in_a_circle": len(circles),
    }
    return found.astype(np.int64), counts


def _circles(previous: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return every job that waits for itself, directly or by way of others."""
    state = np.zeros(len(previous), np.int8)  # 0 not seen, 1 on the way, 2 settled
    found: list[int] = []
    for job in np.flatnonzero(previous >= 0).tolist():
        path = []
        while job >= 0 and state[job] == 0:
            state[job] = 1
            path.append(job)
            job = int(previous[job])
        if job >= 0 and state[job] == 1:
            found += path[path.index(job) :]
        state[path] = 2
    return np.array(sorted(found), dtype=np.intp)


def thinking(ready: Prepared) -> NDArray[np.float64]:
    """Return the think times in seconds, (jobs,); unknown and negative ones count as none."""
    think = ready.table.think
    if think is None:
        return np.zeros(len(ready.table))
    return np.where(think > 0, think, 0.0)


def followers_of(previous: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each job's first follower, and for each follower the next one of the same predecessor; −1 ends a chain."""
    first = np.full(len(previous), NOBODY)
    following = np.full(len(previous), NOBODY)
    for job in np.flatnonzero(previous >= 0)[::-1].tolist():
        following[job] = first[previous[job]]
        first[previous[job]] = job
    return first, following
