"""Is this schedule possible? For schedules of ours and of any other tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError, loads
from tracekit.machine import UNITS
from tracekit.schema import EXACT_FLOATS
from tracekit.sim.metrics import steps
from tracekit.sim.simulate import SimResult
from tracekit.sim.switches import Outage, outage_steps
from tracekit.trace import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Violation:
    """One kind of violation: how often it occurs, and the first case in words."""

    kind: str
    count: int
    first: str


def violations(
    job_id: NDArray[np.int64], submit: Floats, start: Floats, end: Floats, procs: Floats, total: float
) -> list[Violation]:
    """Check a schedule, (jobs,) each, against the machine's size: the first violation of each kind, or nothing.

    A job holds its processors over [start, end): a job may start at the instant at which another ends, and
    a job of no length holds nothing for longer than an instant.
    """
    found: list[Violation] = []

    def note(kind: str, rows: NDArray[np.bool_], words: Any) -> None:
        if rows.any():
            row = int(np.flatnonzero(rows)[0])
            found.append(Violation(kind, int(rows.sum()), f"job {job_id[row]} {words(row)}"))

    unknown = ~(np.isfinite(submit) & np.isfinite(start) & np.isfinite(end) & np.isfinite(procs))
    note("incomplete", unknown, lambda row: "has no submit, start, end or size")
    note("early-start", start < submit, lambda row: f"starts at {start[row]:g}, before its submit at {submit[row]:g}")
    note("negative-length", end < start, lambda row: f"ends at {end[row]:g}, before its start at {start[row]:g}")
    note("no-size", procs <= 0, lambda row: f"holds {procs[row]:g} processors")
    note("too-large", procs > total, lambda row: f"holds {procs[row]:g} processors of {total:g}")
    values, counts = np.unique(job_id, return_counts=True)
    doubled = counts > 1
    if doubled.any():
        words = f"job {values[doubled][0]} appears {counts[doubled][0]} times"
        found.append(Violation("doubled", int(doubled.sum()), words))
    over = over_allocation(start[~unknown], end[~unknown], procs[~unknown], total)
    return found if over is None else [*found, over]


def over_allocation(start: Floats, end: Floats, procs: Floats, total: float) -> Violation | None:
    """Return the first moment at which more than ``total`` processors are held, if there is one."""
    long = end > start
    start, end, procs = start[long], end[long], procs[long]
    times, where = np.unique(np.concatenate((start, end)), return_inverse=True)
    held = np.cumsum(np.bincount(where, weights=np.concatenate((procs, -procs)), minlength=len(times)))
    over = held > total * (1 + 1e-12) + 1e-6  # fractions of a GPU do not add up exactly
    if not over.any():
        return None
    moment = int(np.flatnonzero(over)[0])
    return Violation(
        "over-allocation",
        int(over.sum()),
        f"at time {times[moment]:.15g}, {held[moment]:g} of {total:g} processors are held",
    )


def outage_violation(
    start: Floats, end: Floats, procs: Floats, total: float, outages: Sequence[Outage]
) -> Violation | None:
    """Return the first start into an outage without enough processors; jobs that run already may finish."""
    times, away = outage_steps(outages, total)
    if not len(times):
        return None
    long = end > start
    moments, used = steps(start[long], end[long], procs[long])
    gone = np.append(0.0, away)[np.searchsorted(times, moments, side="right")]
    over = np.isin(moments, start[long]) & (gone > 0) & (used + gone > total * (1 + 1e-12) + 1e-6)
    if not over.any():
        return None
    row = int(np.flatnonzero(over)[0])
    return Violation(
        "outage",
        int(over.sum()),
        f"at time {moments[row]:.15g} a job starts, and {used[row]:g} processors are held with {gone[row]:g} of "
        f"{total:g} away",
    )


def check_result(result: SimResult) -> list[Violation]:
    """Check a result of `simulate`."""
    found = violations(result.job_id, result.submit, result.start, result.end, result.procs, result.total)
    over = outage_violation(result.start, result.end, result.procs, result.total, result.switches["outages"])
    return found if over is None else [*found, over]


def _more_often(job_id: NDArray[np.int64], ids: NDArray[np.int64]) -> bool:
    """Return whether any id occurs more often in the schedule than in the trace."""
    values, counts = np.unique(job_id, return_counts=True)
    known, there = np.unique(ids, return_counts=True)
    slot = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
    allowed = np.where(known[slot] == values, there[slot], 1) if len(known) else np.ones(len(values))
    return bool((counts > allowed).any())


COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "procs")
_SCHEDULES = f"a schedule has {', '.join(COLUMNS)}; 'tracekit simulate --out DIR' writes such files"


@loads("a schedule")
def read_schedule(path: str | Path) -> pd.DataFrame:
    """Read a schedule: a CSV file with at least the columns of `COLUMNS` (submit_time may be missing)."""
    from tracekit.files import opened

    with opened(path) as source:
        try:
            found: pd.DataFrame = pd.read_csv(source, **EXACT_FLOATS)
        except (ValueError, UnicodeDecodeError) as error:
            problem = str(error).rpartition("C error: ")[2]
            raise FormatError(path, f"is not a CSV table: {problem}", hint=_SCHEDULES) from None
    missing = [name for name in COLUMNS if name not in found.columns and name != "submit_time"]
    if missing:
        raise FormatError(
            path,
            f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}",
            hint=_SCHEDULES,
        )
    for name in COLUMNS:
        if len(found) and name in found.columns and not pd.api.types.is_numeric_dtype(found[name]):
            raise FormatError(path, f"column {name} has a value that is not a number")
        if name in found.columns and len(found) and np.isinf(found[name].to_numpy(np.float64)).any():
            raise FormatError(path, f"column {name} has an infinite value")
    if found["job_id"].isna().any():
        raise FormatError(path, "column job_id has empty cells")
    if len(found) and (found["job_id"] % 1 != 0).any():
        raise FormatError(path, "column job_id holds numbers that are not whole")
    return found


def submits_by_dependency(trace: Trace, job_id: NDArray[np.int64], end: Floats, submit: Floats) -> Floats:
    """Return when each job of a schedule was submitted if followers are submitted after their predecessor's end.

    Jobs whose predecessor is not in the schedule keep their ``submit``, as in the simulator.
    """
    ends = dict(zip(job_id.tolist(), end.tolist(), strict=True))
    think = trace.column("think_time")
    waits = dict(
        zip(
            trace.column("job_id").tolist(),
            zip(trace.column("prev_job").tolist(), np.where(think > 0, think, 0.0).tolist(), strict=True),
            strict=True,
        )
    )
    found = submit.copy()
    for row, job in enumerate(job_id.tolist()):
        previous, thinking = waits.get(job, (np.nan, 0.0))
        if previous in ends and previous != job:
            found[row] = ends[previous] + thinking
    return found


def check_schedule(
    schedule: pd.DataFrame,
    trace: Trace,
    procs: int | None = None,
    resource: Any = None,
    *,
    partial: bool = False,
    dependencies: bool = False,
    outages: Sequence[Outage] = (),
) -> list[Violation]:
    """Check a schedule against its trace.

    Submit times, sizes and run times count as the trace has them: a job may hold neither fewer processors than it
    requested and was allocated, nor run shorter than it did unless it was cut at its limit. Jobs larger than the
    machine, without size or without run time need not be in the schedule; with ``partial``, no job need be. With
    ``dependencies``, followers count as submitted think_time after their predecessor ended, whatever the trace says;
    with ``outages``, no job may start on processors that are out of service.
    """
    if resource is not None and resource not in UNITS:
        raise UnknownName("resource", resource, UNITS)
    if procs is not None and procs < 1:
        raise UsageError(f"--procs must be at least 1, not {procs}")
    total = procs or trace.machine.size(resource)
    if total is None:
        raise TracekitError("the trace does not state the size of its machine; give --procs N")
    ids = trace.column("job_id")
    order = np.argsort(ids, kind="stable")
    job_id = schedule["job_id"].to_numpy().astype(np.int64)
    slot = np.searchsorted(ids[order], job_id)
    row = order[np.minimum(slot, max(len(ids) - 1, 0))] if len(ids) else np.zeros(len(job_id), np.intp)
    known = ids[row] == job_id if len(ids) else np.zeros(len(job_id), bool)

    columns = {name: schedule[name].to_numpy(dtype=np.float64) for name in COLUMNS[2:]}
    start, end, size = columns["start_time"], columns["end_time"], columns["procs"]
    submit = np.where(known, trace.column("submit_time")[row], np.nan) if len(ids) else np.full(len(job_id), np.nan)
    if "submit_time" in schedule.columns:
        submit = np.where(known, submit, schedule["submit_time"].to_numpy(dtype=np.float64))
    if dependencies:
        submit = submits_by_dependency(trace, job_id, end, submit)
    found = violations(job_id, submit, start, end, size, float(total))
    over = outage_violation(start, end, size, float(total), outages)
    if over is not None:
        found.append(over)
    if not _more_often(job_id, ids):  # the trace itself may use an id for several jobs
        found = [violation for violation in found if violation.kind != "doubled"]

    def note(kind: str, rows: NDArray[np.bool_], words: Any) -> None:
        if rows.any():
            first = int(np.flatnonzero(rows)[0])
            found.append(Violation(kind, int(rows.sum()), f"job {job_id[first]} {words(first)}"))

    note("stranger", ~known, lambda i: "is not in the trace")
    if len(ids):
        least = np.fmin(trace.sizes(resource, "requested"), trace.sizes(resource, "allocated"))[row]
        note("shrunk", known & (size < least), lambda i: f"holds {size[i]:g} processors but needs {least[i]:g}")
        run = trace.column("run_time")[row]
        shortest = np.fmin(run, trace.column("req_time")[row])
        # starts of other tools are often rounded to whole seconds
        note(
            "cut-short",
            known & (end - start < shortest - 1),
            lambda i: f"runs {end[i] - start[i]:g} s but needs {shortest[i]:g}",
        )
        needed = trace.sizes(resource, "requested")
        runs = trace.column("run_time")
        possible = (needed > 0) & (needed <= total) & (runs >= 0) & np.isfinite(trace.column("submit_time"))
        missing = possible & ~np.isin(ids, job_id)
        if missing.any() and not partial:
            found.append(
                Violation("missing", int(missing.sum()), f"job {ids[missing][0]} is in the trace but was never started")
            )
    return found
