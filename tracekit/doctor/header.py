"""The header of an SWF file against its jobs: counts, sizes, dates, queues. Headers are written by people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tracekit import stats
from tracekit.doctor.finding import DAY, LAST_DATE, CannotLook, Finding, Severity, counted, picture, submits
from tracekit.recorded import NothingRan, Recorded

if TYPE_CHECKING:
    from tracekit.trace import Trace

_LINE = re.compile(r"^[;\s]*([A-Za-z]+)\s*:\s*(.*?)\s*$")
UNUSED = 0.5  # of the stated size: if more than the other half was never in use, jobs cannot have waited for it
_NUMBER = re.compile(r"^-?\d+(\.\d+)?")


def fields(trace: Trace) -> dict[str, list[str]]:
    """Return the header's values by key, in order; empty without a header."""
    found: dict[str, list[str]] = {}
    for line in trace.machine.header or ():
        match = _LINE.match(line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def number(trace: Trace, key: str) -> float:
    """Return the number that a header value starts with; NaN where there is none."""
    values = fields(trace).get(key, [])
    match = _NUMBER.match(values[0]) if values else None
    return float(match[0]) if match else float("nan")


def is_cleaned(trace: Trace) -> bool:
    """Return whether the header says that jobs were removed."""
    return any("CLEANED" in line.upper() for line in trace.machine.header or ())


def header_times(trace: Trace) -> tuple[float, float]:
    """Return the stated start and end as Unix seconds; NaN where missing or unreadable.

    Abbreviations such as CEST are ambiguous, so the text is read on the clock of the header's time zone.
    """
    found = []
    for key in ("StartTime", "EndTime"):
        text = " ".join(fields(trace).get(key, []))
        text = re.sub(r"\b[A-Z]{2,5}\b(?=\s+\d{4}$)", "", text)  # Mon Sep 23 14:00:31 CEST 1996
        try:
            stamp: Any = pd.Timestamp(text) if text.strip() else pd.NaT
            if not pd.isna(stamp) and stamp.tzinfo is None:
                stamp = stamp.tz_localize(trace.machine.timezone or "UTC", ambiguous=False, nonexistent="shift_forward")
            found.append(float("nan") if pd.isna(stamp) else float(stamp.timestamp()))
        except (ValueError, OverflowError):
            found.append(float("nan"))
    return found[0], found[1]


def header(trace: Trace) -> list[Finding]:
    """Report where the header and the jobs disagree."""
    if not trace.machine.header:
        raise CannotLook("the trace has no header")
    return [finding for check in (_counts, _sizes, _unused, _start, _longest, _lists) for finding in check(trace)]


def _finding(severity: Severity, message: str, advice: str = "", rows: np.ndarray | None = None, fix: str = "",
             **evidence: float | str) -> Finding:  # fmt: skip
    none = np.zeros(0, dtype=np.intp)
    return Finding("header-mismatch", severity, message, evidence, none if rows is None else rows, fix, advice,
                   picture("usage_or_submits"))  # fmt: skip


def _counts(trace: Trace) -> list[Finding]:
    """Compare MaxJobs and MaxRecords with the rows: a cleaned log may hold fewer, none may hold more."""
    stated = [value for key in ("MaxRecords", "MaxJobs") if np.isfinite(value := number(trace, key))]
    if not stated or len(trace) in stated:
        return []
    nearest = min(stated, key=lambda value: abs(value - len(trace)))
    fewer = nearest > len(trace)
    excuse = fewer and is_cleaned(trace)
    if fewer and nearest - len(trace) <= 0.001 * nearest:
        return []
    return [
        _finding(
            "note" if excuse else "warning",
            f"the header states {nearest:,.0f} jobs, the file holds {len(trace):,}"
            + ("; the header says that the log was cleaned" if excuse else ": a part is missing" if fewer else ""),
            "" if excuse else "get the whole file, or correct MaxJobs",
            fix="" if excuse else "recount-header",
            stated=nearest,
            rows_in_file=len(trace),
        )
    ]


def _sizes(trace: Trace) -> list[Finding]:
    """Compare the stated size with the largest job, and processors with nodes."""
    found = []
    machine, unit = trace.machine, trace.machine.unit
    size = machine.size()
    sizes = trace.sizes()
    if size and np.any(sizes > size):
        rows = np.flatnonzero(sizes > size)
        share = len(rows) / len(trace)
        ran = sizes[rows][trace.column("run_time")[rows] > 0]
        larger = share > 0.001 and len(ran) > 0.5 * len(rows)  # jobs that ran are the better witnesses
        found.append(
            _finding(
                "warning" if share > 0.001 else "note",
                f"{counted(len(rows), 'job')} are larger than the machine ({size:,} {unit}), up to "
                f"{np.nanmax(sizes):,.0f}" + (f", and {len(ran):,} of them ran" if larger else ""),
                "correct the size (--procs), or drop them",
                rows,
                f"set-machine:{unit}={np.ceil(max(ran.max(), most_in_use(trace))):.0f}"
                if larger
                else "drop-larger-than-machine",
                machine_size=size,
                largest_job=float(np.nanmax(sizes)),
                share=round(share, 6),
            )
        )
    if machine.nodes and machine.procs and machine.nodes > machine.procs:
        found.append(
            _finding(
                "warning",
                f"the header states more nodes ({machine.nodes:,}) than processors ({machine.procs:,})",
                nodes=machine.nodes,
                procs=machine.procs,
            )
        )
    return found


def most_in_use(trace: Trace) -> float:
    """Return what the recorded starts and ends had in use for all but a thousandth of the time; 0 where unknown."""
    try:
        seen = Recorded.of(trace)
    except NothingRan:
        return 0.0
    if not seen.waits_known:
        return 0.0
    times, level = stats.steps(seen.start, seen.end, seen.procs)
    length, level = np.diff(times), level[:-1]
    order = np.argsort(level)
    until = np.searchsorted(np.cumsum(length[order]), 0.999 * length.sum())
    return float(level[order][min(int(until), len(level) - 1)]) if len(level) else 0.0


def _unused(trace: Trace) -> list[Finding]:
    """Report a stated size of which most was never in use, although jobs waited."""
    size, unit = trace.machine.size(), trace.machine.unit
    waited = np.nan_to_num(trace.column("wait_time"), nan=0.0) >= 1800
    if not size or len(trace) < 1000 or waited.mean() < 0.05:
        return []
    used = most_in_use(trace)
    largest = float(np.nanmax(trace.sizes()))
    peak = max(used, largest)
    if used <= 0 or peak > UNUSED * size:
        return []
    return [
        _finding(
            "warning",
            f"never more than {peak:,.0f} of the {size:,} {unit} were in use by the recorded starts and ends, and no "
            f"job is larger, though {waited.mean():.0%} of the jobs waited for half an hour or more",
            "the stated size is not that of this machine, or only a part of its jobs was recorded",
            fix=f"set-machine:{unit}={np.ceil(peak):.0f}",
            machine_size=size,
            most_in_use=peak,
            largest_job=largest,
            waited=round(float(waited.mean()), 4),
        )
    ]


def _start(trace: Trace) -> list[Finding]:
    """Compare UnixStartTime with StartTime, and TimeZone with TimeZoneString."""
    found = []
    start, _ = header_times(trace)
    epoch = trace.machine.epoch
    if np.isfinite(start) and epoch is not None and abs(start - epoch) > 3700:
        found.append(
            _finding(
                "warning" if abs(start - epoch) > DAY else "note",
                f"UnixStartTime and StartTime of the header are {abs(start - epoch) / 3600:,.1f} hours apart",
                "one of them is wrong: hours of day and dates may be",
                fix=f"set-machine:epoch={start:.0f}" if start >= 0 else "",
                unix_start_time=epoch,
                start_time=start,
            )
        )
    offset = number(trace, "TimeZone")
    dated = (
        stats.has_calendar(trace) and np.nanmax(trace.column("submit_time")) + (trace.machine.epoch or 0) < LAST_DATE
    )
    if np.isfinite(offset) and trace.machine.timezone and dated:
        _, rows = submits(trace)
        local = stats.local_times(trace.take(np.array([rows[0], rows[-1]])))
        none = pd.Timedelta(0)
        real = {((moment.utcoffset() or none) - (moment.dst() or none)).total_seconds() for moment in local}
        if offset not in real:
            found.append(
                _finding(
                    "note",
                    f"TimeZone {offset:+,.0f} s is not the offset of {trace.machine.timezone} ({min(real):+,.0f} s)",
                    "TimeZoneString is used; TimeZone is the older key",
                    stated=offset,
                    real=min(real),
                )
            )
    return found


def _longest(trace: Trace) -> list[Finding]:
    """Compare MaxRuntime with the longest run."""
    stated, run = number(trace, "MaxRuntime"), trace.column("run_time")
    if not np.isfinite(stated) or stated <= 0:
        return []
    rows = np.flatnonzero(run > stated)
    if not len(rows):
        return []
    message = f"{counted(len(rows), 'job')} ran longer than MaxRuntime, {stated:,.0f} s, up to {np.nanmax(run):,.0f} s"
    return [_finding("note", message, rows=rows, stated=stated, longest=float(np.nanmax(run)))]


def _lists(trace: Trace) -> list[Finding]:
    """Compare the queues and partitions that the header lists with those that jobs use."""
    found = []
    for column, key, listed in (
        ("queue", "MaxQueues", trace.machine.queues),
        ("partition", "MaxPartitions", trace.machine.partitions),
    ):
        if not listed or not trace.has(column):
            continue
        used = {str(label) for label in trace.jobs[column].dropna().unique()}
        unknown = sorted(used - set(listed) - set(listed.values()))
        if unknown:
            rows = np.flatnonzero(trace.jobs[column].astype(object).isin(unknown).to_numpy())
            found.append(
                _finding(
                    "note",
                    f"{counted(len(rows), 'job')} in {column}s that the header does not list: {', '.join(unknown[:5])}",
                    rows=rows,
                    listed=len(listed),
                    stated=number(trace, key),
                )
            )
    return found
