"""Why many jobs of one schedule waited: the parts of `tracekit.sim.analysis.explain`, for all of them at once.

On a pool of processors without outages and levers a compiled sweep gives the same parts as `explain`, but for the
estimate: no other estimate is tried, so the time that a better one would have saved counts to the part that it is in.
Elsewhere (hosts, outages, levers) every job is explained by itself, which is slow: only the first `MOST_SINGLE` jobs
that waited are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.analysis.explain import PARTS, Explanation, Recorded, explain
from tracekit.sim.analysis.explain_text import duration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: `Explanation.method` of jobs for which no other estimate was tried.
RECORDED = "recorded"
#: Jobs on hosts, under outages or levers that are explained; each is a search of its own.
MOST_SINGLE = 1000
_SWEPT = ("full", "ahead", "overtaken", "held_back")
_SHORT = {
    "full": "machine full",
    "outage": "outage",
    "ahead": "jobs ahead",
    "overtaken": "overtaken",
    "held_back": "held back",
    "fragmentation": "fragmentation",
    "shifted": "shifted",
    "power_cap": "power cap",
    "waking": "waking up",
}


@dataclass(frozen=True, eq=False)
class Swept:
    """The parts of the waits of some jobs, (jobs,) each; times in seconds."""

    parts: Floats  # (jobs, 4) full, ahead, overtaken, held back
    first: Floats  # when each would have started if it had been first in line
    ahead: Ints  # jobs that started while it waited, submitted before it
    overtaking: Ints  # … and after it


def swept(recorded: Recorded, rows: Ints) -> Swept:
    """Divide the waits of some rows of a schedule on a pool of processors."""
    from tracekit.sim.analysis.reasons_sweep import Found, Schedule, Waits, divide

    long = np.flatnonzero(recorded.end > recorded.start)  # jobs of no length hold nothing
    by_start = long[np.argsort(recorded.start[long], kind="stable")]
    by_end = long[np.argsort(recorded.end[long], kind="stable")]
    begun = np.concatenate(([0.0], np.cumsum(recorded.procs[by_start])))
    ended = np.concatenate(([0.0], np.cumsum(recorded.procs[by_end])))
    submit = recorded.submit[rows]
    at_start = np.searchsorted(recorded.start[by_start], submit, side="left")
    at_end = np.searchsorted(recorded.end[by_end], submit, side="right")
    running = begun[at_start] - ended[at_end]
    count = len(rows)
    found = Found(np.zeros((count, len(_SWEPT))), np.zeros(count), np.zeros((count, 2), np.int64))
    schedule = Schedule(recorded.submit, recorded.start, recorded.end, recorded.procs, by_start, by_end)
    divide(schedule, Waits(rows, at_start, at_end, running), recorded.total, found)
    return Swept(found.parts, found.first, found.counts[:, 0], found.counts[:, 1])


def explained(recorded: Recorded, rows: Sequence[int] | Ints) -> Iterator[Explanation | None]:
    """Yield the explanation of each of the rows; None where a job was not explained."""
    rows = np.asarray(rows, dtype=np.int64)
    if recorded.room is not None or recorded.outages or recorded.levers is not None:
        yield from _single(recorded, rows)
        return
    found = swept(recorded, rows)
    for place, row in enumerate(rows.tolist()):
        parts = dict.fromkeys(PARTS, 0.0) | dict(zip(_SWEPT, found.parts[place].tolist(), strict=True))
        facts = (found.first[place], found.ahead[place], found.overtaking[place])
        yield _explanation(recorded, row, parts, float(facts[0]), int(facts[1]), int(facts[2]))


def _explanation(
    recorded: Recorded, row: int, parts: dict[str, float], first: float, ahead: int, overtaking: int
) -> Explanation:
    start, end = float(recorded.start[row]), float(recorded.end[row])
    return Explanation(
        int(recorded.job_id[row]),
        float(recorded.procs[row]),
        recorded.total,
        float(recorded.submit[row]),
        start,
        end - start,
        float("nan"),
        parts,
        first,
        ahead,
        overtaking,
        [],
        method=RECORDED,
    )


def _single(recorded: Recorded, rows: Ints) -> Iterator[Explanation | None]:
    """Explain job by job; the first `MOST_SINGLE` that waited, and all that did not."""
    left = MOST_SINGLE
    unique = len(np.unique(recorded.job_id)) == len(recorded.job_id)
    for row in rows.tolist():
        waited = recorded.start[row] > recorded.submit[row]
        if not unique or recorded.start[row] < recorded.submit[row] or (waited and not left):
            yield None
            continue
        if not waited:
            parts = dict.fromkeys(PARTS, 0.0)
            yield _explanation(recorded, row, parts, float(recorded.start[row]), 0, 0)
            continue
        left -= 1
        run = float(recorded.end[row] - recorded.start[row])
        found = explain(recorded, int(recorded.job_id[row]), float("nan"), run)
        yield replace(found, method=RECORDED)


def short(found: Explanation) -> str:
    """Return the causes of a wait in a few words, the longest first.

    >>> parts = dict.fromkeys(PARTS, 0.0) | {"full": 60.0, "ahead": 3600.0}
    >>> short(Explanation(1, 1, 4, 0.0, 3660.0, 5.0, float("nan"), parts, 60.0, 1, 0, []))
    'jobs ahead 1 h, machine full 1 min'
    """
    causes = sorted(((s, name) for name, s in found.parts.items() if s > 0 and name in _SHORT), reverse=True)
    return ", ".join(f"{_SHORT[name]} {duration(seconds)}" for seconds, name in causes) or "did not wait"
