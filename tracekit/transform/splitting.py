"""Traces cut into parts that have names: by week or month, by label, into equal numbers of jobs, at given moments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.stats import has_calendar, local_times
from tracekit.trace import Trace

LABELS = ("user", "group", "queue", "partition", "project", "app")
WAYS = ("week", "month", *LABELS)
#: More parts than this are an error: probably a mistake.
MAX_PARTS = 1000


def split(trace: Trace, by: str | int) -> list[tuple[str, Trace]]:
    """Return the parts of a trace with their names, by time or by label; every job is in exactly one of them.

    ``by``: week (ISO, on the machine's clock), month, a label column (jobs without one form the part "unknown"), or a
    number of parts with equally many jobs, earliest first. Rows keep their order within a part.
    """
    if not len(trace):
        raise TracekitError("there are no jobs to split")
    if isinstance(by, int) or by.isdigit():
        return list(_equal(trace, int(by)))
    if by in LABELS:
        if not trace.has(by):
            raise TracekitError(f"the trace has no {by}s")
    else:
        check_calendar(trace, by)
    names = part_names(trace, by)
    present = sorted(set(names.tolist()))
    check_count(len(present), by)
    return [(name, trace.take(names == name, step=f"only {by} {name}")) for name in present]


def check_calendar(trace: Trace, by: str) -> None:
    """Raise an error if a trace cannot be split by week or month."""
    if by not in WAYS:
        raise UnknownName("way to split", by, WAYS)
    if not has_calendar(trace):
        raise TracekitError(f"the trace has no calendar, so it cannot be split by {by}; try a number of parts")
    if np.isnan(trace.column("submit_time")).any():
        raise TracekitError("some jobs have no submit time; 'tracekit clean' can drop them")


def check_count(parts: int, by: str) -> None:
    """Raise TracekitError for more parts than anybody wants."""
    if parts > MAX_PARTS:
        raise TracekitError(f"that would be {parts:,} parts, one per {by}; at most {MAX_PARTS:,} are allowed")


def part_names(trace: Trace, by: str) -> NDArray[np.object_]:
    """Return for every job the name of its part, by week, month or label."""
    if by in LABELS:
        if by not in trace.jobs.columns:
            return np.full(len(trace), "unknown", dtype=object)
        labels = [str(label) for label in trace.jobs[by].cat.categories]
        return np.array([*labels, "unknown"], dtype=object)[trace.column(by)]
    stamps = local_times(trace)
    if by == "month":
        years, numbers, form = stamps.year, stamps.month, "{:04d}-{:02d}"
    else:
        weeks = stamps.isocalendar()
        years, numbers, form = weeks["year"], weeks["week"], "{:04d}-W{:02d}"
    codes, found = pd.factorize(np.asarray(years, dtype=np.int64) * 100 + np.asarray(numbers, dtype=np.int64))
    return np.array([form.format(*divmod(int(code), 100)) for code in found], dtype=object)[codes]


def split_at(trace: Trace, moments: Sequence[float]) -> list[tuple[str, Trace]]:
    """Return the parts before, between and after given seconds since the epoch; empty ones are left out."""
    edges = sorted(set(moments))
    if not edges:
        raise UsageError("give at least one moment to split at")
    part = np.searchsorted(edges, trace.column("submit_time"), side="right")
    return [
        (f"part{number + 1}", trace.take(part == number, step=f"part {number + 1} of {len(edges) + 1} by time"))
        for number in range(len(edges) + 1)
        if (part == number).any()
    ]


def _equal(trace: Trace, count: int) -> Iterator[tuple[str, Trace]]:
    check_equal(len(trace), count)
    for number, rows in enumerate(np.array_split(trace.order(), count), 1):
        yield (
            f"part{number:0{len(str(count))}d}",
            trace.take(np.sort(rows), step=f"part {number} of {count} by submit time"),
        )


def check_equal(jobs: int, count: int) -> None:
    """Raise UsageError if so many jobs cannot be split into ``count`` equal parts."""
    most = min(jobs, MAX_PARTS)
    if not 2 <= count <= most:
        raise UsageError(f"a trace of {jobs:,} jobs can be split into 2 to {most:,} parts, not {count}")


def file_names(names: Sequence[str]) -> list[str]:
    """Return a safe and distinct file name for every part.

    >>> file_names(["2024-W01", "a/b", "a b"])
    ['2024-W01', 'a-b', 'a-b-2']
    """
    taken: dict[str, int] = {}
    found = []
    for name in names:
        safe = re.sub(r"[^\w.+-]+", "-", name).strip(".-") or "unnamed"
        taken[safe.lower()] = taken.get(safe.lower(), 0) + 1
        found.append(safe if taken[safe.lower()] == 1 else f"{safe}-{taken[safe.lower()]}")
    return found


def alternate_weeks(trace: Trace) -> tuple[Trace, Trace]:
    """Return every other week, counted from the first submit, and the weeks between, each laid end to end.

    Jobs move by whole weeks on the machine's clock, so hours and days of the week stay, and so does the offered load:
    without the move each half would last as long as the whole. Weeks without jobs are dealt out by themselves, so
    that both halves have some. Jobs without a submit time go with the first part. Both parts must hold jobs.
    """
    submit = trace.column("submit_time")
    known = np.isfinite(submit)
    week = np.zeros(len(trace), dtype=np.int64)
    if known.any():
        week[known] = ((submit[known] - submit[known].min()) // _WEEK).astype(np.int64)
    full, place = np.unique(week, return_inverse=True)
    odd = place % 2 == 1
    if not odd.any():
        raise TracekitError("all jobs were submitted within one week: there are no alternate weeks to split")
    one, other = (_laid(trace.take(rows), week[rows], _dealt(full, half)) for rows, half in ((~odd, 0), (odd, 1)))
    return one, other


_WEEK = 7 * 86_400


def _dealt(full: NDArray[np.int64], half: int) -> NDArray[np.int64]:
    """Return the weeks of one half, in order: every other one with jobs, and every other one without."""
    empty = np.setdiff1d(np.arange(full[-1]), full)
    return np.sort(np.concatenate([full[half::2], empty[half::2]]))


def _laid(part: Trace, week: NDArray[np.int64], weeks: NDArray[np.int64]) -> Trace:
    """Move each job by as many weeks as its week moves when ``weeks`` are laid end to end; clocks keep the hour."""
    back = (week - np.searchsorted(weeks, week)) * _WEEK
    submit = part.column("submit_time")
    if has_calendar(part) and part.machine.timezone not in (None, "UTC"):
        known = np.isfinite(submit)
        there = local_times(part)[known]
        moved = there.tz_localize(None) - pd.to_timedelta(back[known], unit="s")
        late = np.zeros(len(moved), dtype=bool)  # the hour that comes twice counts as the later one
        moved = moved.tz_localize(part.machine.timezone, ambiguous=late, nonexistent="shift_forward")
        back = back.astype(np.float64)
        back[known] = (there - moved).total_seconds()
    step = f"{len(weeks)} alternate weeks, laid end to end: dates are not those of the log"
    return part.assign({"submit_time": submit - back}).replace(step=step)
