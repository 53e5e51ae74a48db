"""Flurries: surges of one user that dominate the log for a short while.

After Tsafrir & Feitelson, "Instability in parallel job scheduling simulation: the role of workload flurries", IPDPS
2006, and Feitelson & Tsafrir, "Workload sanitation for performance evaluation", ISPASS 2006: rare surges of activity,
of repetitive nature, by a single user, that dominate the workload for a relatively short period. They found them by
eye in plots of weekly activity; the thresholds below make that a rule. A burst is the stretch of jobs with the largest
excess of one user's jobs over a fifth of all jobs; it counts when it holds half of a usual week's jobs or more. Strong
bursts hide weaker ones and make every week look busy, so the rest of the log is searched again without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.doctor.finding import (
    DAY,
    CannotLook,
    Finding,
    Floats,
    Severity,
    days,
    picture,
    submits,
    weekly_jobs,
    when,
)
from tracekit.stats import kinds

if TYPE_CHECKING:
    from tracekit.trace import Trace

SHARE = 0.2  # of all jobs in the stretch
DENSE = 0.5  # of all jobs: bursts within the stretch of a user who dominates the log
LEAST_WEEK = 0.5  # of the jobs of a usual week
MIN_JOBS = 100  # jobs
STRONG = 0.6  # jobs of a usual week, times the share: from here on a warning
DOMINANT = 0.4  # share of all jobs from which on a user dominates the log
MAX_WITHIN = 5  # flurries reported of a user who dominates the log
SHORT = 0.25  # of the trace's span: what lasts longer is a user who dominates the log, not a flurry


@dataclass(frozen=True)
class Burst:
    """One user's surge: its jobs lie in ``[start, end]``, in seconds of the trace."""

    user: str
    start: float
    end: float
    rows: NDArray[np.intp]  # of the user's jobs in the trace
    share: float  # of all jobs submitted in the stretch
    weeks: float  # its jobs over those of a usual week
    repeats: float  # share of its jobs that are of the commonest kind (same size, same limit or run)
    of_span: float  # its length over the trace's
    aside: bool = False  # share and weeks are those of the log without stronger bursts

    @property
    def strong(self) -> bool:
        """Return whether it is worth a warning."""
        return self.share >= 0.35 and self.weeks * self.share >= STRONG and (self.short or self.share >= DOMINANT)

    @property
    def short(self) -> bool:
        """Whether this is a flurry, not a user that dominates the log all along."""
        return self.of_span <= SHORT

    @property
    def rule(self) -> str:
        """The cleaning rule that removes these jobs, in the notation of the archive's own filters."""
        return f"drop-jobs:user={self.user} and submit>={np.floor(self.start):.0f} and submit<={np.ceil(self.end):.0f}"


def find_bursts(trace: Trace) -> list[Burst]:
    """Return the surges of single users, largest first; none where users are unknown or fewer than three."""
    submit, rows = submits(trace)
    kind = kinds(trace)
    found: list[Burst] = []
    while new := _bursts(trace, submit, rows, kind, aside=bool(found)):
        if found:  # with others removed some user always dominates the rest
            new = [burst for burst in new if burst.short]
        strong = [burst for burst in new if burst.strong]
        if not strong:
            found += new
            break
        gone = np.unique(np.concatenate([burst.rows for burst in strong]))
        found += [burst for burst in new if np.isin(burst.rows, gone).any()]  # strong ones, and what lies inside them
        left = ~np.isin(rows, gone)
        submit, rows = submit[left], rows[left]
    return sorted(found, key=lambda burst: -len(burst.rows))


def _bursts(
    trace: Trace, submit: Floats, rows: NDArray[np.intp], kind: NDArray[np.int64], *, aside: bool
) -> list[Burst]:
    """Search the jobs ``rows``, which are in order of submit."""
    users = trace.column("user")[rows]
    counts = np.bincount(users[users >= 0]) if (users >= 0).any() else np.zeros(0, np.int64)
    if (counts > 0).sum() < 3 or submit[-1] <= submit[0]:
        return []
    usual = weekly_jobs(submit)
    least = max(LEAST_WEEK * usual, MIN_JOBS)
    found = []
    for user in np.flatnonzero(counts >= least):
        places = np.flatnonzero(users == user)
        for first, last in _all_stretches(places, int(np.ceil(least)), submit):
            mine = places[first : last + 1]
            begin, end = float(submit[mine[0]]), float(submit[mine[-1]])
            same = kind[rows[mine]]
            found.append(
                Burst(
                    str(trace.jobs["user"].cat.categories[int(user)]),
                    begin,
                    end,
                    rows[mine],
                    len(mine) / int(mine[-1] - mine[0] + 1),
                    len(mine) / usual,
                    float(np.unique(same, return_counts=True)[1].max() / len(mine)),
                    (end - begin) / float(submit[-1] - submit[0]),
                    aside,
                )
            )
    return found


def _all_stretches(places: NDArray[np.intp], least: int, submit: Floats) -> list[tuple[int, int]]:
    """Return the stretches of one user, and within the long ones the bursts that are denser still."""
    found = _stretches(places, least)
    inner: list[tuple[int, int]] = []
    for first, last in found:
        length = submit[places[last]] - submit[places[first]]
        if length > SHORT * (submit[-1] - submit[0]):
            parts = _stretches(places[first : last + 1], least, share=DENSE)
            largest = sorted(parts, key=lambda part: part[0] - part[1])[:MAX_WITHIN]
            inner += [(first + a, first + b) for a, b in largest if b - a < last - first]
    return found + inner


def _stretches(places: NDArray[np.intp], least: int, share: float = SHARE) -> list[tuple[int, int]]:
    """Return the stretches of a user's jobs (first, last) with the largest excess over ``share`` of all jobs.

    ``places`` are the positions of the user's jobs among all jobs. The best stretch is found by running sums, then the
    jobs to its left and right are searched in turn.
    """
    found: list[tuple[int, int]] = []
    parts = [(0, len(places))]
    while parts:
        low, high = parts.pop()
        if high - low < least:
            continue
        part = places[low:high]
        after = np.arange(1, len(part) + 1) - share * (part - part[0] + 1)  # own jobs minus that share of all, so far
        before = after - (1 - share)
        lowest = np.minimum.accumulate(before)
        last = int(np.argmax(after - lowest))
        first = int(np.argmin(before[: last + 1]))
        if last - first + 1 >= least:
            found.append((low + first, low + last))
        parts += [(low, low + first), (low + last + 1, high)]
    return sorted(found)


def flurries(trace: Trace) -> list[Finding]:
    """Report bursts of single users, and users who dominate the log all along."""
    if not trace.has("user"):
        raise CannotLook("users are unknown")
    found = []
    for burst in find_bursts(trace):
        if not burst.short and burst.share < DOMINANT:
            continue
        severity: Severity = "warning" if burst.strong else "note"
        length = days(burst.end - burst.start)
        text = (
            f"user {burst.user} submitted {len(burst.rows):,} jobs within {length} from {when(trace, burst.start)} on: "
            f"{burst.share:.0%} of all jobs of that time{', larger bursts aside' if burst.aside else ''}, as many as "
            f"{burst.weeks:.1f} usual weeks; "
            f"{burst.repeats:.0%} of them are of one kind"
        )
        found.append(
            Finding(
                "flurry" if burst.short else "dominant-user",
                severity,
                text if burst.short else f"{text}; this is not a short flurry: the user dominates the log",
                {
                    "user": burst.user,
                    "jobs": len(burst.rows),
                    "share": round(burst.share, 4),
                    "usual_weeks": round(burst.weeks, 3),
                    "one_kind": round(burst.repeats, 4),
                    "start": burst.start,
                    "end": burst.end,
                    "days": round((burst.end - burst.start) / DAY, 3),
                    "first_job": int(trace.jobs["job_id"].iloc[burst.rows].min()),
                    "last_job": int(trace.jobs["job_id"].iloc[burst.rows].max()),
                },
                burst.rows,
                burst.rule,
                "leave it out of evaluations, or see whether results change without it",
                picture("user_over_time", user=burst.user, start=burst.start, end=burst.end),
            )
        )
    return found
