"""Why did this job wait? The wait, divided into causes that add up to it, from the recorded schedule.

Over the wait of a job that needs n processors, every moment has one cause, the first of these that holds:

* estimate: with its true run time as its estimate the job would have been running by then;
* full: jobs that were running before it came leave less than n. Even first in line it could not have started;
* outage: the same, because part of the machine is out of service, or will be before the job's estimated end;
* ahead: blocked by jobs submitted before it and started while it waited;
* overtaken: blocked by jobs submitted after it;
* fragmentation: on a cluster of hosts, enough is free in all, but not where the job fits;
* power cap: n processors are free, but not the watts that the job draws;
* held back: n processors are free, but are reserved for jobs of higher priority.

Before all of these comes the time for which a job was held back for less carbon or a lower price (shifted); the time in
which its hosts wake up is one more (waking).

Jobs that run at the submit only end, so "full" is one stretch at the beginning: its end is when the job would have
started if it had been first in line. ahead, overtaken and held back together are the policy's order.

What another estimate would have changed is found by simulating again with only that estimate changed, where that is
possible (`tracekit.sim.analysis.resimulate`). For schedules of other tools it is found by replaying: the job takes the
first hole of the recorded schedule that is long enough for the other estimate but not for its own, so that no other
job is disturbed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.registry import imported
from tracekit.sim.analysis.explain_levers import LEVERS, LeverFacts
from tracekit.sim.snapshot import RUNNING, standing
from tracekit.sim.switches import Outage, outage_steps

if TYPE_CHECKING:
    from tracekit.sim.analysis.explain_hosts import HostRoom

Floats = NDArray[np.float64]
#: They add up to the wait; on a cluster of hosts together with `FRAGMENTATION`.
PARTS = ("full", "outage", "ahead", "overtaken", "held_back", "estimate")
FRAGMENTATION = "fragmentation"


@dataclass(frozen=True)
class OtherEstimate:
    """When the job would have started had its user asked for another time."""

    words: str  # "its true run time", "half of its estimate"
    estimate: float  # seconds
    start: float  # seconds as in the trace
    earlier: float  # seconds before the start that was; negative = later


@dataclass(frozen=True)
class Explanation:
    """Why one job waited. Times in seconds, as in the trace; ``parts`` add up to ``wait``."""

    job: int
    procs: float
    total: float
    submit: float
    start: float
    run: float
    estimate: float  # NaN = unknown
    parts: dict[str, float]
    first_in_line: float  # when it would have started if it had been first in line
    jobs_ahead: int  # started while it waited, submitted before it
    jobs_overtaking: int  # started while it waited, submitted after it
    held_by: list[dict[str, float]]  # jobs that held most of the machine during the wait: job, procs, seconds
    others: list[OtherEstimate] = field(default_factory=list)
    method: str = "replayed"  # or "resimulated": how `others` was found; "recorded": no other estimate was tried
    after: int | None = None  # the job that had to end before this one was submitted …
    think: float = 0.0  # … and how many seconds after it this one came
    epoch: float | None = None  # Unix seconds at time 0, where the trace has a calendar …
    timezone: str | None = None  # … on this clock
    fragmented: str = ""  # what was free, and no host had, in the longest stretch of fragmentation

    @property
    def wait(self) -> float:
        """From submit to start."""
        return self.start - self.submit

    @property
    def policy(self) -> float:
        """The part that is due to the order of jobs."""
        return self.parts["ahead"] + self.parts["overtaken"] + self.parts["held_back"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self) | {"wait": self.wait, "policy_order": self.policy, "text": self.text()}

    def text(self) -> str:
        """Return the explanation in three or four sentences."""
        words: str = imported("tracekit.sim.analysis.explain_text:text")(self)
        return words


@dataclass(frozen=True, eq=False)
class Recorded:
    """A schedule as it was, (jobs,) each, and the machine."""

    job_id: NDArray[np.int64]
    submit: Floats
    start: Floats
    end: Floats
    procs: Floats
    total: float
    outages: tuple[Outage, ...] = ()
    announced: bool = False  # planned: no job starts whose estimated end lies inside the outage
    room: HostRoom | None = None  # the hosts and what the jobs hold of them
    levers: LeverFacts | None = None  # what levers of energy did, where any was used

    def row(self, job: int) -> int:
        """Return the row of a job; an error when it is missing or appears twice."""
        rows = np.flatnonzero(self.job_id == job)
        if not len(rows):
            raise TracekitError(f"job {job} is not in the schedule (was it rejected, or outside of the window?)")
        if len(rows) > 1:
            raise TracekitError(
                f"job {job} appears {len(rows)} times in the schedule; ids must be unique to explain one"
            )
        return int(rows[0])


def explain(
    recorded: Recorded,
    job: int,
    estimate: float,
    run: float,
    *,
    again: Callable[[float], float] | None = None,
) -> Explanation:
    """Explain the wait of one job; ``again(estimate)`` simulates with another estimate and returns the job's start."""
    row = recorded.row(job)
    submit, start, procs = float(recorded.submit[row]), float(recorded.start[row]), float(recorded.procs[row])
    if not start >= submit:
        raise TracekitError(
            f"job {job} starts at {start:g}, before its submit at {submit:g}; run check-schedule for details"
        )
    others = _other_estimates(recorded, row, estimate, run, again)
    exact = min(others[0].start, start) if others else start
    parts, first, fragmented = _parts(recorded, row, min(max(exact, submit), start), estimate if estimate > 0 else run)
    parts["estimate"] = start - min(max(exact, submit), start)
    between = (recorded.start >= submit) & (recorded.start < start) & (recorded.end > recorded.start)
    between[row] = False
    before = _came_before(recorded, row)
    return Explanation(
        job,
        procs,
        recorded.total,
        submit,
        start,
        run,
        estimate,
        parts,
        first,
        int((between & before).sum()),
        int((between & ~before).sum()),
        _held_by(recorded, row),
        others,
        "replayed" if again is None else "resimulated",
        fragmented=fragmented,
    )


def _came_before(recorded: Recorded, row: int) -> NDArray[np.bool_]:
    """Return which jobs were submitted before a job; ties go to the earlier row of the schedule."""
    rows = np.arange(len(recorded.submit))
    same = recorded.submit == recorded.submit[row]
    earlier: NDArray[np.bool_] = (recorded.submit < recorded.submit[row]) | (same & (rows < row))
    return earlier


def _level(times: Floats, begin: Floats, end: Floats, amount: Floats) -> Floats:
    """Return how much is held from each of the (sorted) times on until the next."""
    change = np.zeros(len(times) + 1)
    np.add.at(change, np.searchsorted(times, begin), amount)
    np.add.at(change, np.searchsorted(times, end), -amount)
    return np.cumsum(change)[:-1]


def _moments(recorded: Recorded, row: int, last: float) -> Floats:
    """Return every moment from the submit to ``last`` at which anything changes."""
    edges = [outage[i] for outage in recorded.outages for i in (0, 1)]
    edges += recorded.levers.edges(row) if recorded.levers is not None else []
    times = np.unique(np.concatenate((recorded.start, recorded.end, edges, [last])))
    submit = recorded.submit[row]
    return np.append(submit, times[(times > submit) & (times <= last)])


def _parts(recorded: Recorded, row: int, until: float, estimate: float) -> tuple[dict[str, float], float, str]:
    """Divide [submit, until) among the causes; also return when the job would have started first in line.

    Last comes what was free, and no host had, in the longest stretch of fragmentation.
    """
    submit, start, procs = recorded.submit[row], recorded.start[row], recorded.procs[row]
    times = _moments(recorded, row, start)
    rows = np.arange(len(recorded.start)) != row
    there = rows & (recorded.start < start) & (recorded.end > submit)
    runs = standing(submit, recorded.submit, recorded.start, recorded.end) == RUNNING
    before = _came_before(recorded, row)

    lengths = np.diff(np.minimum(np.append(times, start), until), append=until)[: len(times)]
    if recorded.room is not None:
        kinds = (there & runs, there & ~runs & before, there & ~runs & ~before)
        away_hosts = recorded.room.away(recorded.outages, times, estimate if recorded.announced else 0.0)
        span = np.maximum(recorded.start, submit), np.minimum(recorded.end, start)
        cause, free_first, words = recorded.room.causes(row, times, span, kinds, away_hosts)
        names = (*PARTS[:5], FRAGMENTATION)
        parts = _divided(recorded, row, times, lengths, cause, names)
        able = np.flatnonzero(free_first)
        first = float(times[able[0]]) if len(able) else float(start)
        return parts, min(first, float(start)), _longest(words, lengths)

    def held(who: NDArray[np.bool_]) -> Floats:
        begin = np.maximum(recorded.start[who], submit)
        end = np.minimum(recorded.end[who], start)
        return _level(times, begin, np.maximum(begin, end), recorded.procs[who])

    running = held(there & runs)
    ahead = held(there & ~runs & before)
    overtaking = held(there & ~runs & ~before)
    away = _most_away(recorded, times, estimate) if recorded.announced else _away(recorded, times)
    small = 1e-6  # fractions of a GPU do not add up exactly
    room = recorded.total - running - procs + small
    cause = np.select(
        [room < 0, room - away < 0, room - away - ahead < 0, room - away - ahead - overtaking < 0],
        [0, 1, 2, 3],
        4,
    )
    parts = _divided(recorded, row, times, lengths, cause, PARTS[:5])
    able = np.flatnonzero(cause >= 2)
    first = float(times[able[0]]) if len(able) else float(start)
    return parts, min(first, float(start)), ""


def _divided(
    recorded: Recorded, row: int, times: Floats, lengths: Floats, cause: NDArray[np.int64], names: tuple[str, ...]
) -> dict[str, float]:
    """Return the seconds of each cause by its name; levers may have caused some of them."""
    if recorded.levers is not None:
        others = (np.arange(len(recorded.start)) != row) & (recorded.end > recorded.start)
        begin, end = (np.clip(edge[others], times[0], times[-1]) for edge in (recorded.start, recorded.end))
        drawn = _level(times, begin, end, recorded.levers.watts[others])
        held_back = PARTS.index("held_back")
        cause = recorded.levers.causes(row, times, drawn, cause, held_back, len(names))
        names = (*names, *LEVERS)
    return {name: float(lengths[cause == code].sum()) for code, name in enumerate(names)}


def _longest(words: list[str], lengths: Floats) -> str:
    """Return the words that hold for the longest time."""
    seconds: dict[str, float] = {}
    for word, length in zip(words, lengths.tolist(), strict=True):
        if word and length > 0:
            seconds[word] = seconds.get(word, 0.0) + length
    return max(seconds, key=lambda word: seconds[word], default="")


def _away(recorded: Recorded, times: Floats) -> Floats:
    edges, units = outage_steps(recorded.outages, recorded.total)
    return np.append(0.0, units)[np.searchsorted(edges, times, side="right")]


def _most_away(recorded: Recorded, times: Floats, estimate: float) -> Floats:
    """Return the most that is away at any moment of the ``estimate`` seconds from each of the times on."""
    edges, _ = outage_steps(recorded.outages, recorded.total)
    moments = np.append(times, edges)
    away = _away(recorded, moments)
    return np.array([away[(moments == t) | ((moments > t) & (moments < t + estimate))].max() for t in times])


def _held_by(recorded: Recorded, row: int, most: int = 5) -> list[dict[str, float]]:
    """Return the jobs that held the most processor-seconds of the machine during the wait."""
    seconds = np.minimum(recorded.end, recorded.start[row]) - np.maximum(recorded.start, recorded.submit[row])
    seconds = np.where(np.arange(len(seconds)) == row, 0.0, np.maximum(seconds, 0.0))
    work = seconds * recorded.procs
    order = np.argsort(-work, kind="stable")[:most]
    return [
        {"job": int(recorded.job_id[i]), "procs": float(recorded.procs[i]), "seconds": float(seconds[i])}
        for i in order
        if work[i] > 0
    ]


# ---- another estimate ------------------------------------------------------------------------------------------------


def _other_estimates(
    recorded: Recorded, row: int, estimate: float, run: float, again: Callable[[float], float] | None
) -> list[OtherEstimate]:
    """Try the true run time, then a half and a quarter of the estimate where the job would still have finished."""
    if not (estimate > 0 and run >= 0) or estimate <= run or (recorded.room is not None and again is None):
        return []  # gaps between jobs on hosts are not looked for
    tries = [("its true run time", run)]
    tries += [
        (words, estimate * share)
        for words, share in (("half of its estimate", 0.5), ("a quarter of its estimate", 0.25))
        if estimate * share > run
    ]
    start = float(recorded.start[row])
    found = []
    for words, value in tries:
        then = again(value) if again is not None else hole(recorded, row, value, estimate)
        found.append(OtherEstimate(words, value, then, start - then))
    return found


def hole(recorded: Recorded, row: int, needed: float, estimate: float) -> float:
    """Return when the job would have fitted without delaying any other: the first moment of its wait from which its
    processors are free for ``needed`` seconds, but not for ``estimate``; else the start that was.
    """  # noqa: D205
    submit, start, procs = recorded.submit[row], float(recorded.start[row]), recorded.procs[row]
    last = start + estimate
    times = _moments(recorded, row, last)
    who = (np.arange(len(recorded.start)) != row) & (recorded.end > submit) & (recorded.start < last)
    begin = np.maximum(recorded.start[who], submit)
    used = _level(times, begin, np.maximum(begin, np.minimum(recorded.end[who], last)), recorded.procs[who])
    free = recorded.total - used - _away(recorded, times) >= procs - 1e-6
    closing = last  # where the hole that a moment lies in ends; beyond `last` it is long enough for anything
    found = start
    for i in range(len(times) - 1, -1, -1):
        if not free[i]:
            closing = float(times[i])
        elif times[i] < start and needed <= closing - times[i] < estimate:
            found = float(times[i])
    return found
