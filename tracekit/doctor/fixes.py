"""Rules that fix findings of the doctor: jobs left out by a filter, clocks corrected, outages cut out, units converted.

Each function takes a trace and returns the new one and how many rows it changed or removed, as cleaning rules do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.doctor.bursts import find_bursts
from tracekit.doctor.clock import find_jumps
from tracekit.doctor.copies import twins
from tracekit.doctor.finding import DAY, WEEK, CannotLook
from tracekit.doctor.silence import LONG, find_silences
from tracekit.doctor.units import MEMORY_UNITS, TIME_UNITS
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import UNITS, Machine
from tracekit.schema import BY_NAME
from tracekit.trace import Trace
from tracekit.validation import BY_CHECK, site_nodes

Changed = tuple[Trace, int]
Found = TypeVar("Found")

#: Short names that the archive's own filters use.
_ALIASES = {"job": "job_id", "submit": "submit_time", "run": "run_time", "wait": "wait_time", "limit": "req_time"}
_CONDITION = re.compile(r"^\(?\s*([a-z_]+)\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*\)?$")
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


def matching(trace: Trace, text: str) -> NDArray[np.bool_]:
    """Return which jobs a filter describes, such as ``user=374 and job>14968 and job<28553``.

    The notation is that of the Parallel Workloads Archive: conditions joined by ``and``; labels are compared as text
    with = and !=, everything else as numbers; ``size`` is what the scheduler sees. Unknown values match nothing.
    """
    found = np.ones(len(trace), dtype=bool)
    for part in re.split(r"\s+and\s+", text.strip()):
        match = _CONDITION.match(part.strip())
        if not match:
            raise UsageError(f"a filter consists of conditions such as user=374 and submit>=1000, not '{part}'")
        name, sign, value = _ALIASES.get(match[1], match[1]), match[2], match[3]
        if name != "size" and name not in BY_NAME:
            raise UnknownName("column in a filter", match[1], {"size", *BY_NAME, *_ALIASES})
        if name != "size" and BY_NAME[name].kind in ("label", "status"):
            if sign not in ("=", "!="):
                raise UsageError(f"{match[1]} is a label: compare it with = or !=")
            known = trace.jobs[name] if name in trace.jobs.columns else None
            same = np.zeros(len(trace), bool) if known is None else (known.astype(object) == value).to_numpy(dtype=bool)
            there = np.zeros(len(trace), bool) if known is None else known.notna().to_numpy()
            found &= same if sign == "=" else there & ~same
            continue
        try:
            bound = float(value)
        except ValueError:
            raise UsageError(f"'{value}' in the filter '{part}' is not a number") from None
        values = trace.sizes() if name == "size" else trace.column(name)
        with np.errstate(invalid="ignore"):
            found &= np.asarray(_TESTS[sign](values, bound), dtype=bool) & np.isfinite(values)
    return found


def _or_none(detect: Callable[[Trace], list[Found]], trace: Trace) -> list[Found]:
    """Return what a detector finds; nothing where it cannot look."""
    try:
        return detect(trace) if len(trace) else []
    except CannotLook:
        return []


def drop_jobs(trace: Trace, text: str) -> Changed:
    """Remove the jobs that a filter describes."""
    found = matching(trace, text)
    return (trace.take(~found), int(found.sum())) if found.any() else (trace, 0)


def drop_flurries(trace: Trace) -> Changed:
    """Remove every flurry that the doctor finds; users that dominate the whole log stay."""
    found = np.zeros(len(trace), dtype=bool)
    for burst in _or_none(find_bursts, trace):
        if burst.short:
            found[burst.rows] = True
    return (trace.take(~found), int(found.sum())) if found.any() else (trace, 0)


def drop_duplicated_blocks(trace: Trace) -> Changed:
    """Remove the second copy of every block of records that occurs twice."""
    found = twins(trace)
    return (trace.take(~found), int(found.sum())) if found.any() else (trace, 0)


def mend_jumps(trace: Trace) -> Changed:
    """Move the records of every clock jump by the jump's size, and sort the jobs by submit time."""
    jumps = _or_none(find_jumps, trace)
    submit = trace.column("submit_time").copy()
    moved = np.zeros(len(trace), dtype=bool)
    for jump in jumps:
        submit[jump.rows] -= jump.offset
        moved[jump.rows] = True
    if not moved.any():
        return trace, 0
    fixed = trace.assign({"submit_time": submit})
    return fixed.take(fixed.order()), int(moved.sum())


def shift_submits(trace: Trace, text: str) -> Changed:
    """Move submit times by some seconds, such as ``-3600 where submit>=1000``, and sort the jobs by submit time."""
    amount, _, where = text.partition(" where ")
    try:
        seconds = float(amount)
    except ValueError:
        seconds = float("nan")
    if not np.isfinite(seconds):
        raise UsageError(f"shift-submits needs seconds, such as shift-submits:-3600 where submit>=1000, not '{amount}'")
    rows = matching(trace, where) if where else np.ones(len(trace), dtype=bool)
    if not rows.any() or seconds == 0:
        return trace, 0
    submit = trace.column("submit_time")
    moved = trace.assign({"submit_time": np.where(rows, submit + seconds, submit)})
    return moved.take(moved.order()), int(rows.sum())


def cut_outages(trace: Trace) -> Changed:
    """Close outages of a day and more: all later submits move earlier by whole weeks, or by whole days.

    Hours of day stay right. Days of the week do where whole weeks are cut, which is done where they leave less than two
    days open. Dates after an outage do not.
    """
    submit = trace.column("submit_time").copy()
    original = submit.copy()
    for silence in _or_none(find_silences, trace):
        length = silence.end - silence.start
        if silence.stray or length < DAY:
            continue
        weeks = length // WEEK * WEEK
        cut = weeks if weeks and length - weeks < LONG else length // DAY * DAY
        submit[original >= silence.end] -= cut
    moved = int((submit != original).sum() - np.isnan(original).sum())
    return (trace.assign({"submit_time": submit}), moved) if moved else (trace, 0)


def set_machine(trace: Trace, text: str) -> Changed:
    """Correct what is known of the machine: ``procs=128``, ``nodes=64``, ``gpus=8``, ``epoch=893466664``."""
    key, sign, value = (part.strip() for part in text.partition("="))
    if key not in (*UNITS, "epoch") or not sign:
        raise UnknownName("property of a machine", key, (*UNITS, "epoch"))
    if not value.isdecimal() or (key != "epoch" and int(value) < 1):
        raise UsageError(f"set-machine:{key} needs a whole number{'' if key == 'epoch' else ' from 1'}, not '{value}'")
    number = float(value) if key == "epoch" else int(value)
    if getattr(trace.machine, key) == number:
        return trace, 0
    return trace.replace(machine=trace.machine.replace(**{key: number})), len(trace)


def recount_header(trace: Trace) -> Changed:
    """Write the number of jobs into the header lines that state one."""
    machine = recounted(trace.machine, len(trace))
    return (trace, 0) if machine is trace.machine else (trace.replace(machine=machine), len(trace))


def recounted(machine: Machine, jobs: int) -> Machine:
    """Return a machine whose header states that many jobs; the same machine if it does already, or states none."""
    count = re.compile(r"^([;\s]*(?:MaxJobs|MaxRecords)\s*:\s*)(\d+)")
    lines = machine.header or ()
    fresh = tuple(count.sub(rf"\g<1>{jobs}", line) for line in lines)
    return machine if fresh == tuple(lines) else machine.replace(header=fresh)


def convert_units(trace: Trace, text: str) -> Changed:
    """Convert a column that is in another unit than it should be, such as ``run_time=minutes``.

    ``procs=nodes`` turns nodes into processors; a filter after ``where`` limits the conversion to a part of the jobs.
    """
    what, _, where = text.partition(" where ")
    column, sign, unit = (part.strip() for part in what.partition("="))
    if not sign:
        raise UsageError(f"convert-units needs a column and its unit, such as run_time=minutes, not '{text}'")
    rows = matching(trace, where) if where else np.ones(len(trace), dtype=bool)
    if column == "procs":
        if unit != "nodes":
            raise UnknownName("unit of procs", unit, ["nodes"])
        machine = trace.machine
        if not (machine.procs and machine.nodes):
            raise UsageError("procs=nodes needs a machine of known processors and nodes (--machine)")
        columns, factor = ["req_procs", "alloc_procs"], machine.procs / machine.nodes
    else:
        if column not in BY_NAME or BY_NAME[column].kind not in ("seconds", "kilobytes"):
            kinds = {name for name, known in BY_NAME.items() if known.kind in ("seconds", "kilobytes")}
            raise UnknownName("column with a unit", column, {"procs", *kinds})
        table = TIME_UNITS if BY_NAME[column].kind == "seconds" else MEMORY_UNITS
        if unit not in table:
            raise UnknownName(f"unit of {column}", unit, table)
        columns, factor = [column], table[unit]
    columns = [name for name in columns if name in trace.jobs.columns]
    changed = {name: np.where(rows, trace.column(name) * factor, trace.column(name)) for name in columns}
    touched = np.zeros(len(trace), dtype=bool)
    for name in columns:
        touched |= rows & np.isfinite(trace.column(name))
    return (trace.assign(changed), int(touched.sum())) if touched.any() else (trace, 0)


def nodes_from_site_field(trace: Trace) -> Changed:
    """Take the nodes from field 21 and the used GPUs from field 19; the unit becomes nodes.

    For logs whose sizes mix nodes and cores. Jobs whose field 21 states no nodes keep only nodes that were known.
    """
    nodes = site_nodes(trace)
    if np.isnan(nodes).all():
        return trace, 0
    names = ("req_nodes", "alloc_nodes")
    sizes: dict[str, Any] = {name: np.where(np.isnan(nodes), trace.column(name), nodes) for name in names}
    unknown = np.isnan(sizes["req_nodes"]) & np.isnan(sizes["alloc_nodes"])
    wrong = BY_CHECK["sizes-against-field-21"].find(trace) | unknown
    if "x_field19" in trace.jobs.columns:
        gpus = pd.to_numeric(trace.jobs["x_field19"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        sizes["alloc_gpus"] = np.where(gpus >= 0, gpus, np.nan)
    kept = trace.jobs.drop(columns=["req_procs", "alloc_procs"], errors="ignore").assign(**sizes)
    return Trace(kept, trace.machine.replace(unit="nodes"), trace.history), int(wrong.sum())
