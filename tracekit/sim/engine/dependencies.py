"""Dependencies by SWF fields 17 and 18: a job is submitted ``think_time`` after the job that it waits for has ended.

Feitelson, Tsafrir & Krakov, "Experience with using the Parallel Workloads Archive", JPDC 74(10), 2014, describe the
fields. Feedback of this kind is what keeps a simulated user from submitting work whose outcome he is waiting for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal
from tracekit.sim.engine.heap import ENTRY, Heap, pop, sift_up
from tracekit.sim.jobs import NO_JOB, Prepared

LINK = np.dtype(
    [
        ("predecessor", np.int64),  # whose end the submit waits for, or NO_JOB
        ("first", np.int64),  # the first follower of this job …
        ("following", np.int64),  # … and the next follower of the same predecessor
        ("think", np.float64),  # seconds from the predecessor's end to the submit
    ]
)
TALLY = np.dtype(
    [("ahead", np.int64), ("held", np.int64)]
)  # submits to come; followers whose predecessor runs or waits


class Followers(NamedTuple):
    """Which jobs are submitted after which; chains of job numbers that end with `NO_JOB`. (0,) if there are none."""

    link: NDArray[Any]  # (jobs,) LINK
    submits: Heap  # (jobs,) submits to come; ties go to the earlier job
    tally: NDArray[Any]  # (1,) TALLY


def no_followers() -> Followers:
    """Return the followers of jobs that do not depend on each other."""
    return Followers(np.zeros(0, LINK), np.zeros(0, ENTRY), np.zeros(1, TALLY))


def followers_in(ready: Prepared) -> tuple[Followers, dict[str, int]]:
    """Return the followers among the prepared jobs, and how many there are of each kind."""
    previous, counts = predecessors(ready)
    link, tally = np.zeros(len(previous), LINK), np.zeros(1, TALLY)
    link["predecessor"], link["think"] = previous, thinking(ready)
    link["first"], link["following"] = _chains(previous)
    tally["held"] = np.count_nonzero(previous >= 0)
    return Followers(link, np.zeros(len(previous), ENTRY), tally), counts


@jit_internal
def release(followers: Followers, now: float, job: int) -> None:
    """Let the followers of a job that has ended be submitted, each after its think time."""
    tally, follower = followers.tally[0], followers.link[job].first
    while follower != NO_JOB:
        sift_up(followers.submits, tally.ahead, now + followers.link[follower].think, follower, follower)
        tally.ahead += 1
        tally.held -= 1
        follower = followers.link[follower].following


@jit_internal
def next_follower(followers: Followers) -> int:
    """Remove the follower that is submitted next, and return it."""
    job = pop(followers.submits, followers.tally[0].ahead)
    followers.tally[0].ahead -= 1
    return job


def predecessors(ready: Prepared) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return the predecessor of every prepared job, (jobs,), −1 where there is none, and what became of all of them.

    A job whose predecessor is not simulated (missing from the trace or the window, or rejected), or that would wait
    for itself by way of others, keeps its own submit time; both are counted.
    """
    asked, ids = ready.table.previous, ready.table.job_id
    if asked is None or not len(ids):
        return np.full(len(ids), NO_JOB), {"dependent": 0, "predecessor_missing": 0, "in_a_circle": 0}
    order = np.argsort(ids, kind="stable")
    slot = np.minimum(np.searchsorted(ids[order], asked), len(ids) - 1)
    named = asked > 0
    found = np.where(named & (ids[order[slot]] == asked), order[slot], NO_JOB)
    circles = _circles(found)
    found[circles] = NO_JOB
    counts = {
        "dependent": int((found != NO_JOB).sum()),
        "predecessor_missing": int((named & (found == NO_JOB)).sum() - len(circles)),
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


def _chains(previous: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each job's first follower, and for each follower the next one of the same predecessor; −1 ends a chain."""
    first = np.full(len(previous), NO_JOB)
    following = np.full(len(previous), NO_JOB)
    for job in np.flatnonzero(previous >= 0)[::-1].tolist():
        following[job] = first[previous[job]]
        first[previous[job]] = job
    return first, following
