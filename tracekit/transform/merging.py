"""Several traces made into one: years of one machine, or several clusters side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.machine import UNITS, Machine
from tracekit.provenance import synthetic_mark
from tracekit.schema import BY_NAME
from tracekit.trace import Trace

Machines = Literal["auto", "same", "add"]
Labels = Literal["auto", "apart", "join"]
Align = Literal["auto", "calendar", "start", "append"]
_LABELS = tuple(name for name, column in BY_NAME.items() if column.kind == "label" and name != "gpu_type")


@dataclass(frozen=True)
class Merged:
    """A trace made of several, and what a person should know about how."""

    trace: Trace
    machines: str  # "same" or "add"
    labels: str  # "apart" or "join"
    align: str  # "calendar", "start" or "append"
    renumbered: bool
    remarks: tuple[str, ...]


def merge(
    traces: Sequence[Trace],
    names: Sequence[str],
    *,
    machines: Machines = "auto",
    labels: Labels = "auto",
    align: Align = "auto",
) -> Merged:
    """Merge traces; ``names`` (one each) keep labels apart and go into the column x_source.

    machines: "same" for years of one machine, "add" for clusters side by side, whose sizes add up; auto is "same" where
    name and size agree. labels: with "apart" user 7 of A and user 7 of B become A:7 and B:7; auto is "join" on the same
    machine, else "apart". align: "calendar" puts every job at its date, "start" lets all begin together, "append" puts
    each trace after the one before; auto is "calendar", which needs an epoch in every trace.
    Job ids that are not unique are renumbered, 1 … n in the order of submit; the old ones stay in x_job_id, and
    prev_job follows.
    """
    if len(traces) < 2:
        raise UsageError("give at least two traces to merge")
    names = _distinct(names)
    units = {trace.machine.unit for trace in traces}
    if len(units) > 1:
        raise TracekitError(
            f"the machines are scheduled in different units ({', '.join(sorted(units))}); choose one with --resource"
        )
    same = _same_machine(traces) if machines == "auto" else machines == "same"
    apart = not same if labels == "auto" else labels == "apart"
    how = "calendar" if align == "auto" else align
    shifts, epoch, remarks = _shifts(traces, names, how)
    remarks += _overlaps(traces, names, shifts)
    frames = [_frame(trace, name, shift, apart) for trace, name, shift in zip(traces, names, shifts, strict=True)]
    ids = np.concatenate([trace.column("job_id") for trace in traces])
    jobs = pd.concat(frames, ignore_index=True)
    order = np.argsort(jobs["submit_time"].to_numpy(), kind="stable")
    renumbered = len(np.unique(ids)) < len(ids)
    if renumbered:
        jobs = _renumber(jobs, ids, np.repeat(np.arange(len(traces)), [len(trace) for trace in traces]), order)
    machine = _machine(traces, names, same, epoch)
    zones = {trace.machine.timezone for trace in traces}
    if len(zones) > 1:
        machine = machine.replace(timezone=None)
        remarks.append("the machines' clocks are in different time zones, so the merged one has none")
    step = f"merged {', '.join(names)}: machines {'same' if same else 'added'}, aligned by {how}"
    marks = dict.fromkeys(mark for one in traces if (mark := synthetic_mark(one)))
    trace = Trace(jobs.iloc[order].reset_index(drop=True), machine, (*marks, step, *remarks))
    return Merged(trace, "same" if same else "add", "apart" if apart else "join", how, renumbered, tuple(remarks))


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        made, number = name, 1
        while made in found:
            number += 1
            made = f"{name}-{number}"
        found.append(made)
    return found


def _same_machine(traces: Sequence[Trace]) -> bool:
    return len({(trace.machine.name, trace.machine.size()) for trace in traces}) == 1


def _shifts(traces: Sequence[Trace], names: Sequence[str], how: str) -> tuple[list[float], float | None, list[str]]:
    """Return the seconds to add to each trace's submit times, the epoch of the result, and remarks."""
    firsts = [_edge(trace, np.nanmin) for trace in traces]
    if how == "calendar":
        lacking = [name for name, trace in zip(names, traces, strict=True) if trace.machine.epoch is None]
        if lacking:
            raise UsageError(
                f"{lacking[0]} has no calendar; give --align start (together) or append (one after another)"
            )
        epochs = [float(trace.machine.epoch or 0.0) for trace in traces]
        return [epoch - min(epochs) for epoch in epochs], min(epochs), []
    epoch = traces[0].machine.epoch
    if how == "start":
        return (
            [firsts[0] - first for first in firsts],
            epoch,
            ["all traces begin together: dates are those of the first"],
        )
    shifts, end = [], firsts[0]
    for trace, first in zip(traces, firsts, strict=True):
        shifts.append(end - first)
        end += _edge(trace, np.nanmax) - first
    return shifts, epoch, ["traces follow one another: dates are those of the first"]


def _edge(trace: Trace, which: object) -> float:
    submit = trace.column("submit_time")
    if not np.isfinite(submit).any():
        raise TracekitError("a trace without any submit time cannot be merged")
    return float(which(submit))  # type: ignore[operator]


def _overlaps(traces: Sequence[Trace], names: Sequence[str], shifts: Sequence[float]) -> list[str]:
    """Return which traces overlap in time, and how many jobs look as if they were in both."""
    found = []
    times = [trace.column("submit_time") + shift for trace, shift in zip(traces, shifts, strict=True)]
    for later in range(1, len(traces)):
        for earlier in range(later):
            begin = max(np.nanmin(times[earlier]), np.nanmin(times[later]))
            end = min(np.nanmax(times[earlier]), np.nanmax(times[later]))
            if begin > end or (begin == end and len(times[earlier]) > 1 < len(times[later])):
                continue
            keys = [
                pd.MultiIndex.from_arrays([time, trace.column("run_time"), trace.sizes()])
                for time, trace in ((times[earlier], traces[earlier]), (times[later], traces[later]))
            ]
            alike = int(keys[1].isin(keys[0]).sum())
            text = f"{names[earlier]} and {names[later]} overlap by {(end - begin) / 86400:,.1f} days"
            found.append(text + (f"; {alike:,} jobs have submit, run time and size in common" if alike else ""))
    return found


def _frame(trace: Trace, name: str, shift: float, apart: bool) -> pd.DataFrame:
    jobs = trace.jobs.assign(submit_time=np.round(trace.column("submit_time") + shift, 6), x_source=name)
    for column in _LABELS:
        if column in jobs.columns:
            values = jobs[column].astype(object)
            jobs[column] = values.where(values.isna(), name + ":" + values.astype(str)) if apart else values
    if "status" in jobs.columns:
        jobs["status"] = jobs["status"].astype(object)
    return jobs


def _renumber(
    jobs: pd.DataFrame, ids: NDArray[np.int64], source: NDArray[np.intp], order: NDArray[np.intp]
) -> pd.DataFrame:
    """Give ids 1 … n in the order of submit; prev_job goes with the job of that id in the same source."""
    fresh = np.empty(len(jobs), np.int64)
    fresh[order] = np.arange(1, len(jobs) + 1)
    made = jobs.assign(job_id=fresh, x_job_id=ids)
    if "prev_job" in jobs.columns:
        known = pd.Series(fresh, index=pd.MultiIndex.from_arrays([source, ids]))
        known = known[~known.index.duplicated()]
        wanted = pd.MultiIndex.from_arrays([source, jobs["prev_job"].to_numpy(dtype=np.float64, na_value=np.nan)])
        made["prev_job"] = known.reindex(wanted).to_numpy(dtype=np.float64)
    return made


def _machine(traces: Sequence[Trace], names: Sequence[str], same: bool, epoch: float | None) -> Machine:
    first = traces[0].machine
    changes: dict[str, object] = {"epoch": epoch, "header": None, "source": " + ".join(names)}
    if same:
        sizes = {unit: max((t.machine.size(unit) or 0 for t in traces), default=0) or None for unit in UNITS}
    else:
        changes["name"] = " + ".join(trace.machine.name or name for trace, name in zip(traces, names, strict=True))
        changes |= {"queues": {}, "partitions": {}, "groups": tuple(g for t in traces for g in t.machine.groups)}
        every = {unit: [trace.machine.size(unit) for trace in traces] for unit in UNITS}
        sizes = {unit: None if None in found else sum(n or 0 for n in found) for unit, found in every.items()}
    changes["notes"] = tuple(dict.fromkeys(note for trace in traces for note in trace.machine.notes))
    return first.replace(**changes, **sizes)
