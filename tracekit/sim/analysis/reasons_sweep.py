"""The compiled sweep of `tracekit.sim.analysis.reasons`: over each wait, which cause holds at which moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FULL, AHEAD, OVERTAKEN, HELD_BACK = 0, 1, 2, 3
_SMALL = 1e-6  # fractions of a GPU do not add up exactly


class Schedule(NamedTuple):
    """A schedule, (jobs,) each, and the rows of jobs that take time by start and by end."""

    submit: Floats
    start: Floats
    end: Floats
    procs: Floats
    by_start: Ints
    by_end: Ints


class Waits(NamedTuple):
    """The jobs to explain, (waits,) each."""

    row: Ints
    at_start: Ints  # where in by_start and by_end the events from its submit on begin
    at_end: Ints
    running: Floats  # what jobs hold that started before its submit


class Found(NamedTuple):
    """What is filled in, (waits, …)."""

    parts: Floats  # (waits, 4) seconds by cause
    first: Floats  # when the job would have started first in line
    counts: Ints  # (waits, 2) jobs ahead, jobs that overtook it


@jit
def divide(schedule: Schedule, waits: Waits, total: float, found: Found) -> None:
    """Divide each wait among the causes."""
    submit, start, end, procs = schedule.submit, schedule.start, schedule.end, schedule.procs
    by_start, by_end = schedule.by_start, schedule.by_end
    rows, at_start, at_end, running = waits.row, waits.at_start, waits.at_end, waits.running
    parts, first, counts = found.parts, found.first, found.counts
    for place in range(len(rows)):
        row = rows[place]
        now, until = submit[row], start[row]
        room = total - procs[row] + _SMALL
        before, ahead, overtaking = running[place], 0.0, 0.0
        s, e = at_start[place], at_end[place]
        first[place] = until
        while now < until:
            while e < len(by_end) and end[by_end[e]] <= now:
                job = by_end[e]
                if start[job] < submit[row]:
                    before -= procs[job]
                elif submit[job] < submit[row] or (submit[job] == submit[row] and job < row):
                    ahead -= procs[job]
                else:
                    overtaking -= procs[job]
                e += 1
            while s < len(by_start) and start[by_start[s]] <= now:
                job = by_start[s]
                if submit[job] < submit[row] or (submit[job] == submit[row] and job < row):
                    ahead += procs[job]
                    counts[place, 0] += 1
                else:
                    overtaking += procs[job]
                    counts[place, 1] += 1
                s += 1
            if room - before < 0:
                cause = FULL
            elif room - before - ahead < 0:
                cause = AHEAD
            elif room - before - ahead - overtaking < 0:
                cause = OVERTAKEN
            else:
                cause = HELD_BACK
            if cause != FULL and first[place] == until:
                first[place] = now
            following = until
            if e < len(by_end) and end[by_end[e]] < following:
                following = end[by_end[e]]
            if s < len(by_start) and start[by_start[s]] < following:
                following = start[by_start[s]]
            parts[place, cause] += following - now
            now = following
