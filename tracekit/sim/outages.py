"""Drains and outages: when how much of the machine is away, and the scheduling pass that plans around it.

An outage takes processors away over [from, to). What overlaps adds up, to at most the whole machine. One that is
announced is known from the beginning: nobody starts who, by estimates, would still hold processors that are to go. One
that is not is known from the moment it begins, and so is its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UsageError
from tracekit.sim.backfill import CONSERVATIVE, EASY_SJF, NONE, Memory
from tracekit.sim.capacity import fits, most, take
from tracekit.sim.compile import compiled
from tracekit.sim.decide import Profile, Queue, book, earliest, first, plan, sort_pairs
from tracekit.sim.events import Jobs, begin
from tracekit.sim.running import Running
from tracekit.sim.switches import Outage, check_outage


class Outages(NamedTuple):
    """Outages of one simulation, (outages,) each, and what is known of them now."""

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    units: NDArray[np.int64]
    total: NDArray[np.int64]  # (1,) units of the whole machine
    change: NDArray[np.float64]  # (changes,) every begin and end, ascending …
    place: NDArray[np.int64]  # (1,) … and the next one that has not happened
    away: NDArray[np.int64]  # (1,) units that are away now
    announced: NDArray[np.bool_]  # (1,)
    time: NDArray[np.float64]  # (changes,) changes to come that are known …
    known: NDArray[np.int64]  # (changes,) … and the units away from each on
    ahead: NDArray[np.int64]  # (1,) how many of these there are


def empty(outages: Sequence[Outage], total: int, scale: int, *, announced: bool) -> Outages:
    """Return the outages of a machine of ``total`` units before anything has happened; sizes times ``scale``."""
    table = np.array(outages, dtype=np.float64).reshape(len(outages), 3)
    change = np.unique(table[:, :2])
    made = Outages(
        table[:, 0].copy(),
        table[:, 1].copy(),
        np.ceil(np.round(table[:, 2] * scale, 6)).astype(np.int64),
        np.array([total]),
        change,
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.array([announced]),
        np.empty(len(change)),
        np.empty(len(change), np.int64),
        np.zeros(1, np.int64),
    )
    _look_ahead(-np.inf, made)
    return made


@compiled
def _away_at(time: float, now: float, outages: Outages) -> int:
    """Return the units that are away at ``time`` as far as is known at ``now``."""
    units = 0
    for i in range(len(outages.begin)):
        known = outages.announced[0] or outages.begin[i] <= now
        if known and outages.begin[i] <= time < outages.end[i]:
            units += outages.units[i]
    return int(min(units, outages.total[0]))


@compiled
def _look_ahead(now: float, outages: Outages) -> None:
    """Write down the changes to come that are known at ``now``."""
    count = 0
    for i in range(outages.place[0], len(outages.change)):
        outages.time[count] = outages.change[i]
        outages.known[count] = _away_at(outages.change[i], now, outages)
        count += 1
    outages.ahead[0] = count


@compiled
def change_now(now: float, outages: Outages) -> int:
    """Let the changes up to ``now`` happen; return how many more units are away than before."""
    place = outages.place[0]
    before = outages.away[0]
    if place >= len(outages.change) or outages.change[place] > now:
        return 0
    while place < len(outages.change) and outages.change[place] <= now:
        place += 1
    passed = place - outages.place[0]
    outages.place[0] = place
    outages.away[0] = _away_at(now, now, outages)
    if outages.announced[0]:  # all has been known from the beginning
        outages.ahead[0] -= passed
        for i in range(outages.ahead[0]):
            outages.time[i], outages.known[i] = outages.time[i + passed], outages.known[i + passed]
    else:
        _look_ahead(now, outages)
    return int(outages.away[0] - before)


@compiled
def unroll_around(now: float, jobs: Jobs, capacity: Any, running: Running, profile: Profile, outages: Outages) -> None:
    """Write the profile of the running jobs and the known outages; who is past the estimate counts as ending now."""
    i, k = running.tally[0] - 1, 0
    free = most(capacity) + outages.away[0]
    while i >= 0 and running.limit[i] <= now:
        free += jobs.size[running.limit_job[i]]
        i -= 1
    away, step = outages.away[0], 0
    profile.time[0], profile.free[0] = now, free - away
    while i >= 0 or k < outages.ahead[0]:
        time = np.inf
        if i >= 0:
            time = running.limit[i]
        if k < outages.ahead[0] and outages.time[k] < time:
            time = outages.time[k]
        while i >= 0 and running.limit[i] <= time:
            free += jobs.size[running.limit_job[i]]
            i -= 1
        while k < outages.ahead[0] and outages.time[k] <= time:
            away = outages.known[k]
            k += 1
        step += 1
        profile.time[step], profile.free[step] = time, free - away
    profile.length[0] = step + 1


@compiled
def _fits_from_now(profile: Profile, size: int, estimate: float) -> bool:
    """Tell whether the profile has room for a job from now on until its estimated end."""
    if estimate <= 0:
        return True  # holds nothing for longer than an instant
    until = profile.time[0] + estimate
    step = 0
    while step < profile.length[0] and (step == 0 or profile.time[step] < until):
        if profile.free[step] < size:
            return False
        step += 1
    return True


@compiled
def pass_around(
    now: float,
    jobs: Jobs,
    capacity: Any,
    running: Running,
    queue: Queue,
    backfill: int,
    commit: bool,
    memory: Memory,
    profile: Profile,
    outages: Outages,
) -> None:
    """Start whatever may start now, as `tracekit.sim.decide.decide` does, with the known outages in mind.

    EASY's one reservation is booked into the profile, so "ends by the shadow time or needs no more than extra"
    becomes "fits into the profile until its estimated end", which is the same where there are no outages.
    """
    unroll_around(now, jobs, capacity, running, profile, outages)
    if backfill == CONSERVATIVE:
        plan(now, jobs, capacity, running, queue, commit, memory, profile)
        return
    picked = memory.number[1] if commit else -1
    while True:
        job = picked if picked >= 0 else first(jobs, queue)
        if job < 0:
            memory.number[1] = -1
            return
        size, estimate = jobs.size[job], jobs.estimate[job]
        if not (fits(capacity, size) and _fits_from_now(profile, size, estimate)):
            break
        _start(now, job, jobs, capacity, running, profile)
        picked = -1
    memory.number[1] = job
    if backfill == NONE:
        return
    step = earliest(profile, jobs.size[job], jobs.estimate[job])
    instant = np.nextafter(profile.time[step], np.inf) - profile.time[step]
    book(profile, step, jobs.size[job], max(jobs.estimate[job], instant))  # a job of no length has its moment, too
    count = 0
    for i in range(queue.length[0]):
        other = queue.job[i]
        if other == job or not np.isnan(jobs.start[other]) or not fits(capacity, jobs.size[other]):
            continue
        queue.order[count] = other
        queue.key[count] = jobs.estimate[other] if backfill == EASY_SJF else queue.value[i]
        count += 1
    sort_pairs(queue.key, queue.order, count)
    for i in range(count):
        other = queue.order[i]
        size = jobs.size[other]
        if fits(capacity, size) and _fits_from_now(profile, size, jobs.estimate[other]):
            _start(now, other, jobs, capacity, running, profile)


@compiled
def _start(now: float, job: int, jobs: Jobs, capacity: Any, running: Running, profile: Profile) -> None:
    book(profile, 0, jobs.size[job], jobs.estimate[job])
    take(capacity, job, jobs.size[job])
    begin(now, job, jobs, running)


# ---- from the command line -------------------------------------------------------------------------------------------


def parse_outage(text: str) -> Outage:
    """Read ``FROM:TO:PROCS``, seconds as in the trace."""
    parts = text.split(":")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 3:
        raise UsageError(f"outage '{text}': write FROM:TO:PROCS, such as 86400:172800:64, or name a file of such lines")
    return check_outage(*numbers)


def read_outages(texts: Sequence[str]) -> tuple[Outage, ...]:
    """Read outages given as ``FROM:TO:PROCS`` or as files with one such line each (# begins a remark)."""
    found: list[Outage] = []
    for text in texts:
        if ":" in text or not Path(text).is_file():
            found.append(parse_outage(text))
            continue
        for number, line in enumerate(Path(text).read_text(errors="replace").splitlines(), 1):
            words = line.partition("#")[0].strip()
            if words:
                try:
                    found.append(parse_outage(":".join(words.replace(",", " ").replace(":", " ").split())))
                except UsageError as error:
                    raise FormatError(text, f"line {number}: {error}") from None
    return tuple(found)
