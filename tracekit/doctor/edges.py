"""The ends of a log: jobs from long before or after everything else, a beginning or an end that was cut off."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from tracekit import stats
from tracekit.doctor.finding import DAY, WEEK, CannotLook, Finding, counted, days, picture, submits, when
from tracekit.doctor.header import header_times, is_cleaned
from tracekit.doctor.silence import FEW_JOBS, find_silences
from tracekit.recorded import NothingRan, Recorded

if TYPE_CHECKING:
    from tracekit.trace import Trace

MISSING = 0.02  # of the header's span: less is an untidy header
CENSORED = 10  # jobs expected to be in the system some hours after the last submit, where hardly any is
_LATER = 4 * 3600.0  # so long after the last submit
WARM = 0.75  # of the usual use of the machine: with less, jobs at the start waited for others that are not in the log


def strays(trace: Trace) -> list[Finding]:
    """Report a few jobs at either end that a long silence parts from all others."""
    submit, rows = submits(trace)
    if len(submit) < 200:
        raise CannotLook("fewer than 200 jobs")
    found = []
    silences = find_silences(trace)
    early = [silence for silence in silences if silence.stray == "early"]
    late = [silence for silence in silences if silence.stray == "late"]
    if early:
        last = early[-1]
        found.append(
            Finding(
                "truncated-start",
                "warning" if last.end - submit[0] >= WEEK else "note",
                f"the first {counted(last.before, 'job')} came up to {days(last.end - submit[0])} before the log "
                f"really starts, {when(trace, last.end)}: what else was submitted then is not in it",
                {"jobs": last.before, "start": last.end, "days": round((last.end - submit[0]) / DAY, 3)},
                rows[: last.before],
                f"drop-jobs:submit<{last.end:.0f}",
                "they stretch the span, and so lower every rate and load",
                picture("submits_over_time", spans=[(float(submit[0]), last.end)], label="stray"),
            )
        )
    if late:
        first = late[0]
        far = first.end - first.start
        future = far >= 4 * WEEK and far >= 0.1 * (first.start - submit[0])
        found.append(
            Finding(
                "future-submit" if future else "truncated-end",
                "warning" if future else "note",
                f"the last {counted(first.after, 'job')} came {days(far)} after all others, from "
                f"{when(trace, first.end)} on" + (": most likely a wrong clock" if future else ""),
                {"jobs": first.after, "start": first.end, "days": round(far / DAY, 3)},
                rows[-first.after :],
                f"drop-jobs:submit>={np.floor(first.end):.0f}",
                "they stretch the span, and so lower every rate and load",
                picture("submits_over_time", spans=[(first.start, float(submit[-1]))], label="stray"),
            )
        )
    return found


def future(trace: Trace, now: float | None = None) -> list[Finding]:
    """Report submits later than today, or later than the end that the header states.

    ``now`` is in Unix seconds; the machine's own clock by default.
    """
    if not stats.has_calendar(trace):
        raise CannotLook("the trace has no calendar")
    submit = trace.column("submit_time")
    epoch = trace.machine.epoch or 0.0
    today = time.time() if now is None else now
    _, stated = header_times(trace)
    for limit, name, severity in (
        (today + DAY, "today", "error"),
        (stated + DAY, "the end that the header states", "warning"),
    ):
        rows = np.flatnonzero(submit + epoch > limit)
        if not len(rows) or (name != "today" and len(rows) > 0.5 * len(trace)):
            continue
        second = limit - epoch
        # many jobs are not a slip: the header or the clock is wrong, and they must be kept
        few = len(rows) < (0.5 if name == "today" else 0.001) * len(trace) or len(rows) <= FEW_JOBS
        return [
            Finding(
                "future-submit",
                severity,  # type: ignore[arg-type]
                f"{counted(len(rows), 'job')} came after {name}, the last {when(trace, float(np.nanmax(submit)))}",
                {"jobs": len(rows), "latest": float(np.nanmax(submit)), "limit": second},
                rows,
                f"drop-jobs:submit>{second:.0f}" if few else "",
                "a wrong clock, a wrong UnixStartTime, or times in another unit",
                picture("submits_over_time", spans=[(second, float(np.nanmax(submit)))], label="in the future"),
            )
        ]
    return []


def stated_span(trace: Trace) -> list[Finding]:
    """Report a log that starts later or ends earlier than its header says."""
    start, end = header_times(trace)
    submit, _ = submits(trace)
    epoch = trace.machine.epoch
    if not (np.isfinite(start) or np.isfinite(end)) or epoch is None or not len(submit):
        raise CannotLook("the header states no start and no end")
    run = np.nan_to_num(trace.column("run_time"), nan=0.0) + np.nan_to_num(trace.column("wait_time"), nan=0.0)
    last = float(np.nanmax(trace.column("submit_time") + np.maximum(run, 0.0))) + epoch
    first = float(submit[0]) + epoch
    span = max((end if np.isfinite(end) else last) - (start if np.isfinite(start) else first), DAY)
    excuse = "; the header says that the log was cleaned" if is_cleaned(trace) else ""
    found = []
    for name, missing, part in (("truncated-start", first - start, "begins"), ("truncated-end", end - last, "ends")):
        if np.isfinite(missing) and missing > max(MISSING * span, 2 * DAY):
            word = "later" if part == "begins" else "earlier"
            found.append(
                Finding(
                    name,
                    "note" if excuse else "warning",
                    f"the log {part} {days(missing)} {word} than its header says, {missing / span:.0%} of the stated "
                    f"span{excuse}",
                    {"missing_days": round(missing / DAY, 2), "share_of_span": round(missing / span, 4)},
                    advice="this is a part of the log: compare it with numbers of that part only",
                    draw=picture("submits_over_time", spans=[], label=""),
                )
            )
    return found


def cold_start(trace: Trace) -> list[Finding]:
    """Report jobs of the first day that waited although the machine looks empty: what was before them is missing."""
    try:
        seen = Recorded.of(trace)
    except NothingRan as reason:
        raise CannotLook(str(reason)) from None
    if not seen.waits_known or not seen.size_known:
        raise CannotLook("waits or the machine's size are unknown")
    times, level = stats.steps(seen.start, seen.end, seen.procs)
    area = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    used = np.interp(seen.start, times, area) - np.interp(seen.submit, times, area)
    met = used / np.maximum(seen.wait, 1.0) / seen.total  # mean share in use while a job waited
    waited = seen.wait >= 1800
    early = waited & (seen.submit < seen.submit[0] + DAY)
    later = waited & (seen.submit > seen.submit[0] + WEEK)
    if early.sum() < 10 or later.sum() < 100:
        raise CannotLook("too few jobs waited on the first day, or later")
    first, usual = float(np.median(met[early])), float(np.median(met[later]))
    if first >= WARM * usual:
        return []
    return [
        Finding(
            "truncated-start",
            "note",
            f"{early.sum():,} jobs of the first day waited for half an hour or more while {first:.0%} of the machine "
            f"was in use by the log ({usual:.0%} usually): what ran and waited before them is not in it",
            {"jobs": int(early.sum()), "in_use": round(first, 4), "usually": round(usual, 4)},
            advice="leave out the first days as warm-up when you compare waits",
            draw=picture("usage"),
        )
    ]


def censored_end(trace: Trace) -> list[Finding]:
    """Report a log of which only jobs that ended before it was closed were kept: its last jobs are all short.

    From the jobs of earlier weeks follows how many of the last ones should still be in the system at the last submit.
    """
    submit, rows = submits(trace)
    wait, run = trace.column("wait_time")[rows], trace.column("run_time")[rows]
    if not np.isfinite(wait).any():
        raise CannotLook("waits, and so end times, are unknown")
    stay = np.where(wait > 0, wait, 0.0) + np.where(run > 0, run, 0.0)
    known = np.isfinite(stay) & np.isfinite(run)
    submit, stay, rows = submit[known], stay[known], rows[known]
    if len(submit) < 1000 or submit[-1] - submit[0] < 4 * WEEK:
        raise CannotLook("fewer than 1,000 jobs or four weeks")
    left = submit[-1] - submit
    late, early = left < WEEK, left >= 2 * WEEK
    if early.sum() < 500 or late.sum() < 20:
        raise CannotLook("too few jobs in the last week")
    usual = np.sort(stay[early])
    until = left[late] + _LATER
    beyond = 1 - np.searchsorted(usual, until, side="right") / len(usual)  # chance of still being there
    expected, seen = float(beyond.sum()), int((stay[late] > until).sum())
    if expected < CENSORED or seen > 0.05 * expected:
        return []
    return [
        Finding(
            "truncated-end",
            "note",  # most accounting logs are cut that way
            f"{seen:,} jobs last beyond four hours after the last submit, where {expected:,.0f} were to be expected: "
            "the log holds only jobs that had ended when it was closed, so its last jobs are the short ones",
            {"expected": round(expected, 1), "seen": seen},
            rows[late],
            f"drop-jobs:submit>{submit[-1] - np.quantile(usual, 0.99):.0f}",
            "leave out the end of the log when you model run times or waits",
            picture("last_days"),
        )
    ]
